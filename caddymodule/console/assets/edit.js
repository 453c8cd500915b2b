// The workbench, with the fields and the editors of a version.

import { dropEdits, go, presetPath, replace, setGuard, settingsOf, toPreset } from './addresses.js'
import { button, choice, code, field, fill, h, setWrong, shortcut, small, textInput, user, visible, warning } from './elements.js'
import * as api from './api.js'
import * as session from './session.js'
import { check, compact, find, format, keepLineBreaks, lineOf, parse, parseAs, placeOf, raw, readTemplate, requestOf, routes, valueAt, variableNames, variablesOf, withValue } from './dialects.js'
import { isLabelRight } from './labels.js'
import { pickModel } from './models.js'
import { changeReason, designate, differences, labelReason, pinned, presetFrame, putLive, queryOf, readSide, refOf, serveReason, targetChoices, versionOf } from './preset.js'
import { ask, attempt, changesOf, conflict, errorBox, failed, load, openDialog, say } from './states.js'
import { savedInputs, trial } from './trial.js'

// The settings of a version as fields. The JSON text stays what counts: each field reads a value
// of it, and writes it back. All other values keep their bytes.

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
function settingsFields(dialect, text, write, openJSON) {
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
	const about = h('p.hint'), modelField = field('Model', model)
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
	const schema = small('Schema', () => openSchema(), { 'data-key': 'schema' })
	const formatField = field('Response format', kinds)
	formatField.append(schema)
	/** Shows the schema, to edit it. A format of before comes back with Cancel. @param {string} [before] */
	const openSchema = (before) => {
		const path = at('format'), value = valueAt(parse(text()), path)
		editJSON('Response format', 'JSON, with the schema of the answer.', value ? format(value) : '{}', 'object', (next) => set(path, next), before === undefined ? undefined : () => set(path, before))
	}
	const tools = h('div.tool-cards'), toolsButton = h('summary', { 'data-key': 'tools' })
	const toolBox = h('details.tools', toolsButton, tools)
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
	const others = h('p.other-settings')
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
		fill(tools, items.map((tool, i) => toolCard(tool, () => editTool(i))), small('Add a tool', () => editTool(-1), { 'data-key': 'add-tool' }))
		const shown = new Set(['model', 'temperature', 'tools', ...['tokens', 'effort', 'format'].map((name) => at(name)[0])])
		const rest = parse(text()).members.filter(({ name }) => !shown.has(name))
		fill(others, rest.map(({ name, value }) => h('button.chip', { type: 'button', title: 'Edit as JSON', onclick: () => openJSON(name) }, h('span.muted', user(name)), ' ', code(shortOf(value)))))
		others.hidden = rest.length === 0
	}
	return {
		element: h('div.settings-fields', modelField, numbers.map(({ name, input }) => field(name, input)), field('Reasoning effort', effort), formatField, h('div.more-settings', toolBox, others)),
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
	return h('button.tool-card', { type: 'button', onclick: edit, 'data-key': `tool-${name}` },
		h('strong.mono', user(name)),
		h('span.muted', user(memberText(tool, 'description') || 'no description')),
		h('span.muted.mono', user((parameters?.members ?? []).map((member) => member.name).join(', '))))
}

/**
 * @param {string} name @param {string} hint @param {string} value @param {'object' | 'array'} kind @param {(next: string) => void} save
 * @param {() => void} [cancel]
 */
