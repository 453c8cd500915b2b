// The usage of a preset and of a workspace: what is asked for, and what the answer shows.

import { hasKeys, presetPath, replace, search, toPreset, toPresets, toVersion, toWorkspaceUsage } from './addresses.js'
import { button, choice, code, field, fill, h, number, numberInput, svg, table, textInput, user } from './elements.js'
import { areBoolean, costEach, costText, countOf, countText, durationText, errorRate, fewest, keyName, meanText, ofMeans, ofRates, percentText, seriesName, shortText, signedText, sumOf, targetText, verdict } from './figures.js'
import * as api from './api.js'
import * as session from './session.js'
import { presetFrame, putLive, queryOf, refOf, serveReason } from './preset.js'
import { ask, attempt, download, live, load, readUntilDone, say, snippet } from './states.js'

// The currency of costs. They are measured in US dollars, and shown at the rate that someone states.

const storedCurrency = 'presets.currency', dollar = { code: 'USD', rate: 1 }
const currency = { ...dollar, ...JSON.parse(sessionStorage.getItem(storedCurrency) ?? '{}') }

/** The sign of the currency, or its letters. It throws if there is no such currency. */
const symbol = (of = currency.code) => new Intl.NumberFormat('en', { style: 'currency', currency: of, currencyDisplay: 'narrowSymbol' }).formatToParts(0)[0].value.replace(/\w$/, '$&\u00a0')

/** @param {number} usd */
const paidText = (usd) => costText(usd * currency.rate, symbol())

/** @param {Context} context @param {() => void} changed */
function chooseCurrency(context, changed) {
	const letters = textInput({ value: currency.code, maxlength: 3, autofocus: true }), rate = numberInput(currency.rate)
	ask(context, 'Currency', 'Currency of costs', [field('Currency', letters, 'Three letters, such as EUR.'), field('A US dollar is', rate, 'The rate is yours, and stays in this tab. Downloads and limits are in US dollars.')], async () => {
		const next = { code: letters.value.trim().toUpperCase(), rate: Number(rate.value) }
		if (!/^[A-Z]{3}$/.test(next.code) || !(next.rate > 0) || !isFinite(next.rate)) {
			throw api.newFailure('A currency has three letters, and its rate is a number above 0.', { status: 400 })
		}
		Object.assign(currency, next.code === 'USD' ? dollar : next)
		sessionStorage.setItem(storedCurrency, JSON.stringify(currency))
		changed()
	}, { confirm: 'Save' })
}

// A chart of lines over time, as an SVG element. It knows nothing of what it shows.

const height = 176, top = 14, bottom = 24, right = 12
const anHour = 3600000
const intervals = [1, 2, 3, 6, 12, 24, 48, 72, 120, 168, 336].map((hours) => hours * anHour)
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' })
const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', timeZone: 'UTC' })

/** Returns round numbers from 0 to at least a largest value. @param {number} largest @param {boolean} isWhole */
function ticksTo(largest, isWhole) {
	const rough = (largest || 1) / 4, power = 10 ** Math.floor(Math.log10(rough))
	const step = Math.max(isWhole ? 1 : 0, power * ([1, 2, 2.5, 5].find((n) => n * power >= rough && !(isWhole && n * power % 1)) ?? 10))
	const count = Math.max(1, Math.ceil((largest || 1) / step - 1e-9))
	return Array.from({ length: count + 1 }, (_, i) => Number((i * step).toPrecision(12)))
}

/** @param {number} time @param {number} step */
const timeText = (time, step) => (step < 24 * anHour ? `${day.format(time)} ${clock.format(time)}` : day.format(time))

/** @param {number} style */
const lineClass = (style) => `line line-${style}`

/** The sample of a line, or of bars, for a legend. @param {number} style @param {boolean} areBars */
const sample = (style, areBars) => svg('svg', { class: 'sample', width: areBars ? 10 : 24, height: 10, 'aria-hidden': 'true' },
	areBars ? svg('rect', { class: `dot-${style}`, width: 10, height: 10 }) : svg('path', { class: lineClass(style), d: 'M0 5H24' }))

/** Returns the path of a line. It goes on over times without a value. @param {(number | null)[]} values @param {(i: number) => number} x @param {(value: number) => number} y */
const trace = (values, x, y) => values.map((value, i) => (value === null ? '' : `L${x(i).toFixed(1)} ${y(value).toFixed(1)}`)).join('').replace('L', 'M')

/**
 * Draws lines, or bars on top of each other, and a line at the time of each event. A pointer or the
 * arrow keys mark a time, and onMark is told its index, or -1 for none.
 * @type {MakeChart}
 */
