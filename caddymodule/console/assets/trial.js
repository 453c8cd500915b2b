// Trying what stands on the left of the workbench, or versions: what goes up to the gateway, and what
// the gateway answers.

import { hasKeys, presetPath, toKeys } from './addresses.js'
import { button, choice, code, field, fill, form, h, setWrong, shortcut, submit, textInput, user } from './elements.js'
import * as api from './api.js'
import * as session from './session.js'
import { messagesOf, routes } from './capture.js'
import { readTemplates, refName, standsFor, targetChoices, unsaved } from './target.js'
import { visible, warning } from './invisible.js'
import { format, lineOf, parseAs, raw } from './json.js'
import { loggedOf } from './logged.js'
import { models } from './models.js'
import { attempt, errorBox, readUntilDone } from './states.js'
import { say, tell } from './status.js'

// Reading the answer of a gateway, streamed or whole, in the three dialects.

/**
 * Reads server-sent events, one after another.
 * @param {ReadableStream<Uint8Array>} body @param {() => void} arrived is called with each chunk
 */
export async function* events(body, arrived) {
	const reader = body.getReader()
	const decoder = new TextDecoder()
	let rest = ''
	try {
		for (;;) {
			const { done, value } = await reader.read()
			if (value) {
				arrived()
			}
			rest += decoder.decode(value, { stream: !done })
			const lines = rest.split(/\r\n|\n|\r(?!$)/)
			rest = done ? '' : lines.pop() ?? ''
			for (const line of lines) {
				if (line.startsWith('data:')) {
					yield line.slice(5).trimStart()
				}
			}
			if (done) {
				return
			}
		}
	} finally {
		reader.cancel().catch(() => {})
	}
}

/**
 * Reads an event's data, or a whole answer: what it adds, and how the answer ended. The end is null
 * while the answer goes on, and empty if it has no reason. Unknown events add nothing.
 * @param {string} data
 */
export function readEvent(data) {
	/** @type {any} */
	let event
	try {
		event = JSON.parse(data) ?? {}
	} catch {
		event = {}
	}
	const type = textOf(event.type)
	const error = event.error ?? event.response?.error
	return {
		pieces: piecesOf(event, type).filter(hasContent),
		usage: usageOf(event.usage ?? event.response?.usage ?? event.message?.usage),
		model: textOf(event.model ?? event.response?.model ?? event.message?.model),
		failure: error || type === 'error' || type === 'response.failed' ? textOf(error) || textOf((error ?? event).message) || 'The gateway reported an error.' : '',
		end: data.trim() === '[DONE]' ? '' : endOf(event, type),
	}
}

/** @param {unknown} value */
const textOf = (value) => (typeof value === 'string' ? value : '')

/** @param {unknown} value @returns {any[]} */
const listOf = (value) => (Array.isArray(value) ? value : [])

/** Reads the tokens, and the cost if the gateway tells it. @param {any} usage @returns {Partial<Used>} */
function usageOf(usage) {
	const found = { input: usage?.input_tokens ?? usage?.prompt_tokens, output: usage?.output_tokens ?? usage?.completion_tokens, cost: usage?.cost }
	return Object.fromEntries(Object.entries(found).filter(([, value]) => typeof value === 'number'))
}

/** @param {any} event @param {string} type */
function endOf(event, type) {
	const response = event.response ?? event
	const chosen = listOf(event.choices).map((one) => one.finish_reason).filter(Boolean)
	const reason = chosen.length > 0 ? [...new Set(chosen)].join(', ') : event.delta?.stop_reason ?? event.stop_reason ?? response.incomplete_details?.reason
	const explanation = textOf((event.delta ?? event).stop_details?.explanation)
	const isOver = type === 'message_stop' || !['', 'queued', 'in_progress'].includes(textOf(response.status))
	return reason ? reason + (explanation && `: ${explanation}`) : isOver ? response.status?.replace('completed', '') ?? '' : null
}

/** @param {string} part @param {string} name @param {string} text @returns {Piece} */
const pieceOf = (part, name, text, isWhole = false) => ({ part, name, text, isWhole })

