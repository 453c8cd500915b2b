// Comparing texts and settings. Long work runs in slices, so that the page stays alive.

import { compact, decode, format } from './json.js'

const sliceTime = 10 // milliseconds
const maxEdits = 600 // of one range, before it counts as wholly different

/** Slices gives the page its turn after each slice of work. */
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
 * diff compares two lists. It is coarse if a range was too different to look closer.
 *
 * @param {string[]} before
 * @param {string[]} after
 * @param {Slices} slices
 * @returns {Promise<{ blocks: Block[], isCoarse: boolean }>}
 */
export async function diff(before, after, slices) {
	const numbers = new Map()
	/** @param {string[]} items */
	const toNumbers = (items) => Int32Array.from(items, (item) => {
		const number = numbers.get(item) ?? numbers.size
		numbers.set(item, number)
		return number
	})
	const a = toNumbers(before), b = toNumbers(after)
	let isCoarse = false
	/** @type {Block[]} */
	const blocks = []
	/** @param {Block} block */
	const add = (block) => {
		const last = blocks.at(-1)
		if (block.a0 === block.a1 && block.b0 === block.b1) {
			return
		}
		if (last && last.same === block.same) {
			last.a1 = block.a1
			last.b1 = block.b1
		} else {
			blocks.push({ ...block })
		}
	}
	// Ranges that wait, the first one last.
	/** @type {(Block & { done: boolean })[]} */
	const waiting = [{ same: false, done: false, a0: 0, a1: a.length, b0: 0, b1: b.length }]
	for (let range = waiting.pop(); range; range = waiting.pop()) {
		if (slices.isOver) {
			await slices.rest()
		}
		if (range.done) {
			add(range)
			continue
		}
		let { a0, a1, b0, b1 } = range
		while (a0 < a1 && b0 < b1 && a[a0] === b[b0]) {
			a0++
			b0++
		}
		add({ same: true, a0: range.a0, a1: a0, b0: range.b0, b1: b0 })
		while (a0 < a1 && b0 < b1 && a[a1 - 1] === b[b1 - 1]) {
			a1--
			b1--
		}
		waiting.push({ same: true, done: true, a0: a1, a1: range.a1, b0: b1, b1: range.b1 })
		if (a0 === a1 || b0 === b1) {
			add({ same: false, a0, a1, b0, b1 })
			continue
		}
		const middle = { same: false, done: false, a0, a1, b0, b1 }
		const found = uniquePairs(a, b, middle) ?? await shortestEdit(a, b, middle, slices)
		if (!found) {
			isCoarse = true
			add(middle)
			continue
		}
		// Between the pairs are ranges of their own.
		const parts = []
		let i = a0, j = b0
		for (const [x, y] of found.pairs) {
			parts.push({ same: false, done: found.isExact, a0: i, a1: x, b0: j, b1: y }, { same: true, done: true, a0: x, a1: x + 1, b0: y, b1: y + 1 })
			i = x + 1
			j = y + 1
		}
		parts.push({ same: false, done: found.isExact, a0: i, a1, b0: j, b1 })
		waiting.push(...parts.reverse())
	}
	return { blocks, isCoarse }
}

/**
 * uniquePairs finds items that occur once in each range, in the same order (patience
 * diff). It returns undefined if there are none.
 *
 * @param {Int32Array} a
 * @param {Int32Array} b
 * @param {Block} range
 */
function uniquePairs(a, b, range) {
	if (range.a1 - range.a0 < 8 || range.b1 - range.b0 < 8) {
		return undefined
	}
	/** @type {Map<number, number>} */
	const inA = new Map(), inB = new Map()
	for (let i = range.a0; i < range.a1; i++) {
		inA.set(a[i], inA.has(a[i]) ? -1 : i)
	}
	for (let j = range.b0; j < range.b1; j++) {
		inB.set(b[j], inB.has(b[j]) ? -1 : j)
	}
	/** @type {[number, number][]} */
	const candidates = []
	for (const [item, i] of inA) {
		const j = inB.get(item) ?? -1
		if (i >= 0 && j >= 0) {
			candidates.push([i, j])
		}
	}
	candidates.sort((x, y) => x[0] - y[0])
	// The longest run that increases in b.
	/** @type {number[]} */
	const tails = []
	const previous = new Int32Array(candidates.length)
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
		previous[n] = low > 0 ? tails[low - 1] : -1
		tails[low] = n
	})
	/** @type {[number, number][]} */
	const pairs = []
	for (let n = tails.at(-1) ?? -1; n >= 0; n = previous[n]) {
		pairs.push(candidates[n])
	}
	return pairs.length > 0 ? { pairs: pairs.reverse(), isExact: false } : undefined
}

