// The totals of a usage report: all series side by side, and what is not known of them.

import { toPreset, toVersion } from './addresses.js'
import { h, number, row, table, user } from './elements.js'
import { costEach, costText, countOf, countText, durationText, errorRate, meanText, percentText, seriesName, sumOf } from './usage_figures.js'

/** A figure with a second one below it. @param {Child} first @param {Child} [second] */
export const figure = (first, second) => [number(first), second ? h('span', { class: 'below' }, ' ', second) : null]

const none = () => h('span', { class: 'muted' }, '–')

/** @param {At} at @param {UsageKey} key */
function link(at, key) {
	const text = user(seriesName(key))
	if (key.other || key.preset === null || (!key.preset && !key.version)) {
		return text
	}
	const of = { ...at, slug: key.preset ?? at.slug }
	return h('a', { href: key.version ? toVersion(of, key.version) : toPreset(of, 'usage'), 'data-key': `series-${seriesName(key)}`, 'data-row': true }, text)
}

/** @param {Percentiles | null} of */
const percentiles = (of) => (of ? figure(h('span', null, h('span', { class: 'muted' }, 'p50 '), durationText(of.p50)), `p95 ${durationText(of.p95)}`) : none())

/** @param {number} part @param {number} whole @param {string} word */
const share = (part, whole, word) => part > 0 && `${percentText(part / whole, 0)} ${word}`

/** Makes the table of totals. @param {At} at @param {UsageReport} report @param {string} first the name of its first column */
export function totals(at, { series }, first) {
	const names = [...new Set(series.flatMap(({ total }) => Object.keys(total.feedback)))].sort()
	const rows = series.map(({ key, total }) => {
		const each = costEach(total)
		return row([
			[first, link(at, key)],
			['Requests', figure(countText(total.requests), [total.aborted > 0 && `${countText(total.aborted)} aborted`, total.refused > 0 && `${countText(total.refused)} refused`].filter(Boolean).join(', '))],
			['Errors', figure(countText(total.errors), percentText(errorRate(total)))],
			['Input tokens', figure(countText(total.input_tokens), share(total.cache_read_input_tokens, total.input_tokens, 'from a cache'))],
			['Output tokens', figure(countText(total.output_tokens), share(total.reasoning_output_tokens, total.output_tokens, 'reasoning'))],
			['Unknown', total.unknown > 0 ? figure(countText(total.unknown), percentText(total.unknown / total.requests)) : none()],
			['Cost', total.cost === null ? none() : figure(h('span', { title: total.cost }, costText(Number(total.cost))), [total.cost_estimated && 'estimated', total.cost_unknown > 0 && `${countText(total.cost_unknown)} unknown`].filter(Boolean).join(', '))],
			['Cost each', each === null ? none() : figure(costText(each), total.cost_estimated && 'estimated')],
			['Duration', percentiles(total.duration_ms)],
			['First content', percentiles(total.first_content_ms)],
			...names.map((name) => /** @type {[string, Child[]]} */ ([name, scoreText(total.feedback[name])])),
		])
	})
	const head = [first, 'Requests', 'Errors', 'Input tokens', 'Output tokens', 'Unknown', 'Cost', 'Cost each', 'Duration', 'First content', ...names.map(user)]
	return h('div', { class: 'wide-box', tabindex: 0, role: 'region', 'aria-label': 'Totals, side by side' }, table('Totals', head, rows, 'figures'))
}

/** @param {Score | undefined} score */
const scoreText = (score) => (score ? figure(meanText(score.mean), countOf(score.count, 'score')) : [none()])

/** Sums up a report in words, with what is not known. @param {UsageReport} report */
export function summary({ series, step }) {
	const all = sumOf(series.map(({ total }) => total))
	const { requests, errors, unknown, refused, cost } = all
	return [
		h('p', { class: 'number' }, h('strong', null, countOf(requests, 'request')),
			refused > 0 && `, ${countText(refused)} more refused by limits`,
			`, ${countOf(errors, 'error')} (${percentText(errorRate(all))}), ${countText(all.input_tokens)} input and ${countText(all.output_tokens)} output tokens`,
			cost !== null && `, cost ${costText(Number(cost))}${all.cost_estimated ? ' (estimated)' : ''}`, '.'),
		h('p', { class: 'hint' },
			unknown > 0 && `The tokens of ${countOf(unknown, 'request')} are unknown, and count nowhere. `,
			cost !== null && all.cost_unknown > 0 && `The cost of ${countOf(all.cost_unknown, 'request')} is unknown, and counts nowhere. `,
			all.cost_estimated && 'Estimated costs are by the prices of the server, since the gateway gives none. ',
			`Times are in UTC. The last ${step} is not over.`),
	]
}