/** @param {Piece} one */
const hasContent = ({ name, text }) => name !== '' || text !== ''

/** @param {any} event @param {string} type @returns {Piece[]} */
function piecesOf(event, type) {
	const place = String(event.output_index ?? event.item_id ?? event.index ?? '')
	if (type === 'content_block_start') {
		return [blockOf(place, event.content_block ?? {})]
	} else if (type === 'content_block_delta') {
		const { text, thinking, partial_json: json } = event.delta ?? {}
		return [pieceOf(place, '', textOf(text)), pieceOf(place, thinking ? 'Reasoning' : '', textOf(thinking)), pieceOf(place, json ? 'Tool call' : '', textOf(json))]
	} else if (type === 'response.output_item.added') {
		return [{ ...itemOf(place, event.item), text: '' }]
	} else if (type === 'response.output_item.done') {
		return outputOf(place, event.item ?? {})
	} else if (type.endsWith('.delta') && !type.includes('audio')) {
		return [pieceOf(innerPlace(place, event.content_index, event.summary_index), namesOfDeltas.get(type.split('.')[1]) ?? 'Tool call', textOf(event.delta))]
	}
	return [
		...listOf(event.choices).flatMap(piecesOfChoice),
		...listOf(event.content).map((block, i) => blockOf(String(i), block)),
		...listOf(event.output).flatMap((item, i) => outputOf(String(i), item)),
	]
}

const namesOfDeltas = new Map([['output_text', ''], ['refusal', 'Refusal'], ['reasoning_text', 'Reasoning'], ['reasoning_summary_text', 'Reasoning']])

/** Names a part of an output item, or the item. @param {string} place @param {number} [content] @param {number} [summary] */
const innerPlace = (place, content, summary) => place + (summary !== undefined ? ` summary ${summary}` : content !== undefined ? ` content ${content}` : '')

/** @param {any} chosen @returns {Piece[]} */
function piecesOfChoice(chosen) {
	const said = chosen.delta ?? chosen.message ?? {}, n = chosen.index ?? 0
	const content = typeof said.content === 'string' ? [{ type: 'text', text: said.content }] : listOf(said.content)
	const calls = said.function_call ? [{ function: said.function_call }] : listOf(said.tool_calls)
	const reasoning = textOf(said.reasoning) || textOf(said.reasoning_content) || listOf(said.reasoning_details).map((detail) => textOf(detail.text) || textOf(detail.summary)).join('')
	return [
		pieceOf('reasoning', reasoning && 'Reasoning', reasoning),
		...content.map((block) => blockOf(textOf(block.type), block)),
		pieceOf('text', '', textOf(said.audio?.transcript)),
		pieceOf('refusal', said.refusal ? 'Refusal' : '', textOf(said.refusal)),
		...calls.map((call, i) => {
			const what = call.function ?? call.custom ?? {}
			return { ...pieceOf(`call ${call.index ?? i}`, `Tool call ${textOf(what.name)}`.trim(), textOf(what.arguments) || textOf(what.input)), call: { id: textOf(call.id), name: textOf(what.name) } }
		}),
	].filter(hasContent).map((one) => (n === 0 ? one : { ...one, part: `${n} ${one.part}`, name: `Choice ${n + 1}${one.name && ': '}${one.name}` }))
}

/** Reads an item of a response's output, whose parts may have come before. @param {string} place @param {any} item @returns {Piece[]} */
function outputOf(place, item) {
	if (!['message', 'reasoning'].includes(item.type)) {
		return [itemOf(place, item)]
	}
	return [
		...listOf(item.summary).map((block, i) => pieceOf(innerPlace(place, undefined, i), 'Reasoning', textOf(block.text))),
		...listOf(item.content).map((block, i) => blockOf(innerPlace(place, i), item.type === 'reasoning' ? { thinking: block.text } : block)),
	].map((one) => ({ ...one, isWhole: true }))
}