function lineChart({ name, describedBy, lines, areBars, events, times, step, largest, isWhole, format, onMark }) {
	const ticks = ticksTo(largest, isWhole), labels = ticks.map(format)
	const left = 10 + 7 * Math.max(...labels.map((label) => label.length))
	const cursor = svg('g', { class: 'cursor' })
	const picture = svg('svg', { role: 'img', 'aria-label': name, 'aria-describedby': describedBy, tabindex: 0, 'data-key': `chart-${name.split('.')[0]}` })
	let width = 0, marked = -1
	const slot = () => (width - left - right) / times.length
	const x = (/** @type {number} */ i) => left + (i + 0.5) * slot()
	const y = (/** @type {number} */ value) => height - bottom - value / ticks[ticks.length - 1] * (height - top - bottom)
	const dot = (/** @type {number} */ i, /** @type {number} */ value, /** @type {number} */ style) => svg('circle', { class: `dot-${style}`, cx: x(i), cy: y(value), r: 3 })

	const timeLabels = () => {
		const interval = intervals.find((one) => one >= step && one / step * slot() >= 64) ?? intervals[intervals.length - 1]
		return times.flatMap((time, i) => {
			const at = left + i * slot()
			if (time % interval !== 0 || at > width - 20) {
				return []
			}
			return [
				svg('path', { class: 'grid', d: `M${at.toFixed(1)} ${height - bottom}v5` }),
				svg('text', { x: at, y: height - 5, 'text-anchor': at < left + 8 ? 'start' : 'middle' }, time % (24 * anHour) === 0 ? day.format(time) : clock.format(time)),
			]
		})
	}
	const bars = () => times.flatMap((_, i) => {
		let from = 0
		return lines.flatMap(({ values, style }) => {
			const value = values[i] ?? 0, top_ = y(from + value), size = y(from) - top_
			from += value
			return value > 0 ? [svg('rect', { class: `dot-${style}`, x: (left + i * slot() + Math.min(2, slot() / 8)).toFixed(1), y: top_.toFixed(1), width: Math.max(1, slot() - Math.min(4, slot() / 4)).toFixed(1), height: Math.max(1, size).toFixed(1) })] : []
		})
	})
	/** Their names are left out where they would lie on one another. */
	const eventLines = () => {
		let free = 0
		return events.flatMap(({ time, text, all }) => {
			const at = left + (time - times[0]) / step * slot(), size = 7 * text.length, isLeft = at + size > width - right // there is no room on the right
			const isNamed = at - (isLeft ? size : 0) >= free
			free = isNamed ? at + (isLeft ? 0 : size) + 12 : free
			return [svg('path', { class: 'event', d: `M${at.toFixed(1)} ${top - 8}V${height - bottom}` }, svg('title', {}, all ?? text)), ...(isNamed ? [svg('text', { class: 'event-name', x: (at + (isLeft ? -4 : 4)).toFixed(1), y: top, 'text-anchor': isLeft ? 'end' : 'start' }, text)] : [])]
		})
	}
	const draw = () => {
		fill(picture,
			ticks.map((value, i) => [
				svg('path', { class: 'grid', d: `M${left} ${y(value).toFixed(1)}H${width - right}` }),
				svg('text', { x: left - 6, y: y(value) + 4, 'text-anchor': 'end' }, labels[i]),
			]).flat(),
			timeLabels(),
			areBars ? bars() : lines.flatMap(({ values, style }) => {
				const known = values.flatMap((value, i) => (value === null ? [] : [i]))
				return [svg('path', { class: lineClass(style), d: trace(values, x, y) }), ...(known.length === 1 ? [dot(known[0], values[known[0]] ?? 0, style)] : [])]
			}),
			eventLines(), cursor)
		drawCursor()
	}
	const drawCursor = () => {
		const i = marked
		fill(cursor, i >= 0 && svg('path', { d: `M${x(i).toFixed(1)} ${top}V${height - bottom}` }), i >= 0 && !areBars && lines.flatMap(({ values, style }) => {
			const value = values[i] ?? null
			return value === null ? [] : [dot(i, value, style)]
		}))
	}

	picture.addEventListener('pointermove', (event) => {
		const at = event.clientX - picture.getBoundingClientRect().left - left
		onMark(Math.min(times.length - 1, Math.max(0, Math.floor(at / slot()))))
	})
	picture.addEventListener('pointerleave', () => onMark(-1))
	picture.addEventListener('blur', () => onMark(-1))
	picture.addEventListener('keydown', (event) => {
		const last = times.length - 1
		/** @type {Record<string, number>} */
		const next = { ArrowLeft: marked < 0 ? last : Math.max(0, marked - 1), ArrowRight: marked < 0 ? 0 : Math.min(last, marked + 1), Home: 0, End: last, Escape: -1 }
		if (event.key in next && !event.ctrlKey && !event.metaKey && !event.altKey) {
			event.preventDefault()
			onMark(next[event.key])
		}
	})
	const element = h('div.chart', picture)
	new ResizeObserver(([entry]) => {
		if (entry.contentRect.width > 0) {
			width = Math.round(entry.contentRect.width)
			draw()
		}
	}).observe(element)
	return {
		element,
		mark: (index) => {
			marked = index
			drawCursor()
		},
	}
}

// The totals of a usage report: all series side by side, and what is not known of them.

/** A figure with a second one below it. @param {Child} first @param {Child} [second] */
const figure = (first, second) => [number(first), second ? h('span.below', ' ', second) : null]

const none = () => h('span.muted', '–')

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
const percentiles = (of) => (of ? figure(h('span', h('span.muted', 'p50 '), durationText(of.p50)), `p95 ${durationText(of.p95)}`) : none())

