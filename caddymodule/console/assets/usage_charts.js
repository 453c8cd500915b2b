// The charts of a usage report. All of them mark the same time.

import { button, h, number, row, table, user } from './elements.js'
import { lineChart, sample, timeText } from './chart.js'
import { copy } from './copy.js'
import { costEach, costText, countText, durationText, seriesName, shortText, sumOf } from './usage_figures.js'

const mostLines = 5
const refusals = 'Refused by limits'

/** Charts with the same scale have the same largest value. @type {Metric[]} */
const metrics = [
	{ name: 'Requests', scale: 'requests', of: (one) => one.requests, text: countText, axis: shortText, isWhole: true },
	{ name: 'Errors', scale: 'errors', of: (one) => one.errors, text: countText, axis: shortText, isWhole: true },
	{ name: 'Input tokens', scale: 'input', of: (one) => one.input_tokens, text: countText, axis: shortText, isWhole: true },
	{ name: 'Output tokens', scale: 'output', of: (one) => one.output_tokens, text: countText, axis: shortText, isWhole: true },
	{ name: 'Cost', scale: 'cost', of: (one) => (one.requests === 0 ? 0 : one.cost === null ? null : Number(one.cost)), text: costText, axis: shortCost, isWhole: false, missing: 'No cost is known. A gateway tells it, or a price in usage estimates it.' },
	{ name: 'Cost of a request', scale: 'each', of: costEach, text: costText, axis: shortCost, isWhole: false, missing: 'No cost is known.' },
	{ name: 'Duration, p50', scale: 'duration', of: (one) => one.duration_ms?.p50 ?? null, text: durationText, axis: durationText, isWhole: false, missing: 'No request has ended.' },
	{ name: 'Duration, p95', scale: 'duration', of: (one) => one.duration_ms?.p95 ?? null, text: durationText, axis: durationText, isWhole: false, missing: 'No request has ended.' },
	{ name: 'First content, p50', scale: 'content', of: (one) => one.first_content_ms?.p50 ?? null, text: durationText, axis: durationText, isWhole: false, missing: 'Only streams have a time to first content.' },
	{ name: 'First content, p95', scale: 'content', of: (one) => one.first_content_ms?.p95 ?? null, text: durationText, axis: durationText, isWhole: false, missing: 'Only streams have a time to first content.' },
	{ name: refusals, scale: 'refused', of: (one) => one.refused, text: countText, axis: shortText, isWhole: true },
]

/** @param {number} n */
function shortCost(n) {
	return `$${n >= 1000 ? shortText(n) : Number(n.toPrecision(6))}`
}

/** Returns the series to draw. All but the busiest are drawn as their sum. @param {UsageSeries[]} series */
function drawn(series) {
	const busy = new Set([...series].sort((a, b) => b.total.requests - a.total.requests).slice(0, series.length > mostLines + 1 ? mostLines : mostLines + 1))
	const rest = series.filter((one) => !busy.has(one))
	const named = series.filter((one) => busy.has(one)).map(({ key, total, points }, style) => ({ name: seriesName(key), style, total, points }))
	return rest.length === 0 ? named : [...named, {
		name: `${rest.length} others`, style: mostLines, total: sumOf(rest.map(({ total }) => total)),
		points: rest[0].points.map((_, i) => sumOf(rest.map(({ points }) => points[i]))),
	}]
}

/**
 * Makes the charts. What is open and marked stays so when a newer report is drawn.
 * @param {UsageReport} report @param {ChartState} state
 */
export function charts(report, state) {
	const lines = drawn(report.series)
	const times = report.series[0].points.map(({ time }) => Date.parse(time))
	const step = report.step === 'hour' ? 3600000 : 86400000
	const spoken = h('p', { class: 'unseen', 'aria-live': 'polite' })
	/** @param {Metric} metric */
	const largestOf = (metric) => Math.max(0, ...metrics.filter(({ scale }) => scale === metric.scale).flatMap(({ of }) => lines.flatMap(({ points }) => points.map((point) => of(point) ?? 0))))
	const all = metrics.filter(({ name }) => name !== refusals || lines.some(({ total }) => total.refused > 0)).map((metric) => chartOf(report, metric, lines, times, step, largestOf(metric), state, mark))

	/** Marks a time in all charts, and tells it for one. @param {number} index @param {Metric} metric */
	function mark(index, metric) {
		state.marked = index < 0 ? '' : report.series[0].points[index].time
		all.forEach((one) => one.mark(index))
		spoken.textContent = index < 0 ? '' : `${timeText(times[index], step)}: ${lines.map(({ name, points }) => `${name} ${valueText(metric, points[index])}`).join(', ')}`
	}
	const index = report.series[0].points.findIndex(({ time }) => time === state.marked)
	if (index >= 0) {
		all.forEach((one) => one.mark(index))
	}
	return h('div', null,
		h('p', { class: 'unseen', id: 'chart-help' }, 'Arrow keys read the values at a time. The table below has all.'),
		h('div', { class: 'charts' }, all.map(({ element }) => element)), spoken)
}

