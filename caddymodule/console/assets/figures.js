// Figures and names: their texts, their sums, and what their differences tell. It imports nothing.

// What labels and versions are called, and tags.

/** Names a version with its state and its labels. @param {Version} version */
export function versionName({ version, designated, labels }) {
	return [`v${version}${designated ? ' ● live' : ''}`, ...labels].join(' · ')
}

/** Says what a label stands for. The weights of a split are shown as percent. @param {Target | null | undefined} target */
export function targetText(target) {
	const versions = target?.split ? percents(target.split).map(({ version, percent }) => `v${version} ${percent} %`).join(' · ')
		: target?.version ? `v${target.version}` : 'not set'
	return versions + (target?.protected ? ', protected' : '')
}

/** The shares in percent, with two decimals. They add up to 100: the largest takes the rest. @param {Share[]} split */
export function percents(split) {
	const sum = split.reduce((all, share) => all + share.weight, 0)
	const hundredths = split.map(({ weight }) => Math.round((weight / sum) * 10000))
	const largest = hundredths.indexOf(Math.max(...hundredths))
	if (largest >= 0) { // the list may be empty
		hundredths[largest] += 10000 - hundredths.reduce((all, one) => all + one, 0)
	}
	return split.map(({ version }, n) => ({ version, percent: hundredths[n] / 100 }))
}

/** Reads tags with commas between them. @param {string} text */
export const tagsOf = (text) => [...new Set(text.split(',').map((tag) => tag.trim()).filter(Boolean))]

/** The limits of a preset, as fields and texts name them. @type {Record<string, string>} */
export const presetLimits = { requests_per_minute: 'Requests a minute', tokens_per_day: 'Tokens a day', cost_per_day: 'US dollars a day' }

/** @param {Preset} preset */
export const limitsText = ({ limits }) => Object.entries(limits ?? {}).map(([name, value]) => `${value} ${presetLimits[name]?.replace(/^[RT]/, (first) => first.toLowerCase()) ?? name}`).join(', ')

/** Names a key for people. It may have no name of its own. @param {Key} key */
export const keyName = (key) => key.name || key.label

// The figures of a usage report: their names, their texts, and their sums.

const counts = new Intl.NumberFormat('en')
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 })
const large = new Intl.NumberFormat('en', { minimumFractionDigits: 2, maximumFractionDigits: 2 })
const precise = new Intl.NumberFormat('en', { maximumSignificantDigits: 3 })

/** @param {number} n */
export const countText = (n) => counts.format(n)
/** @param {number} n @param {string} word */
export const countOf = (n, word) => `${countText(n)} ${word}${n === 1 ? '' : 's'}`
/** @param {number} n */
export const shortText = (n) => short.format(n)
/** @param {number} n @param {string} [symbol] */
export const costText = (n, symbol = '$') => `${symbol}${n >= 1 ? large.format(n) : precise.format(n).replace(/\.\d$/, '$&0')}`
/** @param {number} rate */
export const percentText = (rate, digits = 1) => `${(100 * rate).toFixed(digits)} %`
/** @param {number} ms */
export const durationText = (ms) => (ms >= 9999.5 ? `${counts.format(Number((ms / 1000).toFixed(1)))} s` : ms >= 999.5 ? `${Number((ms / 1000).toFixed(2))} s` : `${Number(ms.toPrecision(3))} ms`)

const summed = /** @type {const} */ (['requests', 'errors', 'aborted', 'streamed', 'unknown', 'refused', 'input_tokens', 'output_tokens', 'cache_read_input_tokens', 'reasoning_output_tokens', 'cost_unknown'])

/**
 * A number with so many decimals, or with more: rounding never makes zero of what is none.
 * @param {number} n @param {number} digits
 */
function fixedText(n, digits) {
	const exact = Number(n.toFixed(12))
	while (digits < 12 && exact !== 0 && Number(exact.toFixed(digits)) === 0) {
		digits++
	}
	return Math.abs(exact).toFixed(digits)
}
/** A number with its sign. Zero has none. @param {number} n @param {number} digits */
export const signedText = (n, digits) => {
	const text = fixedText(n, digits)
	return Number(text) === 0 ? text : `${n < 0 ? '−' : '+'}${text}`
}
/** @param {number} mean */
export const meanText = (mean) => `${Number(mean.toFixed(3)) < 0 ? '−' : ''}${Number(Math.abs(mean).toFixed(3))}`