/** @param {number} part @param {number} whole @param {string} word */
const share = (part, whole, word) => part > 0 && `${percentText(part / whole, 0)} ${word}`

/** Makes the table of totals. @param {At} at @param {UsageReport} report @param {string} first the name of its first column */
function totals(at, { series }, first) {
	const names = [...new Set(series.flatMap(({ total }) => Object.keys(total.feedback)))].sort()
	const rows = series.map(({ key, total }) => {
		const each = costEach(total)
		return /** @type {Cell[]} */ ([
			[first, link(at, key)],
			['Requests', figure(countText(total.requests), [total.aborted > 0 && `${countText(total.aborted)} aborted`, total.refused > 0 && `${countText(total.refused)} refused`].filter(Boolean).join(', '))],
			['Errors', figure(countText(total.errors), percentText(errorRate(total)))],
			['Input tokens', figure(countText(total.input_tokens), share(total.cache_read_input_tokens, total.input_tokens, 'from a cache'))],
			['Output tokens', figure(countText(total.output_tokens), share(total.reasoning_output_tokens, total.output_tokens, 'reasoning'))],
			['Unknown', total.unknown > 0 ? figure(countText(total.unknown), percentText(total.unknown / total.requests)) : none()],
			['Cost', total.cost === null ? none() : figure(h('span', { title: total.cost }, paidText(Number(total.cost))), [total.cost_estimated && 'estimated', total.cost_unknown > 0 && `${countText(total.cost_unknown)} unknown`].filter(Boolean).join(', '))],
			['Cost each', each === null ? none() : figure(paidText(each), total.cost_estimated && 'estimated')],
			['Duration', percentiles(total.duration_ms)],
			['First content', percentiles(total.first_content_ms)],
			...names.map((name) => /** @type {Cell} */ ([name, scoreText(total.feedback[name])])),
		])
	})
	return h('div.wide-box', { tabindex: 0, role: 'region', 'aria-label': 'Totals, side by side' }, table('Totals', rows, 'figures'))
}

/** @param {Score | undefined} score */
const scoreText = (score) => (score ? figure(meanText(score.mean), countOf(score.count, 'score')) : [none()])

/** Says what a report does not know. @param {UsageReport} report */
function summary({ series, step }) {
	const all = sumOf(series.map(({ total }) => total)), { unknown, cost } = all
	return h('p.hint',
		unknown > 0 && `The tokens of ${countOf(unknown, 'request')} are unknown, and count nowhere. `,
		cost !== null && all.cost_unknown > 0 && `The cost of ${countOf(all.cost_unknown, 'request')} is unknown, and counts nowhere. `,
		currency.code !== 'USD' && `Costs are at your rate: a US dollar is ${currency.rate} ${currency.code}. `,
		all.cost_estimated && 'Estimated costs are by the prices of the server, since the gateway gives none. ',
		`Times are in UTC. The last ${step} is not over.`)
}

/** The answer first: four figures, and how they differ from the time before. @param {UsageReport} report @param {UsageReport | undefined} before */
function tiles(report, before) {
	const [all, old] = [report, before].map((one) => one && sumOf(one.series.map(({ total }) => total))), now = /** @type {Figures} */ (all)
	const streaming = report.series.filter(({ total }) => total.first_content_ms).sort((a, b) => b.total.streamed - a.total.streamed), busiest = streaming[0]
	const oldBusiest = busiest && before?.series.find(({ key }) => seriesName(key) === seriesName(busiest.key))
	/** @param {number | null | undefined} a @param {number | null | undefined} b @param {boolean} isRate */
	const change = (a, b, isRate = false) => {
		if (!before) {
			return h('span.muted', ' ')
		}
		const difference = typeof a !== 'number' || typeof b !== 'number' || !old?.requests || (!isRate && b === 0) ? null : isRate ? 100 * (a - b) : 100 * (a / b - 1)
		const text = difference === null ? '' : signedText(difference, isRate ? 1 : 0)
		return h('span.muted', difference === null ? 'nothing before' : Number(text) === 0 ? 'as before' : `${difference > 0 ? '▲' : '▼'} ${text.replace(/^[+−]/, '')} ${isRate ? 'points' : '%'} ${difference > 0 ? 'more' : 'less'} than before`)
	}
	/** @param {Child} figureOf @param {Child} name @param {Child} below */
	const tile = (figureOf, name, below) => h('div.tile', h('p.tile-figure', h('strong.number', figureOf), ' ', name), h('p.small.number', below))
	const rate = errorRate(now)
	return h('section.tiles', { 'aria-label': 'In short' },
		tile(countText(now.requests), now.requests === 1 ? 'request' : 'requests', h('span', now.refused > 0 && h('span.bad', `${countText(now.refused)} more refused by limits`), now.refused > 0 && ' · ', change(now.requests, old?.requests))),
		tile(percentText(rate), 'errors', h('span', `${countText(now.errors)} of ${countText(now.requests)} · `, change(rate, old && errorRate(old), true))),
		tile(now.cost === null ? '–' : paidText(Number(now.cost)), now.cost_estimated ? 'cost, estimated' : 'cost', change(now.cost === null ? null : Number(now.cost), old && old.cost !== null ? Number(old.cost) : null)),
		tile(busiest?.total.first_content_ms ? durationText(busiest.total.first_content_ms.p50) : '–', 'to first text', busiest
			? h('span', 'p50 of ', user(seriesName(busiest.key)), streaming.length > 1 && `, the busiest of ${streaming.length}`, ' · ', change(busiest.total.first_content_ms?.p50, oldBusiest?.total.first_content_ms?.p50)) : h('span.muted', 'no streams')))
}

