// Trying a version: what goes up to the gateway, and what the gateway answers.

import { presetPath } from './addresses.js'
import { button, choice, code, field, fill, form, h, setWrong, submit, textInput, user } from './elements.js'
import * as api from './api.js'
import * as session from './session.js'
import { routes } from './capture.js'
import { targetChoices } from './choices.js'
import { warning, visible } from './invisible.js'
import { format, lineOf, parseAs, raw } from './json.js'
import { keep, kept } from './kept.js'
import { trialOf } from './logged.js'
import { navigations } from './navigation.js'
import { presetFrame } from './preset.js'
import { errorBox, readUntilDone } from './states.js'
import { say } from './status.js'
import { events, readEvent } from './stream.js'
import { readTemplates, refOf } from './target.js'

const variableKinds = ['text', 'empty text', 'image address', 'file address']

/** @type {MakeView} */
export function tryView(context) {
	return { ...presetFrame(context, 'try', (preset, select) => tryBody(context, preset, select)), title: `Try it · ${context.at.slug}` }
}

/** @type {MakeSelectingBody} */
function tryBody(context, preset, select) {
	const { at: { slug } } = context, { id } = preset.data
	const typed = kept(id)
	const first = targetChoices(context, preset, refOf(context.address), [{ value: '', text: 'live' }])
	const second = targetChoices(context, preset, typed.second ?? '-', [{ value: '-', text: 'none' }, { value: '', text: 'live' }])
	const dialects = choice(Object.entries(routes).map(([value, text]) => ({ value, text })), typed.dialect ?? preset.data.designated_version.dialect)
	const key = textInput({ class: 'secret', value: session.inferenceKey() })
	const temperature = textInput({ inputmode: 'decimal', value: typed.temperature ?? '' })
	const maxTokens = textInput({ inputmode: 'numeric', value: typed.maxTokens ?? '' })
	const more = h('textarea', { rows: 2, spellcheck: 'false', class: 'mono', value: typed.more ?? '' })

	const list = h('div')
	/** @type {Turn[]} */
	let turns = []
	const addTurn = (role = 'user', text = '') => {
		const n = turns.length + 1
		const turn = {
			role: choice(['user', 'assistant'].map((value) => ({ value, text: value })), role, { 'aria-label': `Role ${n}` }),
			text: h('textarea', { rows: 3, dir: 'auto', value: text, 'aria-label': `Text ${n}` }),
		}
		const element = h('div', { class: 'turn' }, turn.role, turn.text, n > 1 && button('Take out', () => {
			turns = turns.filter((other) => other !== turn)
			element.remove()
			store()
		}, { class: 'small', 'aria-label': `Take out text ${n}` }))
		turns.push(turn)
		list.append(element)
		return turn
	}
	for (const { role, text } of typed.turns ?? [{ role: 'user', text: '' }]) {
		addTurn(role, text)
	}

	// The templates of the chosen versions, and the fields of all variables so far.
	/** @type {Map<string, Template>} */
	let templates = new Map()
	/** @type {Map<string, Variable>} */
	const variables = new Map()
	const variableFields = h('div'), fieldset = h('fieldset', { hidden: true }, h('legend', null, 'Variables'), variableFields)
	const refsOf = () => [first.value, second.value].filter((ref) => ref !== '-')
	const newVariable = (/** @type {string} */ name, before = { kind: 'text', text: '' }) => {
		const text = h('textarea', { rows: 1, dir: 'auto', value: before.text, disabled: before.kind === 'empty text' }), element = field(name, text)
		const kind = choice(variableKinds.map((value) => ({ value, text: value })), before.kind, { 'aria-label': `Kind of ${name}`, class: 'small', onchange: () => (text.disabled = kind.value === 'empty text') })
		element.classList.add('variable')
		element.firstElementChild?.after(kind)
		return { element, kind, text }
	}
	for (const [name, before] of Object.entries(typed.variables ?? {})) {
		variables.set(name, newVariable(name, before))
	}
	/** Keeps what is typed. Where it has no room, leaving the view asks. */
	const store = () => {
		const values = [...variables].map(([name, { kind, text }]) => /** @type {const} */ ([name, { kind: kind.value, text: text.value }]))
		const hasText = [temperature, maxTokens, more, ...turns.map(({ text }) => text)].some(({ value }) => value !== '') || values.some(([, { kind, text }]) => kind !== 'text' || text !== '')
		const isKept = keep(id, hasText ? {
			turns: turns.map(({ role, text }) => ({ role: role.value, text: text.value })), variables: Object.fromEntries(values),
			second: second.value, dialect: dialects.value, temperature: temperature.value, maxTokens: maxTokens.value, more: more.value, logged: typed.logged,
		} : undefined)
		context.setGuard(() => !isKept)
		clear.disabled = !hasText
	}
	const clear = button('Clear', () => {
		const before = kept(id)
		const show = () => navigations.dispatchEvent(new Event('navigate'))
		keep(id, undefined)
		show()
		say('Cleared.', { name: 'Undo', run: () => {
			keep(id, /** @type {Trial} */ (before))
			show()
		} })
	}, { class: 'small', disabled: Object.keys(typed).length === 0, 'data-key': 'clear' })
	/** Takes a line of the log of content, in place of what is typed. @param {ClipboardEvent} event */
	const paste = (event) => {
		const trial = trialOf(event.clipboardData?.getData('text') ?? '')
		if (trial && keep(id, { ...trial, second: second.value })) {
			event.preventDefault()
			session.setInferenceKey(key.value.trim() || session.inferenceKey())
			navigations.dispatchEvent(new Event('navigate'))
			say('The request of the log is in the form. Send asks the chosen version.')
		}
	}
	/** Shows a field for each variable. It throws a Failure. */
	const showVariables = async () => {
		const refs = refsOf(), asked = preset
		const read = new Map(await Promise.all(refs.map(async (ref) => /** @type {const} */ ([ref, await readTemplates(context, asked.data, ref)]))))
		if (asked !== preset || refs.join() !== refsOf().join()) {
			return
		}
		templates = read
		const before = [...variableFields.children]
		const elements = [...new Set([...templates.values()].flatMap((one) => one.names))].map((name) => {
			const variable = variables.get(name) ?? newVariable(name)
			variables.set(name, variable)
			return variable.element
		})
		if (before.length !== elements.length || elements.some((element, i) => element !== before[i])) {
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
	const look = readUntilDone(showVariables, context.signal) // sending says what is wrong
	for (const chosen of [first, second]) {
		chosen.addEventListener('change', look)
	}
	first.addEventListener('change', () => select(first.value))

	/** Writes the request. It is undefined if a field is wrong. @param {string} ref */
	const requestOf = (ref) => {
		const isResponses = dialects.value === 'responses'
		const { names = [], hasMessages } = templates.get(ref) ?? {}
		const values = names.map((name) => /** @type {const} */ ([name, valueOf(name)]))
		const own = turns.filter((turn) => turn.text.value !== '' || !hasMessages) // a template's messages are enough
		const members = [`"model":${JSON.stringify(`@preset/${slug}${ref && '@' + ref}`)}`, '"stream":true']
		if (own.length > 0) {
			members.push(`"${isResponses ? 'input' : 'messages'}":${JSON.stringify(own.map((turn) => ({ role: turn.role.value, content: turn.text.value })))}`)
		}
		if (names.length > 0) {
			members.push(`"prompt":${JSON.stringify({ variables: Object.fromEntries(values) })}`)
		}
		let isRight = values.every(([, value]) => value !== undefined)
		for (const [control, member] of /** @type {const} */ ([[temperature, 'temperature'], [maxTokens, isResponses ? 'max_output_tokens' : 'max_tokens']])) {
			const text = control.value.trim()
			const isNumber = text === '' || /^\d+(\.\d+)?$/.test(text)
			setWrong(control, isNumber ? '' : 'must be a number')
			isRight &&= isNumber
			if (text !== '') {
				members.push(`"${member}":${text}`)
			}
		}
		const parsed = parseAs(more.value.trim() === '' ? '{}' : more.value)
		setWrong(more, parsed.problem && `line ${lineOf(more.value, parsed.offset)}: ${parsed.problem}`)
		members.push(...parsed.members.map((member) => `${member.key}:${raw(member.value)}`))
		return isRight && !parsed.problem ? `{${members.join(',')}}` : undefined
	}

	const output = h('div', null, h('p', { class: 'muted' }, 'Send streams the answer of the gateway. Show what goes up sends nothing: it shows the merged request. A line of the log of content can be pasted into the form.'))
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
		try {
			await showVariables()
		} catch (thrown) {
			fill(output, errorBox(thrown))
			return
		}
		const refs = refsOf()
		const requests = refs.map(requestOf)
		if (secret === '' || requests.includes(undefined)) {
			/** @type {HTMLElement | null} */ (document.querySelector('main [aria-invalid]'))?.focus()
			return
		}
		sending.abort()
		const mine = (sending = new AbortController())
		try {
			const other = await otherPreset(context, preset.data, secret, mine.signal)
			setWrong(key, other)
			if (other !== '') {
				fill(output)
				key.focus()
				return
			}
		} catch (thrown) {
			if (!mine.signal.aborted) {
				fill(output, errorBox(thrown))
			}
			return
		}
		session.setInferenceKey(secret)
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
			form({ class: 'panel', oninput: store, onpaste: paste }, () => run(showAnswer),
				h('h2', null, 'Request'),
				h('div', { class: 'columns even' }, field('Version or label', first), field('Side by side with', second)),
				fieldset,
				h('fieldset', null, h('legend', null, 'Messages'), list, h('p', { class: 'actions' }, button('Add a message', () => addTurn(turns.at(-1)?.role.value === 'user' ? 'assistant' : 'user').text.focus(), { class: 'small' }), clear)),
				h('div', { class: 'columns three' }, field('API', dialects), field('Temperature', temperature), field('Most tokens', maxTokens)),
				field('More parameters', more, 'JSON, such as {"seed": 7}. They replace the preset’s settings.'),
				field('Inference key', key, 'A key of the preset’s workspace. It is kept in this tab until Lock.'),
				h('p', { class: 'actions' }, send, stop, button('Show what goes up', () => run(showRequest)))),
			h('section', { 'aria-label': 'Answers' }, h('h2', null, 'Answer'), output,
				typed.logged && h('section', { 'aria-label': 'Answer of the log' }, h('h3', null, 'Answer of the log'), h('pre', { class: 'answer', dir: 'auto' }, visible(typed.logged))))),
		update: (next) => {
			preset = next
			look()
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

/** Shows the merged request. Each field says where it comes from. @type {typeof showAnswer} */
async function showRequest(place, name, path, request) {
	try {
		const response = await api.ask('POST', path, { ...request, headers: { 'X-Preset-Dry-Run': 'true' } })
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
	let first = '', served = '', enforced = '', usage = '', state = 'streaming…', hasContent = false
	const showFacts = (total = '') => fill(facts, user([served, enforced && `changed by the policy: ${enforced}`, first && `first byte ${first}`, total && `total ${total}`, usage, state].filter(Boolean).join(' · ')))
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
	/** @type {Map<string, { name: string, caption: Element, text: Element, isEmpty: boolean }>} */
	const parts = new Map()
	/** Adds to the text, or to a part with a name, such as a tool call. @param {Piece} piece */
	const add = (piece) => {
		const follows = answer.scrollTop + answer.clientHeight >= answer.scrollHeight - 24
		const part = parts.get(piece.part) ?? { name: '', caption: h('span', { class: 'caption' }), text: answer, isEmpty: true }
		parts.set(piece.part, part)
		if (piece.name.length > part.name.length) { // that of a tool call may come late
			part.name = piece.name
			fill(part.caption, user(piece.name))
		}
		if (part.name !== '' && part.text === answer) {
			part.text = h('span', { class: 'said', dir: 'auto' })
			answer.append(h('span', { class: 'part' }, part.caption, part.text))
		}
		if (!piece.isWhole || part.isEmpty) {
			part.text.append(piece.text)
			part.isEmpty &&= piece.text === ''
		}
		hasContent = true
		if (follows) {
			answer.scrollTop = answer.scrollHeight
		}
	}
	/** Adds what an event says, and returns how the answer ended. @param {string} data */
	const take = (data) => {
		const { pieces, usage: used, failure, end } = readEvent(data)
		if (failure) {
			throw api.newFailure(failure, { status: 502 })
		}
		pieces.forEach(add)
		usage = used || usage
		return end
	}
	/** @type {string | null} */
	let end = null
	/** @param {...Child} text */
	const note = (...text) => problem.append(h('p', { class: 'note' }, ...text))
	try {
		const response = await api.ask('POST', path, request)
		served = response.headers.get('X-Preset') ?? ''
		enforced = response.headers.get('X-Preset-Enforced') ?? ''
		if (!response.ok) {
			arrived()
			throw await api.readFailure(response)
		}
		const isStreamed = response.body !== null && response.headers.get('Content-Type')?.includes('event-stream')
		if (response.body && isStreamed) {
			for await (const data of events(response.body, arrived)) {
				const said = take(data)
				end = said === null ? end : said || end || ''
			}
		} else {
			const text = await response.text()
			arrived()
			end = take(text) ?? ''
			if (!hasContent) {
				answer.append(text)
			}
		}
		state = (end === null ? 'ended without a reason' : end === '' ? 'complete' : usualEnds.includes(end) ? `complete (${end})` : `ended early (${end})`) + (isStreamed ? '' : ', not streamed')
		if (end === null) {
			note('The stream ended without saying why. The answer may be cut off.')
		} else if (state.startsWith('ended')) {
			note('The gateway ended the answer early, with the reason ', user(end), '.')
		}
		if (isStreamed && !hasContent) {
			answer.hidden = true
			note('The answer has no text, reasoning, refusal or tool call.')
		}
	} catch (thrown) {
		const failure = api.failureOf(thrown)
		state = request.signal?.aborted ? 'stopped' : failure.status > 0 ? `failed with ${failure.status}` : 'failed'
		if (!request.signal?.aborted) {
			fill(problem, errorBox(failure.status < 0 ? api.newFailure('The connection ended before the answer was complete.', { status: -1 }) : failure))
		}
	}
	showBoxes(answer)
	problem.append(...[warning(answer.textContent ?? '')].filter((line) => line !== undefined))
	showFacts(elapsed())
	say(`Answer of ${name}: ${state}, after ${elapsed()}.`)
}

const usualEnds = ['stop', 'end_turn', 'stop_sequence', 'tool_calls', 'tool_use', 'function_call']

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
