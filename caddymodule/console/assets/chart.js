// A chart of lines over time, as an SVG element. It knows nothing of what it shows.

import { fill, h, svg } from './elements.js'

const height = 176, top = 14, bottom = 24, right = 12
const hour = 3600000
const intervals = [1, 2, 3, 6, 12, 24, 48, 72, 120, 168, 336].map((hours) => hours * hour)
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' })
const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', timeZone: 'UTC' })

/** Returns round numbers from 0 to at least a largest value. @param {number} largest @param {boolean} isWhole */
export function ticksTo(largest, isWhole) {
	const rough = (largest || 1) / 4, power = 10 ** Math.floor(Math.log10(rough))
	const step = Math.max(isWhole ? 1 : 0, power * ([1, 2, 2.5, 5].find((n) => n * power >= rough && !(isWhole && n * power % 1)) ?? 10))
	const count = Math.max(1, Math.ceil((largest || 1) / step - 1e-9))
	return Array.from({ length: count + 1 }, (_, i) => Number((i * step).toPrecision(12)))
}

/** @param {number} time @param {number} step */
export const timeText = (time, step) => (step < 24 * hour ? `${day.format(time)} ${clock.format(time)}` : day.format(time))

/** @param {number} style */
const lineClass = (style) => `line line-${style}`

/** The sample of a line, or of bars, for a legend. @param {number} style @param {boolean} areBars */
export const sample = (style, areBars) => areBars ? svg('svg', { class: 'sample', width: 10, height: 10, 'aria-hidden': 'true' }, svg('rect', { class: `dot-${style}`, width: 10, height: 10 })) : svg('svg', { class: 'sample', width: 24, height: 10, 'aria-hidden': 'true' }, svg('path', { class: lineClass(style), d: 'M0 5H24' }))

/** Returns the path of a line. It goes on over times without a value. @param {(number | null)[]} values @param {(i: number) => number} x @param {(value: number) => number} y */
const trace = (values, x, y) => values.map((value, i) => (value === null ? '' : `L${x(i).toFixed(1)} ${y(value).toFixed(1)}`)).join('').replace('L', 'M')

/**
 * Draws lines, or bars on top of each other, and a line at the time of each event. A pointer or the
 * arrow keys mark a time, and onMark is told its index, or -1 for none.
 * @type {MakeChart}
 */
export function lineChart({ name, describedBy, lines, areBars, events, times, step, largest, isWhole, format, onMark }) {
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
				svg('text', { x: at, y: height - 5, 'text-anchor': at < left + 8 ? 'start' : 'middle' }, time % (24 * hour) === 0 ? day.format(time) : clock.format(time)),
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
		return events.flatMap(({ time, text }) => {
			const at = left + (time - times[0]) / step * slot(), isNamed = at >= free && at < width - right - 7 * text.length
			free = isNamed ? at + 7 * text.length + 12 : free
			return [svg('path', { class: 'event', d: `M${at.toFixed(1)} ${top - 8}V${height - bottom}` }), ...(isNamed ? [svg('text', { class: 'event-name', x: (at + 4).toFixed(1), y: top }, text)] : [])]
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
	const element = h('div', { class: 'chart' }, picture)
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
