// Trying a version: what goes up to the gateway, and what the gateway answers.

import { button, choice, code, field, fill, form, h, setWrong, submit, textInput, user } from './elements.js'
import * as api from './api.js'
import * as session from './session.js'
import { routes } from './capture.js'
import { versionChoices } from './compare.js'
import { readSide } from './differences.js'
import { format, lineOf, parseAs, raw } from './json.js'
import { targetText } from './labels.js'
import { presetFrame } from './preset.js'
import { errorBox, readUntilDone } from './states.js'
import { say } from './status.js'
import { events, pieceOf, wholeText } from './stream.js'
import { readTemplate } from './template.js'

const variableKinds = ['text', 'empty text', 'image address', 'file address']

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

	// The templates of the chosen versions, and the fields of all variables so far.
	/** @type {Map<string, { names: string[], hasMessages: boolean }>} */
	let templates = new Map()
	/** @type {Map<string, Variable>} */
	const variables = new Map()
	const variableFields = h('div'), fieldset = h('fieldset', { hidden: true }, h('legend', null, 'Variables'), variableFields)
	const refsOf = () => [first.value, second.value].filter((ref) => ref !== '-')
	/** @param {string} ref */
	const readTemplates = async (ref) => {
		/** @type {Target} */
		const target = ref === '' ? preset.data.designated_version : preset.data.labels[ref] ?? { version: Number(ref) }
		const sides = await Promise.all((target.split ?? [target]).map(({ version }) => readSide(context.at, version ?? 0, context.signal)))
		const found = sides.map((side) => readTemplate(side.template))
		return { names: [...new Set(found.flatMap((one) => one.variables))], hasMessages: found.every((one) => one.messages.items.length > 0) }
	}
	const newVariable = (/** @type {string} */ name) => {
		const text = h('textarea', { rows: 1, dir: 'auto' }), element = field(name, text)
		const kind = choice(variableKinds.map((value) => ({ value, text: value })), 'text', { 'aria-label': `Kind of ${name}`, class: 'small', onchange: () => (text.disabled = kind.value === 'empty text') })
		element.classList.add('variable')
		element.firstElementChild?.after(kind)
		return { element, kind, text }
	}
	/** Shows a field for each variable. It throws a Failure. */
	const showVariables = async () => {
		const refs = refsOf(), asked = preset
		const read = new Map(await Promise.all(refs.map(async (ref) => /** @type {const} */ ([ref, await readTemplates(ref)]))))
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
	for (const select of [first, second]) {
		select.addEventListener('change', look)
	}

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
				fieldset,
				h('fieldset', null, h('legend', null, 'Messages'), list, button('Add a message', () => addTurn(turns.at(-1)?.role.value === 'user' ? 'assistant' : 'user').text.focus(), { class: 'small' })),
				h('div', { class: 'columns three' }, field('API', dialects), field('Temperature', temperature), field('Most tokens', maxTokens)),
				field('More parameters', more, 'JSON, such as {"seed": 7}. They replace the preset’s settings.'),
				field('Inference key', key, 'The request runs in the workspace of this key. It is kept in this tab until Lock.'),
				h('p', { class: 'actions' }, send, stop, button('Show what goes up', () => run(showRequest)))),
			h('section', { 'aria-label': 'Answers' }, h('h2', null, 'Answer'), output)),
		update: (next) => {
			preset = next
			look()
		},
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
	let first = '', served = '', enforced = '', usage = '', state = 'streaming…'
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
		enforced = response.headers.get('X-Preset-Enforced') ?? ''
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
