// The figures of a usage report: their names, their texts, and their sums.

const counts = new Intl.NumberFormat('en')
const short = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 })
const large = new Intl.NumberFormat('en', { minimumFractionDigits: 2, maximumFractionDigits: 2 })
const small = new Intl.NumberFormat('en', { maximumSignificantDigits: 3 })

/** @param {number} n */
export const countText = (n) => counts.format(n)
/** @param {number} n @param {string} word */
export const countOf = (n, word) => `${countText(n)} ${word}${n === 1 ? '' : 's'}`
/** @param {number} n */
export const shortText = (n) => short.format(n)
/** @param {number} n */
export const costText = (n) => `$${n >= 1 ? large.format(n) : small.format(n).replace(/\.\d$/, '$&0')}`
/** @param {number} rate */
export const percentText = (rate, digits = 1) => `${(100 * rate).toFixed(digits)} %`
/** @param {number} ms */
export const durationText = (ms) => (ms >= 9999.5 ? `${counts.format(Number((ms / 1000).toFixed(1)))} s` : ms >= 999.5 ? `${Number((ms / 1000).toFixed(2))} s` : `${Number(ms.toPrecision(3))} ms`)

const summed = /** @type {const} */ (['requests', 'errors', 'aborted', 'streamed', 'unknown', 'refused', 'input_tokens', 'output_tokens', 'cache_read_input_tokens', 'reasoning_output_tokens', 'cost_unknown'])

/**
 * A number with so many decimals, or with more: rounding never makes zero of what is none.
 * @param {number} n @param {number} digits
 */
export function fixedText(n, digits) {
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
