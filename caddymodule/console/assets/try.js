// Trying a version: what goes up to the gateway, and what the gateway answers.

import { button, choice, field, fill, h, setWrong, submit, user } from './elements.js'
import * as api from './api.js'
import * as session from './session.js'
import { routes } from './capture.js'
import { versionChoices } from './compare.js'
import { copy } from './copy.js'
import { SyntaxProblem, format, lineOf, parse } from './json.js'
import { targetText } from './labels.js'
import { presetFrame } from './preset.js'
import { errorBox } from './states.js'
import { say } from './status.js'
import { events, pieceOf, wholeText } from './stream.js'

/** @type {Record<Dialect, string>} */
const maxTokensName = { responses: 'max_output_tokens', chat: 'max_tokens', messages: 'max_tokens' }

/** @type {MakeView} */
export function tryView(context) {
	return { ...presetFrame(context, 'try', (preset) => tryBody(context, preset)), title: `Try it · ${context.at.slug}` }
}

/**
 * @param {Context} context
 * @param {PresetAnswer} preset
 * @returns {PresetBody}
 */
function tryBody(context, preset) {
	const { at: { slug } } = context
	const labels = Object.entries(preset.data.labels).map(([name, target]) => ({ value: name, text: `${name} (${targetText(target)})` }))
	const [first] = versionChoices(context, [0], [{ value: '', text: 'live' }, ...labels])
	const [second] = versionChoices(context, [0], [{ value: 'none', text: 'none' }, { value: '', text: 'live' }, ...labels])
	const dialect = choice([{ value: 'chat', text: 'chat completions' }, { value: 'responses', text: 'responses' }, { value: 'messages', text: 'messages' }],
		{ responses: 'responses', messages: 'messages' }[preset.data.designated_version.dialect ?? ''] ?? 'chat')
	const key = h('input', { type: 'text', class: 'secret', autocomplete: 'off', spellcheck: 'false', value: session.inferenceKey(), maxlength: 4096 })
	const temperature = h('input', { type: 'text', inputmode: 'decimal', autocomplete: 'off', class: 'short' })
	const maxTokens = h('input', { type: 'text', inputmode: 'numeric', autocomplete: 'off', class: 'short' })
	const more = h('textarea', { rows: 3, spellcheck: 'false', class: 'mono' })

	const list = h('div', { class: 'turns' })
	/** @type {{ role: HTMLSelectElement, text: HTMLTextAreaElement, element: HTMLElement }[]} */
	let turns = []
	/** @param {string} role */
	const addTurn = (role) => {
		const n = turns.length + 1
		const turn = {
			role: choice([{ value: 'user', text: 'user' }, { value: 'assistant', text: 'assistant' }], role, { 'aria-label': `Role ${n}` }),
			text: h('textarea', { rows: 3, dir: 'auto', 'aria-label': `Text ${n}` }),
			element: h('div', { class: 'turn' }),
		}
		fill(turn.element, turn.role, turn.text, n > 1 && button('Take out', () => {
			turns = turns.filter((other) => other !== turn)
			turn.element.remove()
		}, { class: 'small', 'aria-label': `Take out text ${n}` }))
		turns.push(turn)
		list.append(turn.element)
		return turn
	}
	addTurn('user')

	const output = h('div', { class: 'outputs' })
	let sending = new AbortController()
	context.signal.addEventListener('abort', () => sending.abort())
	const send = submit('Send')
	const stop = button('Stop', () => sending.abort(), { disabled: true })

	/** bodyOf writes the request. It returns undefined if a field is wrong. */
	const bodyOf = (/** @type {string} */ ref) => {
		const name = /** @type {Dialect} */ (dialect.value)
		const conversation = JSON.stringify(turns.map((turn) => ({ role: turn.role.value, content: turn.text.value })))
		const members = [`"model":${JSON.stringify(`@preset/${slug}${ref && '@' + ref}`)}`, `"${name === 'responses' ? 'input' : 'messages'}":${conversation}`]
		let isRight = true
		for (const [control, member, pattern] of /** @type {const} */ ([[temperature, 'temperature', /^\d+(\.\d+)?$/], [maxTokens, maxTokensName[name], /^[1-9]\d*$/]])) {
			const text = control.value.trim()
			setWrong(control, text === '' || pattern.test(text) ? '' : 'must be a number')
			isRight &&= text === '' || pattern.test(text)
			if (text !== '') {
				members.push(`"${member}":${text}`)
			}
		}
		setWrong(more)
		if (more.value.trim() !== '') {
			try {
				const root = parse(more.value)
				if (root.kind !== 'object') {
					throw new SyntaxProblem('must be an object in braces', 0)
				}
				members.push(...root.members.map((member) => `${JSON.stringify(member.name)}:${more.value.slice(member.value.start, member.value.end)}`))
			} catch (thrown) {
				setWrong(more, thrown instanceof SyntaxProblem ? `line ${lineOf(more.value, thrown.offset)}: ${thrown.message}` : String(thrown))
				isRight = false
			}
		}
		members.push('"stream":true')
		return isRight ? `{${members.join(',')}}` : undefined
	}
	/**
	 * @param {(place: HTMLElement, ref: string, body: string, secret: string, signal: AbortSignal) => Promise<void>} run
	 */
	const runAll = async (run) => {
		const secret = key.value.trim()
		setWrong(key, secret === '' ? 'Enter an inference key. The gateway takes no management key.' : '')
		if (secret === '') {
			key.focus()
			return
		}
		session.setInferenceKey(secret)
		const refs = [first.value, ...(second.value === 'none' ? [] : [second.value])]
		const bodies = refs.map((ref) => bodyOf(ref))
		if (bodies.includes(undefined)) {
			document.querySelector('main [aria-invalid]')?.scrollIntoView({ block: 'nearest' })
			return
		}
		sending.abort()
		const mine = (sending = new AbortController())
		send.disabled = true
		stop.disabled = false
		const places = refs.map((ref) => {
			const place = h('div')
			return { place, element: h('section', { class: 'output', 'aria-label': `Answer of ${nameOf(ref)}` }, h('h3', null, user(nameOf(ref))), place) }
		})
		fill(output, places.map((one) => one.element))
		output.classList.toggle('two', places.length > 1)
		await Promise.all(refs.map((ref, i) => run(places[i].place, ref, /** @type {string} */ (bodies[i]), secret, mine.signal)))
		if (sending === mine) {
			send.disabled = false
			stop.disabled = true
			if (document.activeElement === document.body) {
				send.focus()
			}
		}
	}
	const route = () => '/' + routes[/** @type {Dialect} */ (dialect.value)]

	/** @type {Parameters<typeof runAll>[0]} */
	const dryRun = async (place, _, body, secret, signal) => {
		try {
			const response = await api.ask('POST', route(), { key: secret, body, signal, headers: { 'X-Preset-Dry-Run': 'true' } })
			if (!response.ok) {
				fill(place, errorBox(await api.readFailure(response)))
				return
			}
			fill(place, dryRunOf((await response.json()).data))
			say('Nothing was sent to the gateway. This is the request that would go up.')
		} catch (thrown) {
			fill(place, signal.aborted ? h('p', { class: 'muted' }, 'Stopped.') : errorBox(thrown))
		}
	}
	/** @type {Parameters<typeof runAll>[0]} */
	const stream = (place, ref, body, secret, signal) => showAnswer(place, nameOf(ref), route(), body, secret, signal)

	const isInference = session.kind() === 'inference'
	const element = h('div', { class: 'columns trying' },
		h('form', { class: 'panel', novalidate: true, onsubmit: (/** @type {Event} */ event) => {
			event.preventDefault()
			runAll(stream)
		} },
		h('h2', null, 'Request'),
		h('div', { class: 'columns even' }, field('Version or label', first), field('Side by side with', second)),
		h('fieldset', null, h('legend', null, 'Messages'), list, button('Add a message', () => addTurn(turns.at(-1)?.role.value === 'user' ? 'assistant' : 'user').text.focus(), { class: 'small' })),
		h('div', { class: 'columns three' }, field('API', dialect), field('Temperature', temperature), field('Most tokens', maxTokens)),
		h('details', { class: 'field' }, h('summary', null, 'More parameters'), field('Parameters', more, 'JSON, such as {"seed": 7}. They replace the preset’s settings.')),
		field('Inference key', key, isInference ? 'Your key. The request runs in its workspace.' : 'The request runs in this key’s workspace. The key is kept in this tab until Lock.'),
		h('p', { class: 'actions' }, send, stop, button('Show what goes up', () => runAll(dryRun)))),
		h('section', { 'aria-label': 'Answers' }, h('h2', null, 'Answer'), output))
	fill(output, h('p', { class: 'muted' }, 'Send streams the answer of the gateway. Show what goes up costs nothing: it shows the merged request, and where each field comes from.'))
	return { element }
}

