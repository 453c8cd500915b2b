// Trying a version: what goes up to the gateway, and what the gateway answers.

import { button, choice, code, field, fill, form, h, setWrong, submit, textInput, user } from './elements.js'
import * as api from './api.js'
import * as session from './session.js'
import { routes } from './capture.js'
import { versionChoices } from './compare.js'
import { format, lineOf, parseObject, raw } from './json.js'
import { targetText } from './labels.js'
import { presetFrame } from './preset.js'
import { errorBox } from './states.js'
import { say } from './status.js'
import { events, pieceOf, wholeText } from './stream.js'

/** @type {MakeView} */
export function tryView(context) {
	return { ...presetFrame(context, 'try', (preset) => tryBody(context, preset)), title: `Try it · ${context.at.slug}` }
}

/** @type {MakeBody} */
function tryBody(context, preset) {
	const { at: { slug } } = context
	const others = [{ value: '', text: 'live' }, ...Object.entries(preset.data.labels).map(([value, target]) => ({ value, text: `${value} (${targetText(target)})` }))]
	const [first] = versionChoices(context, [0], others)
	const [second] = versionChoices(context, [0], [{ value: '-', text: 'none' }, ...others])
	const dialects = choice(Object.entries(routes).map(([value, text]) => ({ value, text })), preset.data.designated_version.dialect)
	const key = textInput({ class: 'secret', value: session.inferenceKey() })
	const temperature = textInput({ inputmode: 'decimal' })
	const maxTokens = textInput({ inputmode: 'numeric' })
	const more = h('textarea', { rows: 2, spellcheck: 'false', class: 'mono' })

	const list = h('div')
	/** @type {Turn[]} */
	let turns = []
	const addTurn = (role = 'user') => {
		const n = turns.length + 1
		const turn = {
			role: choice(['user', 'assistant'].map((value) => ({ value, text: value })), role, { 'aria-label': `Role ${n}` }),
			text: h('textarea', { rows: 3, dir: 'auto', 'aria-label': `Text ${n}` }),
		}
		const element = h('div', { class: 'turn' }, turn.role, turn.text, n > 1 && button('Take out', () => {
			turns = turns.filter((other) => other !== turn)
			element.remove()
		}, { class: 'small', 'aria-label': `Take out text ${n}` }))
		turns.push(turn)
		list.append(element)
		return turn
	}
	addTurn()

	/** Writes the request. It is undefined if a field is wrong. @param {string} ref */
	const requestOf = (ref) => {
		const isResponses = dialects.value === 'responses'
		const members = [
			`"model":${JSON.stringify(`@preset/${slug}${ref && '@' + ref}`)}`,
			`"${isResponses ? 'input' : 'messages'}":${JSON.stringify(turns.map((turn) => ({ role: turn.role.value, content: turn.text.value })))}`, '"stream":true',
		]
		let isRight = true
		for (const [control, member] of /** @type {const} */ ([[temperature, 'temperature'], [maxTokens, isResponses ? 'max_output_tokens' : 'max_tokens']])) {
			const text = control.value.trim()
			const isNumber = text === '' || /^\d+(\.\d+)?$/.test(text)
			setWrong(control, isNumber ? '' : 'must be a number')
			isRight &&= isNumber
			if (text !== '') {
				members.push(`"${member}":${text}`)
			}
		}
		const parsed = parseObject(more.value.trim() === '' ? '{}' : more.value)
		setWrong(more, parsed.problem && `line ${lineOf(more.value, parsed.offset)}: ${parsed.problem}`)
		members.push(...parsed.members.map((member) => `${member.key}:${raw(member.value)}`))
		return isRight && !parsed.problem ? `{${members.join(',')}}` : undefined
	}

	const output = h('div', null, h('p', { class: 'muted' }, 'Send streams the answer of the gateway. Show what goes up sends nothing: it shows the merged request.'))
	let sending = new AbortController()
	context.signal.addEventListener('abort', () => sending.abort())
	const send = submit('Send')
	const stop = button('Stop', () => {
		sending.abort()
		send.focus()
	}, { disabled: true })
	/** @param {typeof showAnswer} show */
	const run = async (show) => {
		say('')
		const secret = key.value.trim() || session.inferenceKey()
		setWrong(key, secret === '' ? 'Enter an inference key. The gateway takes no management key.' : '')
		const refs = [first.value, second.value].filter((ref) => ref !== '-')
		const requests = refs.map(requestOf)
		if (secret === '' || requests.includes(undefined)) {
			/** @type {HTMLElement | null} */ (document.querySelector('main [aria-invalid]'))?.focus()
			return
		}
		session.setInferenceKey(secret)
		sending.abort()
		const mine = (sending = new AbortController())
		stop.disabled = false
		output.className = refs.length > 1 ? 'outputs two' : 'outputs'
		const path = '/' + routes[/** @type {Dialect} */ (dialects.value)]
		fill(output)
		await Promise.all(refs.map((ref, i) => {
			const name = ref === '' ? 'live' : /^\d+$/.test(ref) ? `v${ref}` : ref
			const place = h('div')
			output.append(h('section', { 'aria-label': `Answer of ${name}` }, h('h3', null, user(name)), place))
			return show(place, name, path, { key: secret, body: requests[i], signal: mine.signal })
		}))
		if (sending === mine) {
			stop.disabled = true
		}
	}
	return {
		element: h('div', { class: 'columns trying' },
			form({ class: 'panel' }, () => run(showAnswer),
				h('h2', null, 'Request'),
				h('div', { class: 'columns even' }, field('Version or label', first), field('Side by side with', second)),
				h('fieldset', null, h('legend', null, 'Messages'), list, button('Add a message', () => addTurn(turns.at(-1)?.role.value === 'user' ? 'assistant' : 'user').text.focus(), { class: 'small' })),
				h('div', { class: 'columns three' }, field('API', dialects), field('Temperature', temperature), field('Most tokens', maxTokens)),
				field('More parameters', more, 'JSON, such as {"seed": 7}. They replace the preset’s settings.'),
				field('Inference key', key, 'The request runs in the workspace of this key. It is kept in this tab until Lock.'),
				h('p', { class: 'actions' }, send, stop, button('Show what goes up', () => run(showRequest)))),
			h('section', { 'aria-label': 'Answers' }, h('h2', null, 'Answer'), output)),
	}
}