/** Sums figures. Percentiles and scores have no sum. @param {Figures[]} all @returns {Figures} */
export function sumOf(all) {
	const costs = all.filter((one) => one.cost !== null)
	return {
		.../** @type {any} */ (Object.fromEntries(summed.map((name) => [name, all.reduce((before, one) => before + one[name], 0)]))),
		cost: costs.length === 0 ? null : String(costs.reduce((before, one) => before + Number(one.cost), 0)), cost_estimated: all.some((one) => one.cost_estimated),
		duration_ms: null, first_content_ms: null, feedback: {},
	}
}

/** @param {Figures} figures */
export const errorRate = ({ errors, requests }) => (requests === 0 ? 0 : errors / requests)

/** The mean of known costs, null if there is none. @param {Figures} figures */
export const costEach = ({ cost, requests, cost_unknown: unknown }) => (cost === null || requests === unknown ? null : Number(cost) / (requests - unknown))

/** @type {Record<string, string>} */
const nulls = { version: 'unsaved', label: 'no label', model: 'no model', status: 'no status', preset: 'no preset', key: 'no key' }

/** Names a series by its key. @param {UsageKey} key */
export function seriesName(key) {
	if (key.other) {
		return 'other'
	}
	return Object.entries(key).map(([name, value]) => (value === null ? nulls[name] ?? 'none' : name === 'version' ? `v${value}` : String(value))).filter((_, i, all) => i === 0 || all[0] !== nulls.preset).join(' ')
}

// Intervals of 95 % for the difference between two rates, and between two mean scores.

const z = 1.959964

/** Fewer than this many on a side are too few to tell a difference. */
export const fewest = 30

/** Returns Wilson's interval of a rate of n. @param {Rate} rate @returns {Interval} */
export function wilson({ rate, n }) {
	if (n === 0) {
		return { low: 0, high: 1 }
	}
	const scale = 1 + z * z / n
	const middle = (rate + z * z / (2 * n)) / scale
	const half = z / scale * Math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
	return { low: Math.max(0, middle - half), high: Math.min(1, middle + half) }
}

/** Returns Newcombe's interval of b - a, from Wilson's of each (his method 10). @param {Rate} a @param {Rate} b @returns {Interval} */
export function ofRates(a, b) {
	const inA = wilson(a), inB = wilson(b), difference = b.rate - a.rate
	const exact = (/** @type {number} */ n) => Number(n.toFixed(12)) // without the noise of sums, which would pass for a difference
	return {
		low: exact(difference - Math.hypot(b.rate - inB.low, inA.high - a.rate)),
		high: exact(difference + Math.hypot(inB.high - b.rate, a.rate - inA.low)),
	}
}

/**
 * Returns an interval of b - a for means of scores from -1 to 1. The variance is unknown.
 * It is the largest if each score is -1 or 1, and then the mean is a rate. So the interval
 * is too wide rather than too narrow.
 * @param {Score} a @param {Score} b @returns {Interval}
 */
export function ofMeans(a, b) {
	const asRate = (/** @type {Score} */ { mean, count }) => ({ rate: (mean + 1) / 2, n: count })
	const { low, high } = ofRates(asRate(a), asRate(b))
	return { low: 2 * low, high: 2 * high }
}

/**
 * Reports whether sums of scores can be those of 0 and 1 alone: none is negative, and each
 * is a whole number. A mean has six digits, so large sums cannot be judged.
 * @param {Score[]} scores
 */
export function areBoolean(scores) {
	return scores.every(({ count, mean }) => mean >= 0 && mean <= 1 && count <= 1e5 && Math.abs(mean * count - Math.round(mean * count)) <= count * 6e-7)
}

/** Says what an interval of b - a tells. @param {Interval} interval @param {number} fewer the smaller side @returns {Verdict} */
export function verdict({ low, high }, fewer) {
	return fewer < fewest ? 'thin' : low > 0 ? 'more' : high < 0 ? 'less' : 'open'
}