function editJSON(name, hint, value, kind, save, cancel) {
	let isSaved = false
	const area = h('textarea.mono', { value, rows: 16, spellcheck: 'false', autofocus: true })
	const { close } = openDialog(name, name, [field('JSON', area, hint)], {
		style: 'wide', actions: [h('button.primary', { type: 'submit' }, 'Done')], onClose: () => isSaved || cancel?.(),
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
	const parameters = h('textarea.mono', { value: whole, rows: 12, spellcheck: 'false' })
	const { close } = openDialog('Tool', old ? 'Tool' : 'New tool', [
		...(isFunction ? [field('Name', name), field('Description', description, 'The model reads it to decide when to call.')] : []),
		field(isFunction ? 'Parameters' : 'JSON', parameters, isFunction ? 'A JSON Schema.' : ''),
	], {
		style: 'wide', isDisposable: false,
		actions: [...(remove ? [button('Remove', () => {
			remove()
			dialogDone()
		}, { class: 'quiet' })] : []), h('button.primary', { type: 'submit' }, 'Done')],
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

// A text field with line numbers, colours, a search, and notes beside its lines. A mirror of the
// text lies behind the field: it has its size, and shows all but the text itself.

const mostLines = 5000 // beyond, lines have neither numbers nor colours

/** @type {MakeTextEditor} */
function textEditor(value, colour, changed) {
	const area = h('textarea', { value, rows: 1, spellcheck: 'false', autocomplete: 'off', autocapitalize: 'off', dir: 'auto' })
	const mirror = h('div.mirror', { 'aria-hidden': 'true' })
	const sheet = h('div.text-editor', h('div.sheet', mirror))
	/** @type {string[]} */
	let lines = []
	/** @type {Problem[]} */
	let notes = []
	let isColoured = true
	/** @param {string} line */
	const partsOf = (line) => (isColoured && colour ? colour(line) : [line]).flatMap((part) => (typeof part === 'string' ? marked(part) : h('span', { class: part[0] }, marked(part[1]))))

	/** Draws the lines that differ from those drawn before. */
	const draw = () => {
		const next = area.value.split('\n'), isLong = next.length > mostLines
		mirror.classList.toggle('plain', isLong)
		if (isLong) {
			lines = []
			fill(mirror, `${area.value}\n`)
			return
		}
		if (lines.length === 0) {
			fill(mirror)
		}
		let first = 0, last = 0
		while (first < Math.min(lines.length, next.length) && lines[first] === next[first]) {
			first++
		}
		while (last < Math.min(lines.length, next.length) - first && lines[lines.length - 1 - last] === next[next.length - 1 - last]) {
			last++
		}
		const after = mirror.children[lines.length - last] ?? null, shared = Math.min(lines.length, next.length) - first - last
		for (let i = first; i < first + shared; i++) { // which is cheaper than another element
			fill(mirror.children[i], partsOf(next[i]))
		}
		for (let i = lines.length - last - 1; i >= first + shared; i--) {
			mirror.children[i].remove()
		}
		const rows = document.createDocumentFragment()
		rows.append(...next.slice(first + shared, next.length - last).map((line) => h('div', partsOf(line))))
		mirror.insertBefore(rows, after)
		lines = next
	}
	const redraw = () => {
		lines = []
		draw()
		drawNotes()
	}
	const drawNotes = () => {
		mirror.querySelectorAll('.note-beside').forEach((note) => note.remove())
		mirror.querySelectorAll('.bad-line').forEach((row) => row.classList.remove('bad-line'))
		for (const { line, message, isWarning } of notes) {
			const row = mirror.children[line - 1]
			row?.classList.toggle('bad-line', !isWarning)
			row?.append(h('span', { class: `note-beside ${isWarning ? 'warning' : ''}` }, message))
		}
	}
	/** Shows a part of the text, as if someone had scrolled to it. @param {number} start @param {number} end */
	const reveal = (start, end) => {
		area.setSelectionRange(start, end)
		const row = mirror.children[area.value.slice(0, start).split('\n').length - 1]
		if (row instanceof HTMLElement) {
			sheet.scrollTop = Math.min(Math.max(sheet.scrollTop, row.offsetTop + row.offsetHeight - sheet.clientHeight + 60), Math.max(0, row.offsetTop - 60))
		}
	}
	area.addEventListener('input', () => {
		notes = []
		drawNotes()
		draw()
		changed()
	})
	draw()
	const search = searchBar(area, mirror, reveal)
	sheet.addEventListener('keydown', (event) => {
		if ((event.ctrlKey || event.metaKey) && event.key === 'f') {
			event.preventDefault()
			search.open()
		}
	})
	return {
		area, search: search.element, find: search.open,
		/** Puts the editor where field has put its text field. */
		takeFrom: (place) => {
			place.classList.add('bare')
			place.replaceChild(sheet, area)
			sheet.firstElementChild?.append(area)
		},
		setNotes: (next) => {
			notes = next
			drawNotes()
		},
		setValue: (text) => {
			area.value = text
			notes = []
			redraw()
		},
		setColoured: (is) => {
			isColoured = is
			sheet.classList.toggle('coloured', is && colour !== undefined)
			redraw()
		},
		showLine: (line) => {
			const start = area.value.split('\n').slice(0, line - 1).reduce((sum, { length }) => sum + length + 1, 0)
			area.focus()
			reveal(start, start + (area.value.split('\n')[line - 1] ?? '').length)
		},
	}
}

/** Marks what cannot be seen, in place of the boxes, which have a width. @param {string} text @returns {Child[]} */
const marked = (text) => visible(text).map((one) => (typeof one === 'string' ? one : h('span.hidden-mark', one.textContent)))

/** @param {HTMLTextAreaElement} area @param {Element} mirror @param {(start: number, end: number) => void} reveal */
function searchBar(area, mirror, reveal) {
	const input = textInput({ type: 'search', 'aria-label': 'Find in the text', placeholder: 'Find' }), count = h('span.muted.small.number', { role: 'status' })
	let at = -1
	const found = () => {
		const text = area.value.toLowerCase(), sought = input.value.toLowerCase()
		/** @type {number[]} */
		const all = []
		for (let i = sought ? text.indexOf(sought) : -1; i >= 0 && all.length < 1000; i = text.indexOf(sought, i + sought.length)) {
			all.push(i)
		}
		return all
	}
	/** Makes a range of the mirror from a place in the text. @param {number} start @param {number} length */
	const rangeOf = (start, length) => {
		const before = area.value.slice(0, start).split('\n'), row = mirror.children[before.length - 1]
		const range = document.createRange()
		let from = before[before.length - 1].length, to = from + length
		if (!row) {
			return range
		}
		const texts = document.createTreeWalker(row, NodeFilter.SHOW_TEXT)
		for (let hasBegun = false, node = texts.nextNode(); node; node = texts.nextNode()) {
			const size = node.nodeValue?.length ?? 0
			if (!hasBegun && from <= size) {
				range.setStart(node, from)
				hasBegun = true
			}
			if (to <= size) {
				range.setEnd(node, to)
				break
			}
			from -= size
			to -= size
		}
		return range
	}
	const mark = (/** @type {number[]} */ all) => {
		CSS.highlights?.set('found', new Highlight(...all.map((start) => rangeOf(start, input.value.length))))
		CSS.highlights?.set('found-now', new Highlight(...(all[at] === undefined ? [] : [rangeOf(all[at], input.value.length)])))
		count.textContent = input.value === '' ? '' : all.length === 0 ? 'none' : `${at + 1} of ${all.length}`
	}
	/** @param {number} by */
	const step = (by) => {
		const all = found()
		at = all.length === 0 ? -1 : (at + by + all.length) % all.length
		if (at >= 0) {
			reveal(all[at], all[at] + input.value.length)
		}
		mark(all)
	}
	const close = () => {
		element.hidden = true
		CSS.highlights?.clear()
		area.focus()
	}
	input.addEventListener('input', () => {
		at = -1
		step(1)
	})
	input.addEventListener('keydown', (event) => {
		if (event.key === 'Enter') {
			step(event.shiftKey ? -1 : 1)
		} else if (event.key === 'Escape') {
			close()
		} else {
			return
		}
		event.preventDefault()
		event.stopPropagation()
	})
	const element = h('div.search-bar', { hidden: true }, input, count, small('Previous', () => step(-1)), small('Next', () => step(1)), button('Close', close, { class: 'small quiet' }))
	return {
		element,
		open: () => {
			const { selectionStart: start, selectionEnd: end, value } = area
			element.hidden = false
			if (end > start && !value.slice(start, end).includes('\n')) {
				input.value = value.slice(start, end)
			}
			input.focus()
			input.select()
			at = -1
			input.value && step(1)
		},
	}
}

/** Splits a line by a pattern, whose first named group that matched is the class. @param {RegExp} pattern @returns {Colour} */
const colourBy = (pattern) => (line) => {
	/** @type {(string | [string, string])[]} */
	const parts = []
	let end = 0
	for (const { 0: text, index, groups } of line.length > 20000 ? [] : line.matchAll(pattern)) {
		const [name] = Object.entries(groups ?? {}).find(([, value]) => value !== undefined) ?? ['']
		parts.push(line.slice(end, index), [`c-${name}`, text])
		end = index + text.length
	}
	return [...parts, line.slice(end)]
}

/** Colours Markdown, tags and variables. */
const colourMarkdown = colourBy(/(?<variable>\{\{[^{}]*\}\})|(?<head>^#{1,6} [^{]*)|(?<mark>^ *(?:[-*+]|\d+[.)]) |^>+ ?|^```.*|<\/?[\w-]+>)|(?<code>`[^`]+`)|(?<bold>\*\*[^*{]+\*\*)/g)

/** Colours JSON. */
const colourJSON = colourBy(/(?<name>"(?:[^"\\]|\\.)*"(?=\s*:))|(?<code>"(?:[^"\\]|\\.)*"?)|(?<variable>-?\b\d[\d.eE+-]*)|(?<mark>\b(?:true|false|null)\b)/g)

// The workbench: a version is written on the left, tried unsaved on the right, and saved or put live.

const nothing = { name: 'nothing', version: 0, prompt: null, settings: '{}', template: '{}' }
const firstSettings = '{"model": "openai/gpt-5-mini", "temperature": 0.7}'
const storedPlain = 'presets.plain'

/** @type {MakeView} */
export function editView(context) {
	const { at, signal, address } = context
	return presetFrame(context, 'edit', 'Workbench', (preset, select) => {
		const place = h('div'), actions = h('div.actions')
		/** @type {PresetBody['update']} */
		let update
		const ref = refOf(address)
		load(place, signal, async () => {
			const body = workbench(context, preset, await readSide(at, versionOf(preset.data, ref), signal), ref, actions, select)
			update = body.update
			return body.element
		})
		return { element: place, actions: [actions], update: (next) => update?.(next) }
	}, () => {
		const actions = h('div.actions')
		return { ...workbench(context, undefined, { ...nothing, settings: firstSettings, dialect: 'chat' }, '', actions, () => {}), actions: [actions] }
	})
}

/**
 * @param {Context} context
 * @param {PresetAnswer | undefined} preset as it was when the edit began, or was looked at
 * @param {Side & { version: number, dialect: Dialect }} base what the edit began with
 * @param {string} ref what the address names
 * @param {HTMLElement} actions the place for the main actions
 * @param {(ref: string) => void} select
 * @returns {PresetBody & { element: Element }}
 */
function workbench(context, preset, base, ref, actions, select) {
	const { at, signal } = context, mayTry = session.mayChange()
	let timer = 0
	const dialects = choice(Object.keys(routes).map((name) => ({ value: name, text: name })), base.dialect)
	const dialect = () => /** @type {Dialect} */ (dialects.value)
	const checkSoon = () => {
		clearTimeout(timer)
		timer = window.setTimeout(() => showProblems(findProblems()), 400)
		changed()
	}
	const prompt = textEditor(base.prompt ?? '', colourMarkdown, () => changed())
	const settings = textEditor(format(parse(base.settings)), colourJSON, checkSoon), messages = textEditor(format(readTemplate(base.template).messages), colourJSON, checkSoon)
	const oldMessages = () => readTemplate(base.template).messages.items
	const [promptField, settingsField, messagesField] = /** @type {const} */ ([['Prompt', prompt], ['Settings', settings], ['Messages', messages]]).map(([name, editor]) => {
		const place = field(name, editor.area)
		editor.takeFrom(place)
		editor !== messages || place.classList.add('short')
		return place
	})
	const message = textInput({ maxlength: 500, placeholder: 'Why this version exists' }), label = textInput({ maxlength: 64 })
	const fields = settingsFields(dialect, () => settings.area.value, (text) => {
		settings.setValue(text)
		checkSoon()
	}, (name) => {
		showAs(true)
		const found = parse(settings.area.value).members.find((member) => member.name === name)
		found && settings.showLine(lineOf(settings.area.value, found.start))
	})
	const isTemplate = h('input', { type: 'checkbox', onchange: () => changed() })
	const names = h('div.names', { role: 'status' }), messagesName = h('summary'), messagesBox = h('details.messages', { open: oldMessages().length > 0 }, messagesName, messages.search, messagesField)
	prompt.area.setAttribute('data-key', 'prompt') // which a link skips to
	const warned = h('div', { role: 'status' }), unseen = h('div', { role: 'status' }), place = h('div'), notice = h('div')

	/** What is saved, to compare with. */
	let before = { prompt: '', settings: '', messages: '', isTemplate: false }
	const now = () => ({ prompt: prompt.area.value, settings: settings.area.value, messages: messages.area.value, isTemplate: isTemplate.checked })
	const isChanged = () => JSON.stringify(now()) !== JSON.stringify(before)
	isTemplate.checked = base.template !== '{}'
	before = now()
	let isOver = false
	context.setGuard(() => !isOver && isChanged())

	const readMessages = () => parseAs(isTemplate.checked ? messages.area.value : '[]', 'array')
	const findNames = () => variablesOf(prompt.area.value, readMessages().items, dialect())
	/** What would be saved. Its prompt has the line breaks of before. */
	const written = () => {
		const text = keepLineBreaks(prompt.area.value, base.prompt ?? '', before.prompt)
		const template = isTemplate.checked ? `{"variables":${JSON.stringify(findNames())},"messages":[${readMessages().items.map((item) => compact(item))}]}` : '{}'
		return { name: 'unsaved', prompt: text === '' && base.prompt !== '' ? null : text, settings: settings.area.value, template }
	}
	const bodyOf = (/** @type {Side} */ side) => requestOf(dialect(), side.prompt, side.settings, readMessages().items, base.settings, oldMessages())

	/** @param {Problem} problem */
	const inWords = (problem) => `line ${problem.line}: ${problem.message}`
	const findProblems = () => check(settings.area.value, isTemplate.checked ? messages.area.value : '[]', dialect())
	/** Shows errors and warnings at their places, and goes to the first error if wanted. @param {Problem[]} problems */
	const showProblems = (problems, isWanted = false) => {
		const first = problems.find((problem) => !problem.isWarning)
		if (first?.field === 'Settings' && settingsField.hidden) {
			showAs(true)
		}
		for (const [name, json] of /** @type {const} */ ([['Settings', settings], ['Messages', messages]])) {
			const inside = problems.filter((problem) => problem.field === name)
			json.setNotes(inside)
			messagesBox.open ||= json === messages && inside.length > 0
			setWrong(json.area, inside.filter((problem) => !problem.isWarning).map(inWords).join('; '))
		}
		fill(warned, problems.filter((problem) => problem.isWarning).map((problem) => h('p.warned', `Settings, ${inWords(problem)}.`)))
		setWrong(prompt.area, problems.filter((problem) => problem.field === 'Prompt').map((problem) => problem.message).join('; '))
		if (first && isWanted) {
			first.field === 'Prompt' ? prompt.area.focus() : (first.field === 'Settings' ? settings : messages).showLine(first.line)
		}
	}
	/** @param {Failure} failure @param {boolean} hasPrompt @returns {Problem[]} */
	const problemsOf = (failure, hasPrompt) => failure.issues.filter((issue) => issue.path.startsWith('/')).map(({ path, message: text }) => {
		const { field: where, pointer } = placeOf(path, dialect(), hasPrompt, isTemplate.checked)
		const { value } = (where === 'Messages' ? messages : settings).area
		return { field: where, line: lineOf(value, find(parse(value), pointer)), message: `${path}: ${text}` }
	})
	/** Tells whether all is right that can be told here, and shows what is not. */
	const isRight = () => {
		clearTimeout(timer)
		const problems = findProblems()
		fill(place)
		showProblems(problems, true)
		return !fields.isWrong() && problems.every((problem) => problem.isWarning)
	}

	// The names of settings, while one is typed as JSON. Tab takes the first.
	const completions = h('p.other-settings.completions', { role: 'status' })
	const complete = (/** @type {string} */ name) => {
		const { value, selectionStart: end } = settings.area, typed = /[A-Za-z_]*$/.exec(value.slice(0, end))?.[0] ?? ''
		settings.area.setSelectionRange(end - typed.length, value[end] === '"' ? end + 1 : end)
		document.execCommand('insertText', false, `${name}": `) // which the browser can undo
	}
	const offer = () => {
		const { value, selectionStart: end } = settings.area, typed = /[{,]\s*"([A-Za-z_]+)$/.exec(value.slice(0, end))?.[1]
		const known = typed === undefined ? [] : settingsOf(routes[dialect()]).filter((name) => name.startsWith(typed) && !value.includes(`"${name}"`)).slice(0, 8)
		fill(completions, known.map((name) => h('button.chip.mono', { type: 'button', onpointerdown: (/** @type {Event} */ event) => {
			event.preventDefault()
			complete(name)
		} }, name)))
	}
	settings.area.addEventListener('input', offer)
	settings.area.addEventListener('blur', () => fill(completions))
	settings.area.addEventListener('keydown', (event) => {
		const first = completions.firstElementChild?.textContent
		if (event.key === 'Tab' && !event.shiftKey && first) {
			event.preventDefault()
			complete(first)
		}
	})

	// The settings as fields, or as JSON.
	const asFields = small('Fields', () => showAs(false), { 'aria-pressed': 'true' }), asJSON = small('JSON', () => showAs(true), { 'aria-pressed': 'false' })
	const showAs = (/** @type {boolean} */ isJSON) => {
		const isBroken = parseAs(settings.area.value).problem !== ''
		isJSON ||= isBroken
		asFields.setAttribute('aria-pressed', String(!isJSON))
		asJSON.setAttribute('aria-pressed', String(isJSON))
		settingsField.hidden = completions.hidden = !isJSON
		fields.element.hidden = isJSON
		isJSON || fields.read()
		isBroken && showProblems(findProblems(), true)
	}

	// The main actions.
	const draft = button(['Save draft', shortcut('⌃S')], () => saveDraft(), { 'data-key': 'save-draft', title: 'Ctrl+S' })
	const live = button('Put live…', () => goLive(), { class: 'primary', 'data-key': 'save-live' })
	const compare = button('Changes', () => showChanges(), { class: 'quiet', 'data-key': 'changes' })
	const why = h('p.hint.why', { role: 'status' })
	fill(actions, compare, draft, live)
	const showActions = () => {
		const isDisabled = preset !== undefined && preset.data.status !== 'active', guarded = preset?.data ?? { protected: false, managed_by: null, labels: {} }
		const cannotServe = serveReason(at, guarded), cannotChange = changeReason(at, guarded), isLive = preset?.data.designated_version.version === base.version
		live.disabled = isDisabled || cannotServe !== '' || (isLive && !isChanged())
		draft.disabled = isDisabled || cannotChange !== '' || !preset || !isChanged()
		compare.hidden = !preset || !isChanged()
		why.textContent = isDisabled ? 'This preset is disabled, so it takes no new versions.' : cannotServe || (!preset ? 'The first version is always live.' : isChanged() ? '' : `This is v${base.version} as it is.`)
	}
	const template = () => ({ names: isTemplate.checked ? findNames() : [], hasMessages: readMessages().items.length > 0 })
	let shownNames = ''
	const changed = () => {
		const found = findNames(), state = [isTemplate.checked, isChanged(), dialect(), ...found].join(), { problem, items } = readMessages()
		messagesName.textContent = `Messages: ${problem ? 'wrong' : items.length || 'none'}`
		fill(unseen, warning([prompt, settings, messages].map(({ area }) => area.value).join('\n'), '', 'They are marked below') ?? '')
		if (state !== shownNames) {
			shownNames = state
			messagesBox.hidden = !isTemplate.checked
			fill(names, isTemplate.checked ? variableNames(found) : found.length > 0 && h('p', `Template is off, so the braces around ${found.join(', ')} are text.`))
			right.refresh()
		}
		right.showAge()
		showActions()
	}

	/** Keeps what was saved as what the edit begins with. @param {Answer<any>} answer */
	const saved = async (answer) => {
		const { version } = answer.data.created_version ?? answer.data.designated_version
		if (!preset) {
			isOver = true
			dropEdits()
			go(toPreset(at, 'edit', { from: version }))
			return version
		}
		preset = answer
		before = now()
		base = await readSide(at, version, signal)
		message.value = label.value = ''
		ref = String(version)
		fill(notice)
		if (![...chosen.options].some(({ value }) => value === ref)) {
			chosen.prepend(h('option', { value: ref }, `v${version}`))
		}
		chosen.value = ref
		replace(toPreset(at, 'edit', { from: version }))
		select(ref)
		changed()
		return version
	}
	const ignoredBy = (/** @type {Answer<any>} */ { headers }) => {
		const ignored = headers.get('X-Preset-Ignored')
		return ignored ? ` The server does not know, and ignored: ${ignored}.` : ''
	}
	/** @param {Side} side @param {boolean} isLive */
	const send = (side, isLive) => api.change('POST', presetPath(at, routes[dialect()], {
		designate: isLive ? '' : 'false', template: isTemplate.checked ? 'true' : '', message: message.value.trim(), label: isLive ? label.value.trim() : '',
	}), bodyOf(side), preset?.tag ?? api.absent)
	/** @param {Side} side @param {() => void} lookedAgain @returns {Explain} */
	const explain = (side, lookedAgain) => (failure) => {
		const found = failure.status === 400 ? problemsOf(failure, side.prompt !== null) : []
		if (found.length > 0) {
			showProblems(found, true)
		}
		return preset && conflict(failure, presetPath(at), preset, (next) => {
			preset = next
			fill(notice)
			fill(place)
			lookedAgain()
			showActions()
		})
	}
	const saveDraft = () => {
		if (draft.disabled || !isRight()) {
			return
		}
		const side = written()
		attempt(place, draft, async () => {
			const answer = await send(side, false), version = await saved(answer)
			say(`v${version} is saved as a draft.${ignoredBy(answer)}`)
		}, explain(side, () => {})).finally(showActions)
	}
	const showChanges = () => openDialog('Changes', `Changes since v${base.version}`, [parseAs(settings.area.value).problem ? h('p.note', 'The settings are no JSON yet.') : differences({ ...base, name: `v${base.version}` }, written(), signal)], { style: 'wide', signal })
	/** Shows what is new for requests, then saves it and puts it live. */
	const goLive = () => {
		if (preset && !isChanged()) {
			putLive(context, preset, base.version)
			return
		}
		setWrong(label)
		if (!isRight()) {
			return
		}
		const side = written()
		const sentence = h('p'), comparison = h('div'), stays = h('div'), reason = textInput({ maxlength: 500, value: message.value })
		const closing = new AbortController()
		const liveVersion = () => preset?.data.designated_version.version ?? 0
		const { close } = ask(context, 'Put live', preset ? 'Save and put live?' : `Create ${at.slug}?`, [
			sentence, stays, h('div.columns.even', field('Message', reason, 'Why this version exists.'), field('Also set the label', label, 'Optional, in the same step.')),
			...[...warned.children].map((one) => one.cloneNode(true)), comparison,
		], async () => {
			if (label.value !== '' && !isLabelRight(label, preset ? labelReason(at, preset.data, label.value.trim()) : '')) {
				throw api.newFailure('The label is not right.', { status: 400 })
			}
			message.value = reason.value
			const earlier = liveVersion(), answer = await send(side, true), version = await saved(answer)
			say(`v${version} is saved and live.${ignoredBy(answer)}`, earlier ? () => designate(at, earlier, answer.tag).catch(failed) : undefined)
		}, {
			isWide: true, isDisposable: true,
			onClose: () => closing.abort(),
			explain: (failure) => {
				const own = explain(side, show)(failure)
				if (failure.status === 400 && failure.issues.some((issue) => issue.path.startsWith('/'))) {
					close()
					fill(place, errorBox(failure))
					showProblems(problemsOf(failure, side.prompt !== null), true)
				}
				return own
			},
		})
		const show = () => {
			const from = liveVersion(), named = code(`@preset/${at.slug}`)
			fill(sentence, preset ? ['Requests for ', named, ` get it in place of v${from}, from the next one on.`] : ['This creates ', named, ', and requests get it from then on.'])
			fill(stays, preset && pinned(preset.data))
			load(comparison, closing.signal, async () => differences(from ? await readSide(at, from, closing.signal) : nothing, side, closing.signal))
		}
		show()
	}

	// What the left is about.
	const chosen = preset ? targetChoices(context, preset, ref, [{ value: '', text: 'live' }]) : choice([{ value: '', text: 'new' }], '')
	chosen.addEventListener('change', () => {
		const next = chosen.value
		chosen.value = ref // until it is left
		go(toPreset(at, 'edit', queryOf(next)))
	})
	/** @type {Draft} */
	const left = {
		isChanged: () => mayTry && (!preset || isChanged()), ref: () => ref, dialect, template, isTemplate: () => isTemplate.checked, keyChanged: fields.showModel, state: () => JSON.stringify(now()), body: () => bodyOf(written()), setGuard: (guard) => {
			dropTrial()
			dropTrial = setGuard(guard)
		},
		problem: () => (parseAs(settings.area.value).problem || readMessages().problem || fields.isWrong() ? 'What stands on the left is not right yet.' : ''),
	}
	const right = trial(context, preset, left)
	preset && right.inputs.append(savedInputs(context, () => /** @type {PresetAnswer} */ (preset), left, right))
	let dropTrial = () => {}
	const isPlain = () => sessionStorage.getItem(storedPlain) !== null
	const colours = small('Colours', () => {
		isPlain() ? sessionStorage.removeItem(storedPlain) : sessionStorage.setItem(storedPlain, '1')
		showColours()
	})
	const showColours = () => {
		colours.setAttribute('aria-pressed', String(!isPlain()))
		;[prompt, settings, messages].forEach((editor) => editor.setColoured(!isPlain()))
	}
	for (const control of mayTry ? [] : [prompt.area, settings.area, messages.area]) {
		control.readOnly = true
	}
	if (!mayTry) {
		fields.element.setAttribute('inert', '')
		isTemplate.disabled = true
	}
	dialects.addEventListener('change', () => {
		showAs(asJSON.getAttribute('aria-pressed') === 'true')
		checkSoon()
	})
	const element = h('div.workbench',
		h('section.writing', { 'aria-label': 'Version' },
			notice,
			h('div.strip',
				h('span.inline-field', field('Version or label', chosen)), preset ? h('span.muted.small.made-as', `made as ${base.dialect}`) : h('span.inline-field', field('Made as', dialects)),
				h('label.check', isTemplate, 'Template'), h('span.gap'), small('Find', prompt.find, { title: 'Ctrl+F' }), colours,
				h('span.group', { role: 'group', 'aria-label': 'Settings as' }, asFields, asJSON)),
			fields.element, settingsField, completions, warned, place, unseen,
			prompt.search, promptField, h('div.strip', messagesBox, names), h('div.message-line', mayTry && field('Message', message), why)),
		h('section.trying', { 'aria-label': 'Trial' }, right.element))
	/** @param {KeyboardEvent} event */
	const press = (event) => {
		if (!(event.ctrlKey || event.metaKey) || event.altKey || document.querySelector('dialog:modal')) {
			return
		}
		if (event.key === 'Enter') {
			right.run()
		} else if (event.key === 's') {
			saveDraft()
		} else {
			return
		}
		event.preventDefault()
	}
	addEventListener('keydown', press, { signal })
	showColours()
	showAs(false)
	changed()
	return {
		element,
		update: (next) => {
			right.update(next)
			if (!preset || next.tag === preset.tag) {
				showActions()
				return
			}
			if (!isChanged()) {
				preset = next
				showActions()
				return
			}
			fill(notice, h('div.note', h('p', 'Someone else changed the preset since you began. Your edits are untouched.'), changesOf(preset.data, next.data),
				h('p.actions', small('Look again', () => {
					preset = next
					fill(notice)
				}))))
		},
	}
}