/** Shows the merged request. Each field says where it comes from. @type {typeof showAnswer} */
async function showRequest(place, name, path, request) {
	try {
		const response = await api.ask('POST', path, { ...request, headers: { 'X-Preset-Dry-Run': 'true' } })
		if (!response.ok) {
			throw await api.readFailure(response)
		}
		/** @type {DryRun} */
		const result = (await response.json()).data
		const { members } = parseObject(result.body)
		fill(place,
			h('p', { class: 'section' }, h('code', null, `${result.method} ${result.path}`)),
			h('table', { class: 'settings sources', 'aria-label': 'Fields of the request' }, h('tbody', null, members.map((member) => {
				const { from, version } = result.fields[member.name]
				return h('tr', { class: `from-${from}` },
					h('th', { scope: 'row' }, code(member.name), h('span', { class: 'source' }, from + (version ? ` v${version}` : ''))),
					h('td', null, code(format(member.value))))
			}))),
			result.dropped.length > 0 && h('p', { class: 'note' }, 'Left out, because the gateway does not know them: ', code(result.dropped.join(', '))))
		say(`Nothing was sent to the gateway. This is the request of ${name}.`)
	} catch (thrown) {
		fill(place, errorBox(thrown))
	}
}

/**
 * Streams an answer into a place, until it ends or is stopped.
 * @param {HTMLElement} place @param {string} name @param {string} path
 * @param {RequestOptions} request
 */
async function showAnswer(place, name, path, request) {
	const begun = performance.now()
	const facts = h('p', { class: 'muted number facts-line' }, 'Waiting for the gateway…')
	const answer = h('pre', { class: 'answer', tabindex: '0', role: 'region', 'aria-label': `Answer of ${name}, text`, dir: 'auto' })
	const problem = h('div')
	fill(place, facts, answer, problem)
	let first = '', served = '', usage = '', state = 'streaming…'
	const showFacts = (total = '') => fill(facts, user([served, first && `first byte ${first}`, total && `total ${total}`, usage, state].filter(Boolean).join(' · ')))
	const elapsed = () => {
		const time = performance.now() - begun
		return time < 1000 ? `${Math.round(time)} ms` : `${(time / 1000).toFixed(2)} s`
	}
	const arrived = () => {
		if (first === '') {
			first = elapsed()
			showFacts()
		}
	}
	/** @param {string} text */
	const append = (text) => {
		const follows = answer.scrollTop + answer.clientHeight >= answer.scrollHeight - 24
		answer.append(text)
		if (follows) {
			answer.scrollTop = answer.scrollHeight
		}
	}
	try {
		const response = await api.ask('POST', path, request)
		served = response.headers.get('X-Preset') ?? ''
		if (!response.ok) {
			arrived()
			throw await api.readFailure(response)
		}
		if (response.body && response.headers.get('Content-Type')?.includes('event-stream')) {
			for await (const data of events(response.body, arrived)) {
				const piece = pieceOf(data)
				if (piece.failure) {
					throw api.newFailure(piece.failure, { status: 502 })
				}
				append(piece.text)
				usage = piece.usage || usage
			}
			state = 'complete'
		} else {
			const text = await response.text()
			arrived()
			append(wholeText(text))
			state = 'complete, not streamed'
		}
	} catch (thrown) {
		const failure = api.failureOf(thrown)
		state = request.signal?.aborted ? 'stopped' : failure.status > 0 ? `failed with ${failure.status}` : 'failed'
		if (!request.signal?.aborted) {
			fill(problem, errorBox(failure.status < 0 ? api.newFailure('The connection ended before the answer was complete.') : failure))
		}
	}
	showFacts(elapsed())
	say(`Answer of ${name}: ${state}, after ${elapsed()}.`)
}