// The charts of a usage report. All of them mark the same time.

const mostLines = 5, shownFirst = 4
const refusals = 'Refused by limits'

/** @typedef {(name: string, scale: string, of: Metric['of'], missing?: string) => Metric} MakeMetric */
/** @type {MakeMetric} */
const counted = (name, scale, of) => ({ name, scale, of, text: countText, axis: shortText, isWhole: true, areBars: true })
/** @type {MakeMetric} */
const paid = (name, scale, of, missing) => ({ name, scale, of, text: paidText, axis: shortCost, isWhole: false, areBars: scale === 'cost', missing })
/** @type {MakeMetric} */
const lasting = (name, scale, of, missing) => ({ name, scale, of, text: durationText, axis: durationText, isWhole: false, missing })
const noStreams = 'Only streams have a time to first content.', noEnd = 'No request has ended.'

/** Charts with the same scale have the same largest value. */
const metrics = [
	counted('Requests', 'requests', (one) => one.requests),
	counted('Errors', 'errors', (one) => one.errors),
	paid('Cost', 'cost', (one) => (one.requests === 0 ? 0 : one.cost === null ? null : Number(one.cost)), 'No cost is known. A gateway tells it, or a price in usage estimates it.'),
	lasting('First content, p50', 'content', (one) => one.first_content_ms?.p50 ?? null, noStreams),
	counted('Input tokens', 'input', (one) => one.input_tokens),
	counted('Output tokens', 'output', (one) => one.output_tokens),
	paid('Cost of a request', 'each', costEach, 'No cost is known.'),
	lasting('Duration, p50', 'duration', (one) => one.duration_ms?.p50 ?? null, noEnd),
	lasting('Duration, p95', 'duration', (one) => one.duration_ms?.p95 ?? null, noEnd),
	lasting('First content, p95', 'content', (one) => one.first_content_ms?.p95 ?? null, noStreams),
	counted(refusals, 'refused', (one) => one.refused),
]

