// The usage of a preset and of a workspace: what is asked for, and what the answer shows.

import { presetPath, search, toPreset, toPresets, toWorkspaceUsage } from './addresses.js'
import { button, choice, field, h, user } from './elements.js'
import * as api from './api.js'
import * as session from './session.js'
import { download, snippet } from './copy.js'
import { replace } from './navigation.js'
import { presetFrame } from './preset.js'
import { attempt, live, readUntilDone } from './states.js'
import { say } from './status.js'
import { queryOf, refOf } from './target.js'
import { charts } from './usage_charts.js'
import { splits } from './usage_splits.js'
import { summary, tiles, totals } from './usage_totals.js'

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
	const frame = presetFrame(context, 'usage', (preset) => {
		const parts = splits(context, () => preset)
		const { element, redraw } = usage(context, {
			name: at.slug, by: ['version', 'label', 'model', 'status'],
			path: (query) => presetPath(at, 'usage', query), address: (query) => toPreset(at, 'usage', { ...queryOf(refOf(context.address)), ...query }),
			below: (report) => parts.show(report.by === 'version' ? preset.data.labels : {}, report.from), history: session.mayChange() ? presetPath(at, 'history', { limit: 100 }) : '',
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
				below: () => null, history: '',
			}).element : h('p', { class: 'note' }, 'This is an inference key. It sees the usage of each preset, but that of a workspace needs a management key.')),
	}
}

/** @param {Context} context @param {UsageScope} scope */
function usage(context, scope) {
	const { query } = context.address
	const one = (/** @type {string} */ name, /** @type {string[]} */ all) => all.find((value) => value === query.get(name)) ?? all[0]
	const state = { range: one('range', Object.keys(ranges)), by: one('by', scope.by), step: one('step', ['', 'hour', 'day']), from: query.get('from') ?? '', to: query.get('to') ?? '' }
	/** @type {ChartState} */
	const chartState = { marked: '', open: new Set() }
	const step = () => (state.range === '24h' ? 'hour' : state.step || ranges[state.range].step)
	// The path stays the same until the next step begins, so that its answer is known.
	const time = () => {
		if (state.range === 'custom') {
			const [from, to] = [state.from, state.to].map((day) => Date.parse(day) || Date.now())
			return { from: Math.min(from, to), to: Math.max(from, to) + 24 * hour }
		}
		const length = step() === 'day' ? 24 * hour : hour, to = (Math.floor(Date.now() / length) + 1) * length
		return { from: to - ranges[state.range].hours * hour, to: 0 }
	}
	/** @param {{ from: number, to: number }} of */
	const pathOf = ({ from, to }) => scope.path({ from: new Date(from).toISOString(), to: to ? new Date(to).toISOString() : '', step: step(), by: state.by })
	const path = () => pathOf(time())
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
	const dates = h('span', { class: 'actions', hidden: state.range !== 'custom' }, dateOf('from'), ' to ', dateOf('to'))
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

	const shown = live(context, asked, ({ data }) => {
		if (path() !== asked) {
			queueMicrotask(() => context.signal.aborted || update()) // a new step has begun
		}
		/** @type {UsageReport} */
		const report = data
		return report.series.some(({ total }) => total.requests > 0)
			? [tiles(report, before), scope.below(report), charts(report, chartState, events), totals(context.at, report, report.by[0].toUpperCase() + report.by.slice(1)), summary(report)]
			: empty(state.range)
	}, { lines: 12 })
	return {
		element: h('div', { class: 'usage' },
			h('div', { class: 'filters' }, field('Last', range), dates, field('By', by), field('Step', steps), h('span', { class: 'gap' }), save),
			place, shown.element),
		redraw: shown.redraw,
	}
}

/** @param {string} range */
function empty(range) {
	return h('div', { class: 'empty' },
		h('h3', null, range === 'custom' ? 'No request was measured in this time' : `No request was measured in the last ${ranges[range].text}`),
		h('p', null, 'A request shows here within 15 seconds of its answer’s end. The server measures only with ', h('code', null, 'usage'), ' in its Caddyfile:'),
		snippet('presets {\n\tinference {\n\t\tusage\n\t}\n}', 'the Caddyfile with usage'))
}

/** What a change did to what requests get, if it did. @param {Change} change @returns {ChartEvent[]} */
function eventOf({ operation, time, version, draft, label }) {
	const what = /^label\.(set|move|split|delete)$/.exec(operation)?.[1]
	const text = what ? `${label} ${what === 'split' ? 'split' : what === 'delete' ? 'removed' : `v${version}`}` : ['preset.designate', 'preset.create_version'].includes(operation) && !draft ? `v${version} live` : ''
	return text ? [{ time: Date.parse(time), text }] : []
}