/** @param {string} ref */
function nameOf(ref) {
	return ref === '' ? 'live' : /^\d+$/.test(ref) ? `v${ref}` : ref
}

/**
 * dryRunOf shows a merged request. Each field says where it comes from.
 *
 * @param {DryRun} result
 */
function dryRunOf(result) {
	/** @type {Node} */
	let fields
	try {
		const root = parse(result.body)
		fields = h('table', { class: 'settings sources', 'aria-label': 'Fields of the request' }, h('tbody', null, root.members.map((member) => {
			const source = result.fields[member.name]
			const from = source?.from ?? 'request'
			return h('tr', { class: `from-${from}` },
				h('th', { scope: 'row' }, h('code', null, user(member.name)), h('span', { class: 'source' }, from === 'preset' ? `preset v${source.version}` : from)),
				h('td', null, h('code', { dir: 'auto' }, format(result.body, member.value))))
		})))
	} catch {
		fields = h('pre', { tabindex: '0' }, result.body)
	}
	return h('div', null,
		h('p', { class: 'section' }, h('code', null, `${result.method} ${result.path}`), button('Copy the body', () => copy(result.body), { class: 'small' })),
		fields,
		result.dropped.length > 0 && h('p', { class: 'note' }, 'Left out, because the gateway does not know them: ', result.dropped.map((name, i) => [i > 0 && ', ', h('code', null, user(name))]).flat()))
}