/** @param {number} n */
function shortCost(n) {
	const cost = n * currency.rate
	return symbol() + (cost >= 1000 ? shortText(cost) : Number(cost.toPrecision(6)))
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
 * Makes the charts, most of them behind More. What is open and marked stays so when a newer report is drawn.
 * @param {UsageReport} report @param {ChartState} state @param {ChartEvent[]} events
 */
function charts(report, state, events) {
	const lines = drawn(report.series)
	const times = report.series[0].points.map(({ time }) => Date.parse(time))
	const step = report.step === 'hour' ? 3600000 : 86400000
	const spoken = h('p.unseen', { 'aria-live': 'polite' })
	/** @param {Metric} metric */
	const largestOf = (metric) => (metric.areBars ? Math.max(0, ...times.map((_, i) => lines.reduce((sum, { points }) => sum + (metric.of(points[i]) ?? 0), 0)))
		: Math.max(0, ...metrics.filter(({ scale }) => scale === metric.scale).flatMap(({ of }) => lines.flatMap(({ points }) => points.map((point) => of(point) ?? 0)))))
	/** The changes of each step, the newest first. @type {Map<number, ChartEvent[]>} */
	const changes = Map.groupBy(events.filter(({ time }) => time >= times[0] && time < times[times.length - 1] + step).sort((a, b) => b.time - a.time), ({ time }) => Math.floor((time - times[0]) / step))
	const inTime = [...changes.values()].map((of) => ({ time: of[0].time, text: of[0].text + (of.length > 1 ? ` +${of.length - 1}` : ''), all: of.map(({ text, time }) => `${text}, ${timeText(time, 1)}`).join(' · ') })).reverse()
	const all = metrics.filter(({ name }) => name !== refusals || lines.some(({ total }) => total.refused > 0)).map((metric) => chartOf(report, metric, lines, times, step, largestOf(metric), mark, inTime))

	/** Marks a time in all charts, and tells it for one. @param {number} index @param {Metric} metric */
	function mark(index, metric) {
		state.marked = index < 0 ? '' : report.series[0].points[index].time
		all.forEach((one) => one.mark(index))
		spoken.textContent = index < 0 ? '' : `${timeText(times[index], step)}: ${[...lines.map(({ name, points }) => `${name} ${valueText(metric, points[index])}`), ...(changes.get(index) ?? []).map(({ text }) => text)].join(', ')}`
	}
	const index = report.series[0].points.findIndex(({ time }) => time === state.marked)
	if (index >= 0) {
		all.forEach((one) => one.mark(index))
	}
	const more = h('details.more', { open: state.isOpen, ontoggle: () => (state.isOpen = more.open) }, h('summary', { 'data-key': 'more' }, 'More'), h('div.charts', all.slice(shownFirst).map(({ element }) => element)))
	return h('div',
		h('p.unseen', { id: 'chart-help' }, 'Arrow keys read the values at a time. Download CSV has all.'),
		h('div.charts', all.slice(0, shownFirst).map(({ element }) => element)),
		more, spoken)
}

/** @param {Metric} metric @param {Figures} figures */
function valueText(metric, figures) {
	const value = metric.of(figures)
	return value === null ? '–' : metric.text(value)
}

/**
 * @param {UsageReport} report @param {Metric} metric @param {DrawnSeries[]} series @param {number[]} times @param {number} step
 * @param {number} largest @param {(index: number, metric: Metric) => void} mark @param {ChartEvent[]} events
 */
function chartOf(report, metric, series, times, step, largest, mark, events) {
	const heading = h('h3', metric.name)
	if (metric.missing && series.every(({ total }) => metric.of(total) === null)) {
		return { element: h('section', heading, h('p.empty', metric.missing)), mark: () => {} }
	}
	const lines = series.map(({ style, total, points }) => ({ style, values: points.map((point) => (metric.of(total) === null && point.requests === 0 ? null : metric.of(point))) }))
	const values = series.map(() => h('span.number'))
	const when = h('span.muted.small.number')
	const legend = h('ul.legend', series.map(({ name, style }, i) => h('li', sample(style, Boolean(metric.areBars)), user(name), ' ', values[i])))
	/** @param {number} index */
	const show = (index) => {
		when.textContent = index < 0 ? `per ${report.step}` : timeText(times[index], step)
		series.forEach(({ total, points }, i) => (values[i].textContent = valueText(metric, index < 0 ? total : points[index])))
	}
	show(-1)
	const chart = lineChart({
		name: `${metric.name} per ${report.step}, ${timeText(times[0], step)} to ${timeText(times[times.length - 1], step)} UTC. ${series.map(({ name, total }) => `${name}: ${valueText(metric, total)}`).join(', ')}.`,
		describedBy: 'chart-help', lines, areBars: Boolean(metric.areBars), events, times, step, largest, isWhole: metric.isWhole, format: metric.axis, onMark: (index) => mark(index, metric),
	})
	return {
		element: h('section', h('p.chart-heading', heading, when), legend, chart.element),
		mark: (/** @type {number} */ index) => {
			chart.mark(index)
			show(index)
		},
	}
}

// The versions of a split against each other: differences, and what they tell.

/** @param {number} rate */
const pointsText = (rate) => signedText(100 * rate, 1)
/** @param {string} time */
const utc = (time) => `${timeText(Date.parse(time), 1)} UTC`

/**
 * Shows each split of a preset. Its own requests since its last change count. The element stays
 * the same while neither the splits nor the time from which the report counts change.
 * @param {Context} context @param {() => PresetAnswer} preset
 */
function splits(context, preset) {
	const element = h('section.splits')
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
		const path = (/** @type {Query} */ query) => presetPath(context.at, 'usage', { by: 'version', step: 'hour', label, ...query })
		const action = (/** @type {number} */ version) => button(`Put v${version} live`, () => putLive(context, preset(), version), {
			class: 'small', disabled: serveReason(context.at, preset().data) !== '' || preset().data.designated_version.version === version, 'data-key': `live ${label} ${version}`,
		})
		const early = new Date(Math.floor(Math.min(Date.parse(since), Date.now()) / hour) * hour).toISOString()
		const show = (/** @type {boolean} */ isEarly) => (/** @type {Answer<UsageReport>} */ { data: report }) => judged(report, target.split ?? [], since, action, isEarly)
		return live(context, path({ from, since }), (answer) => (answer.data.from === answer.data.to ? live(context, path({ from: early }), show(true)).element : show(false)(answer))).element
	})
	return h('div', h('h3', 'Split ', code(label), ' ', h('span.muted.number', targetText({ split: target.split }))), place)
}

/** Returns when the target was last changed, and not its protection alone. The newest change is the first. @param {LabelChange[]} history */
function changeOf(history) {
	const text = (/** @type {Target | null} */ target) => JSON.stringify([target?.version, target?.split])
	return (history.find(({ from, to }) => text(from) !== text(to)) ?? history[history.length - 1]).time
}

/** Compares each version of a split with the one that has the most weight. @param {UsageReport} report @param {Share[]} split @param {string} since @param {(version: number) => Child} action @param {boolean} isEarly */
function judged(report, split, since, action, isEarly) {
	const isCut = Date.parse(report.from) >= Date.parse(since)
	const shares = [...split].sort((a, b) => b.weight - a.weight || a.version - b.version)
	const of = (/** @type {number} */ version) => report.series.find(({ key }) => key.version === version) ?? { key: { version }, total: sumOf([]), points: [] }
	const base = of(shares[0].version)
	return [
		isEarly && h('p.hint', h('strong', 'Provisional'), `: requests by this label since ${utc(report.from)}, also those before the split was changed at ${utc(since)}. Sums are of whole hours, so its own requests count alone from the next full hour on.`),
		...shares.slice(1).map(({ version }) => comparison(base, of(version), action(version))),
		!isEarly && h('p.hint', `Requests by this label since ${utc(report.from)} count`, isCut && `, the first full hour after the split was last changed at ${utc(since)}`,
			'. Errors have Newcombe’s interval of 95 %. One comparison of twenty shows a difference where there is none.'),
	]
}

