// Comparing texts and settings. Long work runs in slices, so that the page stays alive.

import { compact, format, memberOf } from './json.js'

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
