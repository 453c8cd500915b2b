// The differences of two versions as elements: settings as rows, the prompt side by side.

import { presetPath } from './addresses.js'
import { button, code, fill, h, row as tableRow, table } from './elements.js'
import * as api from './api.js'
import { visible, warning } from './invisible.js'
import { compact, format, memberOf, parse, raw } from './json.js'
import { replace } from './navigation.js'

// Comparing texts and settings. Long work runs in slices, so that the page stays alive.

const sliceTime = 10 // milliseconds
const maxLoose = 50 // items without an anchor, before a comparison counts as coarse

/** Gives the page its turn after each slice of work. */
export class Slices {
	/** @param {AbortSignal} [signal] */
	constructor(signal) {
		this.signal = signal
		this.begun = performance.now()
	}

	get isOver() {
		return performance.now() - this.begun > sliceTime
	}

	async rest() {
		await new Promise((resolve) => setTimeout(resolve))
		this.signal?.throwIfAborted()
		this.begun = performance.now()
	}
}

/**
 * Compares two lists by the items that occur once in both (patience diff). It is
 * coarse if a long range has no such item.
 * @param {string[]} before @param {string[]} after @param {Slices} slices
 */
export async function diff(before, after, slices) {
	/** @type {Block[]} */
	const blocks = []
	let isCoarse = false
	/** @param {Block} block */
	const add = (block) => {
		const last = blocks.at(-1)
		if (last?.same === block.same) {
			last.a1 = block.a1
			last.b1 = block.b1
		} else if (block.a0 < block.a1 || block.b0 < block.b1) {
			blocks.push({ ...block })
		}
	}
	// Ranges that wait, the first one last.
	const waiting = [{ same: false, a0: 0, a1: before.length, b0: 0, b1: after.length }]
	for (let range = waiting.pop(); range; range = waiting.pop()) {
		if (slices.isOver) {
			await slices.rest()
		}
		let { a0, a1, b0, b1 } = range
		while (a0 < a1 && b0 < b1 && before[a0] === after[b0]) {
			a0++
			b0++
		}
		add({ same: true, a0: range.a0, a1: a0, b0: range.b0, b1: b0 })
		while (a0 < a1 && b0 < b1 && before[a1 - 1] === after[b1 - 1]) {
			a1--
			b1--
		}
		if (a1 < range.a1) {
			waiting.push({ same: false, a0: a1, a1: range.a1, b0: b1, b1: range.b1 })
		}
		const pairs = anchors(before, after, { same: false, a0, a1, b0, b1 })
		if (pairs.length === 0) {
			isCoarse ||= Math.min(a1 - a0, b1 - b0) > maxLoose
			add({ same: false, a0, a1, b0, b1 })
			continue
		}
		// Each range ends before an anchor, and the next one begins with it.
		const starts = [[a0, b0], ...pairs]
		for (let n = starts.length - 1; n >= 0; n--) {
			const [toA, toB] = starts[n + 1] ?? [a1, b1]
			waiting.push({ same: false, a0: starts[n][0], a1: toA, b0: starts[n][1], b1: toB })
		}
	}
	return { blocks, isCoarse }
}

/** Finds items that occur once in each range, in the same order. @param {string[]} a @param {string[]} b @param {Block} range */
function anchors(a, b, range) {
	/** @param {string[]} items @param {number} start @param {number} end */
	const places = (items, start, end) => {
		/** @type {Map<string, number>} */
		const found = new Map()
		for (let i = start; i < end; i++) {
			found.set(items[i], found.has(items[i]) ? -1 : i)
		}
		return found
	}
	const inB = places(b, range.b0, range.b1)
	/** @type {[number, number][]} */
	const candidates = []
	for (const [item, i] of places(a, range.a0, range.a1)) {
		const j = inB.get(item) ?? -1
		if (i >= 0 && j >= 0) {
			candidates.push([i, j])
		}
	}
	candidates.sort((x, y) => x[0] - y[0])
	// The longest run that increases in b.
	/** @type {[number[], number[]]} */
	const [tails, previous] = [[], []]
	candidates.forEach(([, j], n) => {
		let low = 0, high = tails.length
		while (low < high) {
			const middle = (low + high) >> 1
			if (candidates[tails[middle]][1] < j) {
				low = middle + 1
			} else {
				high = middle
			}
		}
		previous[n] = tails[low - 1] ?? -1
		tails[low] = n
	})
	/** @type {[number, number][]} */
	const pairs = []
	for (let n = tails.at(-1) ?? -1; n >= 0; n = previous[n]) {
		pairs.push(candidates[n])
	}
	return pairs.reverse()
}

