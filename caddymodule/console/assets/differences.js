// The differences of two versions as elements: settings as rows, the prompt side by side.

import { presetPath } from './addresses.js'
import { button, code, fill, h, row as tableRow, table } from './elements.js'
import * as api from './api.js'
import { Slices, diff, diffSettings, diffWords, lines } from './diff.js'
import { visible, warning } from './invisible.js'
import { memberOf, parse, raw } from './json.js'

const maxWordLines = 2000 // changed lines beyond which words are not marked
const context = 3 // equal lines around a difference
const rowsAtOnce = 1000
let isUnified = false

/** @param {Side} before @param {Side} after @param {AbortSignal} signal */
export function differences(before, after, signal) {
	const prompt = h('div')
	const element = h('div', { class: 'differences' },
		[before, after].map((side) => warning([side.prompt, side.settings, side.template].join('\n'), side.name)),
		h('h3', null, 'Prompt'), prompt,
		h('h3', null, 'Settings'), valuesTable('settings', before, after),
		before.template + after.template !== '{}{}' && [h('h3', null, 'Template'), valuesTable('template', before, after)])
	promptTable(before, after, prompt, signal).catch((thrown) => {
		if (!signal.aborted) {
			throw thrown
		}
	})
	return element
}

/** @param {'settings' | 'template'} name @param {Side} before @param {Side} after */
function valuesTable(name, before, after) {
	const changed = diffSettings(parse(before[name]), parse(after[name]))
	if (changed.length === 0) {
		return h('p', { class: 'muted' }, name === 'settings' ? 'The settings are equal.' : 'The templates are equal.')
	}
	/** @param {string} text @param {string} style */
	const value = (text, style) => (text ? h('span', { class: style }, code(text)) : h('span', { class: 'muted' }, 'absent'))
	return table(`Differences of the ${name}`, ['Setting', 'Change', before.name, after.name], changed.map((setting) => tableRow([
		['Setting', code(setting.path || 'all')],
		['Change', setting.before === '' ? '+ added' : setting.after === '' ? '− removed' : '± changed'],
		[before.name, value(setting.before, 'removed')],
		[after.name, value(setting.after, 'added')],
	])), 'settings-differences')
}