/** The verdict in words, and all figures below it. @param {UsageSeries} a @param {UsageSeries} b @param {Child} action */
function comparison(a, b, action) {
	const [nameA, nameB] = [a, b].map(({ key }) => `v${key.version}`)
	const names = [...new Set([...Object.keys(a.total.feedback), ...Object.keys(b.total.feedback)])].sort()
	const rows = [errors(a.total, b.total, nameA, nameB), ...names.map((name) => feedback(a, b, name, nameA, nameB)), ...plain(a.total, b.total)]
	const told = rows.filter(({ words, interval }) => interval !== '–' && words instanceof HTMLElement && words.tagName === 'STRONG')
	return h('div', h('p.verdict', told.length > 0 ? told.map(({ words, difference, interval }) => h('span', /** @type {HTMLElement} */ (words).cloneNode(true), h('span.muted.number', ` ${difference}, ${interval} `)))
		: h('strong', `No difference between ${nameB} and ${nameA} can be told yet: ${countOf(b.total.requests, 'request')} and ${countText(a.total.requests)}.`), action), h('div.wide-box', { tabindex: 0, role: 'region', 'aria-label': `${nameB} against ${nameA}` },
		table(`${nameB} against ${nameA}`, rows.map(({ name, inA, inB, difference, interval, words }) => [
			['Figure', name], [nameA, inA], [nameB, inB], ['Difference', number(difference)], ['95 % interval', number(interval)], ['In words', words],
		]), 'figures in-words')))
}

const nothing = { difference: '–', interval: '–' }

/** Says what a verdict means. @param {Verdict} told @param {number} fewer @param {string} what @param {{ more: string, less: string }} words */
function sentence(told, fewer, what, words) {
	switch (told) {
		case 'thin': return `Too few to tell: a version has ${countOf(fewer, what)}. Each needs ${fewest}.`
		case 'open': return 'No difference can be told yet.'
		default: return h('strong', words[told])
	}
}

/** @param {Figures} a @param {Figures} b @param {string} nameA @param {string} nameB */
function errors(a, b, nameA, nameB) {
	const interval = ofRates({ rate: errorRate(a), n: a.requests }, { rate: errorRate(b), n: b.requests })
	const fewer = Math.min(a.requests, b.requests)
	const side = (/** @type {Figures} */ one) => figure(one.requests === 0 ? '–' : percentText(errorRate(one)), `${countText(one.errors)} of ${countText(one.requests)}`)
	return {
		name: 'Errors', inA: side(a), inB: side(b), ...(fewer < fewest ? nothing : { difference: `${pointsText(errorRate(b) - errorRate(a))} points`, interval: `${pointsText(interval.low)} to ${pointsText(interval.high)}` }),
		words: sentence(verdict(interval, fewer), fewer, 'request', { more: `${nameB} fails more often than ${nameA}.`, less: `${nameB} fails less often than ${nameA}.` }),
	}
}

/**
 * Scores of 0 and 1 are a rate. Of others the report does not have the spread, so their
 * interval supposes the widest one.
 * @param {UsageSeries} a @param {UsageSeries} b @param {string} name @param {string} nameA @param {string} nameB
 */
function feedback(a, b, name, nameA, nameB) {
	const noScore = { count: 0, mean: 0 }
	const inA = a.total.feedback[name] ?? noScore, inB = b.total.feedback[name] ?? noScore
	const isRate = areBoolean([a, b].flatMap(({ points: all, total }) => (all.length > 0 ? all : [total]).flatMap((one) => one.feedback[name] ?? [])))
	const interval = isRate ? ofRates({ rate: inA.mean, n: inA.count }, { rate: inB.mean, n: inB.count }) : ofMeans(inA, inB)
	const fewer = Math.min(inA.count, inB.count)
	const side = (/** @type {Score} */ { count, mean }) => figure(count === 0 ? '–' : isRate ? percentText(mean) : meanText(mean), `of ${countText(count)}`)
	const text = isRate ? pointsText : (/** @type {number} */ n) => signedText(n, 3)
	return {
		name: figure(h('span', 'Feedback ', user(name)), isRate ? 'scores of 0 and 1, as a rate' : 'mean of scores from −1 to 1. The interval is for the widest spread'),
		inA: side(inA), inB: side(inB), ...(fewer < fewest ? nothing : { difference: text(inB.mean - inA.mean) + (isRate ? ' points' : ''), interval: `${text(interval.low)} to ${text(interval.high)}` }),
		words: sentence(verdict(interval, fewer), fewer, 'score', { more: `${nameB} is rated higher than ${nameA}.`, less: `${nameB} is rated lower than ${nameA}.` }),
	}
}

