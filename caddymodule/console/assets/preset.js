// What the views of a preset share: its frame, its changes, its versions as choices and their differences.

import { go, presetPath, replace, search, toDefaultComparison, toPreset, toPresets, toVersion } from './addresses.js'
import { button, choice, code, field, fill, h, labelTag, menu, numberInput, numberOf, showIssues, small, table, textInput, user, visible, warning } from './elements.js'
import { limitsText, presetLimits, tagsOf, targetText, versionName } from './figures.js'
import * as api from './api.js'
import * as session from './session.js'
import { compact, format, lineOf, memberOf, parse, parseAs, raw, readTemplate, requestOf, routes } from './dialects.js'
import { ask, conflict, download, errorBox, failed, live, load, openDialog, readUntilDone, say } from './states.js'

// What stands in the way of a change: the kind of the key, an owner, and protection.

const missing = 'takes a key with the right protected-labels.'

/** Says why a preset cannot be changed. It is empty if it can. @param {At} at @param {Guarded} preset */
export function changeReason(at, { managed_by: owner }) {
	return session.readOnlyReason() || (owner && session.overriddenOwner(at) !== owner ? `This preset is managed by ${owner}.` : '')
}

/** Says why that cannot be changed which requests get, nor the name. It is empty if it can. @param {At} at @param {Guarded} preset */
export function serveReason(at, preset) {
	return changeReason(at, preset) || (preset.protected && !session.mayChangeProtected() ? `This preset is protected: all but drafts ${missing}` : '')
}

/** Says which right is missing to change a label. @param {Guarded} preset @param {string} label */
export const labelProtection = ({ labels }, label) => (labels[label]?.protected && session.mayChange() && !session.mayChangeProtected() ? `The label ${label} is protected: changing it ${missing}` : '')

/** Says why a label cannot be changed. It is empty if it can. @param {At} at @param {Guarded} preset @param {string} label */
export const labelReason = (at, preset, label) => changeReason(at, preset) || labelProtection(preset, label)

/**
 * Says from the start what stands in the way. An owner can be overridden, which redraw shows then.
 * @param {At} at @param {Guarded} preset @param {() => unknown} redraw
 */
function obstacles(at, preset, redraw) {
	const owner = preset.managed_by, reason = session.readOnlyReason(), protection = serveReason(at, { ...preset, managed_by: null })
	return [
		reason && h('p', reason),
		!reason && owner && (changeReason(at, preset)
			? h('p', 'This preset is managed by ', user(owner), ', and belongs there: the next ', h('code', 'apply'), ' may take back what is changed here. ',
				small('Change anyway', () => {
					session.override(at, owner)
					redraw()
				}, { 'data-key': 'override' }))
			: h('p', 'Your changes override ', user(owner), ', which still manages this preset. ',
				small('Stop', () => {
					session.override(at, '')
					redraw()
				}, { 'data-key': 'override', 'aria-label': `Stop overriding ${owner}` }))),
		!reason && protection && h('p', protection),
	].filter(Boolean)
}

// The differences of two versions as elements: settings as rows, the prompt side by side.

// Comparing texts and settings. Long work runs in slices, so that the page stays alive.

const sliceTime = 10 // milliseconds
const maxLoose = 50 // items without an anchor, before a comparison counts as coarse