/** @param {Side} before @param {Side} after @param {Element} place @param {AbortSignal} signal */
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
	blocks.forEach(({ same, a0, a1, b0, b1 }, n) => {
		const size = Math.max(a1 - a0, b1 - b0)
		const head = n === 0 ? 0 : context, tail = n === blocks.length - 1 ? 0 : context
		const folded = same ? Math.max(0, size - head - tail) : 0
		for (let i = 0; i < size; i++) {
			const isFold = folded > 1 && i === head
			rows.push({ isSame: same, folded: isFold ? folded : 0, a: a0 + i < a1 ? a0 + i : -1, b: b0 + i < b1 ? b0 + i : -1 })
			i += isFold ? folded - 1 : 0
		}
		removed += same ? 0 : a1 - a0
		added += same ? 0 : b1 - b0
	})
	const areWordsMarked = Math.max(removed, added) <= maxWordLines
	const notes = [
		isCoarse && 'The comparison is coarse: some parts are too different to compare line by line.',
		!areWordsMarked && `Words are not marked, because more than ${maxWordLines} lines have changed.`,
	].filter(Boolean)

	const body = h('tbody')
	const region = h('div', { class: 'prompt-table', role: 'region', 'aria-label': 'Differences of the prompt', tabindex: '0' },
		h('table', { 'aria-label': 'Prompt, line by line' },
			h('colgroup', null, ['line', '', 'line', ''].map((style) => h('col', { class: style }))),
			h('thead', null, h('tr', null, h('th', { scope: 'col', colspan: '2' }, before.name), h('th', { scope: 'col', colspan: '2' }, after.name))),
			body))
	/** Goes to the next change, or the one before. @param {number} by */
	const step = (by) => {
		const starts = [...body.children].filter((one) => one.matches('tr:not(.same, .fold)') && !one.previousElementSibling?.matches('tr:not(.same, .fold)'))
		const at = starts.findIndex((one) => one.classList.contains('at'))
		starts[at]?.classList.remove('at')
		const next = starts[(at + by + starts.length + (at < 0 && by < 0 ? 1 : 0)) % starts.length]
		next?.classList.add('at')
		next?.scrollIntoView({ block: 'center' })
	}
	const unified = button('Unified', () => {
		isUnified = !isUnified
		showUnified()
	}, { class: 'small' })
	const showUnified = () => {
		unified.setAttribute('aria-pressed', String(isUnified))
		region.classList.toggle('unified', isUnified)
	}
	const more = h('p', { class: 'actions' })
	fill(place,
		h('div', { class: 'summary number actions' }, h('span', { class: 'good' }, `+ ${added} added`), ' ', h('span', { class: 'bad' }, `− ${removed} removed lines`), h('span', { class: 'gap' }),
			button('Previous change', () => step(-1), { class: 'small' }), button('Next change', () => step(1), { class: 'small' }), unified),
		notes.map((note) => h('p', { class: 'note' }, note)),
		region,
		more)
	showUnified()

	/** @param {Row} row @returns {Promise<HTMLTableRowElement>} */
	const draw = async (row) => {
		if (row.folded > 0) {
			/** @type {HTMLTableRowElement} */
			const element = h('tr', { class: 'fold' }, h('td', { colspan: '4' }, button(`Show ${row.folded} equal lines`, () => unfold(row, element), { class: 'small' })))
			return element
		}
		const x = a[row.a], y = b[row.b]
		const marked = !row.isSame && areWordsMarked && x !== undefined && y !== undefined ? await diffWords(x, y, slices) : undefined
		return h('tr', { class: row.isSame ? 'same' : '' },
			...line(row.a, row.isSame ? '' : '−', marked?.before ?? x, 'removed'), ...line(row.b, row.isSame ? '' : '+', marked?.after ?? y, 'added'))
	}
	/** @param {Row} row @param {HTMLTableRowElement} fold */
	const unfold = async (row, fold) => {
		for (let i = 0; i < row.folded; i++) {
			fold.before(await draw({ isSame: true, folded: 0, a: row.a + i, b: row.b + i }))
			if (slices.isOver) {
				await slices.rest()
			}
		}
		fold.remove()
	}
	/** Draws rows in slices. @param {number} from */
	const show = async (from) => {
		fill(more)
		for (const row of rows.slice(from, from + rowsAtOnce)) {
			body.append(await draw(row))
			if (slices.isOver) {
				await slices.rest()
			}
		}
		const rest = rows.length - from - rowsAtOnce
		fill(more, rest > 0 && button(`Show ${Math.min(rest, rowsAtOnce)} more of ${rest} rows`, () => show(from + rowsAtOnce)))
	}
	await show(0)
}

/**
 * Makes the cells of a line: its number and its text, with changed parts marked.
 * @param {number} index -1 for none @param {string} sign @param {Part[] | string | undefined} parts
 * @param {string} style
 */
function line(index, sign, parts, style) {
	if (parts === undefined) {
		return [h('td', { class: 'line none' }), h('td', { class: 'none' })]
	}
	const whole = typeof parts === 'string' ? parts : parts.map((part) => part.text).join('')
	let to = 0
	const text = typeof parts === 'string' ? visible(sign ? parts : parts.replace(/\r$/, '')) : parts.map(({ text: { length }, isChanged }) => {
		const shown = visible(whole, { from: to, to: (to += length), isStrict: isChanged })
		return isChanged && length > 0 ? [h('mark', null, shown)] : shown
	}).flat()
	return [h('td', { class: 'line' }, index + 1), h('td', { class: sign && style }, sign && h('span', { class: 'sign' }, sign), h('span', { class: 'text', dir: 'auto' }, text))]
}

/** @param {At} at @param {number} version @param {AbortSignal} signal */
export async function readSide(at, version, signal) {
	/** @type {Answer<Version>} */
	const answer = await api.read(presetPath(at, `versions/${version}`), signal)
	return { ...answer.data, name: `v${version}`, prompt: answer.data.system_prompt, settings: partOf(answer.text, 'config'), template: partOf(answer.text, 'template') }
}

/** Cuts an object out of an answer. An absent one is empty. @param {string} text @param {string} name */
export function partOf(text, name) {
	const part = memberOf(memberOf(parse(text), 'data'), name)
	return part?.kind === 'object' ? raw(part) : '{}'
}
