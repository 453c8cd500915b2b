// Saved inputs of a preset: chosen for a trial, and as the rows of a grid whose columns are versions.

import { presetPath } from './addresses.js'
import { button, choice, field, fill, h, textInput, user } from './elements.js'
import * as api from './api.js'
import * as session from './session.js'
import { dollars, keyOffer, run, streaming, thumbs, timeText } from './trial.js'
import { messagesOf, routes, turnsOf } from './capture.js'
import { readTemplates, refName, standsFor, targetChoices, unsaved } from './target.js'
import { failed } from './conflict.js'
import { download } from './copy.js'
import { ask, openDialog } from './dialogs.js'
import { visible } from './invisible.js'
import { changeReason } from './rights.js'
import { errorBox, readUntilDone } from './states.js'
import { say } from './status.js'

const atOnce = 4 // requests of a grid
const mostColumns = 4
/** @param {Input} input @returns {Partial<Trial>} */
function trialOf({ dialect, messages, input, variables }) {
	/** @param {any} value */
	const variableOf = (value) => (typeof value === 'string' ? { kind: value === '' ? 'empty text' : 'text', text: value }
		: { kind: value.image_url ? 'image address' : 'file address', text: value.image_url ?? value.file_url ?? '' })
	return { dialect, turns: turnsOf(messages ?? input ?? [], dialect), variables: Object.fromEntries(Object.entries(variables ?? {}).map(([name, value]) => [name, variableOf(value)])) }
}

/** The last thing that an input says, or its variables. @param {Input} input */
function textOf(input) {
	const { turns, variables } = trialOf(input)
	return turns?.findLast(({ text }) => text)?.text ?? Object.values(variables ?? {}).map(({ text }) => text).join(', ')
}

/** @param {Trial} trial @param {Dialect} dialect */
function inputOf({ turns, variables }, dialect) {
	const messages = messagesOf(turns.filter(({ text, calls, role }) => text !== '' || calls || role === 'tool'), dialect)
	/** @param {{ kind: string, text: string }} variable */
	const valueOf = ({ kind, text }) => (kind === 'image address' ? { type: 'input_image', image_url: text.trim() } : kind === 'file address' ? { type: 'input_file', file_url: text.trim() } : kind === 'empty text' ? '' : text)
	const values = Object.entries(variables).filter(([, { kind, text }]) => kind === 'empty text' || text !== '')
	return {
		dialect, [dialect === 'responses' ? 'input' : 'messages']: messages.length > 0 ? messages : null,
		variables: values.length > 0 ? Object.fromEntries(values.map(([name, variable]) => [name, valueOf(variable)])) : null,
	}
}

/**
 * Makes the choice of an input, and the buttons that save one and show the grid.
 * @param {Context} context @param {() => PresetAnswer} preset @param {Draft} draft @param {ReturnType<MakeTrial>} trial
 */
