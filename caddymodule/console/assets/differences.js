// The differences of two versions as elements: settings as rows, the prompt side by side.

import { button, fill, h, user } from './elements.js'
import { Slices, diff, diffSettings, diffWords, lines } from './diff.js'
import { parse } from './json.js'

/**
 * Side is a version to compare. Its settings are JSON text.
 *
 * @typedef {{ name: string, prompt: string | null, settings: string }} Side
 */

const maxWordLines = 2000 // changed lines beyond which words are not marked
const context = 3 // equal lines around a difference
const rowsAtOnce = 1000

/**
 * differences shows what differs between two sides.
 *
 * @param {Side} before
 * @param {Side} after
 * @param {AbortSignal} signal
 */
export function differences(before, after, signal) {
	const prompt = h('div', { class: 'prompt-differences' })
	const element = h('div', { class: 'differences' },
		h('h3', null, 'Settings'), settingsTable(before, after),
		h('h3', null, 'Prompt'), prompt)
	promptTable(before, after, prompt, signal).catch((thrown) => {
		if (!signal.aborted) {
			throw thrown
		}
	})
	return element
}

/**
 * @param {Side} before
 * @param {Side} after
 */
function settingsTable(before, after) {
	const changed = diffSettings(before.settings, parse(before.settings), after.settings, parse(after.settings))
	if (changed.length === 0) {
		return h('p', { class: 'muted' }, 'The settings are equal.')
	}
	/** @param {string} text @param {string} column @param {string} style */
	const value = (text, column, style) => h('td', { role: 'cell', 'data-column': column, class: text && style },
		text ? h('code', null, user(text)) : h('span', { class: 'muted' }, 'absent'))
	return h('table', { class: 'settings-differences', 'aria-label': 'Differences of the settings', role: 'table' },
		h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' },
			['Setting', 'Change', before.name, after.name].map((name) => h('th', { scope: 'col', role: 'columnheader' }, name)))),
		h('tbody', { role: 'rowgroup' }, changed.map((setting) => h('tr', { role: 'row' },
			h('th', { scope: 'row', role: 'rowheader' }, h('code', null, user(setting.path || 'all'))),
			h('td', { role: 'cell', 'data-column': 'Change' }, setting.before === '' ? '+ added' : setting.after === '' ? '− removed' : '± changed'),
			value(setting.before, before.name, 'removed'),
			value(setting.after, after.name, 'added')))))
}

/**
 * @typedef {{ kind: 'same' | 'changed', a: number, b: number } | { kind: 'fold', a: number, b: number, count: number }} Row
 */

/**
 * @param {Side} before
 * @param {Side} after
 * @param {Element} place
 * @param {AbortSignal} signal
 */
