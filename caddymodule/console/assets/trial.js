// Trying what stands on the left of the workbench, or versions, on one input or on all saved ones.

import { hasKeys, presetPath, toKeys } from './addresses.js'
import { button, choice, code, field, fill, form, h, setWrong, shortcut, small, submit, textInput, user, visible, warning } from './elements.js'
import * as api from './api.js'
import * as session from './session.js'
import { format, lineOf, loggedOf, messagesOf, parseAs, raw, routes, turnsOf } from './dialects.js'
import { models } from './models.js'
import { changeReason, readTemplates, refName, standsFor, targetChoices, unsaved } from './preset.js'
import { ask, attempt, csvOf, download, errorBox, failed, openDialog, readUntilDone, say, tell } from './states.js'

// Trying what stands on the left of the workbench, or versions: what goes up to the gateway, and what
// the gateway answers.

// Reading the answer of a gateway, streamed or whole, in the three dialects.

/**
 * Reads server-sent events, one after another.
 * @param {ReadableStream<Uint8Array>} body @param {() => void} arrived is called with each chunk
 */
async function* events(body, arrived) {
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
function readEvent(data) {
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
const timeText = (ms) => (ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(2)} s`)
/** @param {number} cost */
const dollars = (cost) => `$${Number(cost.toPrecision(3))}`

/**
 * Sends a request, and reads its answer until it ends or is stopped. It throws nothing.
 * @type {RunRequest}
 */
async function run(path, request, heard) {
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
function factsOf({ served, enforced, firstText, total, used, cost, isEstimated, state }) {
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
async function showAnswer(place, name, path, request, goOn) {
	const facts = h('p.muted.number.facts-line', 'Waiting for the gateway…')
	const answer = h('pre.answer', { tabindex: '0', role: 'region', 'aria-label': `Answer of ${name}, text`, dir: 'auto' })
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
		const part = parts.get(piece.part) ?? { name: '', caption: h('span.caption'), text: answer, isEmpty: true }
		parts.set(piece.part, part)
		if (piece.name.length > part.name.length) { // that of a tool call may come late
			part.name = piece.name
			fill(part.caption, user(piece.name))
		}
		if (part.name !== '' && part.text === answer) {
			part.text = h('span.said', { dir: 'auto' })
			const isFolded = part.name.endsWith('Reasoning')
			answer.append(isFolded ? h('details.part', h('summary', part.caption), part.text) : h('span.part', part.caption, part.text))
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
	result.failure ? fill(below, errorBox(result.failure)) : fill(below, result.notes.map((text) => h('p.note', user(text))))
	below.append(...[warning(answer.textContent ?? '')].filter((line) => line !== undefined))
	fill(facts, user(factsOf(result)))
	tell(`Answer of ${name}: ${result.state}, after ${timeText(result.total)}.`)
	if (result.hasContent && !result.failure) {
		const results = result.calls.map(() => h('textarea.mono', { rows: 2, dir: 'auto', placeholder: 'What the tool answers' }))
		below.append(...result.calls.map((call, i) => h('div.result-card', field(`Result of ${call.name || 'the tool'}`, results[i]))),
			h('p.actions', small('Continue', () => goOn(result, results.map(({ value }) => value)), { 'aria-label': `Continue from ${name}` }), result.requestId && request.at && thumbs(request.at, result)))
	}
	return result
}

/** Buttons that rate an answer, which is the feedback of the API. @param {At} at @param {Result} result */
function thumbs(at, { requestId }) {
	const place = h('span.thumbs')
	const rate = (/** @type {boolean} */ score) => small(score ? 'Good' : 'Bad', async () => {
		try {
			const response = await api.ask('POST', presetPath(at, 'feedback'), { body: JSON.stringify({ request_id: requestId, score, name: 'thumbs' }) })
			if (!response.ok) {
				throw await api.readFailure(response)
			}
			fill(place, h('span.muted.small', score ? 'Rated good' : 'Rated bad'))
			say('The rating counts as feedback of its version.')
		} catch (thrown) {
			say(`Error: ${api.failureOf(thrown).message}`)
		}
	})
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

/** Writes a variable as a request has it. @param {{ kind: string, text: string }} variable */
const variableValue = ({ kind, text }) => (kind === 'image address' ? { type: 'input_image', image_url: text.trim() } : kind === 'file address' ? { type: 'input_file', file_url: text.trim() } : kind === 'empty text' ? '' : text)

/** What a trial asks of every gateway: a stream, and what it used, which chat says only if asked. @param {string} dialect */
const streaming = (dialect) => ({ stream: true, ...(dialect === 'chat' && { stream_options: { include_usage: true } }) })

/** Where a request for a version goes, and its key. What is unsaved goes with it. @param {At} at @param {string} ref @param {Draft} draft @param {Dialect} dialect @param {string} key */
const sendingTo = (at, ref, draft, dialect, key) => (ref === unsaved
	? { path: presetPath(at, 'try', { template: draft.isTemplate() ? 'true' : '' }), headers: /** @type {Record<string, string>} */ (key ? { 'X-Inference-Key': key } : {}) } : { path: `/${routes[dialect]}`, key })

/** @param {Draft} draft @param {string} request */
const tryBody = (draft, request) => `{"dialect":"${draft.dialect()}","version":${draft.body()},"request":${request}}`

/** Offers an inference key to who may issue one. Others learn where the keys are. @param {Context} context @param {(key: string) => unknown} take */
function keyOffer({ workspace }, take) {
	if (!hasKeys || !session.mayIssueKeys()) {
		return hasKeys && session.mayChange() && h('a.small', { href: toKeys(workspace) }, 'Who may issue one')
	}
	const place = h('div')
	const issue = small('Issue a short-lived key for this tab', () => attempt(place, issue, async () => {
		const { text } = await api.change('POST', '/keys', { workspace_id: workspace, name: 'Console trial', expires_at: new Date(Date.now() + keyHours * 3600000).toISOString() })
		session.setInferenceKey(JSON.parse(text).key)
		say(`This tab has an inference key for ${keyHours} hours.`)
		take(session.inferenceKey())
	}), { 'data-key': 'issue' })
	return h('div', issue, place)
}

/** @type {MakeTrial} */
export function trial(context, preset, draft) {
	const { at } = context, { slug } = at, id = preset?.data.id ?? slug
	/** @type {Partial<Trial>} */
	const typed = session.kept(id)
	const second = preset ? targetChoices(context, preset, typed.second ?? '-', [{ value: '-', text: 'nothing' }, { value: '', text: 'live' }]) : choice([{ value: '-', text: 'nothing' }], '-')
	const dialects = h('select')
	const key = textInput({ class: 'secret', value: session.inferenceKey(), onchange: () => session.setInferenceKey(key.value.trim()) })
	let known = ''
	const more = h('textarea.mono', { rows: 2, spellcheck: 'false', value: typed.more ?? '' })
	const list = h('div.turns')
	/** @type {(Turn & { element: HTMLElement, read: () => Turn })[]} */
	let turns = []

	const addTurn = (/** @type {Turn} */ turn = { role: 'user', text: '' }) => {
		const n = turns.length + 1, isTool = turn.role === 'tool'
		const role = choice(['user', 'assistant'].map((value) => ({ value, text: value })), turn.role, { 'aria-label': `Role ${n}` })
		const text = h('textarea', { rows: 2, dir: 'auto', value: turn.text, 'aria-label': `Text ${n}` })
		const shown = {
			...turn, read: () => ({ ...turn, role: isTool ? 'tool' : role.value, text: text.value }),
			element: h('div.turn', h('div.turn-head', isTool ? h('span.muted.small', 'result of ', code(turn.name ?? '')) : role,
				n > 1 && button('Take out', () => {
					turns = turns.filter((other) => other !== shown)
					shown.element.remove()
					store()
				}, { class: 'small quiet', 'aria-label': `Take out text ${n}` })),
			text, turn.calls?.map((call) => h('p.tool-card', h('strong.mono', user(call.name)), code(call.arguments)))),
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
	const variableFields = h('div'), fieldset = h('fieldset', { hidden: true }, h('legend', 'Variables'), variableFields)
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
	const clear = small('Clear', () => {
		const before = read()
		show({})
		store()
		say('Cleared.', () => {
			show(before)
			store()
		})
	}, { 'data-key': 'clear' })
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
		return isMissing ? undefined : variableValue({ kind: kind.value, text: text.value })
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
			: ref === unsaved ? tryBody(draft, request) : request
	}

	const output = h('div.outputs', h('p.muted.hint', 'Run streams the answer of the gateway to what stands on the left, saved or not. Show what goes up sends nothing. A line of the log of content can be pasted.'))
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
			fill(output, h('p.note', wrong))
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
			const name = refName(ref), served = h('span'), mark = h('span.warn'), place = h('div')
			const section = h('section', { 'aria-label': `Answer of ${name}` }, h('h3', user(name), served, mark), place)
			answers.push({ ref, of: stateOf(ref), section, mark })
			output.append(section)
			const { path, ...request } = sendingTo(at, ref, draft, /** @type {Dialect} */ (dialects.value), secret)
			const result = await showOne(place, name, path, { ...request, body: requests[i], signal: mine.signal, at }, goOn)
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
			fill(output, h('section', { 'aria-label': 'Answer of the log' }, h('h3', 'Answer of the log'), h('pre.answer', { tabindex: '0', dir: 'auto' }, visible(logged.answer))))
			say('The request of the log is shown.', () => {
				show(before)
				store()
			})
		}
	}
	const keyField = field('Inference key', key, 'A key of the preset’s workspace. It is kept in this tab until Lock.')
	keyField.append(keyOffer(context, (issued) => {
		key.value = issued
		setWrong(key)
		draft.keyChanged()
		send.focus()
	}) || '')
	const options = h('details.options', { open: !session.inferenceKey() }, h('summary', 'Key and parameters'),
		h('div.columns.even', keyField, field('API', dialects, 'The unsaved version is tried with its own.')),
		field('More parameters', more, 'JSON, such as {"seed": 7}. They replace the preset’s settings.'))
	const inputs = h('div')
	const element = form({ class: 'trial', oninput: store, onpaste: paste }, () => runAll(showAnswer),
		h('div.trial-head', inputs, field('Side by side with', second)),
		fieldset,
		h('fieldset', h('legend.unseen', 'Messages'), list),
		h('p.actions.run', send, stop, button('Show what goes up', () => runAll(showRequest), { class: 'small quiet' }),
			h('span.actions', small('Add a message', () => addTurn({ role: turns.at(-1)?.read().role === 'user' ? 'assistant' : 'user', text: '' }).focus()), clear)),
		options,
		h('section', { 'aria-label': 'Answers' }, h('h2.unseen', 'Answer'), output))
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
			h('p.section', h('code', `${result.method} ${result.path}`)),
			h('table.settings.sources', { 'aria-label': 'Fields of the request' }, h('tbody', members.map((member) => {
				const { from, version } = result.fields[member.name]
				return h('tr', { class: `from-${from}` },
					h('th', { scope: 'row' }, code(member.name), h('span.source', from + (version ? ` v${version}` : ''))),
					h('td', code(format(member.value))))
			}))),
			result.enforced.length > 0 && h('p.note', 'Changed by the policy of the preset: ', code(result.enforced.join(', '))),
			result.dropped.length > 0 && h('p.note', 'Left out, because the gateway does not know them: ', code(result.dropped.join(', '))))
		tell(`Nothing was sent to the gateway. This is the request of ${name}.`)
	} catch (thrown) {
		fill(place, errorBox(thrown))
	}
	return undefined
}

// Saved inputs of a preset: chosen for a trial, and as the rows of a grid whose columns are versions.

const atOnce = 4 // requests of a grid
const mostColumns = 4
/** @param {Input} input @returns {Partial<Trial>} */
function asTrial({ dialect, messages, input, variables }) {
	/** @param {any} value */
	const variableOf = (value) => (typeof value === 'string' ? { kind: value === '' ? 'empty text' : 'text', text: value }
		: { kind: value.image_url ? 'image address' : 'file address', text: value.image_url ?? value.file_url ?? '' })
	return { dialect, turns: turnsOf(messages ?? input ?? [], dialect), variables: Object.fromEntries(Object.entries(variables ?? {}).map(([name, value]) => [name, variableOf(value)])) }
}

/** The last thing that an input says, or its variables. @param {Input} input */
function lastText(input) {
	const { turns, variables } = asTrial(input)
	return turns?.findLast(({ text }) => text)?.text ?? Object.values(variables ?? {}).map(({ text }) => text).join(', ')
}

/** @param {Trial} trial @param {Dialect} dialect */
function inputOf({ turns, variables }, dialect) {
	const messages = messagesOf(turns.filter(({ text, calls, role }) => text !== '' || calls || role === 'tool'), dialect)
	const values = Object.entries(variables).filter(([, { kind, text }]) => kind === 'empty text' || text !== '')
	return {
		dialect, [dialect === 'responses' ? 'input' : 'messages']: messages.length > 0 ? messages : null,
		variables: values.length > 0 ? Object.fromEntries(values.map(([name, variable]) => [name, variableValue(variable)])) : null,
	}
}

/**
 * Makes the choice of an input, and the buttons that save one and show the grid.
 * @param {Context} context @param {() => PresetAnswer} preset @param {Draft} draft @param {ReturnType<MakeTrial>} typed
 */
export function savedInputs(context, preset, draft, typed) {
	const { at, signal } = context
	const path = presetPath(at, 'inputs', { limit: 100 })
	/** @type {Input[]} */
	let inputs = []
	const chosen = choice([{ value: '', text: 'typed here' }], '')
	const show = () => {
		const { value } = chosen
		fill(chosen, h('option', { value: '' }, inputs.length === 0 ? 'none saved' : 'typed here'), inputs.map(({ id, name }) => h('option', { value: id }, name)))
		chosen.value = inputs.some(({ id }) => id === value) ? value : ''
		grid.disabled = inputs.length === 0
	}
	const read = async () => {
		inputs = (await api.read(path, signal)).data
		show()
	}
	chosen.addEventListener('change', () => {
		const input = inputs.find(({ id }) => id === chosen.value), before = typed.read()
		if (input) {
			typed.show({ ...asTrial(input), second: before.second, more: before.more })
			before.turns.some(({ text }) => text !== '') && say(`The input ${input.name} is shown.`, () => {
				chosen.value = ''
				typed.show(before)
			})
		}
	})
	const save = () => {
		const before = inputs.find(({ id }) => id === chosen.value)
		const name = textInput({ value: before?.name ?? '', maxlength: 100, autofocus: true }), notes = h('textarea', { value: before?.notes ?? '', rows: 3, maxlength: 2000, dir: 'auto' })
		ask(context, 'Save input', 'Save the input', [field('Name', name, before ? 'Under another name it is a new input.' : 'Such as: refund, angry.'), field('Notes', notes, 'What a good answer has.')], async () => {
			const same = inputs.find((one) => one.name === name.value.trim()), trialNow = typed.read()
			const body = { name: name.value.trim(), notes: notes.value.trim() || null, ...inputOf(trialNow, /** @type {Dialect} */ (trialNow.dialect)) }
			const { data } = await api.change(same ? 'PATCH' : 'POST', presetPath(at, same ? `inputs/${same.id}` : 'inputs'), same ? { ...body, [body.dialect === 'responses' ? 'messages' : 'input']: null } : body)
			await read()
			chosen.value = data.id
			say(`The input ${data.name} is saved.`)
		}, { confirm: 'Save' })
	}
	const grid = button('Grid', () => openGrid(context, preset, draft, () => inputs, columns, results), { disabled: true, 'data-key': 'grid', title: 'All inputs against several versions' })
	/** @type {Map<string, Result | Failure>} */
	const results = new Map()
	/** @type {string[]} */
	const columns = []
	readUntilDone(read, signal)
	api.changes.addEventListener('change', () => read().catch(() => {}), { signal })
	return h('div.inputs', field('Input', chosen), session.mayChange() && button('Save', save, { 'aria-label': 'Save input', 'data-key': 'save-input', disabled: changeReason(at, preset().data) !== '' }), grid)
}

/**
 * Shows the grid. Results stay until the view is left, so that it can be closed and opened.
 * @param {Context} context @param {() => PresetAnswer} preset @param {Draft} draft @param {() => Input[]} inputs
 * @param {string[]} columns what was chosen before @param {Map<string, Result | Failure>} results
 */
function openGrid(context, preset, draft, inputs, columns, results) {
	const { at } = context
	/** Names a column, and the version that live or a label stands for. @param {string} ref */
	const nameOf = (ref) => `${refName(ref)} ${standsFor(preset().data, ref)}`.trim()
	const first = () => (draft.isChanged() ? unsaved : draft.ref())
	if (columns.length === 0) {
		columns.push(first() === '' ? '' : first(), ...(first() === '' ? [] : ['']))
	}
	columns[0] = first()
	results.forEach((_, key) => key.endsWith(' unsaved') && results.delete(key)) // it may be another one now
	let running = new AbortController()
	const table = h('div.wide-box.sheet-box', { tabindex: 0, role: 'region', 'aria-label': 'Answers of the inputs' }), place = h('div')
	/** @type {Map<string, HTMLElement>} */
	const cells = new Map()
	// An answer is of the version that was meant then.
	const keyOf = (/** @type {Input} */ { id }, /** @type {string} */ ref) => `${id} ${nameOf(ref)}`

	/** @param {Input} input @param {string} ref */
	const showCell = (input, ref) => {
		const key = keyOf(input, ref), cell = cells.get(key), result = results.get(key)
		if (!cell) {
			return
		}
		if (!result) {
			fill(cell, h('span.muted', '–'))
		} else if (result instanceof Error) {
			fill(cell, errorBox(result))
		} else {
			const base = results.get(keyOf(input, columns[0]))
			const isSame = ref !== columns[0] && base && !(base instanceof Error) && base.text === result.text && result.total > 0
			fill(cell,
				result.failure ? errorBox(result.failure) : h('pre.cell-text', { dir: 'auto' }, visible(result.text), result.calls.map((call) => h('span.part', h('strong', user(call.name)), ' ', user(call.arguments)))),
				h('p.muted.small.number', [result.state, result.total > 0 && timeText(result.total), result.used.output !== undefined && `${result.used.output} tokens`, result.cost !== null && dollars(result.cost), isSame && `same as ${nameOf(columns[0])}`].filter(Boolean).join(' · ')),
				result.requestId && result.total > 0 && !result.failure && thumbs(at, result))
		}
	}
	const draw = () => {
		cells.clear()
		fill(table, h('table.grid', { 'aria-label': 'Inputs and versions' },
			h('thead', h('tr', h('th', { scope: 'col' }, `${inputs().length} inputs`), columns.map((ref, i) => h('th', { scope: 'col' }, i === 0 ? h('strong', user(nameOf(ref))) : columnChoice(i), i > 0 && columns.length > 2 && button('Take out', () => {
				columns.splice(i, 1)
				draw()
			}, { class: 'small quiet', 'aria-label': `Take out ${nameOf(ref)}` }))))),
			h('tbody', inputs().map((input) => h('tr',
				h('th', { scope: 'row' }, h('strong', user(input.name)), h('p.small.clamped', user(lastText(input))), input.notes && h('p.muted.small.clamped', user(input.notes)),
					h('p.actions', small('Run', () => runCells(columns.map((ref) => [input, ref])), { 'aria-label': `Run ${input.name}` }),
						session.mayChange() && button('Delete', () => remove(input), { class: 'small quiet', 'aria-label': `Delete ${input.name}` }))),
				columns.map((ref) => {
					const cell = h('td')
					cells.set(keyOf(input, ref), cell)
					showCell(input, ref)
					return cell
				}))))))
		add.hidden = columns.length >= mostColumns
	}
	/** @param {number} i */
	const columnChoice = (i) => {
		const select = targetChoices(context, preset(), columns[i], [{ value: '', text: nameOf('') }])
		select.setAttribute('aria-label', `Column ${i + 1}`)
		select.addEventListener('change', () => {
			columns[i] = select.value
			draw()
		})
		return select
	}
	const remove = async (/** @type {Input} */ input) => {
		const { name, dialect, messages, input: items, variables, notes } = input
		const body = Object.fromEntries(Object.entries({ name, dialect, messages, input: items, variables, notes }).filter(([, value]) => value !== null))
		try {
			await api.change('DELETE', presetPath(at, `inputs/${input.id}`), undefined)
			say(`The input ${name} is deleted.`, () => api.change('POST', presetPath(at, 'inputs'), body).then(() => setTimeout(draw, 300), failed))
			setTimeout(draw, 300)
		} catch (thrown) {
			failed(thrown)
		}
	}
	/** Runs cells, a few at once. @param {[Input, string][]} all */
	const runCells = async (all) => {
		const key = session.inferenceKey()
		if (!key) {
			fill(place, h('div.note', 'Enter an inference key beside the trial first. The gateway takes no management key.', keyOffer(context, () => runCells(all))))
			return
		}
		fill(place)
		running.abort()
		const mine = (running = new AbortController())
		stop.disabled = false
		try {
			const templates = new Map(await Promise.all([...new Set(columns)].map(async (ref) => /** @type {const} */ ([ref, ref === unsaved ? draft.template() : await readTemplates(context, preset().data, ref)]))))
			const waiting = [...all]
			const work = async () => {
				for (let next = waiting.shift(); next && !mine.signal.aborted; next = waiting.shift()) {
					const [input, ref] = next, template = /** @type {Template} */ (templates.get(ref))
					const done = (/** @type {Result | Failure} */ result) => {
						results.set(keyOf(input, ref), result)
						showCell(input, ref)
					}
					const missing = template.names.filter((name) => input.variables?.[name] === undefined)
					if (missing.length > 0) {
						done(api.newFailure(`The input has no value for ${missing.join(', ')}.`, { status: 400 }))
						continue
					}
					const dialect = ref === unsaved ? draft.dialect() : input.dialect, own = input.messages ?? input.input
					const request = JSON.stringify({
						...(ref !== unsaved && { model: `@preset/${at.slug}${ref && '@' + ref}` }), ...streaming(dialect),
						...(own && { [dialect === 'responses' ? 'input' : 'messages']: dialect === input.dialect ? own : messagesOf(turnsOf(own, input.dialect), dialect) }),
						...(template.names.length > 0 && { prompt: { variables: Object.fromEntries(template.names.map((name) => [name, input.variables?.[name]])) } }),
					})
					let last = 0
					const heard = (/** @type {Result} */ result) => {
						if (performance.now() - last > 100) {
							last = performance.now()
							done(result)
						}
					}
					const { path, ...more } = sendingTo(at, ref, draft, dialect, key)
					done(await run(path, { ...more, body: ref === unsaved ? tryBody(draft, request) : request, signal: mine.signal }, heard))
				}
			}
			await Promise.all(Array.from({ length: atOnce }, work))
		} catch (thrown) {
			fill(place, errorBox(thrown))
		}
		if (running === mine) {
			stop.disabled = true
			say(mine.signal.aborted ? 'Stopped.' : `${all.length} answers are there.`)
		}
	}
	/** The inputs, and the answers that they have. */
	const rowsOf = () => inputs().map((input) => ({ input, of: columns.flatMap((ref) => {
		const result = results.get(keyOf(input, ref))
		return result && !(result instanceof Error) ? [/** @type {const} */ ([nameOf(ref), result])] : []
	}) }))
	const exportCSV = () => {
		const lines = rowsOf().flatMap(({ input, of }) => of.map(([name, result]) => [input.name, name, result.state, result.text, Math.round(result.total), result.used.input, result.used.output, result.cost]))
		download(`${at.slug}-inputs.csv`, csvOf(['input', 'version', 'state', 'answer', 'total_ms', 'input_tokens', 'output_tokens', 'cost'], lines), 'text/csv')
	}
	const exportJSON = () => download(`${at.slug}-inputs.json`, JSON.stringify(rowsOf().map(({ input, of }) => ({
		input: input.name, answers: Object.fromEntries(of.map(([name, result]) => [name, {
			state: result.state, text: result.text, tool_calls: result.calls, total_ms: Math.round(result.total), first_text_ms: Math.round(result.firstText), usage: result.used, cost: result.cost,
		}])),
	})), null, 2), 'application/json')
	const stop = button('Stop', () => running.abort(), { disabled: true })
	const add = small('Add a column', () => {
		columns.push('')
		draw()
	})
	openDialog('Grid', `${at.slug}: inputs and versions`, [
		h('div.actions', button('Run all', () => runCells(inputs().flatMap((input) => columns.map((ref) => /** @type {[Input, string]} */ ([input, ref])))), { class: 'primary', 'data-key': 'run-all' }), stop, add, h('span.gap'),
			small('CSV', exportCSV, { 'aria-label': 'Export as CSV' }), small('JSON', exportJSON, { 'aria-label': 'Export as JSON' })),
		place, table,
	], { style: 'full', signal: context.signal, onClose: () => running.abort() })
	draw()
}
