// The settings of a version as fields. The JSON text stays what counts: each field reads a value
// of it, and writes it back. All other values keep their bytes.

import { button, code, field, fill, h, setWrong, textInput, user } from './elements.js'
import { openDialog } from './dialogs.js'
import { compact, format, parse, parseAs, raw, valueAt, withValue } from './json.js'
import { pickModel } from './models.js'

const number = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/

// Where the dialects have what the fields show. The first place is that of a new value.
/** @type {Record<Dialect, Record<string, string[][]>>} */
const places = {
	chat: { tokens: [['max_tokens'], ['max_completion_tokens']], effort: [['reasoning_effort'], ['reasoning', 'effort']], format: [['response_format']] },
	responses: { tokens: [['max_output_tokens']], effort: [['reasoning', 'effort']], format: [['text', 'format']] },
	messages: { tokens: [['max_tokens']], effort: [['output_config', 'effort']], format: [['output_config', 'format']] },
}
const efforts = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max']

/**
 * Makes the fields. text returns the settings, and write takes their next text.
 * @param {() => Dialect} dialect @param {() => string} text @param {(text: string) => void} write @param {(name: string) => void} openJSON shows a member as JSON
 */
export function settingsFields(dialect, text, write, openJSON) {
	const at = (/** @type {string} */ name) => {
		const value = parse(text()), all = places[dialect()][name]
		return all.find((path) => valueAt(value, path)) ?? all[0]
	}
	/** @param {string[]} path @param {string} value */
	const set = (path, value) => write(format(parse(withValue(text(), path, value))))
	const textAt = (/** @type {string[]} */ path) => {
		const value = valueAt(parse(text()), path)
		return value?.kind === 'string' ? String(JSON.parse(raw(value))) : value ? raw(value) : ''
	}
	/** A field for a number. It is as it is written. @param {string} name @param {() => string[]} path @param {Properties} more */
	const numberField = (name, path, more) => {
		const input = textInput({ autocapitalize: null, ...more, oninput: () => {
			const value = input.value.trim(), isRight = value === '' || number.test(value)
			setWrong(input, isRight ? '' : 'must be a number')
			isRight && set(path(), value)
		} })
		return { name, input, read: () => {
			input.value = textAt(path())
			setWrong(input)
		} }
	}
	const model = textInput({ placeholder: 'provider/model', oninput: () => set(['model'], model.value.trim() && JSON.stringify(model.value.trim())) })
	const about = h('p', { class: 'hint' }), modelField = field('Model', model)
	const picker = pickModel(model, about, () => set(['model'], model.value && JSON.stringify(model.value)))
	modelField.append(about, picker.list)
	modelField.classList.add('model')
	const numbers = [
		numberField('Temperature', () => ['temperature'], { inputmode: 'decimal', placeholder: 'default' }),
		numberField('Most tokens', () => at('tokens'), { inputmode: 'numeric', placeholder: 'default' }),
	]
	const effort = h('select', { onchange: () => set(at('effort'), effort.value && JSON.stringify(effort.value)) })
	const kinds = h('select', { onchange: () => {
		const path = at('format'), before = valueAt(parse(text()), path)
		set(path, kinds.value === '' ? '' : kinds.value !== 'json_schema' ? `{"type":${JSON.stringify(kinds.value)}}` : newSchema(dialect()))
		kinds.value === 'json_schema' && openSchema(before ? raw(before) : '')
		read()
	} })
	const schema = button('Schema', () => openSchema(), { class: 'small', 'data-key': 'schema' })
	const formatField = field('Response format', kinds)
	formatField.append(schema)
	/** Shows the schema, to edit it. A format of before comes back with Cancel. @param {string} [before] */
	const openSchema = (before) => {
		const path = at('format'), value = valueAt(parse(text()), path)
		editJSON('Response format', 'JSON, with the schema of the answer.', value ? format(value) : '{}', 'object', (next) => set(path, next), before === undefined ? undefined : () => set(path, before))
	}
	const tools = h('div', { class: 'tool-cards' }), toolsButton = h('summary', { 'data-key': 'tools' })
	const toolBox = h('details', { class: 'tools' }, toolsButton, tools)
	const toolItems = () => valueAt(parse(text()), ['tools'])?.items ?? []
	/** @param {string[]} items */
	const setTools = (items) => {
		set(['tools'], items.length > 0 ? `[${items.join(',')}]` : '')
		read()
	}
	/** @param {number} index -1 for a new one */
	const editTool = (index) => {
		const items = toolItems().map(raw), old = toolItems()[index]
		editTheTool(dialect(), old, (next) => setTools(index < 0 ? [...items, next] : items.with(index, next)), index < 0 ? undefined : () => setTools(items.toSpliced(index, 1)))
	}
	const others = h('p', { class: 'other-settings' })
	const read = () => {
		model.value = textAt(['model'])
		picker.show()
		numbers.forEach((one) => one.read())
		for (const [select, path, all] of /** @type {const} */ ([[effort, at('effort'), efforts], [kinds, [...at('format'), 'type'], dialect() === 'messages' ? ['json_schema'] : ['text', 'json_object', 'json_schema']]])) {
			const value = textAt([...path])
			fill(select, ['', ...all, ...(value && !all.includes(value) ? [value] : [])].map((one) => h('option', { value: one }, one.replace('_', ' ') || 'default')))
			select.value = value
		}
		schema.hidden = kinds.value !== 'json_schema'
		const items = toolItems()
		fill(toolsButton, items.length === 0 ? 'No tools' : items.length === 1 ? '1 tool' : `${items.length} tools`)
		fill(tools, items.map((tool, i) => toolCard(tool, () => editTool(i))), button('Add a tool', () => editTool(-1), { class: 'small', 'data-key': 'add-tool' }))
		const shown = new Set(['model', 'temperature', 'tools', ...['tokens', 'effort', 'format'].map((name) => at(name)[0])])
		const rest = parse(text()).members.filter(({ name }) => !shown.has(name))
		fill(others, rest.map(({ name, value }) => h('button', { type: 'button', class: 'chip', title: 'Edit as JSON', onclick: () => openJSON(name) }, h('span', { class: 'muted' }, user(name)), ' ', code(shortOf(value)))))
		others.hidden = rest.length === 0
	}
	return {
		element: h('div', { class: 'settings-fields' }, modelField, numbers.map(({ name, input }) => field(name, input)), field('Reasoning effort', effort), formatField, h('div', { class: 'more-settings' }, toolBox, others)),
		read, showModel: picker.show, isWrong: () => numbers.some(({ input }) => input.hasAttribute('aria-invalid')),
	}
}