export function savedInputs(context, preset, draft, trial) {
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
		const input = inputs.find(({ id }) => id === chosen.value), before = trial.read()
		if (input) {
			trial.show({ ...trialOf(input), second: before.second, more: before.more })
			before.turns.some(({ text }) => text !== '') && say(`The input ${input.name} is shown.`, { name: 'Undo', run: () => {
				chosen.value = ''
				trial.show(before)
			} })
		}
	})
	const save = () => {
		const before = inputs.find(({ id }) => id === chosen.value)
		const name = textInput({ value: before?.name ?? '', maxlength: 100, autofocus: true }), notes = h('textarea', { value: before?.notes ?? '', rows: 3, maxlength: 2000, dir: 'auto' })
		ask(context, 'Save input', 'Save the input', [field('Name', name, before ? 'Under another name it is a new input.' : 'Such as: refund, angry.'), field('Notes', notes, 'What a good answer has.')], async () => {
			const same = inputs.find((one) => one.name === name.value.trim()), trialNow = trial.read()
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
	return h('div', { class: 'inputs' }, field('Input', chosen), session.mayChange() && button('Save', save, { 'aria-label': 'Save input', 'data-key': 'save-input', disabled: changeReason(at, preset().data) !== '' }), grid)
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
	const table = h('div', { class: 'wide-box sheet-box', tabindex: 0, role: 'region', 'aria-label': 'Answers of the inputs' }), place = h('div')
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
			fill(cell, h('span', { class: 'muted' }, '–'))
		} else if (result instanceof Error) {
			fill(cell, errorBox(result))
		} else {
			const base = results.get(keyOf(input, columns[0]))
			const isSame = ref !== columns[0] && base && !(base instanceof Error) && base.text === result.text && result.total > 0
			fill(cell,
				result.failure ? errorBox(result.failure) : h('pre', { class: 'cell-text', dir: 'auto' }, visible(result.text), result.calls.map((call) => h('span', { class: 'part' }, h('strong', null, user(call.name)), ' ', user(call.arguments)))),
				h('p', { class: 'muted small number' }, [result.state, result.total > 0 && timeText(result.total), result.used.output !== undefined && `${result.used.output} tokens`, result.cost !== null && dollars(result.cost), isSame && `same as ${nameOf(columns[0])}`].filter(Boolean).join(' · ')),
				result.requestId && result.total > 0 && !result.failure && thumbs(at, result))
		}
	}
	const draw = () => {
		cells.clear()
		fill(table, h('table', { class: 'grid', 'aria-label': 'Inputs and versions' },
			h('thead', null, h('tr', null, h('th', { scope: 'col' }, `${inputs().length} inputs`), columns.map((ref, i) => h('th', { scope: 'col' }, i === 0 ? h('strong', null, user(nameOf(ref))) : columnChoice(i), i > 0 && columns.length > 2 && button('Take out', () => {
				columns.splice(i, 1)
				draw()
			}, { class: 'small quiet', 'aria-label': `Take out ${nameOf(ref)}` }))))),
			h('tbody', null, inputs().map((input) => h('tr', null,
				h('th', { scope: 'row' }, h('strong', null, user(input.name)), h('p', { class: 'small clamped' }, user(textOf(input))), input.notes && h('p', { class: 'muted small clamped' }, user(input.notes)),
					h('p', { class: 'actions' }, button('Run', () => runCells(columns.map((ref) => [input, ref])), { class: 'small', 'aria-label': `Run ${input.name}` }),
						session.mayChange() && button('Delete', () => remove(input), { class: 'small quiet', 'aria-label': `Delete ${input.name}` }))),
				columns.map((ref) => {
					const cell = h('td', null)
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
			say(`The input ${name} is deleted.`, { name: 'Undo', run: () => api.change('POST', presetPath(at, 'inputs'), body).then(() => setTimeout(draw, 300), failed) })
			setTimeout(draw, 300)
		} catch (thrown) {
			failed(thrown)
		}
	}
	/** Runs cells, a few at once. @param {[Input, string][]} all */
	const runCells = async (all) => {
		const key = session.inferenceKey()
		if (!key) {
			fill(place, h('div', { class: 'note' }, 'Enter an inference key beside the trial first. The gateway takes no management key.', keyOffer(context, () => runCells(all))))
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
					done(await (ref === unsaved
						? run(presetPath(at, 'try', { template: draft.isTemplate() ? 'true' : '' }), { body: `{"dialect":"${dialect}","version":${draft.body()},"request":${request}}`, headers: { 'X-Inference-Key': key }, signal: mine.signal }, heard)
						: run(`/${routes[dialect]}`, { body: request, key, signal: mine.signal }, heard)))
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
	const rowsOf = () => inputs().map((input) => ({ input, of: columns.map((ref) => /** @type {const} */ ([nameOf(ref), results.get(keyOf(input, ref))])) }))
	const exportCSV = () => {
		const quote = (/** @type {unknown} */ value) => `"${String(value ?? '').replace(/^[=+@-]/, "'$&").replaceAll('"', '""')}"`
		const lines = [['input', 'version', 'state', 'answer', 'total_ms', 'input_tokens', 'output_tokens', 'cost']]
		for (const { input, of } of rowsOf()) {
			for (const [name, result] of of) {
				if (result && !(result instanceof Error)) {
					lines.push([input.name, name, result.state, result.text, Math.round(result.total), result.used.input, result.used.output, result.cost].map((value) => String(value ?? '')))
				}
			}
		}
		download(`${at.slug}-inputs.csv`, lines.map((line) => line.map(quote).join(',')).join('\r\n'), 'text/csv')
	}
	const exportJSON = () => download(`${at.slug}-inputs.json`, JSON.stringify(rowsOf().map(({ input, of }) => ({
		input: input.name, answers: Object.fromEntries(of.flatMap(([name, result]) => (result && !(result instanceof Error) ? [[name, {
			state: result.state, text: result.text, tool_calls: result.calls, total_ms: Math.round(result.total), first_text_ms: Math.round(result.firstText), usage: result.used, cost: result.cost,
		}]] : []))),
	})), null, 2), 'application/json')
	const stop = button('Stop', () => running.abort(), { disabled: true })
	const add = button('Add a column', () => {
		columns.push('')
		draw()
	}, { class: 'small' })
	openDialog('Grid', `${at.slug}: inputs and versions`, [
		h('div', { class: 'actions' }, button('Run all', () => runCells(inputs().flatMap((input) => columns.map((ref) => /** @type {[Input, string]} */ ([input, ref])))), { class: 'primary', 'data-key': 'run-all' }), stop, add, h('span', { class: 'gap' }),
			button('CSV', exportCSV, { class: 'small', 'aria-label': 'Export as CSV' }), button('JSON', exportJSON, { class: 'small', 'aria-label': 'Export as JSON' })),
		place, table,
	], { style: 'full', signal: context.signal, onClose: () => running.abort() })
	draw()
}