/** Gives the page its turn after each slice of work. */
class Slices {
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
async function diff(before, after, slices) {
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
async function diffWords(before, after, slices) {
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
function lines(text) {
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
function diffSettings(a, b, path = '') {
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
	const element = h('div.differences',
		[before, after].map((side) => warning([side.prompt, side.settings, side.template].join('\n'), side.name)),
		h('h3', 'Prompt'), prompt,
		h('h3', 'Settings'), valuesTable('settings', before, after),
		before.template + after.template !== '{}{}' && [h('h3', 'Template'), valuesTable('template', before, after)])
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
		return h('p.muted', name === 'settings' ? 'The settings are equal.' : 'The templates are equal.')
	}
	/** @param {string} text @param {string} style */
	const value = (text, style) => (text ? h('span', { class: style }, code(text)) : h('span.muted', 'absent'))
	return table(`Differences of the ${name}`, changed.map((setting) => [
		['Setting', code(setting.path || 'all')],
		['Change', setting.before === '' ? '+ added' : setting.after === '' ? '− removed' : '± changed'],
		[before.name, value(setting.before, 'removed')],
		[after.name, value(setting.after, 'added')],
	]), 'settings-differences')
}

/** @param {Side} before @param {Side} after @param {Element} place @param {AbortSignal} signal @param {boolean} isView */
async function promptTable(before, after, place, signal, isView) {
	const a = lines(before.prompt ?? ''), b = lines(after.prompt ?? '')
	if ((before.prompt ?? '') === (after.prompt ?? '')) {
		fill(place, h('p.muted', before.prompt ? 'The prompts are equal.' : 'There is no prompt.'))
		return
	}
	const timer = setTimeout(() => fill(place, h('p.muted', 'Comparing the prompts…')), 150)
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
	const region = h('div.prompt-table', { role: 'region', 'aria-label': 'Differences of the prompt', tabindex: '0' },
		h('table', { 'aria-label': 'Prompt, line by line' },
			h('colgroup', ['line', '', 'line', ''].map((style) => h('col', { class: style }))),
			h('thead', h('tr', h('th', { scope: 'col', colspan: '2' }, before.name), h('th', { scope: 'col', colspan: '2' }, after.name))),
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
	const unified = small('Unified', () => {
		isUnified = !isUnified
		showUnified()
	})
	const showUnified = () => {
		unified.setAttribute('aria-pressed', String(isUnified))
		region.classList.toggle('unified', isUnified)
	}
	const more = h('p.actions')
	fill(place,
		h('div.summary.number.actions', h('span.good', `+ ${added} added`), ' ', h('span.bad', `− ${removed} removed lines`), h('span.gap'),
			small('Previous change', () => step(-1)), small('Next change', () => step(1)), unified),
		notes.map((note) => h('p.note', note)),
		region,
		more)
	showUnified()

	/** @param {Row} row @returns {Promise<HTMLTableRowElement>} */
	const draw = async (row) => {
		if (row.folded > 0) {
			/** @type {HTMLTableRowElement} */
			const element = h('tr.fold', h('td', { colspan: '4' }, small(`Show ${row.folded} equal lines`, () => unfold(row, element))))
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
		return [h('td.line.none'), h('td.none')]
	}
	const whole = typeof parts === 'string' ? parts : parts.map((part) => part.text).join('')
	let to = 0
	const text = typeof parts === 'string' ? visible(sign ? parts : parts.replace(/\r$/, '')) : parts.map(({ text: { length }, isChanged }) => {
		const shown = visible(whole, { from: to, to: (to += length), isStrict: isChanged })
		return isChanged && length > 0 ? [h('mark', shown)] : shown
	}).flat()
	const n = index + 1
	return [h('td.line', side ? h('a', { id: side + n, href: `#${side}${n}`, tabindex: -1 }, n) : n), h('td', { class: sign && style }, sign && h('span.sign', sign), h('span.text', { dir: 'auto' }, text))]
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

// What the views of a preset are about: a version, a label, or what is live. Their addresses name it.

/** unsaved stands for what is on the left of the workbench, and differs from its version. */
export const unsaved = '*'

/** Names what is tried. @param {string} ref */
export const refName = (ref) => (ref === unsaved ? 'unsaved' : ref === '' ? 'live' : /^\d+$/.test(ref) ? `v${ref}` : ref)

/** Says what live or a label stands for now. It is empty for the others. @param {Preset} preset @param {string} ref */
export const standsFor = (preset, ref) => (/^(?:\*|\d+)$/.test(ref) ? '' : targetText({ ...targetOf(preset, ref), protected: false }))

// Selects of the versions of a preset, and of its labels.

const versionsAtOnce = 100
let ids = 0

/**
 * Makes selects of the preset's versions, the newest first. Each older 100 are one more choice away.
 * @param {Context} context @param {number[]} values
 * @param {Choice[]} [others] come first
 */
export function versionChoices({ at, signal }, values, others = []) {
	const selects = values.map((value) => choice([...others, ...(value ? [{ value: String(value), text: `v${value}` }] : [])], value ? String(value) : others[0]?.value ?? '', { id: `version-${++ids}` }))
	const page = (/** @type {number} */ offset, /** @type {number} */ limit) => api.read(presetPath(at, 'versions', { fields: 'summary', offset, limit }), signal)
	/** @type {Choice[]} */
	let options = []
	let unread = 0 // older versions
	const older = 'older'
	/** Adds older versions. @param {Version[]} versions the oldest first @param {number} offset of the first */
	const add = (versions, offset) => {
		options = [...options, ...[...versions].reverse().map((version) => ({ value: String(version.version), text: versionName(version) }))]
		unread = offset
		for (const select of selects) {
			const { value } = select
			const isKnown = value === older || [...others, ...options].some((option) => option.value === value)
			fill(select, [...others, ...options, ...(unread > 0 ? [{ value: older, text: `Older versions (${unread})…` }] : []), ...(isKnown ? [] : [{ value, text: `v${value}` }])].map((option) => h('option', { value: option.value }, option.text)))
			select.value = value
		}
	}
	const readOlder = async () => {
		const offset = Math.max(0, unread - versionsAtOnce), { data } = await page(offset, unread - offset)
		add(data, offset)
		return String(data[data.length - 1].version)
	}
	for (const select of selects) {
		select.addEventListener('change', (event) => {
			if (select.value === older) {
				event.stopImmediatePropagation()
				select.disabled = true
				readOlder().catch(() => options[options.length - 1].value).then((next) => {
					select.disabled = false
					select.value = next
					select.focus()
					select.dispatchEvent(new CustomEvent('change', { bubbles: true, detail: older }))
				})
			}
		})
	}
	const read = async () => {
		options = []
		const first = await page(0, versionsAtOnce)
		unread = first.total
		await (unread > versionsAtOnce ? readOlder() : add(first.data, 0))
	}
	readUntilDone(read, signal) // the view itself shows what is wrong
	return selects
}

/**
 * Makes a select of what a request can name: the labels and the versions of a preset.
 * @param {Context} context @param {PresetAnswer} preset @param {string} ref what is chosen
 * @param {Choice[]} others come first
 */
export function targetChoices(context, { data: { labels } }, ref, others) {
	const isVersion = /^\d+$/.test(ref), named = [...others.map(({ value }) => value), ...Object.keys(labels)]
	const [select] = versionChoices(context, [isVersion ? Number(ref) : 0], [
		...others, ...Object.entries(labels).map(([value, target]) => ({ value, text: `${value} (${targetText(target)})` })),
		...(isVersion || named.includes(ref) ? [] : [{ value: ref, text: `${ref} (not set)` }]),
	])
	select.value = ref
	return select
}

/** Makes a select of the workspaces that the key reaches. @param {string} value */
function workspaceChoice(value) {
	const select = choice([{ value, text: value }], value)
	api.readAll((offset) => '/workspaces' + search({ offset, limit: 100 }), 2000).then((all) => {
		fill(select, [...new Set([value, ...all.map(({ slug }) => slug)])].map((slug) => h('option', { value: slug }, slug)))
		select.value = value
	}, () => {}) // the one that is there does
	return select
}

/** Reads the number of a version or a label from an address. It is empty for what is live. @param {Address} address */
export const refOf = ({ query, version, to }) => query.get('label') || query.get('version') || query.get('from') || String(version || to || '')

/** Writes it into an address. @param {string} ref @returns {Query} */
export const queryOf = (ref) => ({ [/^\d+$/.test(ref) ? 'version' : 'label']: ref })

/** @param {Preset} preset @param {string} ref @returns {Target} */
function targetOf({ designated_version: serving, labels }, ref) {
	return ref === '' ? serving : /^\d+$/.test(ref) ? { version: Number(ref) } : Object.hasOwn(labels, ref) ? labels[ref] : {}
}

/** Returns a version of a target: of a split the largest. @param {Preset} preset @param {string} ref */
export function versionOf(preset, ref) {
	const { version, split } = targetOf(preset, ref)
	return version ?? [...split ?? []].sort((a, b) => b.weight - a.weight)[0]?.version ?? preset.designated_version.version
}

/**
 * Reads the templates of a target. It throws a Failure.
 * @param {Context} context @param {Preset} preset @param {string} ref @returns {Promise<Template>}
 */
export async function readTemplates({ at, signal }, preset, ref) {
	const target = targetOf(preset, ref)
	const sides = await Promise.all((target.split ?? [target]).map(({ version }) => version ? readSide(at, version, signal) : undefined))
	const found = sides.map((side) => readTemplate(side?.template ?? '{}'))
	return { names: [...new Set(found.flatMap((one) => one.variables))], hasMessages: found.every((one) => one.messages.items.length > 0) }
}

// Changes of a preset as a whole: put live, archive, restore, disable, enable, describe.

// The dialog that puts a version live, or rolls back to one.

/** Says who is pinned: what labels serve stays as it is. @param {Preset} preset */
export function pinned({ labels, slug }) {
	const all = Object.entries(labels)
	return all.length > 0 && h('div.pinned',
		h('p', all.length === 1 ? 'One label stays where it is, and so do requests for ' : `${all.length} labels stay where they are, and so do requests for `, code(all.length === 1 ? `@preset/${slug}@${all[0][0]}` : `@preset/${slug}@<label>`), ':'),
		h('p.labels', all.map(([name, target]) => labelTag(name, targetText(target)))))
}

/**
 * Shows what will change for requests, then designates the version.
 * @param {Context} context @param {PresetAnswer} preset as it was when the button was pressed
 * @param {number} version
 */
export function putLive(context, preset, version) {
	const { at } = context
	const sentence = h('p'), comparison = h('div'), stays = h('div')
	const closing = new AbortController()
	const before = () => preset.data.designated_version.version
	const { confirm } = ask(context, 'Put live', `Put v${version} live?`, [sentence, stays, comparison], () => designate(at, version, preset.tag, before()), {
		isWide: true,
		onClose: () => closing.abort(),
		explain: (failure) => conflict(failure, presetPath(at), preset, (now) => {
			preset = now
			show()
		}),
	})
	const show = () => {
		const isLive = before() === version
		fill(sentence, isLive ? `v${version} is live already.` : ['Requests for ', code(`@preset/${at.slug}`), ` get v${version} in place of v${before()}, from the next one on.`])
		fill(stays, pinned(preset.data))
		confirm.disabled = true
		load(comparison, closing.signal, async () => {
			const [a, b] = await Promise.all([before(), version].map((n) => readSide(at, n, closing.signal)))
			confirm.disabled = isLive
			confirm.focus()
			return differences(a, b, closing.signal)
		})
	}
	show()
}

/**
 * Puts a version live. The message offers the way back.
 * @param {At} at @param {number} version @param {string} tag @param {number} [before]
 */
export async function designate(at, version, tag, before) {
	const { tag: next } = await api.change('POST', presetPath(at, 'designate'), { version }, tag)
	say(`v${version} is live${before ? '' : ' again'}.`, before ? () => designate(at, before, next).catch(failed) : undefined)
}

/** Brings an archived preset back. Its tag is unknown, because it cannot be read. @param {At} at */
export const restore = (at) => api.change('POST', presetPath(at, 'restore'), undefined).then(() => say(`${at.slug} is restored.`), failed)

/**
 * Shows a dialog for a change of the preset as someone has seen it: at first, or looking again.
 * @type {AskFirst}
 */
export function askFirst(context, preset, name, heading, body, run, options) {
	ask(context, name, heading, body, () => run(preset), {
		...options, explain: (failure) => conflict(failure, presetPath(context.at), preset, (now) => (preset = now)),
	})
}

/** @param {Context} context @param {PresetAnswer} preset */
function archive(context, preset) {
	const { at } = context
	const text = 'Requests that name this preset get 404 from then on. Its versions and labels are kept, and Restore brings it back.'
	askFirst(context, preset, 'Archive', `Archive ${at.slug}?`, [text], async (seen) => {
		await api.change('DELETE', presetPath(at), undefined, seen.tag)
		say(`${at.slug} is archived.`, () => restore(at))
		go(toPresets(at.workspace))
	}, { isDanger: true })
}

/** @param {Context} context @param {PresetAnswer} preset */
function disable(context, preset) {
	const { at } = context
	askFirst(context, preset, 'Disable', `Disable ${at.slug}?`, ['Requests that name this preset get 404 from then on. Enable takes that back.'], async (seen) => {
		const now = await api.change('PATCH', presetPath(at), { status: 'disabled' }, seen.tag)
		say(`${at.slug} is disabled.`, () => enable(at, now.tag))
	}, { isDanger: true })
}

/** @param {At} at @param {string} tag */
function enable(at, tag) {
	return api.change('PATCH', presetPath(at), { status: 'active' }, tag).then(() => say(`${at.slug} is enabled. Requests get it again.`), failed)
}

/** Sets or clears the protection. @param {At} at @param {boolean} isProtected @param {string} tag @returns {Promise<void>} */
const protect = (at, isProtected, tag) => api.change('PATCH', presetPath(at), { protected: isProtected }, tag).then((now) =>
	say(`${at.slug} is ${isProtected ? '' : 'no longer '}protected.`, () => protect(at, !isProtected, now.tag)), failed)

/** @param {Context} context @param {PresetAnswer} preset */
function describe(context, preset) {
	const { at } = context
	const reason = serveReason(at, preset.data)
	const name = textInput({ value: preset.data.name, maxlength: 128, autofocus: !reason, disabled: reason !== '' })
	const tags = textInput({ value: (preset.data.tags ?? []).join(', ') })
	const description = h('textarea', { value: preset.data.description ?? '', rows: 4, maxlength: 500, dir: 'auto' })
	askFirst(context, preset, 'Rename and describe', 'Rename and describe', [
		field('Name', name, reason || h('span', 'The slug stays ', user(at.slug), ', so requests do not change.')),
		field('Description', description, 'Up to 500 characters.'),
		field('Tags', tags, 'With commas between them. The list can be filtered by them.'),
	], async (seen) => {
		await api.change('PATCH', presetPath(at), { name: name.value.trim() || at.slug, description: description.value.trim() || null, ...(tagsOf(tags.value).join() !== (preset.data.tags ?? []).join() && { tags: tagsOf(tags.value) }) }, seen.tag)
		say('The name, the description and the tags are saved.')
	}, { confirm: 'Save' })
}

/**
 * Copies the live version to a new preset, here or in another workspace.
 * @param {Context} context @param {PresetAnswer} preset
 */
async function duplicate(context, preset) {
	const { at, signal } = context
	const slug = textInput({ value: `${at.slug}-copy`, maxlength: 128, autofocus: true }), workspace = workspaceChoice(at.workspace)
	const { version, dialect } = preset.data.designated_version
	let made = '' // where to go when the dialog has nothing to lose
	ask(context, 'Duplicate', `Duplicate ${at.slug}`, [
		h('p', `The new preset begins with v${version}. It has no labels, and no policy.`), field('Slug', slug), field('Workspace', workspace),
	], async () => {
		const side = await readSide(at, version, signal), { messages } = readTemplate(side.template), to = { workspace: workspace.value, slug: slug.value.trim() }
		const { tag } = await api.change('POST', presetPath(to, routes[dialect], { template: side.template === '{}' ? '' : 'true', message: `Copy of ${at.slug} v${version}` }), requestOf(dialect, side.prompt, side.settings, messages.items, side.settings, messages.items), api.absent)
		const { description, tags = [] } = preset.data
		if (description || tags.length > 0) {
			await api.change('PATCH', presetPath(to), { description, ...(tags.length > 0 && { tags }) }, tag)
		}
		say(`${to.slug} is a copy of ${at.slug} v${version}.`)
		made = toPreset(to)
	}, { onClose: () => made && go(made) })
}

/** Shows the limits of all requests for the preset together, and changes them with a key that may. @param {Context} context @param {PresetAnswer} preset */
function limits(context, preset) {
	const { at } = context, heading = `Limits of ${at.slug}`
	if (serveReason(at, preset.data) || !session.mayChangeBudgets()) {
		openDialog('Limits', heading, [h('p', limitsText(preset.data))], { signal: context.signal })
		return
	}
	const controls = Object.fromEntries(Object.keys(presetLimits).map((name) => [name, numberInput(preset.data.limits?.[name])]))
	const save = (/** @type {Preset['limits']} */ value, /** @type {string} */ tag) => api.change('PATCH', presetPath(at), { limits: value ?? null }, tag)
	ask(context, 'Limits', heading, [
		h('p', 'All requests for the preset count together, whatever their keys. Beyond one of them, they are refused until it resets.'),
		...Object.entries(presetLimits).map(([name, text]) => field(text, controls[name])), h('p.hint', 'Empty: none.'),
	], async () => {
		const given = Object.entries(controls).filter(([, { value }]) => value.trim()).map(([name, input]) => [name, numberOf(input)]), seen = preset
		const now = await save(given.length > 0 ? Object.fromEntries(given) : null, seen.tag)
		say(given.length > 0 ? 'The limits are saved.' : 'The limits are removed.', () => save(seen.data.limits, now.tag).then(() => say('The limits are as before.'), failed))
	}, { confirm: 'Save', explain: (failure) => showIssues(controls, failure.issues) ?? conflict(failure, presetPath(at), preset, (now) => (preset = now)) })
}

/** Shows the policy, and changes it with a key that may. @param {Context} context @param {PresetAnswer} preset */
function policy(context, preset) {
	const { at } = context
	/** @param {PresetAnswer} answer */
	const policyOf = (answer) => (answer.data.policy ? partOf(answer.text, 'policy') : '')
	const before = policyOf(preset), text = before && format(parse(before))
	if (serveReason(at, preset.data)) {
		openDialog('Policy', `Policy of ${at.slug}`, [h('pre.prompt', { tabindex: '0' }, text)], { signal: context.signal })
		return
	}
	const area = h('textarea.mono', { value: text, rows: 16, spellcheck: 'false', autofocus: true })
	/** @param {string} value @param {string} tag */
	const save = (value, tag) => api.change('PATCH', presetPath(at), `{"policy":${value || 'null'}}`, tag)
	askFirst(context, preset, 'Policy', `Policy of ${at.slug}`, [
		field('Settings that requests may not change', area, h('span', 'JSON, such as ', code('{"lock": ["tools"], "bounds": {"temperature": {"max": 1}}}'), '. Leave it empty to remove the policy.')),
	], async (seen) => {
		const value = area.value.trim(), { problem, offset } = parseAs(value || '{}')
		if (problem) {
			throw api.newFailure(`line ${lineOf(value, offset)}: ${problem}`, { status: 400 })
		}
		const now = await save(value, seen.tag)
		say(`The policy is ${value ? 'saved' : 'removed'}.`, () => save(policyOf(seen), now.tag).then(() => say('The policy is as before.'), failed))
	}, { confirm: 'Save', isWide: true })
}

// One preset as a file: as presets are in files, but in JSON, and without labels.

const kept = ['name', 'description', 'tags', 'policy', 'limits'], ofInput = ['name', 'dialect', 'messages', 'input', 'variables', 'notes']
const dialects = /** @type {Dialect[]} */ (['responses', 'chat', 'messages'])

/** Picks the members of an object that have a value. @param {JSONValue | undefined} of @param {string[]} names */
const pick = (of, names) => names.flatMap((name) => {
	const value = memberOf(of, name)
	return value && raw(value) !== 'null' ? [`${JSON.stringify(name)}:${raw(value)}`] : []
})

/** Writes what is live, and the saved inputs. @param {Context} context @param {PresetAnswer} preset */
async function exportPreset({ at, signal }, preset) {
	try {
		const { version, dialect } = preset.data.designated_version
		const [side, inputs] = await Promise.all([readSide(at, version, signal), api.read(presetPath(at, 'inputs', { limit: 100 }), signal)])
		const { messages } = readTemplate(side.template), all = memberOf(parse(inputs.text), 'data')?.items ?? []
		const members = [
			...pick(memberOf(parse(preset.text), 'data'), kept),
			...(all.length > 0 ? [`"inputs":[${all.map((input) => `{${pick(input, ofInput).join()}}`).join()}]`] : []),
			...(side.template === '{}' ? [] : ['"template":true']),
			`"${dialect}":${requestOf(dialect, side.prompt, side.settings, messages.items, side.settings, messages.items)}`,
		]
		download(`${at.slug}.json`, format(parse(`{${members.join()}}`)) + '\n', 'application/json')
		say(`${at.slug} v${version} is downloaded, with ${all.length} saved inputs.`)
	} catch (thrown) {
		failed(thrown)
	}
}

/** Makes a new preset of a file. @param {Context} context */
export function importPreset(context) {
	const file = h('input', { type: 'file', accept: '.json,application/json', onchange: () => {
		slug.value ||= (file.files?.[0]?.name ?? '').replace(/\.[^.]*$/, '').replaceAll(/[^A-Za-z0-9._~-]/g, '-')
	} })
	const slug = textInput({ maxlength: 128 }), workspace = workspaceChoice(context.workspace)
	let made = '' // where to go when the dialog has nothing to lose
	ask(context, 'Import', 'Import a preset', [field('File', file, 'JSON, as Export writes it.'), field('Slug', slug), field('Workspace', workspace)], async () => {
		const text = await file.files?.[0]?.text() ?? '', { problem, offset } = parseAs(text)
		const root = problem ? undefined : parse(text), dialect = dialects.find((name) => memberOf(root, name)), body = dialect && memberOf(root, dialect)
		if (!dialect || !body) {
			throw api.newFailure(problem ? `line ${lineOf(text, offset)}: ${problem}` : 'The file has no request: responses, chat or messages', { status: 400 })
		}
		const to = { workspace: workspace.value, slug: slug.value.trim() }, template = memberOf(root, 'template')
		const { tag } = await api.change('POST', presetPath(to, routes[dialect], { template: template && raw(template) === 'true' ? 'true' : '', message: 'Imported from a file' }), raw(body), api.absent)
		const more = pick(root, kept)
		more.length > 0 && await api.change('PATCH', presetPath(to), `{${more.join()}}`, tag)
		for (const input of memberOf(root, 'inputs')?.items ?? []) {
			await api.change('POST', presetPath(to, 'inputs'), raw(input))
		}
		say(`${to.slug} is imported.`)
		made = toPreset(to)
	}, { onClose: () => made && go(made) })
}

// The frame of all views of one preset: its name, what is live, its tabs and its changes.

/**
 * Shows a preset around a body. The body is made once, when the preset is
 * known, and is told when the preset changes. If the preset may be missing, the body is
 * made without it. The tabs are about the version or the label of the address, until the body
 * selects another.
 * @type {MakeFrame}
 */
export function presetFrame(context, tab, title, make, makeMissing) {
	const place = h('div')
	/** @type {PresetBody | undefined} */
	let body
	let ref = refOf(context.address)
	const select = (/** @type {string} */ chosen) => {
		ref = chosen
		replace(location.pathname + search(queryOf(ref)))
		header.redraw()
	}
	const header = live(context, presetPath(context.at), (answer) => {
		if (body) {
			body.update?.(answer)
		} else {
			body = make(answer, select)
			fill(place, body.element)
		}
		return headerOf(context, tab, answer, ref, () => header.redraw(), body.actions)
	}, {
		lines: 2,
		onFailure: async (failure, again) => {
			const isMissing = failure.status === 404
			const archived = isMissing && await findArchived(context).catch(() => undefined)
			if (archived) {
				return archivedHeader(context, archived, again)
			}
			if (isMissing && makeMissing) {
				body ??= makeMissing()
				fill(place, body.element)
				return h('div', headline(context, context.at.slug, [], body.actions ?? []), h('p.muted', 'This preset does not exist yet. Saving creates it.'))
			}
			return body && !isMissing ? undefined : h('div', headline(context, context.at.slug, [], []), errorBox(failure, again))
		},
	})
	return { title: [title, context.at.slug].filter(Boolean).join(' · '), element: h('div', header.element, place) }
}

/** @param {Context} context @param {string} name @param {Child[]} standing @param {Child[]} actions */
function headline({ at }, name, standing, actions) {
	return h('div.heading.one-line',
		h('h1', user(name)), name !== at.slug && h('span.slug.muted', user(at.slug)),
		h('p.standing', standing), h('span.gap'), h('div.actions', actions))
}

/** @param {Context} context @param {string} tab @param {PresetAnswer} answer @param {string} selected @param {() => unknown} redraw @param {Child[]} [actions] */
function headerOf(context, tab, answer, selected, redraw, actions) {
	const preset = answer.data, { at } = context
	const version = preset.designated_version.version
	const ref = tab === 'compare' && selected === String(version) ? '' : selected // compared with what is live
	const n = versionOf(preset, ref), query = queryOf(ref), { label } = query
	const isDisabled = preset.status === 'disabled'
	const cannotChange = changeReason(at, preset) !== '', cannotServe = serveReason(at, preset) !== ''
	const reasons = [...obstacles(at, preset, redraw), ...(isDisabled && session.mayChange() ? [h('p', 'This preset is disabled. Requests that name it get 404, and it takes no new versions.')] : [])]
	/** @type {[string, string, string][]} */
	const tabs = [
		['versions', 'Versions', ref ? toVersion(at, n) + search({ label }) : toPreset(at)], ['compare', 'Compare', toDefaultComparison(at, version, n) + search({ label })],
		['labels', 'Labels', toPreset(at, 'labels', query)], ['edit', 'Workbench', toPreset(at, 'edit', query)], ['use', 'Use it', toPreset(at, 'use', query)],
		['usage', 'Usage', toPreset(at, 'usage', query)], ['history', 'History', toPreset(at, 'history', query)],
	]
	const labels = Object.entries(preset.labels), splits = labels.filter(([, { split }]) => split)
	const tagOf = (/** @type {[string, Target]} */ [name, target]) => labelTag(name, targetText(target))
	// One line has room for what serves. The rest is one click away.
	const more = [
		...labels.filter((one) => one !== splits[0]).map(tagOf),
		preset.protected && h('span.state', 'protected'), preset.policy && h('span.state', 'policy'),
		preset.managed_by && h('span.state', 'managed by ', user(preset.managed_by)),
		...(preset.tags ?? []).map((tag) => h('span.tag', '#', user(tag))),
	].filter(Boolean)
	const described = { 'aria-describedby': reasons.length > 0 && 'read-only' }
	/** @param {string} name @param {() => unknown} run */
	const item = (name, run, cannot = cannotServe) => button(name, run, { disabled: cannot, ...described })
	return [
		headline(context, preset.name, [
			h('span.live.number', `● live v${version}`),
			preset.status !== 'active' && h('span', { class: `state ${preset.status}` }, preset.status),
			splits.slice(0, 1).map(tagOf),
			more.length > 1 ? menu([`+${more.length}`, h('span.unseen', ' more labels and marks')], 'marks', more) : more,
		].flat(), [
			menu('Actions', 'actions', [
				item('Rename and describe', () => describe(context, answer), cannotChange),
				item('Policy', () => policy(context, answer), !preset.policy && cannotServe),
				(preset.protected || session.mayChangeProtected()) && item(preset.protected ? 'Unprotect' : 'Protect', () => protect(at, !preset.protected, answer.tag)),
				isDisabled ? item('Enable', () => enable(at, answer.tag)) : item('Disable', () => disable(context, answer)),
				item('Limits', () => limits(context, answer), !preset.limits && (cannotServe || !session.mayChangeBudgets())),
				item('Duplicate', () => duplicate(context, answer), !session.mayChange()),
				item('Export', () => exportPreset(context, answer), false),
				item('Archive', () => archive(context, answer), isDisabled || cannotServe),
			]),
			...actions ?? [button('Edit', () => go(toPreset(at, 'edit', { from: n })), {
				disabled: cannotChange || isDisabled, class: tab === 'versions' && 'primary', 'data-key': 'edit', 'data-shortcut': 'n', ...described,
			})],
		]),
		preset.description && h('p.description.muted', user(preset.description)),
		reasons.length > 0 && h('div.note', { id: 'read-only' }, reasons),
		h('nav.tabs', { 'aria-label': 'Preset' }, tabs.map(([name, text, href]) =>
			h('a', { href, 'aria-current': name === tab && 'page', 'data-key': `tab-${name}`, 'data-shortcut': name === 'compare' && 'c' }, text))),
	]
}

/** Returns the preset of the address if it is archived. @param {Context} context @returns {Promise<Preset | undefined>} */
async function findArchived({ at, signal }) {
	const answer = await api.read('/presets' + search({ status: 'archived', q: at.slug, sort: 'slug', order: 'asc', limit: 100, workspace_id: at.workspace }), signal)
	return answer.data.find((/** @type {Preset} */ preset) => preset.slug === at.slug)
}

/** @param {Context} context @param {Preset} preset @param {() => unknown} redraw */
function archivedHeader(context, preset, redraw) {
	return h('div',
		headline(context, preset.name, [h('span.state.archived', 'archived')], [button('Restore', () => restore(context.at), { class: 'primary', disabled: serveReason(context.at, preset) !== '' })]),
		h('div.note', h('p', 'Requests that name this preset get 404. Restoring it brings all its versions and labels back.'), obstacles(context.at, preset, redraw)))
}
