// The answer of a gateway as it arrives: its text, its parts, and what it took.

import { presetPath } from './addresses.js'
import { button, field, fill, h, user } from './elements.js'
import * as api from './api.js'
import { visible, warning } from './invisible.js'
import { models } from './models.js'
import { errorBox } from './states.js'
import { say, tell } from './status.js'
import { events, readEvent } from './stream.js'

const usualEnds = ['stop', 'end_turn', 'stop_sequence', 'tool_calls', 'tool_use', 'function_call']

/** @param {number} ms */
export const timeText = (ms) => (ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(2)} s`)
/** @param {number} cost */
export const dollars = (cost) => `$${Number(cost.toPrecision(3))}`

/**
 * Sends a request, and reads its answer until it ends or is stopped. It throws nothing.
 * @type {RunRequest}
 */
export async function run(path, request, heard) {
	const begun = performance.now()
	/** @type {Result} */
	const result = { text: '', calls: [], served: '', enforced: '', requestId: '', state: 'streaming…', firstText: 0, total: 0, used: {}, cost: null, isEstimated: false, hasContent: false, isStreamed: true, raw: '', notes: [] }
	/** @type {Map<string, { id: string, name: string, arguments: string, isEmpty: boolean }>} */
	const calls = new Map(), named = new Set()
	let model = ''
	/** Adds what an event says, and returns how the answer ended. @param {string} data */
	const take = (data) => {
		const { pieces, usage, failure, end, model: said } = readEvent(data)
		if (failure) {
			throw api.newFailure(failure, { status: 502 })
		}
		for (const piece of pieces) {
			result.firstText ||= performance.now() - begun
			result.hasContent = true
			const call = calls.get(piece.part) ?? (piece.call && { id: '', name: '', arguments: '', isEmpty: true })
			if (call) {
				call.id ||= piece.call?.id ?? ''
				call.name ||= piece.call?.name ?? ''
				if (!piece.isWhole || call.isEmpty) {
					call.arguments += piece.text
					call.isEmpty &&= piece.text === ''
				}
				calls.set(piece.part, call)
			} else if (piece.name !== '') {
				named.add(piece.part)
			} else if (!named.has(piece.part) && !(piece.isWhole && result.text !== '')) {
				result.text += piece.text
			}
			heard(result, piece)
		}
		Object.assign(result.used, usage)
		model ||= said
		return end
	}
	/** @type {string | null} */
	let end = null
	try {
		const response = await api.ask('POST', path, request)
		result.served = response.headers.get('X-Preset') ?? ''
		result.enforced = response.headers.get('X-Preset-Enforced') ?? ''
		result.requestId = response.headers.get('X-Preset-Request-Id') ?? ''
		if (!response.ok) {
			throw await api.readFailure(response)
		}
		result.isStreamed = response.body !== null && Boolean(response.headers.get('Content-Type')?.includes('event-stream'))
		if (response.body && result.isStreamed) {
			for await (const data of events(response.body, () => heard(result))) {
				const said = take(data)
				end = said === null ? end : said || end || ''
			}
		} else {
			const text = await response.text()
			end = take(text) ?? ''
			result.raw = result.hasContent ? '' : text
		}
		result.state = (end === null ? 'ended without a reason' : end === '' ? 'complete' : usualEnds.includes(end) ? `complete (${end})` : `ended early (${end})`) + (result.isStreamed ? '' : ', not streamed')
		end === null ? result.notes.push('The stream ended without saying why. The answer may be cut off.')
			: result.state.startsWith('ended') && result.notes.push(`The gateway ended the answer early, with the reason ${end}.`)
		result.isStreamed && !result.hasContent && result.notes.push('The answer has no text, reasoning, refusal or tool call.')
	} catch (thrown) {
		const failure = api.failureOf(thrown), isStopped = request.signal?.aborted
		result.state = isStopped ? 'stopped' : failure.status > 0 ? `failed with ${failure.status}` : 'failed'
		result.failure = isStopped ? undefined : failure.status < 0 ? api.newFailure('The connection ended before the answer was complete.', { status: -1 }) : failure
	}
	result.total = performance.now() - begun
	result.calls = [...calls.values()].map((call) => ({ id: call.id, name: call.name, arguments: call.arguments }))
	const { input, output, cost } = result.used
	const price = cost === undefined && output !== undefined ? (await models()).find(({ id }) => id === model) : undefined
	const estimate = price ? price.input * (input ?? 0) + price.output * (output ?? 0) : NaN
	result.cost = cost ?? (isNaN(estimate) ? null : estimate)
	result.isEstimated = cost === undefined && result.cost !== null
	return result
}

/** Says what an answer took. @param {Result} result */
export function factsOf({ served, enforced, firstText, total, used, cost, isEstimated, state }) {
	const { input, output } = used
	return [
		state, firstText > 0 && `first text ${timeText(firstText)}`, total > 0 && `total ${timeText(total)}`,
		output !== undefined && `${input !== undefined ? `${input} tokens in, ` : ''}${output} tokens out`,
		cost !== null && `${dollars(cost)}${isEstimated ? ' estimated' : ''}`, served, enforced && `changed by the policy: ${enforced}`,
	].filter(Boolean).join(' · ')
}

/**
 * Streams an answer into a place. Its calls of tools take results by hand, and Continue goes on with it.
 * @type {ShowAnswer}
 */
export async function showAnswer(place, name, path, request, goOn) {
	const facts = h('p', { class: 'muted number facts-line' }, 'Waiting for the gateway…')
	const answer = h('pre', { class: 'answer', tabindex: '0', role: 'region', 'aria-label': `Answer of ${name}, text`, dir: 'auto' })
	const below = h('div')
	fill(place, answer, facts, below)
	/** @type {Map<string, { name: string, caption: Element, text: Element, isEmpty: boolean }>} */
	const parts = new Map()
	const result = await run(path, request, (so, piece) => {
		fill(facts, user(factsOf(so)))
		if (!piece) {
			return
		}
		const follows = answer.scrollTop + answer.clientHeight >= answer.scrollHeight - 24
		const part = parts.get(piece.part) ?? { name: '', caption: h('span', { class: 'caption' }), text: answer, isEmpty: true }
		parts.set(piece.part, part)
		if (piece.name.length > part.name.length) { // that of a tool call may come late
			part.name = piece.name
			fill(part.caption, user(piece.name))
		}
		if (part.name !== '' && part.text === answer) {
			part.text = h('span', { class: 'said', dir: 'auto' })
			const isFolded = part.name.endsWith('Reasoning')
			answer.append(isFolded ? h('details', { class: 'part' }, h('summary', null, part.caption), part.text) : h('span', { class: 'part' }, part.caption, part.text))
		}
		if (!piece.isWhole || part.isEmpty) {
			part.text.append(piece.text)
			part.isEmpty &&= piece.text === ''
		}
		if (follows) {
			answer.scrollTop = answer.scrollHeight
		}
	})
	answer.append(result.raw)
	answer.hidden = result.isStreamed && !result.hasContent
	showBoxes(answer)
	result.failure ? fill(below, errorBox(result.failure)) : fill(below, result.notes.map((text) => h('p', { class: 'note' }, user(text))))
	below.append(...[warning(answer.textContent ?? '')].filter((line) => line !== undefined))
	fill(facts, user(factsOf(result)))
	tell(`Answer of ${name}: ${result.state}, after ${timeText(result.total)}.`)
	if (result.hasContent && !result.failure) {
		const results = result.calls.map(() => h('textarea', { rows: 2, dir: 'auto', class: 'mono', placeholder: 'What the tool answers' }))
		below.append(...result.calls.map((call, i) => h('div', { class: 'result-card' }, field(`Result of ${call.name || 'the tool'}`, results[i]))),
			h('p', { class: 'actions' }, button('Continue', () => goOn(result, results.map(({ value }) => value)), { class: 'small', 'aria-label': `Continue from ${name}` }), result.requestId && request.at && thumbs(request.at, result)))
	}
	return result
}

/** Buttons that rate an answer, which is the feedback of the API. @param {At} at @param {Result} result */
export function thumbs(at, { requestId }) {
	const place = h('span', { class: 'thumbs' })
	const rate = (/** @type {boolean} */ score) => button(score ? 'Good' : 'Bad', async () => {
		try {
			const response = await api.ask('POST', presetPath(at, 'feedback'), { body: JSON.stringify({ request_id: requestId, score, name: 'thumbs' }) })
			if (!response.ok) {
				throw await api.readFailure(response)
			}
			fill(place, h('span', { class: 'muted small' }, score ? 'Rated good' : 'Rated bad'))
			say('The rating counts as feedback of its version.')
		} catch (thrown) {
			say(`Error: ${api.failureOf(thrown).message}`)
		}
	}, { class: 'small' })
	fill(place, rate(true), rate(false))
	return place
}

/** Shows what cannot be seen in an answer that has ended. Before, a character's neighbours may be missing. @param {Element} answer */
function showBoxes(answer) {
	answer.normalize()
	for (const node of [answer, ...answer.querySelectorAll('.said')].flatMap((element) => [...element.childNodes])) {
		if (node.nodeType === Node.TEXT_NODE) {
			const shown = visible(node.nodeValue ?? '')
			shown.some((one) => one instanceof Node) && node.replaceWith(...shown)
		}
	}
}