/** Cost and time. A report has no spread of them. @param {Figures} a @param {Figures} b */
function plain(a, b) {
	const requests = (/** @type {Figures} */ one) => one.requests
	/** @type {[string, (one: Figures) => number | null, (one: Figures) => number, (n: number) => string][]} */
	const figures = [
		['Cost of a request', costEach, (one) => one.requests - one.unknown, paidText],
		['Duration, p50', (one) => one.duration_ms?.p50 ?? null, requests, durationText],
		['Duration, p95', (one) => one.duration_ms?.p95 ?? null, requests, durationText],
		['First content, p50', (one) => one.first_content_ms?.p50 ?? null, (one) => one.streamed, durationText],
	]
	return figures.flatMap(([name, of, count, text]) => {
		const inA = of(a), inB = of(b), change = inA !== null && inB !== null && inA > 0 ? inB / inA - 1 : null
		return inA === null && inB === null ? [] : [{
			name, inA: number(inA === null ? '–' : text(inA)), inB: number(inB === null ? '–' : text(inB)),
			difference: change === null || Math.min(count(a), count(b)) < fewest ? '–' : `${signedText(100 * change, 1)} %`, interval: '–',
			words: h('span.muted', Math.min(count(a), count(b)) < fewest ? 'Too few to tell.' : change !== null && Math.abs(change) <= 0.1 ? 'Within 10 %.' : ''),
		}]
	})
}

const hour = 3600000
/** @type {Record<string, { text: string, hours: number, step: string }>} */
const ranges = {
	'24h': { text: '24 hours', hours: 24, step: 'hour' },
	'7d': { text: '7 days', hours: 168, step: 'hour' },
	'30d': { text: '30 days', hours: 720, step: 'day' },
	custom: { text: 'from … to', hours: 0, step: 'day' },
}

/** @type {MakeView} */
export function usageView(context) {
	const { at } = context
	return presetFrame(context, 'usage', 'Usage', (preset) => {
		const parts = splits(context, () => preset)
		const { element, redraw } = usage(context, {
			name: at.slug, by: ['version', 'label', 'model', 'status'],
			path: (query) => presetPath(at, 'usage', query), address: (query) => toPreset(at, 'usage', { ...queryOf(refOf(context.address)), ...query }),
			below: (report) => parts.show(report.by === 'version' ? preset.data.labels : {}, report.from), history: session.mayChange() ? presetPath(at, 'history', { limit: 100 }) : '',
		})
		return {
			element: h('div', h('h2.unseen', 'Usage'), element),
			update: (next) => {
				preset = next
				redraw()
			},
		}
	})
}

/** @type {MakeView} */
export function workspaceUsageView(context) {
	const { workspace } = context
	return {
		title: `Usage · ${workspace}`,
		element: h('div',
			h('p.crumbs', h('a', { href: toPresets(workspace) }, 'Presets')),
			h('div.heading', h('h1', 'Usage of ', user(workspace))),
			h('h2.unseen', 'Figures'),
			session.mayChange() ? usage(context, {
				name: workspace, by: ['preset', 'version', 'label', 'model', 'key', 'status'],
				path: (query) => `/workspaces/${encodeURIComponent(workspace)}/usage${search(query)}`, address: (query) => toWorkspaceUsage(workspace, query),
				below: () => null, history: '', keyNames: hasKeys && session.mayIssueKeys() ? () => keyNames(context) : undefined,
			}).element : h('p.note', 'This is an inference key. It sees the usage of each preset, but that of a workspace needs a management key.')),
	}
}

/** Names the keys of a workspace by their ids. @param {Context} context @returns {Promise<Map<string, string>>} */
async function keyNames({ workspace, signal }) {
	const all = await api.readAll((offset) => '/keys' + search({ workspace_id: workspace, include_disabled: 'true', offset, limit: 100 }), 10000, signal)
	return new Map(all.map((key) => [key.id, keyName(key)]))
}

