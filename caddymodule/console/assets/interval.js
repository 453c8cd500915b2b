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