const maxWords = 20000 // of a line

/**
 * Compares two lines. It returns undefined if they have little in common.
 * @param {string} before @param {string} after @param {Slices} slices
 * @returns {Promise<{ before: Part[], after: Part[] } | undefined>}
 */
export async function diffWords(before, after, slices) {
	const a = words(before), b = words(after)
	if (a.length > maxWords || b.length > maxWords) {
		return undefined
	}
	const { blocks, isCoarse } = await diff(a, b, slices)
	const common = blocks.reduce((sum, block) => sum + (block.same ? a.slice(block.a0, block.a1).join('').trim().length : 0), 0)
	if (isCoarse || common * 4 < Math.max(before.length, after.length)) {
		return undefined
	}
	return {
		before: blocks.map((block) => ({ text: a.slice(block.a0, block.a1).join(''), isChanged: !block.same })),
		after: blocks.map((block) => ({ text: b.slice(block.b0, block.b1).join(''), isChanged: !block.same })),
	}
}

/** @param {string} line */
function words(line) {
	return line.match(/[\p{L}\p{M}\p{N}_]+|\s+|[^\p{L}\p{M}\p{N}_\s]/gu) ?? []
}

/** Splits a text into its lines. A last line break is no line of its own. @param {string} text */
export function lines(text) {
	const all = text.split('\n')
	if (all.at(-1) === '') {
		all.pop()
	}
	return all
}

/**
 * Compares two JSON values. One of them may be absent. It descends into
 * objects and into lists of objects.
 * @param {JSONValue | undefined} a @param {JSONValue | undefined} b @param {string} [path] @returns {Setting[]}
 */
export function diffSettings(a, b, path = '') {
	if (a && b && compact(a) === compact(b)) {
		return []
	}
	/** @param {string | number} name */
	const below = (name) => (path ? `${path}/${name}` : String(name))
	if (a?.kind === 'object' && b?.kind === 'object') {
		const names = new Set([...a.members, ...b.members].map((member) => member.name))
		return [...names].flatMap((name) => diffSettings(memberOf(a, name), memberOf(b, name), below(name)))
	}
	if (a?.kind === 'array' && b?.kind === 'array' && [...a.items, ...b.items].some((item) => item.kind === 'object')) {
		// Equal items at both ends stay apart, so that one that was put in shifts none.
		const [x, y] = [a.items.map((item) => compact(item)), b.items.map((item) => compact(item))]
		const shorter = Math.min(x.length, y.length)
		let first = 0, last = 0
		while (first < shorter && x[first] === y[first]) {
			first++
		}
		while (last < shorter - first && x.at(-1 - last) === y.at(-1 - last)) {
			last++
		}
		const [restA, restB] = [a, b].map(({ items }) => items.slice(first, items.length - last))
		return Array.from({ length: Math.max(restA.length, restB.length) }, (_, i) => diffSettings(restA[i], restB[i], below(first + i))).flat()
	}
	return [{ path, before: a ? format(a) : '', after: b ? format(b) : '' }]
}

const maxWordLines = 2000 // changed lines beyond which words are not marked
const around = 3 // equal lines around a difference
const rowsAtOnce = 1000
let isUnified = false

