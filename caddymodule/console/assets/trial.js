// Trying what stands on the left of the workbench, or versions: what goes up to the gateway, and what
// the gateway answers.

import { presetPath } from './addresses.js'
import { button, choice, code, field, fill, form, h, setWrong, submit, textInput, user } from './elements.js'
import * as api from './api.js'
import * as session from './session.js'
import { showAnswer } from './answer.js'
import { routes } from './capture.js'
import { targetChoices } from './choices.js'
import { messagesOf } from './conversation.js'
import { format, lineOf, parseAs, raw } from './json.js'
import { errorBox, readUntilDone } from './states.js'
import { say, tell } from './status.js'
import { readTemplates } from './target.js'

const variableKinds = ['text', 'empty text', 'image address', 'file address']
/** unsaved stands for what is on the left, and differs from its version. */
const unsaved = '*'

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
		const members = ref === unsaved ? ['"stream":true'] : [`"model":${JSON.stringify(`@preset/${slug}${ref && '@' + ref}`)}`, '"stream":true']
		if (own.length > 0) {
			members.push(`"${dialect === 'responses' ? 'input' : 'messages'}":${JSON.stringify(messagesOf(own, dialect))}`)
		}
		if (names.length > 0) {
			members.push(`"prompt":${JSON.stringify({ variables: Object.fromEntries(values) })}`)
		}
		const parsed = parseAs(more.value.trim() === '' ? '{}' : more.value)
		setWrong(more, parsed.problem && `line ${lineOf(more.value, parsed.offset)}: ${parsed.problem}`)
		members.push(...parsed.members.map((member) => `${member.key}:${raw(member.value)}`))
		const request = `{${members.join(',')}}`
		return parsed.problem || values.some(([, value]) => value === undefined) ? undefined
			: ref === unsaved ? `{"dialect":"${dialect}","version":${draft.body()},"request":${request}}` : request
	}

	const output = h('div', { class: 'outputs' }, h('p', { class: 'muted hint' }, 'Run streams the answer of the gateway to what stands on the left, saved or not. Show what goes up sends nothing.'))
	let sending = new AbortController()
	context.signal.addEventListener('abort', () => sending.abort())
	const send = submit('Run', { title: 'Ctrl+Enter', class: 'strong' })
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
		await Promise.all(refs.map((ref, i) => {
			const name = ref === unsaved ? 'unsaved' : ref === '' ? 'live' : /^\d+$/.test(ref) ? `v${ref}` : ref
			const place = h('div')
			output.append(h('section', { 'aria-label': `Answer of ${name}` }, h('h3', null, user(name)), place))
			const of = { body: requests[i], signal: mine.signal, at }
			return ref === unsaved ? showOne(place, name, presetPath(at, 'try', { template: draft.isTemplate() ? 'true' : '' }), { ...of, headers: secret ? { 'X-Inference-Key': secret } : {} }, goOn)
				: showOne(place, name, '/' + routes[/** @type {Dialect} */ (dialects.value)], { ...of, key: secret }, goOn)
		}))
		if (sending === mine) {
			stop.disabled = true
		}
	}
	const options = h('details', { class: 'options', open: !session.inferenceKey() }, h('summary', null, 'Key and parameters'),
		h('div', { class: 'columns even' }, field('Inference key', key, 'A key of the preset’s workspace. It is kept in this tab until Lock.'), field('API', dialects, 'The unsaved version is tried with its own.')),
		field('More parameters', more, 'JSON, such as {"seed": 7}. They replace the preset’s settings.'))
	const inputs = h('div')
	const element = form({ class: 'trial', oninput: store }, () => runAll(showAnswer),
		h('div', { class: 'trial-head' }, inputs, field('Side by side with', second)),
		fieldset,
		h('fieldset', null, h('legend', { class: 'unseen' }, 'Messages'), list),
		h('p', { class: 'actions run' }, send, stop, button('Show what goes up', () => runAll(showRequest), { class: 'quiet' }), h('span', { class: 'gap' }),
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
		refresh: () => {
			showDialects()
			look()
		},
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
