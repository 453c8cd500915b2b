// The versions of a split against each other: differences, and what they tell.

import { code, h, number, row, table, user } from './elements.js'
import { areBoolean, fewest, ofMeans, ofRates, verdict } from './interval.js'
import { targetText } from './labels.js'
import { figure } from './usage_totals.js'
import { costEach, costText, countOf, countText, durationText, errorRate, percentText, sumOf } from './usage_figures.js'

/** A number with its sign. @param {number} n @param {number} digits */
const signed = (n, digits) => `${n < 0 && Number(n.toFixed(digits)) !== 0 ? '−' : '+'}${Math.abs(n).toFixed(digits)}`
/** @param {number} rate */
const points = (rate) => signed(100 * rate, 1)
/** @param {number} mean */
const meanText = (mean) => mean.toFixed(3).replace('-', '−')

/** Shows each split of a preset. @param {UsageReport} report @param {Record<string, Target>} labels */
export function splits(report, labels) {
	const of = Object.entries(labels).filter(([, { split }]) => split && split.length > 1)
	return of.length > 0 && h('section', { class: 'splits' }, of.map(([label, target]) => splitOf(report, label, target)))
}

/** Compares each version of a split with the one that has the most weight. @param {UsageReport} report @param {string} label @param {Target} target */
function splitOf(report, label, target) {
	const shares = [...target.split ?? []].sort((a, b) => b.weight - a.weight || a.version - b.version)
	const of = (/** @type {number} */ version) => report.series.find(({ key }) => key.version === version) ?? { key: { version }, total: sumOf([]), points: [] }
	const base = of(shares[0].version)
	return h('div', null,
		h('h3', null, 'Split ', code(label), ' ', h('span', { class: 'muted number' }, targetText({ split: target.split }))),
		shares.slice(1).map(({ version }) => comparison(base, of(version))),
		h('p', { class: 'hint' }, 'All requests to these versions in this time count, whatever label they came by. Errors have Newcombe’s interval of 95 %. One comparison of twenty shows a difference where there is none.'))
}

/** @param {UsageSeries} a @param {UsageSeries} b */
function comparison(a, b) {
	const [nameA, nameB] = [a, b].map(({ key }) => `v${key.version}`)
	const names = [...new Set([...Object.keys(a.total.feedback), ...Object.keys(b.total.feedback)])].sort()
	const rows = [errors(a.total, b.total, nameA, nameB), ...names.map((name) => feedback(a, b, name, nameA, nameB)), ...plain(a.total, b.total, nameA, nameB)]
	return h('div', { class: 'wide-box', tabindex: 0, role: 'region', 'aria-label': `${nameB} against ${nameA}` },
		table(`${nameB} against ${nameA}`, ['Figure', nameA, nameB, 'Difference', '95 % interval', 'In words'], rows.map(({ name, inA, inB, difference, interval, words }) => row([
			['Figure', name], [nameA, inA], [nameB, inB], ['Difference', number(difference)], ['95 % interval', number(interval)], ['In words', words],
		])), 'figures in-words'))
}

/** Says what a verdict means. @param {Verdict} told @param {number} fewer @param {string} what @param {{ more: string, less: string }} words */
function sentence(told, fewer, what, words) {
	switch (told) {
		case 'thin': return `Too few to tell: a version has ${countOf(fewer, what)}. Each needs ${fewest}.`
		case 'open': return 'No difference can be told yet.'
		default: return h('strong', null, words[told])
	}
}

/** @param {Figures} a @param {Figures} b @param {string} nameA @param {string} nameB */
function errors(a, b, nameA, nameB) {
	const interval = ofRates({ rate: errorRate(a), n: a.requests }, { rate: errorRate(b), n: b.requests })
	const fewer = Math.min(a.requests, b.requests)
	const side = (/** @type {Figures} */ one) => figure(one.requests === 0 ? '–' : percentText(errorRate(one)), `${countText(one.errors)} of ${countText(one.requests)}`)
	return {
		name: 'Errors', inA: side(a), inB: side(b), ...(fewer === 0 ? nothing : { difference: `${points(errorRate(b) - errorRate(a))} points`, interval: `${points(interval.low)} to ${points(interval.high)}` }),
		words: sentence(verdict(interval, fewer), fewer, 'request', { more: `${nameB} fails more often than ${nameA}.`, less: `${nameB} fails less often than ${nameA}.` }),
	}
}

const nothing = { difference: '–', interval: '–' }

/**
 * Scores of 0 and 1 are a rate. Of others the report does not have the spread, so their
 * interval supposes the widest one.
 * @param {UsageSeries} a @param {UsageSeries} b @param {string} name @param {string} nameA @param {string} nameB
 */
function feedback(a, b, name, nameA, nameB) {
	const none = { count: 0, mean: 0 }
	const inA = a.total.feedback[name] ?? none, inB = b.total.feedback[name] ?? none
	const isRate = areBoolean([a, b].flatMap(({ points: all, total }) => (all.length > 0 ? all : [total]).flatMap((one) => one.feedback[name] ?? [])))
	const interval = isRate ? ofRates({ rate: inA.mean, n: inA.count }, { rate: inB.mean, n: inB.count }) : ofMeans(inA, inB)
	const fewer = Math.min(inA.count, inB.count)
	const side = (/** @type {Score} */ { count, mean }) => figure(count === 0 ? '–' : isRate ? percentText(mean) : meanText(mean), `of ${countText(count)}`)
	const text = isRate ? points : (/** @type {number} */ n) => signed(n, 3)
	return {
		name: figure(h('span', null, 'Feedback ', user(name)), isRate ? 'scores of 0 and 1, as a rate' : 'mean of scores from −1 to 1. The interval is for the widest spread'),
		inA: side(inA), inB: side(inB), ...(fewer === 0 ? nothing : { difference: text(inB.mean - inA.mean) + (isRate ? ' points' : ''), interval: `${text(interval.low)} to ${text(interval.high)}` }),
		words: sentence(verdict(interval, fewer), fewer, 'score', { more: `${nameB} is rated higher than ${nameA}.`, less: `${nameB} is rated lower than ${nameA}.` }),
	}
}

/** Cost and time. A report has no spread of them. @param {Figures} a @param {Figures} b @param {string} nameA @param {string} nameB */
function plain(a, b, nameA, nameB) {
	/** @type {[string, (one: Figures) => number | null, (n: number) => string, string, string][]} */
	const figures = [
		['Cost of a request', costEach, costText, 'costs more', 'costs less'],
		['Duration, p50', (one) => one.duration_ms?.p50 ?? null, durationText, 'takes longer', 'takes less time'],
		['Duration, p95', (one) => one.duration_ms?.p95 ?? null, durationText, 'takes longer', 'takes less time'],
		['First content, p50', (one) => one.first_content_ms?.p50 ?? null, durationText, 'begins later', 'begins earlier'],
	]
	return figures.flatMap(([name, of, text, more, less]) => {
		const inA = of(a), inB = of(b)
		if (inA === null && inB === null) {
			return []
		}
		const isKnown = inA !== null && inB !== null && inA > 0
		const ratio = isKnown ? inB / inA - 1 : 0
		return [{
			name, inA: number(inA === null ? '–' : text(inA)), inB: number(inB === null ? '–' : text(inB)),
			difference: isKnown ? `${signed(100 * ratio, 1)} %` : '–', interval: '–',
			words: isKnown ? h('span', { class: 'muted' }, `${nameB} ${ratio > 0 ? more : less} than ${nameA}. No interval is known.`) : '',
		}]
	})
}