/** @param {Context} context @param {UsageScope} scope */
function usage(context, scope) {
	const { query } = context.address
	const one = (/** @type {string} */ name, /** @type {string[]} */ all) => all.find((value) => value === query.get(name)) ?? all[0]
	const state = { range: one('range', Object.keys(ranges)), by: one('by', scope.by), step: one('step', ['', 'hour', 'day']), from: query.get('from') ?? '', to: query.get('to') ?? '' }
	/** @type {ChartState} */
	const chartState = { marked: '', isOpen: false }
	const step = () => (state.range === '24h' ? 'hour' : state.step || ranges[state.range].step)
	// The path stays the same until the next step begins, so that its answer is known.
	const time = () => {
		if (state.range === 'custom') {
			const [from, to] = [state.from, state.to].map((text) => Date.parse(text) || Date.now())
			return { from: Math.min(from, to), to: Math.max(from, to) + 24 * hour }
		}
		const length = step() === 'day' ? 24 * hour : hour, to = (Math.floor(Date.now() / length) + 1) * length
		return { from: to - ranges[state.range].hours * hour, to: 0 }
	}
	/** @param {{ from: number, to: number }} of */
	const pathOf = ({ from, to }) => scope.path({ from: new Date(from).toISOString(), to: to ? new Date(to).toISOString() : '', step: step(), by: state.by })
	const path = () => pathOf(time())
	/** @type {Map<string, string>} */
	let names = new Map()
	scope.keyNames?.().then((all) => {
		names = all
		shown.redraw()
	}, () => {}) // ids are worse, but do
	let asked = path()
	/** The report of the time before, which has the same length. It comes later. @type {UsageReport | undefined} */
	let before
	/** @type {ChartEvent[]} */
	let events = []
	const readMore = readUntilDone(async () => {
		const { from, to } = time(), mine = asked
		const [{ data }, changes] = await Promise.all([
			api.read(pathOf({ from: 2 * from - (to || Date.now()), to: from }), context.signal), scope.history ? api.read(scope.history, context.signal) : undefined,
		])
		if (mine === asked) {
			before = data
			events = (changes?.data ?? []).flatMap(eventOf)
			shown.redraw()
		}
	}, context.signal)
	const update = () => {
		steps.disabled = state.range === '24h'
		steps.value = step()
		dates.hidden = state.range !== 'custom'
		replace(scope.address({ range: state.range === '24h' ? '' : state.range, ...(state.range === 'custom' && { from: state.from, to: state.to }), by: state.by === scope.by[0] ? '' : state.by, step: step() === ranges[state.range].step ? '' : step() }))
		asked = path()
		before = undefined
		shown.show(asked)
		readMore()
	}
	const range = choice(Object.entries(ranges).map(([value, { text }]) => ({ value, text })), state.range, {
		'data-key': 'range', onchange: () => {
			Object.assign(state, { range: range.value, step: '' })
			update()
		},
	})
	/** @param {'from' | 'to'} name */
	const dateOf = (name) => h('input', { type: 'date', value: state[name], 'aria-label': name === 'from' ? 'First day' : 'Last day', onchange: (/** @type {Event} */ { target }) => {
		state[name] = /** @type {HTMLInputElement} */ (target).value
		update()
	} })
	const dates = h('span.actions', { hidden: state.range !== 'custom' }, dateOf('from'), ' to ', dateOf('to'))
	const steps = choice(['hour', 'day'].map((value) => ({ value, text: value })), step(), {
		'data-key': 'step', disabled: state.range === '24h', onchange: () => {
			state.step = steps.value
			update()
		},
	})
	const by = choice(scope.by.map((value) => ({ value, text: value })), state.by, {
		'data-key': 'by', onchange: () => {
			state.by = by.value
			update()
		},
	})
	const place = h('div')
	const save = button('Download CSV', () => attempt(place, save, async () => {
		download(`usage-${scope.name}-by-${state.by}.csv`, await api.readAs(path(), 'text/csv', context.signal), 'text/csv')
		say('The report is downloaded.')
	}), { 'data-key': 'csv' })
	const letters = h('span', currency.code), inCurrency = button([h('span.unseen', 'Costs in '), letters], () => chooseCurrency(context, () => {
		letters.textContent = currency.code
		shown.redraw()
	}), { 'data-key': 'currency', title: 'The currency of costs' })

	const shown = live(context, asked, ({ data }) => {
		if (path() !== asked) {
			queueMicrotask(() => context.signal.aborted || update()) // a new step has begun
		}
		/** @type {UsageReport} */
		const report = data.by !== 'key' ? data : { ...data, series: data.series.map((/** @type {UsageSeries} */ series) => ({ ...series, key: { ...series.key, key: names.get(series.key.key ?? '') ?? series.key.key } })) }
		return report.series.some(({ total }) => total.requests > 0 || total.refused > 0)
			? [tiles(report, before), scope.below(report), charts(report, chartState, events), totals(context.at, report, report.by[0].toUpperCase() + report.by.slice(1)), summary(report)]
			: empty(state.range)
	}, { lines: 12 })
	return {
		element: h('div.usage',
			h('div.filters', field('Last', range), dates, field('By', by), field('Step', steps), h('span.gap'), inCurrency, save),
			place, shown.element),
		redraw: shown.redraw,
	}
}

/** @param {string} range */
function empty(range) {
	return h('div.empty',
		h('h3', range === 'custom' ? 'No request was measured in this time' : `No request was measured in the last ${ranges[range].text}`),
		h('p', 'A request shows here within 15 seconds of its answer’s end. The server measures only with ', h('code', 'usage'), ' in its Caddyfile:'),
		snippet('presets {\n\tinference {\n\t\tusage\n\t}\n}', 'the Caddyfile with usage'))
}

/** What a change did to what requests get, if it did. @param {Change} change @returns {ChartEvent[]} */
function eventOf({ operation, time, version, draft, label }) {
	const what = /^label\.(set|move|split|delete)$/.exec(operation)?.[1]
	const text = what ? `${label} ${what === 'split' ? 'split' : what === 'delete' ? 'removed' : `v${version}`}` : ['preset.designate', 'preset.create_version'].includes(operation) && !draft ? `v${version} live` : ''
	return text ? [{ time: Date.parse(time), text }] : []
}