/**
 * showAnswer streams an answer into a place, until it ends or is stopped.
 *
 * @param {HTMLElement} place
 * @param {string} name
 * @param {string} path
 * @param {string} body
 * @param {string} secret
 * @param {AbortSignal} signal
 */
async function showAnswer(place, name, path, body, secret, signal) {
	const begun = performance.now()
	const facts = h('p', { class: 'muted number facts-line' }, 'Waiting for the gateway…')
	const thoughts = h('pre', { class: 'thoughts', 'aria-label': 'Reasoning', dir: 'auto' })
	const answer = h('pre', { class: 'answer', tabindex: '0', role: 'region', 'aria-label': `Answer of ${name}, text`, dir: 'auto' })
	const problem = h('div')
	const details = h('details', { hidden: true }, h('summary', null, 'Reasoning'), thoughts)
	fill(place, facts, details, answer, problem)
	let first = 0, served = '', usage = '', state = 'streaming'
	const showFacts = () => fill(facts, [
		served && user(served),
		first > 0 && `first byte ${seconds(first - begun)}`,
		state === 'streaming' ? undefined : `total ${seconds(performance.now() - begun)}`,
		usage, state === 'streaming' ? 'streaming…' : state,
	].filter(Boolean).flatMap((fact, i) => (i > 0 ? [' · ', fact] : [fact])).map((fact) => fact || ''))
	/** @param {Element} box @param {string} text */
	const append = (box, text) => {
		const follows = box.scrollTop + box.clientHeight >= box.scrollHeight - 24
		box.append(document.createTextNode(text))
		if (follows) {
			box.scrollTop = box.scrollHeight
		}
	}
	const arrived = () => {
		if (first === 0) {
			first = performance.now()
			showFacts()
		}
	}
	try {
		const response = await api.ask('POST', path, { key: secret, body, signal })
		served = response.headers.get('X-Preset') ?? ''
		if (!response.ok) {
			state = `status ${response.status}`
			arrived()
			fill(problem, errorBox(await api.readFailure(response)))
		} else if (!response.body || !(response.headers.get('Content-Type') ?? '').includes('event-stream')) {
			const text = await response.text()
			arrived()
			const found = wholeText(text)
			append(answer, found?.text ?? text)
			usage = found?.usage ?? ''
			state = found ? 'not streamed' : 'not streamed, shown as it came'
		} else {
			let failure = ''
			for await (const data of events(response.body, arrived)) {
				const piece = pieceOf(data)
				if (piece.thought !== '') {
					details.hidden = false
					append(thoughts, piece.thought)
				}
				if (piece.text !== '') {
					append(answer, piece.text)
				}
				usage = piece.usage || usage
				failure = piece.failure || failure
			}
			state = failure ? 'failed' : 'complete'
			if (failure) {
				fill(problem, errorBox(api.newFailure(failure, { status: 502 })))
			}
		}
	} catch (thrown) {
		if (signal.aborted) {
			state = 'stopped'
		} else {
			state = 'failed'
			fill(problem, errorBox('status' in /** @type {object} */ (thrown) ? thrown : api.newFailure('The connection ended before the answer was complete.')))
		}
	}
	showFacts()
	say(`Answer of ${name}: ${state}, after ${seconds(performance.now() - begun)}.`)
}

/** @param {number} milliseconds */
function seconds(milliseconds) {
	return milliseconds < 1000 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(2)} s`
}
