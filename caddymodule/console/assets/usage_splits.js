// The versions of a split against each other: differences, and what they tell.

import { presetPath } from './addresses.js'
import { button, code, fill, h, number, row, table, user } from './elements.js'
import * as api from './api.js'
import { timeText } from './chart.js'
import { areBoolean, fewest, ofMeans, ofRates, verdict } from './interval.js'
import { putLive } from './put_live.js'
import { serveReason } from './rights.js'
import { live, load } from './states.js'
import { targetText } from './texts.js'
import { figure } from './usage_totals.js'
import { costEach, costText, countOf, countText, durationText, errorRate, meanText, percentText, signedText, sumOf } from './usage_figures.js'

/** @param {number} rate */
const points = (rate) => signedText(100 * rate, 1)
/** @param {string} time */
const utc = (time) => `${timeText(Date.parse(time), 1)} UTC`

/**
 * Shows each split of a preset. Its own requests since its last change count. The element stays
 * the same while neither the splits nor the time from which the report counts change.
 * @param {Context} context @param {() => PresetAnswer} preset
 */
export function splits(context, preset) {
	const element = h('section', { class: 'splits' })
	let shown = '', ending = new AbortController()
	context.signal.addEventListener('abort', () => ending.abort())
	return {
		/** @param {Record<string, Target>} labels @param {string} from */
		show: (labels, from) => {
			const of = Object.entries(labels).filter(([, { split }]) => split && split.length > 1)
			const name = JSON.stringify([of, from])
			if (name !== shown) {
				shown = name
				ending.abort()
				ending = new AbortController()
				fill(element, of.map(([label, target]) => splitOf({ ...context, signal: ending.signal }, preset, label, target, from)))
			}
			return of.length > 0 && element
		},
	}
}

/** @param {Context} context @param {() => PresetAnswer} preset @param {string} label @param {Target} target @param {string} from */
function splitOf(context, preset, label, target, from) {
	const place = h('div')
	load(place, context.signal, async () => {
		const { data } = await api.read(presetPath(context.at, `labels/${encodeURIComponent(label)}`, { offset: 0, limit: 100 }), context.signal)
		const since = changeOf(data.history)
		const path = presetPath(context.at, 'usage', { by: 'version', step: 'hour', from, label, since })
		return live(context, path, (answer) => judged(answer.data, target.split ?? [], since, (version) => button(`Put v${version} live`, () => putLive(context, preset(), version), {
			class: 'small', disabled: serveReason(context.at, preset().data) !== '' || preset().data.designated_version.version === version, 'data-key': `live ${label} ${version}`,
		}))).element
	})
	return h('div', null, h('h3', null, 'Split ', code(label), ' ', h('span', { class: 'muted number' }, targetText({ split: target.split }))), place)
}

/** Returns when the target was last changed, and not its protection alone. The newest change is the first. @param {LabelChange[]} history */
function changeOf(history) {
	const text = (/** @type {Target | null} */ target) => JSON.stringify([target?.version, target?.split])
	return (history.find(({ from, to }) => text(from) !== text(to)) ?? history[history.length - 1]).time
}

/** Compares each version of a split with the one that has the most weight. @param {UsageReport} report @param {Share[]} split @param {string} since @param {(version: number) => Child} action */
function judged(report, split, since, action) {
	const isCut = Date.parse(report.from) >= Date.parse(since)
	if (report.from === report.to) {
		return h('p', { class: 'muted' }, `The split was changed at ${utc(since)}. Sums are of whole hours, so its requests count from ${utc(report.from)} on.`)
	}
	const shares = [...split].sort((a, b) => b.weight - a.weight || a.version - b.version)
	const of = (/** @type {number} */ version) => report.series.find(({ key }) => key.version === version) ?? { key: { version }, total: sumOf([]), points: [] }
	const base = of(shares[0].version)
	return [
		...shares.slice(1).map(({ version }) => comparison(base, of(version), action(version))),
		h('p', { class: 'hint' }, `Requests by this label since ${utc(report.from)} count`, isCut && `, the first full hour after the split was last changed at ${utc(since)}`,
			'. Errors have Newcombe’s interval of 95 %. One comparison of twenty shows a difference where there is none.'),
	]
}