async function promptTable(before, after, place, signal) {
	const a = lines(before.prompt ?? ''), b = lines(after.prompt ?? '')
	if ((before.prompt ?? '') === (after.prompt ?? '')) {
		fill(place, h('p', { class: 'muted' }, before.prompt ? 'The prompts are equal.' : 'There is no prompt.'))
		return
	}
	const timer = setTimeout(() => fill(place, h('p', { class: 'muted' }, 'Comparing the prompts…')), 150)
	const slices = new Slices(signal)
	const { blocks, isCoarse } = await diff(a, b, slices)
	clearTimeout(timer)

	/** @type {Row[]} */
	const rows = []
	let removed = 0, added = 0
	blocks.forEach((block, n) => {
		if (block.same) {
			const count = block.a1 - block.a0
			const head = n === 0 ? 0 : context, tail = n === blocks.length - 1 ? 0 : context
			const folded = count - head - tail
			for (let i = 0; i < count; i++) {
				if (folded > 1 && i === head) {
					rows.push({ kind: 'fold', a: block.a0 + i, b: block.b0 + i, count: folded })
					i += folded - 1
				} else {
					rows.push({ kind: 'same', a: block.a0 + i, b: block.b0 + i })
				}
			}
			return
		}
		removed += block.a1 - block.a0
		added += block.b1 - block.b0
		for (let i = 0; i < Math.max(block.a1 - block.a0, block.b1 - block.b0); i++) {
			rows.push({ kind: 'changed', a: block.a0 + i < block.a1 ? block.a0 + i : -1, b: block.b0 + i < block.b1 ? block.b0 + i : -1 })
		}
	})
	const areWordsMarked = Math.max(removed, added) <= maxWordLines
	const notes = [
		isCoarse && 'The comparison is coarse: some parts are too different to compare line by line.',
		!areWordsMarked && `Words are not marked, because more than ${maxWordLines.toLocaleString('en')} lines have changed.`,
	].filter(Boolean)

	const body = h('tbody')
	const more = h('p', { class: 'actions' })
	fill(place,
		h('p', { class: 'summary number' }, h('span', { class: 'good' }, `+ ${count(added)} added`), ' ', h('span', { class: 'bad' }, `− ${count(removed)} removed`)),
		notes.map((note) => h('p', { class: 'note' }, note)),
		h('div', { class: 'prompt-table', role: 'region', 'aria-label': 'Differences of the prompt', tabindex: '0' },
			h('table', { 'aria-label': 'Prompt, line by line' },
				h('thead', null, h('tr', null, h('th', { scope: 'col', colspan: '2' }, before.name), h('th', { scope: 'col', colspan: '2' }, after.name))),
				body)),
		more)

	/**
	 * @param {Row} row
	 * @returns {Promise<HTMLTableRowElement>}
	 */
	const draw = async (row) => {
		if (row.kind === 'fold') {
			const element = h('tr', { class: 'fold' }, h('td', { colspan: '4' }, button(`Show ${row.count.toLocaleString('en')} equal lines`, async () => {
				const all = Array.from({ length: row.count }, (_, i) => /** @type {Row} */ ({ kind: 'same', a: row.a + i, b: row.b + i }))
				await insert(all, element)
			}, { class: 'small' })))
			return element
		}
		const x = row.a >= 0 ? a[row.a] : undefined, y = row.b >= 0 ? b[row.b] : undefined
		if (row.kind === 'same') {
			return h('tr', { class: 'same' }, lineNumber(row.a), line(' ', [{ text: x ?? '', isChanged: false }], ''), lineNumber(row.b), line(' ', [{ text: y ?? '', isChanged: false }], 'second'))
		}
		const marked = areWordsMarked && x !== undefined && y !== undefined ? await diffWords(x, y, slices) : undefined
		return h('tr', { class: 'changed' },
			lineNumber(row.a), x === undefined ? h('td', { class: 'none' }) : line('−', marked?.before ?? [{ text: x, isChanged: false }], 'removed'),
			lineNumber(row.b), y === undefined ? h('td', { class: 'none' }) : line('+', marked?.after ?? [{ text: y, isChanged: false }], 'added'))
	}
	/**
	 * insert puts rows before an element, or at the end, in slices.
	 *
	 * @param {Row[]} all
	 * @param {HTMLTableRowElement} [fold] is replaced by the rows
	 */
	const insert = async (all, fold) => {
		const first = all.slice(0, rowsAtOnce), rest = all.slice(rowsAtOnce)
		for (const row of first) {
			const element = await draw(row)
			if (fold) {
				fold.before(element)
			} else {
				body.append(element)
			}
			if (slices.isOver) {
				await slices.rest()
			}
		}
		if (!fold) {
			fill(more, rest.length > 0 && button(`Show ${Math.min(rest.length, rowsAtOnce).toLocaleString('en')} more of ${rest.length.toLocaleString('en')} rows`, () => insert(rest)))
		} else if (rest.length > 0) {
			const next = await draw({ kind: 'fold', a: /** @type {any} */ (rest[0]).a, b: /** @type {any} */ (rest[0]).b, count: rest.length })
			fold.replaceWith(next)
		} else {
			fold.remove()
		}
	}
	await insert(rows)
}

/** @param {number} lines */
const count = (lines) => `${lines.toLocaleString('en')} ${lines === 1 ? 'line' : 'lines'}`

/** @param {number} index */
function lineNumber(index) {
	return h('td', { class: index < 0 ? 'line none' : 'line' }, index < 0 ? '' : index + 1)
}

/**
 * @param {string} sign
 * @param {import('./diff.js').Part[]} parts
 * @param {string} style
 */
function line(sign, parts, style) {
	return h('td', { class: style },
		h('span', { class: 'sign' }, sign),
		h('span', { class: 'text', dir: 'auto' }, parts.map((part) => (part.isChanged && part.text !== '' ? h('mark', null, part.text) : part.text))))
}

/**
 * sideOf makes a side of a version's answer. Its settings are cut out of the answer's text.
 *
 * @param {import('./api.js').Answer<import('./api.js').Version>} answer
 * @returns {Side & { version: number }}
 */
export function sideOf(answer) {
	return { name: `v${answer.data.version}`, version: answer.data.version, prompt: answer.data.system_prompt, settings: settingsOf(answer.text) }
}

/**
 * settingsOf cuts the settings out of a version's answer.
 *
 * @param {string} text
 */
export function settingsOf(text) {
	const root = parse(text)
	const config = root.members.find((member) => member.name === 'data')?.value.members.find((member) => member.name === 'config')?.value
	return config ? text.slice(config.start, config.end) : '{}'
}
