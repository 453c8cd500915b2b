// The usage of a preset and of a workspace: what is asked for, and what the answer shows.

import { hasKeys, presetPath, search, toPreset, toPresets, toWorkspaceUsage } from './addresses.js'
import { button, choice, field, h, user } from './elements.js'
import * as api from './api.js'
import * as session from './session.js'
import { snippet } from './copy.js'
import { nameOf } from './key_changes.js'
import { replace } from './navigation.js'
import { presetFrame } from './preset.js'
import { attempt, live } from './states.js'
import { say } from './status.js'
import { queryOf, refOf } from './target.js'
import { charts } from './usage_charts.js'
import { splits } from './usage_splits.js'
import { summary, totals } from './usage_totals.js'

const hour = 3600000
/** @type {Record<string, { text: string, hours: number, step: string }>} */
const ranges = {
	'24h': { text: '24 hours', hours: 24, step: 'hour' },
	'7d': { text: '7 days', hours: 168, step: 'hour' },
	'30d': { text: '30 days', hours: 720, step: 'day' },
}

/** @type {MakeView} */
export function usageView(context) {
	const { at } = context
	const frame = presetFrame(context, 'usage', (preset) => {
		const parts = splits(context)
		const { element, redraw } = usage(context, {
			name: at.slug, by: ['version', 'label', 'model', 'status'],
			path: (query) => presetPath(at, 'usage', query), address: (query) => toPreset(at, 'usage', { ...queryOf(refOf(context.address)), ...query }),
			below: (report) => parts.show(report.by === 'version' ? preset.data.labels : {}, report.from),
		})
		return {
			element: h('div', null, h('h2', { class: 'unseen' }, 'Usage'), element),
			update: (next) => {
				preset = next
				redraw()
			},
		}
	})
	return { ...frame, title: `Usage · ${at.slug}` }
}

/** @type {MakeView} */
export function workspaceUsageView(context) {
	const { workspace } = context
	return {
		title: `Usage · ${workspace}`,
		element: h('div', null,
			h('p', { class: 'crumbs' }, h('a', { href: toPresets(workspace) }, 'Presets')),
			h('div', { class: 'heading' }, h('h1', null, 'Usage of ', user(workspace))),
			h('h2', { class: 'unseen' }, 'Figures'),
			session.mayChange() ? usage(context, {
				name: workspace, by: ['preset', 'version', 'label', 'model', 'key', 'status'],
				path: (query) => `/workspaces/${encodeURIComponent(workspace)}/usage${search(query)}`, address: (query) => toWorkspaceUsage(workspace, query),
				below: () => null, keyNames: hasKeys && session.mayIssueKeys() ? () => keyNames(context) : undefined,
			}).element : h('p', { class: 'note' }, 'This is an inference key. It sees the usage of each preset, but that of a workspace needs a management key.')),
	}
}

/** Names the keys of a workspace by their ids, page by page. @param {Context} context @returns {Promise<Map<string, string>>} */
async function keyNames({ workspace, signal }) {
	const names = new Map()
	for (let offset = 0, total = 1; offset < total;) {
		const { data, total: all } = await api.read('/keys' + search({ workspace_id: workspace, include_disabled: 'true', offset, limit: 100 }), signal)
		data.forEach((/** @type {Key} */ key) => names.set(key.id, nameOf(key)))
		offset += 100
		total = all
	}
	return names
}

/** @param {Context} context @param {UsageScope} scope */
function usage(context, scope) {
	const { query } = context.address
	const one = (/** @type {string} */ name, /** @type {string[]} */ all) => all.find((value) => value === query.get(name)) ?? all[0]
	const state = { range: one('range', Object.keys(ranges)), by: one('by', scope.by), step: one('step', ['', 'hour', 'day']) }
	/** @type {ChartState} */
	const chartState = { marked: '', open: new Set() }
	const step = () => (state.range === '24h' ? 'hour' : state.step || ranges[state.range].step)
	// The path stays the same until the next step begins, so that its answer is known.
	const path = () => {
		const length = step() === 'day' ? 24 * hour : hour
		const from = (Math.floor(Date.now() / length) + 1) * length - ranges[state.range].hours * hour
		return scope.path({ from: new Date(from).toISOString(), step: step(), by: state.by })
	}
	/** @type {Map<string, string>} */
	let names = new Map()
	scope.keyNames?.().then((all) => {
		names = all
		shown.redraw()
	}, () => {}) // ids are worse, but do
	let asked = path()
	const update = () => {
		steps.disabled = state.range === '24h'
		steps.value = step()
		replace(scope.address({ range: state.range === '24h' ? '' : state.range, by: state.by === scope.by[0] ? '' : state.by, step: step() === ranges[state.range].step ? '' : step() }))
		asked = path()
		shown.show(asked)
	}
	const range = choice(Object.entries(ranges).map(([value, { text }]) => ({ value, text })), state.range, {
		'data-key': 'range', onchange: () => {
			Object.assign(state, { range: range.value, step: '' })
			update()
		},
	})
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
		download(`usage-${scope.name}-by-${state.by}.csv`, await api.readAs(path(), 'text/csv', context.signal))
		say('The report is downloaded.')
	}), { 'data-key': 'csv' })

	const shown = live(context, asked, ({ data }) => {
		if (path() !== asked) {
			queueMicrotask(() => context.signal.aborted || update()) // a new step has begun
		}
		/** @type {UsageReport} */
		const report = data.by !== 'key' ? data : { ...data, series: data.series.map((/** @type {UsageSeries} */ series) => ({ ...series, key: { ...series.key, key: names.get(series.key.key ?? '') ?? series.key.key } })) }
		return report.series.some(({ total }) => total.requests > 0 || total.refused > 0)
			? [summary(report), totals(context.at, report, report.by[0].toUpperCase() + report.by.slice(1)), scope.below(report), charts(report, chartState)].flat()
			: empty(state.range)
	}, { lines: 12 })
	return {
		element: h('div', { class: 'usage' },
			h('div', { class: 'filters' }, field('Last', range), field('By', by), field('Step', steps), h('span', { class: 'gap' }), save),
			place, shown.element),
		redraw: shown.redraw,
	}
}

/** @param {string} range */
function empty(range) {
	return h('div', { class: 'empty' },
		h('h3', null, `No request was measured in the last ${ranges[range].text}`),
		h('p', null, 'A request shows here within 15 seconds of its answer’s end. The server measures only with ', h('code', null, 'usage'), ' in its Caddyfile:'),
		snippet('presets {\n\tinference {\n\t\tusage\n\t}\n}', 'the Caddyfile with usage'))
}

/** Saves a text as a file. @param {string} name @param {string} text */
function download(name, text) {
	const href = URL.createObjectURL(new Blob([text], { type: 'text/csv' }))
	h('a', { href, download: name }).click()
	setTimeout(() => URL.revokeObjectURL(href), 10000)
}