/** Reads a block of a message's content. @param {string} place @param {any} block */
function blockOf(place, block) {
	const { text, thinking, refusal } = block
	return textOf(text) || block.type === 'text' ? pieceOf(place, '', textOf(text))
		: thinking !== undefined ? pieceOf(place, 'Reasoning', textOf(thinking) || listOf(thinking).map((one) => textOf(one.text)).join(''))
			: refusal !== undefined ? pieceOf(place, 'Refusal', textOf(refusal)) : itemOf(place, block)
}

/** Reads a tool call, the result of a tool, or what is unknown: as JSON, under its own type. @param {string} place @param {any} item */
function itemOf(place, { type, name, ...rest }) {
	if (['message', 'reasoning'].includes(type)) {
		return pieceOf(place, '', '')
	}
	const members = Object.entries(rest).filter(([key]) => !['id', 'status'].includes(key))
	const given = rest.arguments ?? rest.input ?? rest.code ?? Object.fromEntries(members)
	const text = typeof given === 'string' ? given : Object.keys(given).length === 0 ? '' : JSON.stringify(given, null, 2)
	const call = ['function_call', 'tool_use'].includes(type) ? { call: { id: textOf(rest.call_id ?? rest.id), name: textOf(name) } } : {}
	return { ...pieceOf(place, name ? `Tool call ${textOf(name)}` : textOf(type).replaceAll('_', ' ') || 'unknown', text, true), ...call }
}

// The answer of a gateway as it arrives: its text, its parts, and what it took.

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

const variableKinds = ['text', 'empty text', 'image address', 'file address']
const keyHours = 8

/** What a trial asks of every gateway: a stream, and what it used, which chat says only if asked. @param {string} dialect */
export const streaming = (dialect) => ({ stream: true, ...(dialect === 'chat' && { stream_options: { include_usage: true } }) })

/** Offers an inference key to who may issue one. Others learn where the keys are. @param {Context} context @param {(key: string) => unknown} take */
export function keyOffer({ workspace }, take) {
	if (!hasKeys || !session.mayIssueKeys()) {
		return hasKeys && session.mayChange() && h('a', { class: 'small', href: toKeys(workspace) }, 'Who may issue one')
	}
	const place = h('div')
	const issue = button('Issue a short-lived key for this tab', () => attempt(place, issue, async () => {
		const { text } = await api.change('POST', '/keys', { workspace_id: workspace, name: 'Console trial', expires_at: new Date(Date.now() + keyHours * 3600000).toISOString() })
		session.setInferenceKey(JSON.parse(text).key)
		say(`This tab has an inference key for ${keyHours} hours.`)
		take(session.inferenceKey())
	}), { class: 'small', 'data-key': 'issue' })
	return h('div', null, issue, place)
}