/** @param {Side} before @param {Side} after @param {AbortSignal} signal @param {boolean} [isView] whether its lines have addresses */
export function differences(before, after, signal, isView = false) {
	const prompt = h('div')
	const element = h('div', { class: 'differences' },
		[before, after].map((side) => warning([side.prompt, side.settings, side.template].join('\n'), side.name)),
		h('h3', null, 'Prompt'), prompt,
		h('h3', null, 'Settings'), valuesTable('settings', before, after),
		before.template + after.template !== '{}{}' && [h('h3', null, 'Template'), valuesTable('template', before, after)])
	promptTable(before, after, prompt, signal, isView).catch((thrown) => {
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

/** @param {Side} before @param {Side} after @param {Element} place @param {AbortSignal} signal @param {boolean} isView */
async function promptTable(before, after, place, signal, isView) {
	const a = lines(before.prompt ?? ''), b = lines(after.prompt ?? '')
	if ((before.prompt ?? '') === (after.prompt ?? '')) {
		fill(place, h('p', { class: 'muted' }, before.prompt ? 'The prompts are equal.' : 'There is no prompt.'))
		return
	}
	const timer = setTimeout(() => fill(place, h('p', { class: 'muted' }, 'Comparing the prompts…')), 150)
	const slices = new Slices(signal)
	const { blocks, isCoarse } = await diff(a, b, slices)
	clearTimeout(timer)

	const [, side, line] = isView ? /^#([LR])(\d+)$/.exec(location.hash) ?? [] : []
	const pointed = Number(line) - 1, isPointed = (/** @type {number} */ from, /** @type {number} */ to) => pointed >= from && pointed < to
	/** @type {Row[]} */
	const rows = []
	let removed = 0, added = 0
	blocks.forEach(({ same, a0, a1, b0, b1 }, n) => {
		const size = Math.max(a1 - a0, b1 - b0)
		const head = n === 0 ? 0 : around, tail = n === blocks.length - 1 ? 0 : around
		const folded = same && !(side === 'L' ? isPointed(a0, a1) : isPointed(b0, b1)) ? Math.max(0, size - head - tail) : 0
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
		const link = next?.querySelector('.line > a')
		link && replace(`#${link.id}`)
	}
	/** Goes to the line that the address names. */
	const goToLine = () => {
		const row = body.querySelector(`[id="${CSS.escape(location.hash.slice(1))}"]`)?.closest('tr')
		if (row) {
			body.querySelector('.at')?.classList.remove('at')
			row.classList.add('at')
			row.scrollIntoView({ block: 'center' })
		}
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
			...cellsOf(row.a, row.isSame ? '' : '−', marked?.before ?? x, 'removed', isView ? 'L' : ''), ...cellsOf(row.b, row.isSame ? '' : '+', marked?.after ?? y, 'added', isView ? 'R' : ''))
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
	if (isView) {
		goToLine()
		addEventListener('hashchange', goToLine, { signal })
	}
}

/**
 * Makes the cells of a line: its number and its text, with changed parts marked.
 * @param {number} index -1 for none @param {string} sign @param {Part[] | string | undefined} parts
 * @param {string} style @param {string} side of its address, or nothing
 */
function cellsOf(index, sign, parts, style, side) {
	if (parts === undefined) {
		return [h('td', { class: 'line none' }), h('td', { class: 'none' })]
	}
	const whole = typeof parts === 'string' ? parts : parts.map((part) => part.text).join('')
	let to = 0
	const text = typeof parts === 'string' ? visible(sign ? parts : parts.replace(/\r$/, '')) : parts.map(({ text: { length }, isChanged }) => {
		const shown = visible(whole, { from: to, to: (to += length), isStrict: isChanged })
		return isChanged && length > 0 ? [h('mark', null, shown)] : shown
	}).flat()
	const n = index + 1
	return [h('td', { class: 'line' }, side ? h('a', { id: side + n, href: `#${side}${n}`, tabindex: -1 }, n) : n), h('td', { class: sign && style }, sign && h('span', { class: 'sign' }, sign), h('span', { class: 'text', dir: 'auto' }, text))]
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