/** @param {JSONValue} value */
function shortOf(value) {
	const text = compact(value, ' ')
	return text.length > 40 ? `${text.slice(0, 39)}…` : text
}

/** @param {Dialect} dialect */
const newSchema = (dialect) => ({
	chat: '{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":{"type":"object","properties":{},"required":[],"additionalProperties":false}}}',
	responses: '{"type":"json_schema","name":"answer","strict":true,"schema":{"type":"object","properties":{},"required":[],"additionalProperties":false}}',
	messages: '{"type":"json_schema","schema":{"type":"object","properties":{},"required":[],"additionalProperties":false}}',
})[dialect]

/** @param {JSONValue} tool @param {string} name */
const memberText = (tool, name) => {
	const value = valueAt(tool, ['function', name]) ?? valueAt(tool, [name])
	return value?.kind === 'string' ? String(JSON.parse(raw(value))) : ''
}

/** @param {JSONValue} tool @param {() => void} edit */
function toolCard(tool, edit) {
	const name = memberText(tool, 'name') || memberText(tool, 'type') || 'tool'
	const parameters = valueAt(tool, ['function', 'parameters', 'properties']) ?? valueAt(tool, ['parameters', 'properties']) ?? valueAt(tool, ['input_schema', 'properties'])
	return h('button', { type: 'button', class: 'tool-card', onclick: edit, 'data-key': `tool-${name}` },
		h('strong', { class: 'mono' }, user(name)),
		h('span', { class: 'muted' }, user(memberText(tool, 'description') || 'no description')),
		h('span', { class: 'muted mono' }, user((parameters?.members ?? []).map((member) => member.name).join(', '))))
}