/** @type {MakeTrial} */
export function trial(context, preset, draft) {
	const { at } = context, { slug } = at, id = preset?.data.id ?? slug
	/** @type {Partial<Trial>} */
	const typed = session.kept(id)
	const second = preset ? targetChoices(context, preset, typed.second ?? '-', [{ value: '-', text: 'nothing' }, { value: '', text: 'live' }]) : choice([{ value: '-', text: 'nothing' }], '-')
	const dialects = h('select', null)
	const key = textInput({ class: 'secret', value: session.inferenceKey(), onchange: () => session.setInferenceKey(key.value.trim()) })
	let known = ''
	const more = h('textarea', { rows: 2, spellcheck: 'false', class: 'mono', value: typed.more ?? '' })
	const list = h('div', { class: 'turns' })
	/** @type {(Turn & { element: HTMLElement, read: () => Turn })[]} */
	let turns = []

	const addTurn = (/** @type {Turn} */ turn = { role: 'user', text: '' }) => {
		const n = turns.length + 1, isTool = turn.role === 'tool'
		const role = choice(['user', 'assistant'].map((value) => ({ value, text: value })), turn.role, { 'aria-label': `Role ${n}` })
		const text = h('textarea', { rows: 2, dir: 'auto', value: turn.text, 'aria-label': `Text ${n}` })
		const shown = {
			...turn, read: () => ({ ...turn, role: isTool ? 'tool' : role.value, text: text.value }),
			element: h('div', { class: 'turn' }, h('div', { class: 'turn-head' }, isTool ? h('span', { class: 'muted small' }, 'result of ', code(turn.name ?? '')) : role,
				n > 1 && button('Take out', () => {
					turns = turns.filter((other) => other !== shown)
					shown.element.remove()
					store()
				}, { class: 'small quiet', 'aria-label': `Take out text ${n}` })),
			text, turn.calls?.map((call) => h('p', { class: 'tool-card' }, h('strong', { class: 'mono' }, user(call.name)), code(call.arguments)))),
		}
		turns.push(shown)
		list.append(shown.element)
		return text
	}

	// The templates of the chosen versions, and the fields of all variables so far.
	/** @type {Map<string, Template>} */
	let templates = new Map()
	/** @type {Map<string, Variable>} */
	const variables = new Map()
	const variableFields = h('div'), fieldset = h('fieldset', { hidden: true }, h('legend', null, 'Variables'), variableFields)
	const refsOf = () => [draft.isChanged() ? unsaved : draft.ref(), ...(second.value === '-' ? [] : [second.value])]
	const newVariable = (/** @type {string} */ name, before = { kind: 'text', text: '' }) => {
		const text = h('textarea', { rows: 1, dir: 'auto', value: before.text, disabled: before.kind === 'empty text' }), element = field(name, text)
		const kind = choice(variableKinds.map((value) => ({ value, text: value })), before.kind, { 'aria-label': `Kind of ${name}`, class: 'small', onchange: () => (text.disabled = kind.value === 'empty text') })
		element.classList.add('variable')
		element.firstElementChild?.after(kind)
		return { element, kind, text }
	}
	/** @returns {Trial} */
	const read = () => ({
		turns: turns.map((turn) => turn.read()), variables: Object.fromEntries([...variables].map(([name, { kind, text }]) => [name, { kind: kind.value, text: text.value }])),
		second: second.value, dialect: dialects.value, more: more.value,
	})
	/** Keeps what is typed. Where it has no room, leaving the view asks. */
	const store = () => {
		const now = read()
		const hasText = now.more !== '' || now.turns.some(({ text, calls }) => text !== '' || calls) || Object.values(now.variables).some(({ kind, text }) => kind !== 'text' || text !== '')
		const isKept = session.keep(id, hasText ? now : undefined)
		draft.setGuard(() => !isKept)
		clear.disabled = !hasText
	}
	/** Shows another trial in the fields. @param {Partial<Trial>} trialOf */
	const show = (trialOf) => {
		turns = []
		fill(list)
		for (const turn of trialOf.turns?.length ? trialOf.turns : [{ role: 'user', text: '' }]) {
			addTurn(turn)
		}
		variables.clear()
		for (const [name, before] of Object.entries(trialOf.variables ?? {})) {
			variables.set(name, newVariable(name, before))
		}
		showDialects(trialOf.dialect)
		more.value = trialOf.more ?? ''
		fill(variableFields)
		look()
	}
	const clear = button('Clear', () => {
		const before = read()
		show({})
		store()
		say('Cleared.', { name: 'Undo', run: () => {
			show(before)
			store()
		} })
	}, { class: 'small', 'data-key': 'clear' })
	/** The unsaved left has one dialect. */
	const showDialects = (chosen = dialects.value) => {
		fill(dialects, Object.entries(routes).map(([value, text]) => h('option', { value }, text)))
		dialects.value = draft.isChanged() ? draft.dialect() : chosen || draft.dialect()
		dialects.disabled = draft.isChanged()
	}
	/** Shows a field for each variable. It throws a Failure. */
	const showVariables = async () => {
		const refs = refsOf(), asked = preset
		const found = new Map(await Promise.all(refs.map(async (ref) => /** @type {const} */ ([ref, ref === unsaved || !asked ? draft.template() : await readTemplates(context, asked.data, ref)]))))
		if (asked !== preset || refs.join() !== refsOf().join()) {
			return
		}
		templates = found
		const elements = [...new Set([...templates.values()].flatMap((one) => one.names))].map((name) => {
			const variable = variables.get(name) ?? newVariable(name)
			variables.set(name, variable)
			return variable.element
		})
		if (variableFields.childElementCount !== elements.length || elements.some((element, i) => element !== variableFields.children[i])) {
			fill(variableFields, elements)
		}
		fieldset.hidden = elements.length === 0
	}
	/** Writes the value of a variable. It is undefined if it is missing. @param {string} name */
	const valueOf = (name) => {
		const { kind, text } = /** @type {Variable} */ (variables.get(name))
		const isMissing = kind.value !== 'empty text' && text.value === ''
		setWrong(text, isMissing ? 'this variable needs a value' : '')
		return isMissing ? undefined : {
			image: { type: 'input_image', image_url: text.value.trim() }, file: { type: 'input_file', file_url: text.value.trim() }, 'empty text': '',
		}[kind.value.replace(' address', '')] ?? text.value
	}

	/** Writes the request. It is undefined if a field is wrong. @param {string} ref */
	const requestOf = (ref) => {
		const dialect = /** @type {Dialect} */ (ref === unsaved ? draft.dialect() : dialects.value)
		const { names = [], hasMessages = false } = templates.get(ref) ?? {}
		const values = names.map((name) => /** @type {const} */ ([name, valueOf(name)]))
		const own = turns.map((turn) => turn.read()).filter((turn) => turn.text !== '' || turn.calls || turn.role === 'tool' || !hasMessages) // a template's messages are enough
		const parsed = parseAs(more.value.trim() === '' ? '{}' : more.value)
		setWrong(more, parsed.problem && `line ${lineOf(more.value, parsed.offset)}: ${parsed.problem}`)
		const members = ref === unsaved ? [] : [`"model":${JSON.stringify(`@preset/${slug}${ref && '@' + ref}`)}`]
		members.push(...Object.entries(streaming(dialect)).filter(([name]) => !parsed.members.some((member) => member.name === name)).map(([name, value]) => `"${name}":${JSON.stringify(value)}`))
		if (own.length > 0) {
			members.push(`"${dialect === 'responses' ? 'input' : 'messages'}":${JSON.stringify(messagesOf(own, dialect))}`)
		}
		if (names.length > 0) {
			members.push(`"prompt":${JSON.stringify({ variables: Object.fromEntries(values) })}`)
		}
		members.push(...parsed.members.map((member) => `${member.key}:${raw(member.value)}`))
		const request = `{${members.join(',')}}`
		return parsed.problem || values.some(([, value]) => value === undefined) ? undefined
			: ref === unsaved ? `{"dialect":"${dialect}","version":${draft.body()},"request":${request}}` : request
	}

	const output = h('div', { class: 'outputs' }, h('p', { class: 'muted hint' }, 'Run streams the answer of the gateway to what stands on the left, saved or not. Show what goes up sends nothing. A line of the log of content can be pasted.'))
	// The answers that are shown, and what each was of.
	/** @type {{ ref: string, of: string, section: Element, mark: Element }[]} */
	let answers = []
	const stateOf = (/** @type {string} */ ref) => (ref === unsaved ? draft.state() : preset ? standsFor(preset.data, ref) : '')
	/** Says which answers are no longer of what their title says. */
	const showAge = () => {
		for (const { ref, of, section, mark } of answers) {
			const now = stateOf(ref), isOld = now !== of
			section.classList.toggle('outdated', isOld)
			mark.textContent = isOld ? ref === unsaved ? ' · before your last edits' : ` · outdated: ${refName(ref)} is ${now} now` : ref === unsaved && !draft.isChanged() ? ` · saved as ${refName(draft.ref())}` : ''
		}
	}
	let sending = new AbortController()
	context.signal.addEventListener('abort', () => sending.abort())
	const send = submit(['Run', shortcut('⌃⏎')], { title: 'Ctrl+Enter', class: 'strong' })
	const stop = button('Stop', () => {
		sending.abort()
		send.focus()
	}, { disabled: true })
	/** Goes on after an answer. @param {Result} result @param {string[]} results */
	const goOn = (result, results) => {
		turns.filter((turn) => turn.read().text === '' && !turn.calls && turn.role !== 'tool').forEach((turn) => turn.element.remove())
		turns = turns.filter((turn) => turn.element.isConnected)
		addTurn({ role: 'assistant', text: result.text, ...(result.calls.length > 0 && { calls: result.calls }) })
		const texts = result.calls.map((call, i) => addTurn({ role: 'tool', text: results[i], id: call.id, name: call.name }))
		const next = texts.find(({ value }) => value === '') ?? (texts.length > 0 ? undefined : addTurn())
		store()
		next ? next.focus() : runAll(showAnswer)
	}
	/** @param {ShowAnswer} showOne */
	const runAll = async (showOne) => {
		say('')
		const isDry = showOne === showRequest, secret = key.value.trim() || session.inferenceKey()
		const needsKey = !(isDry && refsOf().every((ref) => ref === unsaved))
		setWrong(key, secret === '' && needsKey ? 'Enter an inference key. The gateway takes no management key.' : '')
		const wrong = draft.problem()
		if (wrong) {
			fill(output, h('p', { class: 'note' }, wrong))
			return
		}
		try {
			await showVariables()
		} catch (thrown) {
			fill(output, errorBox(thrown))
			return
		}
		const refs = refsOf(), requests = refs.map(requestOf)
		if ((secret === '' && needsKey) || requests.includes(undefined)) {
			options.open ||= [key, more].some((control) => control.hasAttribute('aria-invalid'))
			const first = /** @type {HTMLElement | null} */ (element.querySelector('[aria-invalid]'))
			first?.focus()
			return
		}
		sending.abort()
		const mine = (sending = new AbortController())
		try {
			const other = preset && needsKey ? await otherPreset(context, preset.data, secret, mine.signal) : ''
			setWrong(key, other)
			if (other !== '') {
				fill(output)
				options.open = true
				key.focus()
				return
			}
		} catch (thrown) {
			if (!mine.signal.aborted) {
				fill(output, errorBox(thrown))
			}
			return
		}
		if (secret !== known) {
			session.setInferenceKey(secret)
			draft.keyChanged()
			known = secret
		}
		options.open &&= more.value !== ''
		stop.disabled = false
		output.className = refs.length > 1 ? 'outputs two' : 'outputs'
		fill(output)
		answers = []
		await Promise.all(refs.map(async (ref, i) => {
			const name = refName(ref), served = h('span'), mark = h('span', { class: 'warn' }), place = h('div')
			const section = h('section', { 'aria-label': `Answer of ${name}` }, h('h3', null, user(name), served, mark), place)
			answers.push({ ref, of: stateOf(ref), section, mark })
			output.append(section)
			const of = { body: requests[i], signal: mine.signal, at }
			const result = await (ref === unsaved ? showOne(place, name, presetPath(at, 'try', { template: draft.isTemplate() ? 'true' : '' }), { ...of, headers: secret ? { 'X-Inference-Key': secret } : {} }, goOn)
				: showOne(place, name, '/' + routes[/** @type {Dialect} */ (dialects.value)], { ...of, key: secret }, goOn))
			const version = /@(\d+)$/.exec(result?.served ?? '')?.[1]
			served.textContent = version && name !== `v${version}` ? ` v${version}` : ''
		}))
		if (sending === mine) {
			stop.disabled = true
		}
	}
	/** Takes a line of the log of content, in place of what is typed. @param {ClipboardEvent} event */
	const paste = (event) => {
		const logged = loggedOf(event.clipboardData?.getData('text') ?? '', preset?.data.workspace_id), before = read()
		if (logged) {
			event.preventDefault()
		}
		if (logged && 'why' in logged) {
			say(`The line of the log is left out: ${logged.why}.`)
		} else if (logged) {
			show(logged.trial)
			store()
			output.className = 'outputs'
			answers = []
			fill(output, h('section', { 'aria-label': 'Answer of the log' }, h('h3', null, 'Answer of the log'), h('pre', { class: 'answer', tabindex: '0', dir: 'auto' }, visible(logged.answer))))
			say('The request of the log is shown.', { name: 'Undo', run: () => {
				show(before)
				store()
			} })
		}
	}
	const keyField = field('Inference key', key, 'A key of the preset’s workspace. It is kept in this tab until Lock.')
	keyField.append(keyOffer(context, (issued) => {
		key.value = issued
		setWrong(key)
		draft.keyChanged()
		send.focus()
	}) || '')
	const options = h('details', { class: 'options', open: !session.inferenceKey() }, h('summary', null, 'Key and parameters'),
		h('div', { class: 'columns even' }, keyField, field('API', dialects, 'The unsaved version is tried with its own.')),
		field('More parameters', more, 'JSON, such as {"seed": 7}. They replace the preset’s settings.'))
	const inputs = h('div')
	const element = form({ class: 'trial', oninput: store, onpaste: paste }, () => runAll(showAnswer),
		h('div', { class: 'trial-head' }, inputs, field('Side by side with', second)),
		fieldset,
		h('fieldset', null, h('legend', { class: 'unseen' }, 'Messages'), list),
		h('p', { class: 'actions run' }, send, stop, button('Show what goes up', () => runAll(showRequest), { class: 'small quiet' }), h('span', { class: 'gap' }),
			button('Add a message', () => addTurn({ role: turns.at(-1)?.read().role === 'user' ? 'assistant' : 'user', text: '' }).focus(), { class: 'small' }), clear),
		options,
		h('section', { 'aria-label': 'Answers' }, h('h2', { class: 'unseen' }, 'Answer'), output))
	const look = readUntilDone(showVariables, context.signal) // running says what is wrong
	second.addEventListener('change', () => {
		store()
		look()
	})
	show(typed)
	clear.disabled = Object.keys(typed).length === 0
	return {
		element, inputs, read, run: () => runAll(showAnswer),
		show: (trialOf) => {
			show(trialOf)
			store()
		},
		showAge,
		refresh: () => {
			showDialects()
			look()
		},
		update: (next) => {
			preset = next
			look()
			showAge()
		},
	}
}