/** The verdict in words, and all figures below it. @param {UsageSeries} a @param {UsageSeries} b @param {Child} action */
function comparison(a, b, action) {
	const [nameA, nameB] = [a, b].map(({ key }) => `v${key.version}`)
	const names = [...new Set([...Object.keys(a.total.feedback), ...Object.keys(b.total.feedback)])].sort()
	const rows = [errors(a.total, b.total, nameA, nameB), ...names.map((name) => feedback(a, b, name, nameA, nameB)), ...plain(a.total, b.total, nameA, nameB)]
	const told = rows.filter(({ words, interval }) => interval !== '–' && words instanceof HTMLElement && words.tagName === 'STRONG')
	return h('div', null, h('p', { class: 'verdict' }, told.length > 0 ? told.map(({ words, difference, interval }) => h('span', null, /** @type {HTMLElement} */ (words).cloneNode(true), h('span', { class: 'muted number' }, ` ${difference}, ${interval} `)))
		: h('strong', null, `No difference between ${nameB} and ${nameA} can be told yet.`), action), h('div', { class: 'wide-box', tabindex: 0, role: 'region', 'aria-label': `${nameB} against ${nameA}` },
		table(`${nameB} against ${nameA}`, ['Figure', nameA, nameB, 'Difference', '95 % interval', 'In words'], rows.map(({ name, inA, inB, difference, interval, words }) => row([
			['Figure', name], [nameA, inA], [nameB, inB], ['Difference', number(difference)], ['95 % interval', number(interval)], ['In words', words],
		])), 'figures in-words')))
}

const nothing = { difference: '–', interval: '–' }

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
		name: 'Errors', inA: side(a), inB: side(b), ...(fewer < fewest ? nothing : { difference: `${points(errorRate(b) - errorRate(a))} points`, interval: `${points(interval.low)} to ${points(interval.high)}` }),
		words: sentence(verdict(interval, fewer), fewer, 'request', { more: `${nameB} fails more often than ${nameA}.`, less: `${nameB} fails less often than ${nameA}.` }),
	}
}

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
	const text = isRate ? points : (/** @type {number} */ n) => signedText(n, 3)
	return {
		name: figure(h('span', null, 'Feedback ', user(name)), isRate ? 'scores of 0 and 1, as a rate' : 'mean of scores from −1 to 1. The interval is for the widest spread'),
		inA: side(inA), inB: side(inB), ...(fewer < fewest ? nothing : { difference: text(inB.mean - inA.mean) + (isRate ? ' points' : ''), interval: `${text(interval.low)} to ${text(interval.high)}` }),
		words: sentence(verdict(interval, fewer), fewer, 'score', { more: `${nameB} is rated higher than ${nameA}.`, less: `${nameB} is rated lower than ${nameA}.` }),
	}
}

/** Cost and time. A report has no spread of them. @param {Figures} a @param {Figures} b @param {string} nameA @param {string} nameB */
function plain(a, b, nameA, nameB) {
	const requests = (/** @type {Figures} */ one) => one.requests
	/** @type {[string, (one: Figures) => number | null, (one: Figures) => number, (n: number) => string, string, string][]} */
	const figures = [
		['Cost of a request', costEach, (one) => one.requests - one.unknown, costText, 'costs more', 'costs less'],
		['Duration, p50', (one) => one.duration_ms?.p50 ?? null, requests, durationText, 'takes longer', 'takes less time'],
		['Duration, p95', (one) => one.duration_ms?.p95 ?? null, requests, durationText, 'takes longer', 'takes less time'],
		['First content, p50', (one) => one.first_content_ms?.p50 ?? null, (one) => one.streamed, durationText, 'begins later', 'begins earlier'],
	]
	return figures.flatMap(([name, of, count, text, more, less]) => {
		const inA = of(a), inB = of(b)
		if (inA === null && inB === null) {
			return []
		}
		const isEnough = Math.min(count(a), count(b)) >= fewest
		const isKnown = isEnough && inA !== null && inB !== null
		const isEqual = isKnown && text(inA) === text(inB)
		return [{
			name, inA: number(inA === null ? '–' : text(inA)), inB: number(inB === null ? '–' : text(inB)),
			difference: isEqual ? 'none' : isKnown && inA > 0 ? `${signedText(100 * (inB / inA - 1), 1)} %` : '–', interval: '–',
			words: h('span', { class: 'muted' }, !isEnough ? 'Too few to tell.' : !isKnown ? '' : isEqual ? `${nameB} and ${nameA} are equal${inA === inB ? '' : ', as rounded here'}.` : `${nameB} ${inB > inA ? more : less} than ${nameA}. No interval is known.`),
		}]
	})
}