/**
 * shortestEdit finds the pairs of a shortest edit (Myers). It gives up after maxEdits.
 *
 * @param {Int32Array} a
 * @param {Int32Array} b
 * @param {Block} range
 * @param {Slices} slices
 * @returns {Promise<{ pairs: [number, number][], isExact: boolean } | undefined>}
 */
async function shortestEdit(a, b, range, slices) {
	const n = range.a1 - range.a0, m = range.b1 - range.b0
	const most = Math.min(n + m, maxEdits)
	const reach = new Int32Array(2 * most + 3)
	const middle = most + 1
	/** @type {Int32Array[]} */
	const trace = []
	for (let d = 0; d <= most; d++) {
		if (slices.isOver) {
			await slices.rest()
		}
		trace.push(reach.slice(middle - d - 1, middle + d + 2))
		for (let k = -d; k <= d; k += 2) {
			let x = k === -d || (k !== d && reach[middle + k - 1] < reach[middle + k + 1]) ? reach[middle + k + 1] : reach[middle + k - 1] + 1
			let y = x - k
			while (x < n && y < m && a[range.a0 + x] === b[range.b0 + y]) {
				x++
				y++
			}
			reach[middle + k] = x
			if (x >= n && y >= m) {
				return { pairs: walkBack(trace, n, m, range), isExact: true }
			}
		}
	}
	return undefined
}

/**
 * @param {Int32Array[]} trace
 * @param {number} x
 * @param {number} y
 * @param {Block} range
 */
function walkBack(trace, x, y, range) {
	/** @type {[number, number][]} */
	const pairs = []
	for (let d = trace.length - 1; d >= 0; d--) {
		const reach = trace[d]
		const at = (/** @type {number} */ k) => reach[k + d + 1]
		const k = x - y
		const before = k === -d || (k !== d && at(k - 1) < at(k + 1)) ? k + 1 : k - 1
		const fromX = d === 0 ? 0 : at(before), fromY = d === 0 ? 0 : fromX - before
		while (x > fromX && y > fromY) {
			x--
			y--
			pairs.push([range.a0 + x, range.b0 + y])
		}
		x = fromX
		y = fromY
	}
	return pairs.reverse()
}

const maxWords = 20000 // of a line

/**
 * diffWords compares two lines. It returns undefined if they have little in common.
 *
 * @param {string} before
 * @param {string} after
 * @param {Slices} slices
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

/**
 * lines splits a text into its lines. A last line break is no line of its own.
 *
 * @param {string} text
 */
export function lines(text) {
	const all = text.split('\n')
	if (all.at(-1) === '') {
		all.pop()
	}
	return all
}

/**
 * diffSettings compares two JSON values. It descends into objects, and into lists whose
 * items differ.
 *
 * @param {string} textA
 * @param {JSONValue} a
 * @param {string} textB
 * @param {JSONValue} b
 * @param {string} [path]
 * @returns {Setting[]}
 */
export function diffSettings(textA, a, textB, b, path = '') {
	if (compact(textA, a) === compact(textB, b)) {
		return []
	}
	if (a.kind === 'object' && b.kind === 'object') {
		const names = new Set([...a.members, ...b.members].map((member) => member.name))
		return [...names].flatMap((name) => {
			const before = a.members.find((member) => member.name === name)?.value
			const after = b.members.find((member) => member.name === name)?.value
			return both(textA, before, textB, after, path ? `${path}/${name}` : name)
		})
	}
	if (a.kind === 'array' && b.kind === 'array' && [...a.items, ...b.items].some((item) => item.kind === 'object')) {
		let first = 0, last = 0
		const equal = (/** @type {number} */ i, /** @type {number} */ j) => compact(textA, a.items[i]) === compact(textB, b.items[j])
		const shorter = Math.min(a.items.length, b.items.length)
		while (first < shorter && equal(first, first)) {
			first++
		}
		while (last < shorter - first && equal(a.items.length - 1 - last, b.items.length - 1 - last)) {
			last++
		}
		const count = Math.max(a.items.length, b.items.length) - first - last
		return Array.from({ length: count }, (_, n) => {
			const i = first + n
			return both(textA, i < a.items.length - last ? a.items[i] : undefined, textB, i < b.items.length - last ? b.items[i] : undefined, `${path}/${i}`)
		}).flat()
	}
	if (a.kind === 'string' && b.kind === 'string' && decode(textA, a) === decode(textB, b)) {
		return []
	}
	return [{ path, before: format(textA, a), after: format(textB, b) }]
}

/**
 * @param {string} textA
 * @param {JSONValue | undefined} before
 * @param {string} textB
 * @param {JSONValue | undefined} after
 * @param {string} path
 * @returns {Setting[]}
 */
function both(textA, before, textB, after, path) {
	if (before && after) {
		return diffSettings(textA, before, textB, after, path)
	}
	return [{ path, before: before ? format(textA, before) : '', after: after ? format(textB, after) : '' }]
}
