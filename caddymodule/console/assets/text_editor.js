// A text field with line numbers, colours, a search, and notes beside its lines. A mirror of the
// text lies behind the field: it has its size, and shows all but the text itself.

import { button, fill, h, textInput } from './elements.js'
import { visible } from './invisible.js'

const mostLines = 5000 // beyond, lines have neither numbers nor colours

/** @type {MakeTextEditor} */
export function textEditor(value, colour, changed) {
	const area = h('textarea', { value, rows: 1, spellcheck: 'false', autocomplete: 'off', autocapitalize: 'off', dir: 'auto' })
	const mirror = h('div', { class: 'mirror', 'aria-hidden': 'true' })
	const sheet = h('div', { class: 'text-editor' }, h('div', { class: 'sheet' }, mirror))
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
		rows.append(...next.slice(first + shared, next.length - last).map((line) => h('div', null, partsOf(line))))
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
const marked = (text) => visible(text).map((one) => (typeof one === 'string' ? one : h('span', { class: 'hidden-mark' }, one.textContent)))

/** @param {HTMLTextAreaElement} area @param {Element} mirror @param {(start: number, end: number) => void} reveal */
function searchBar(area, mirror, reveal) {
	const input = textInput({ type: 'search', 'aria-label': 'Find in the text', placeholder: 'Find' }), count = h('span', { class: 'muted small number', role: 'status' })
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
	/** @param {number} step */
	const go = (step) => {
		const all = found()
		at = all.length === 0 ? -1 : (at + step + all.length) % all.length
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
		go(1)
	})
	input.addEventListener('keydown', (event) => {
		if (event.key === 'Enter') {
			go(event.shiftKey ? -1 : 1)
		} else if (event.key === 'Escape') {
			close()
		} else {
			return
		}
		event.preventDefault()
		event.stopPropagation()
	})
	const element = h('div', { class: 'search-bar', hidden: true }, input, count, button('Previous', () => go(-1), { class: 'small' }), button('Next', () => go(1), { class: 'small' }), button('Close', close, { class: 'small quiet' }))
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
			input.value && go(1)
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
export const colourMarkdown = colourBy(/(?<variable>\{\{[^{}]*\}\})|(?<head>^#{1,6} [^{]*)|(?<mark>^ *(?:[-*+]|\d+[.)]) |^>+ ?|^```.*|<\/?[\w-]+>)|(?<code>`[^`]+`)|(?<bold>\*\*[^*{]+\*\*)/g)

/** Colours JSON. */
export const colourJSON = colourBy(/(?<name>"(?:[^"\\]|\\.)*"(?=\s*:))|(?<code>"(?:[^"\\]|\\.)*"?)|(?<variable>-?\b\d[\d.eE+-]*)|(?<mark>\b(?:true|false|null)\b)/g)