/**
 * Says why a key would try another preset than the one shown: its workspace may have one with the
 * same slug. It is empty if the key tries this one. It throws a Failure.
 * @param {Context} context @param {Preset} shown @param {string} key @param {AbortSignal} signal
 */
async function otherPreset({ at }, shown, key, signal) {
	const response = await api.ask('GET', presetPath({ ...at, workspace: '' }), { key, signal })
	if (!response.ok && response.status !== 404) {
		throw await api.readFailure(response)
	}
	const found = response.ok && (await response.json()).data
	const reason = found ? `This key is of another workspace, where ${at.slug} is another preset than the one shown.`
		: `This key reaches no preset ${at.slug}, perhaps because it is of another workspace.`
	return found.id === shown.id ? '' : `${reason} Nothing was sent. Enter an inference key of the workspace ${at.workspace}.`
}

/** Shows the merged request. Each field says where it comes from. @type {ShowAnswer} */
async function showRequest(place, name, path, request) {
	try {
		const response = await api.ask('POST', path, { ...request, headers: { ...request.headers, 'X-Preset-Dry-Run': 'true' } })
		if (!response.ok) {
			throw await api.readFailure(response)
		}
		/** @type {DryRun} */
		const result = (await response.json()).data
		const { members } = parseAs(result.body)
		fill(place,
			h('p', { class: 'section' }, h('code', null, `${result.method} ${result.path}`)),
			h('table', { class: 'settings sources', 'aria-label': 'Fields of the request' }, h('tbody', null, members.map((member) => {
				const { from, version } = result.fields[member.name]
				return h('tr', { class: `from-${from}` },
					h('th', { scope: 'row' }, code(member.name), h('span', { class: 'source' }, from + (version ? ` v${version}` : ''))),
					h('td', null, code(format(member.value))))
			}))),
			result.enforced.length > 0 && h('p', { class: 'note' }, 'Changed by the policy of the preset: ', code(result.enforced.join(', '))),
			result.dropped.length > 0 && h('p', { class: 'note' }, 'Left out, because the gateway does not know them: ', code(result.dropped.join(', '))))
		tell(`Nothing was sent to the gateway. This is the request of ${name}.`)
	} catch (thrown) {
		fill(place, errorBox(thrown))
	}
	return undefined
}