/** @param {Metric} metric @param {Figures} figures */
function valueText(metric, figures) {
	const value = metric.of(figures)
	return value === null ? '–' : metric.text(value)
}

/**
 * @param {UsageReport} report @param {Metric} metric @param {DrawnSeries[]} series @param {number[]} times @param {number} step
 * @param {number} largest @param {ChartState} state @param {(index: number, metric: Metric) => void} mark
 */
function chartOf(report, metric, series, times, step, largest, state, mark) {
	const heading = h('h3', null, metric.name)
	if (metric.missing && series.every(({ total }) => metric.of(total) === null)) {
		return { element: h('section', null, heading, h('p', { class: 'empty' }, metric.missing)), mark: () => {} }
	}
	const lines = series.map(({ style, total, points }) => ({ style, values: points.map((point) => (metric.of(total) === null && point.requests === 0 ? null : metric.of(point))) }))
	const values = series.map(() => h('span', { class: 'number' }))
	const when = h('span', { class: 'muted small number' })
	const legend = h('ul', { class: 'legend' }, series.map(({ name, style }, i) => h('li', null, sample(style), user(name), ' ', values[i])))
	/** @param {number} index */
	const show = (index) => {
		when.textContent = index < 0 ? `per ${report.step}` : timeText(times[index], step)
		series.forEach(({ total, points }, i) => (values[i].textContent = valueText(metric, index < 0 ? total : points[index])))
	}
	show(-1)
	const chart = lineChart({
		name: `${metric.name} per ${report.step}, ${timeText(times[0], step)} to ${timeText(times[times.length - 1], step)} UTC. ${series.map(({ name, total }) => `${name}: ${valueText(metric, total)}`).join(', ')}.`,
		describedBy: 'chart-help', lines, times, step, largest, isWhole: metric.isWhole, format: metric.axis, onMark: (index) => mark(index, metric),
	})
	return {
		element: h('section', null, h('p', { class: 'chart-heading' }, heading, when), legend, chart.element, tableOf(metric, series, times, step, state)),
		mark: (/** @type {number} */ index) => {
			chart.mark(index)
			show(index)
		},
	}
}

/** Makes the table behind a chart. It is filled when it is opened. @param {Metric} metric @param {DrawnSeries[]} series @param {number[]} times @param {number} step @param {ChartState} state */
function tableOf(metric, series, times, step, state) {
	const place = h('div')
	const text = () => [['time', ...series.map(({ name }) => name)], ...times.map((time, i) => [new Date(time).toISOString(), ...series.map(({ points }) => metric.of(points[i]) ?? '')])].map((cells) => cells.map((cell) => String(cell).replace(/\s+/g, ' ')).join('\t')).join('\n')
	const fillPlace = () => place.replaceChildren(
		h('div', { class: 'wide-box tall', tabindex: 0, role: 'region', 'aria-label': `Table of ${metric.name}` },
			table(metric.name, ['Time, UTC', ...series.map(({ name }) => user(name))], times.map((time, i) => row([
				['Time', number(timeText(time, step))], ...series.map(({ name, points }) => /** @type {[string, Child]} */ ([name, number(valueText(metric, points[i]))])),
			])), 'figures')),
		button('Copy', () => copy(text()), { class: 'small', 'aria-label': `Copy the table of ${metric.name}`, 'data-key': `copy-${metric.name}` }))
	const details = h('details', {
		open: state.open.has(metric.name),
		ontoggle: () => {
			if (details.open) {
				state.open.add(metric.name)
				place.childElementCount || fillPlace()
			} else {
				state.open.delete(metric.name)
			}
		},
	}, h('summary', { 'data-key': `table-${metric.name}` }, 'Table', h('span', { class: 'unseen' }, ` of ${metric.name}`)), place)
	if (details.open) {
		fillPlace()
	}
	return details
}
