// A text field for JSON, with line numbers, and errors beside their lines.

import { fill, h } from './elements.js'

/** Makes a text field whose notes stand at the end of their lines. @param {string} value @param {() => void} changed */
export function jsonEditor(value, changed) {
	const area = h('textarea', { value, rows: 16, wrap: 'off', spellcheck: 'false', autocomplete: 'off', autocapitalize: 'off', class: 'json' })
	const numbers = h('div', { class: 'numbers', 'aria-hidden': 'true' })
	const beside = h('div', { class: 'beside', 'aria-hidden': 'true' })
	/** @type {Problem[]} */
	let notes = []
	const scroll = () => {
		numbers.style.transform = `translateY(${-area.scrollTop}px)`
		beside.style.transform = `translate(${-area.scrollLeft}px, ${-area.scrollTop}px)`
	}
	const draw = () => {
		const lines = area.value.split('\n')
		const wrong = new Set(notes.filter((note) => !note.isWarning).map((note) => note.line))
		if (lines.length <= 5000) {
			fill(numbers, lines.map((_, i) => h('span', { class: wrong.has(i + 1) && 'bad' }, i + 1)))
		}
		fill(beside, notes.map((note) => {
			const mark = h('span', { class: note.isWarning && 'warning' }, note.message)
			mark.style.top = `calc(${note.line - 1} * var(--row))`
			mark.style.left = `calc(${(lines[note.line - 1] ?? '').replaceAll('\t', '        ').length}ch + 2ch)`
			return mark
		}))
		scroll()
	}
	area.addEventListener('input', () => {
		notes = []
		draw()
		changed()
	})
	area.addEventListener('scroll', scroll)
	draw()
	return {
		area,
		/** Puts the editor where field has put its text field. @param {Element} place */
		takeFrom: (place) => {
			const sheet = h('div', { class: 'sheet' }, h('div', { class: 'over' }, beside))
			place.replaceChild(h('div', { class: 'json-editor' }, h('div', { class: 'gutter' }, numbers), sheet), area)
			sheet.prepend(area)
		},
		/** @param {Problem[]} next */
		setNotes: (next) => {
			notes = next
			draw()
		},
		/** @param {number} line */
		showLine: (line) => {
			const lines = area.value.split('\n')
			const start = lines.slice(0, line - 1).join('\n').length + (line > 1 ? 1 : 0)
			area.focus()
			area.setSelectionRange(start, start + (lines[line - 1] ?? '').length)
			area.scrollTop = Math.max(0, (line - 5) * 20)
		},
	}
}