/**
 * @param {string} name @param {string} hint @param {string} value @param {'object' | 'array'} kind @param {(next: string) => void} save
 * @param {() => void} [cancel]
 */
function editJSON(name, hint, value, kind, save, cancel) {
	let isSaved = false
	const area = h('textarea', { value, rows: 16, spellcheck: 'false', class: 'mono', autofocus: true })
	const { close } = openDialog(name, name, [field('JSON', area, hint)], {
		style: 'wide', actions: [h('button', { type: 'submit', class: 'primary' }, 'Done')], onClose: () => isSaved || cancel?.(),
		submit: () => {
			const { problem } = parseAs(area.value, kind)
			setWrong(area, problem)
			if (!problem) {
				isSaved = true
				save(area.value)
				area.value = value
				close()
			}
		},
	})
}

/**
 * Edits a tool: a function as fields, and any other as JSON.
 * @param {Dialect} dialect @param {JSONValue | undefined} old @param {(next: string) => void} save @param {(() => void) | undefined} remove
 */
function editTheTool(dialect, old, save, remove) {
	const isFunction = !old || valueAt(old, ['function']) || valueAt(old, ['parameters']) || valueAt(old, ['input_schema'])
	const inside = dialect === 'chat' ? ['function'] : [], schemaName = dialect === 'messages' ? 'input_schema' : 'parameters'
	const before = old ? raw(old) : dialect === 'chat' ? '{"type":"function","function":{}}' : dialect === 'responses' ? '{"type":"function"}' : '{}'
	const schemaValue = old && valueAt(old, [...inside, schemaName])
	const name = textInput({ value: old ? memberText(old, 'name') : '', maxlength: 64, autofocus: true })
	const description = h('textarea', { value: old ? memberText(old, 'description') : '', rows: 2, dir: 'auto' })
	const whole = isFunction ? schemaValue ? format(schemaValue) : '{\n  "type": "object",\n  "properties": {}\n}' : format(parse(before))
	const parameters = h('textarea', { value: whole, rows: 12, spellcheck: 'false', class: 'mono' })
	const { close } = openDialog('Tool', old ? 'Tool' : 'New tool', [
		...(isFunction ? [field('Name', name), field('Description', description, 'The model reads it to decide when to call.')] : []),
		field(isFunction ? 'Parameters' : 'JSON', parameters, isFunction ? 'A JSON Schema.' : ''),
	], {
		style: 'wide', isDisposable: false,
		actions: [...(remove ? [button('Remove', () => {
			remove()
			dialogDone()
		}, { class: 'quiet' })] : []), h('button', { type: 'submit', class: 'primary' }, 'Done')],
		submit: () => {
			const { problem } = parseAs(parameters.value)
			setWrong(parameters, problem)
			setWrong(name, !isFunction || /^[\w-]{1,64}$/.test(name.value) ? '' : 'has 1 to 64 letters, digits, _ and -')
			if (problem || name.hasAttribute('aria-invalid')) {
				return
			}
			let next = isFunction ? before : parameters.value
			if (isFunction) {
				for (const [member, value] of [['name', JSON.stringify(name.value)], ['description', description.value && JSON.stringify(description.value)], [schemaName, parameters.value]]) {
					next = withValue(next, [...inside, member], value)
				}
			}
			save(next)
			dialogDone()
		},
	})
	const dialogDone = () => close()
}
