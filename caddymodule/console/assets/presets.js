// The list of a workspace's presets: what serves, how it is used, and what stands out.

import { api as apiPath, go, presetPath, replace, search, toPreset, toPresets, toWorkspaceHistory, workspacePath } from './addresses.js'
import { button, choice, field, fill, form, h, menu, number, setWrong, small, submit, svg, table, textInput, user, when } from './elements.js'
import { costText, countText, errorRate, limitsText, percentText, tagsOf, targetText } from './figures.js'
import * as api from './api.js'
import * as session from './session.js'
import { models } from './models.js'
import { ask, keepFocus, lastPage, live, load, openDialog, pages, readUntilDone, say, snippet } from './states.js'

const limit = 50
const statuses = ['', 'active', 'disabled', 'archived', 'all'].map((value) => ({ value, text: value || 'not archived' }))
/** @type {Record<string, { text: string, order: 'asc' | 'desc', isUsage?: boolean }>} */
const sorts = {
	updated: { text: 'last change', order: 'desc' }, use: { text: 'use, 24 h', order: 'desc', isUsage: true }, errors: { text: 'errors, 24 h', order: 'desc', isUsage: true },
	name: { text: 'name', order: 'asc' }, slug: { text: 'slug', order: 'asc' },
}
const hour = 3600000
const manyErrors = 0.05 // of the requests of a day stand out

/** Reads what is sought: words, and filters such as tag:mail or in:prompt. @param {string} text @returns {Query} */
function readSearch(text) {
	/** @type {Query} */
	const query = {}
	const words = text.replaceAll(/(?<![^ ])(tag|label|owner|model|in):(?:"([^"]*)"|(\S+))/g, (_, name, quoted, plain) => {
		query[name] = quoted ?? plain
		return ''
	})
	return { ...query, q: words.replaceAll(/ +/g, ' ').trim() }
}

/** @param {string} name @param {string} value */
const filterText = (name, value) => `${name}:${/[\s"]/.test(value) ? `"${value}"` : value}`

/** @type {MakeView} */
export function presetsView(context) {
	const { query } = context.address, { signal } = context, mayChange = session.mayChange()
	const state = {
		q: query.get('q') ?? '', status: query.get('status') ?? '', sort: query.get('sort') ?? 'updated',
		order: query.get('order') ?? '', offset: Math.max(0, Math.trunc(Number(query.get('offset'))) || 0),
	}
	state.sort = state.sort in sorts ? state.sort : 'updated'
	const order = () => state.order || sorts[state.sort].order
	const path = () => '/presets' + search({ ...state, ...readSearch(state.q), order: order(), include: 'model', limit, workspace_id: context.workspace })
	const address = () => toPresets(context.workspace, {
		q: state.q, status: state.status, order: state.order, sort: state.sort === 'updated' ? '' : state.sort, offset: state.offset || '',
	})
	/** @param {Partial<typeof state>} changed */
	const update = (changed) => {
		Object.assign(state, { offset: 0 }, changed)
		chosen.clear()
		replace(address())
		list.show(path())
	}

	const find = textInput({ type: 'search', id: 'search', value: state.q, maxlength: 200, 'data-key': 'search', placeholder: 'Names, or in:prompt and words of it' })
	let timer = 0
	find.addEventListener('input', () => {
		clearTimeout(timer)
		timer = window.setTimeout(() => signal.aborted || update({ q: find.value.trim() }), 150)
	})
	const filterBy = (/** @type {string} */ name, /** @type {string} */ value) => {
		find.value = `${find.value.trim()} ${filterText(name, value)}`.trim()
		update({ q: find.value })
		find.focus()
	}
	const filter = menu('Filter', 'filter', [])
	filter.addEventListener('toggle', () => filter.open && load(filter.lastElementChild ?? filter, signal, async () => {
		const all = /** @type {Preset[]} */ (await api.readAll((offset) => '/presets' + search({ include: 'model', offset, limit: 100, workspace_id: context.workspace }), 500, signal))
		/** @type {Record<string, string[]>} */
		const values = { tag: all.flatMap(({ tags }) => tags ?? []), label: all.flatMap(({ labels }) => Object.keys(labels)), owner: all.flatMap(({ managed_by: owner }) => owner ?? []), model: all.flatMap(({ model }) => model ?? []) }
		const groups = Object.entries(values).flatMap(([name, of]) => [...new Set(of)].sort().map((value, i) => [i === 0 && h('strong', `${name[0].toUpperCase()}${name.slice(1)}`), button('', () => filterBy(name, value), { 'aria-label': `${name} ${value}` })].map((one) => {
			one instanceof HTMLButtonElement && fill(one, user(value), ' ', h('span.muted.number', of.filter((other) => other === value).length))
			return one
		}))).flat()
		return groups.length > 0 ? groups : h('p.muted', 'No preset has a tag, a label, an owner or a model.')
	}))
	filter.lastElementChild?.classList.add('values')
	const status = choice(statuses, state.status, { id: 'status-filter', onchange: () => update({ status: status.value }) })
	const sort = choice(Object.entries(sorts).filter(([, { isUsage }]) => mayChange || !isUsage).map(([value, { text }]) => ({ value, text })), state.sort, { id: 'sort', onchange: () => {
		update({ sort: sort.value, order: '' })
		showOrder()
	} })
	const direction = small('', () => {
		update({ order: order() === 'asc' ? 'desc' : 'asc' })
		showOrder()
	}, { 'data-key': 'order' })
	const showOrder = () => {
		direction.textContent = order() === 'asc' ? '▴' : '▾'
		direction.setAttribute('aria-label', order() === 'asc' ? 'Ascending' : 'Descending')
	}
	showOrder()

	// What was used in the last day, and the gateway's models. Both come after the list.
	/** @type {Map<string, UsageSeries>} */
	let usage = new Map()
	let listed = new Set([''])
	if (mayChange) {
		readUntilDone(async () => {
			const from = (Math.floor(Date.now() / hour) - 23) * hour
			const { data } = await api.read(workspacePath(context.workspace, 'usage') + search({ by: 'preset', step: 'hour', from: new Date(from).toISOString() }), signal)
			usage = new Map(data.series.map((/** @type {UsageSeries} */ series) => [series.key.preset ?? '', series]))
			list.redraw()
		}, signal)
	}
	models().then((all) => {
		listed = new Set(all.map(({ id }) => id))
		signal.aborted || list.redraw()
	})

	/** @type {Map<string, Preset>} */
	const chosen = new Map()
	const bar = h('div.chosen', { role: 'status' })
	const showChosen = () => {
		const all = [...chosen.values()], isArchived = all.every((preset) => preset.status === 'archived')
		fill(bar, all.length > 0 && h('div.actions', h('strong', `${all.length} chosen`),
			small('Tag', () => tagAll(context, all, done)),
			isArchived ? small('Restore', () => changeAll(all, 'restored', (preset) => api.change('POST', presetPath(atOf(context, preset), 'restore'), undefined)).then(done))
				: small('Archive', () => archiveAll(context, all, done)),
			button('Choose none', done, { class: 'small quiet' })))
	}
	const done = () => {
		chosen.clear()
		showChosen()
		list.redraw()
	}

	/** @param {Preset} preset @returns {Cell[]} */
	const presetRow = (preset) => {
		const at = atOf(context, preset), total = usage.get(preset.slug)?.total, { model } = preset
		const box = h('input', { type: 'checkbox', 'aria-label': `Choose ${preset.slug}`, 'data-key': `choose ${preset.slug}`, onchange: () => {
			box.checked ? chosen.set(preset.slug, preset) : chosen.delete(preset.slug)
			showChosen()
		} })
		box.checked = chosen.has(preset.slug)
		const marks = [
			preset.status !== 'active' && h('span', { class: `state ${preset.status}` }, preset.status), preset.protected && h('span.state', 'protected'),
			preset.policy && h('span.state', 'policy'), preset.limits && h('span.state', { title: limitsText(preset) }, 'limits'),
			preset.managed_by && h('button.chip', { type: 'button', title: 'Show all of this owner', onclick: () => filterBy('owner', preset.managed_by ?? '') }, user(preset.managed_by)),
			...(preset.tags ?? []).map((tag) => h('button.chip.tag', { type: 'button', title: 'Show all with this tag', onclick: () => filterBy('tag', tag) }, '#', user(tag))),
			preset.status === 'archived' && mayChange && small('Restore', () => restore(at), { 'data-key': `restore ${preset.slug}` }),
		].filter(Boolean)
		return [
			['Preset', h('div.who', mayChange && box, h('div',
				h('a', { href: toPreset(at), 'data-key': preset.slug, 'data-row': true }, preset.name !== preset.slug && h('span.name', user(preset.name)), h('span', { class: preset.name === preset.slug ? 'slug name' : 'slug muted' }, user(preset.slug))),
				marks.length > 0 && h('span.labels', marks)))],
			['Live', [h('span', { class: preset.status === 'active' ? 'live number' : 'number muted' }, preset.status === 'active' && '● ', `v${preset.designated_version_number}`),
				model && listed.size > 1 && !listed.has(model) && !model.startsWith('@') && h('span.warn', { title: `The gateway’s list has no ${model}` }, ' not listed'), model && h('span.below.mono', { title: model }, user(model))]],
			['Labels', labelsOf(preset, filterBy)],
			...(usage.size > 0 ? /** @type {Cell[]} */ ([
				['24 hours', total && h('a.figure-link', { href: toPreset(at, 'usage'), 'aria-label': `${countText(total.requests)} requests of ${preset.slug} in 24 hours` }, sparkline(usage.get(preset.slug)?.points ?? []), number(countText(total.requests)))],
				['Errors', total && total.requests > 0 && number(h('span', { class: errorRate(total) > manyErrors ? 'bad' : 'muted' }, percentText(errorRate(total))))],
				['Cost', total?.cost && number(costText(Number(total.cost)))],
			]) : []),
			['Changed', [when(preset.updated_at), h('span.below', ' by ', user(preset.updated_by))]],
		]
	}

	const paging = h('div'), found = h('p.unseen', { role: 'status' })
	const list = live(context, path(), (answer) => {
		/** @type {Preset[]} */
		const presets = answer.data
		const turn = (/** @type {number} */ offset) => {
			update({ offset })
			scrollTo(0, 0)
		}
		keepFocus(paging, () => fill(paging, pages(state.offset, limit, answer.total, turn)))
		const text = `${answer.total} ${answer.total === 1 ? 'preset' : 'presets'} found`
		if (found.textContent !== text) {
			found.textContent = text
		}
		if (presets.length === 0) {
			return answer.total > 0
				? h('div.empty', h('p', `The list ends before this page: it has ${answer.total}.`), button('Last page', () => turn(lastPage(answer.total, limit)), { 'data-key': 'last' }))
				: emptyList(context, state)
		}
		const every = h('input', { type: 'checkbox', 'aria-label': 'Choose all', 'data-key': 'choose all', onchange: () => {
			presets.forEach((preset) => (every.checked ? chosen.set(preset.slug, preset) : chosen.delete(preset.slug)))
			showChosen()
			list.redraw()
		} })
		every.checked = presets.every(({ slug }) => chosen.has(slug))
		return [
			table('Presets', presets.map(presetRow), usage.size > 0 ? 'presets used' : 'presets', h('span.who', mayChange && every, 'Preset')),
			mayChange && !session.inferenceKey() && h('p.hint', 'Models are compared with the gateway’s list once the workbench has an inference key.'),
		]
	}, { lines: 10 })

	const reason = session.readOnlyReason()
	return {
		title: 'Presets',
		element: h('div',
			h('div.heading.one-line', h('h1', 'Presets'), h('span.gap'),
				h('div.actions',
					mayChange && h('a.quiet', { href: toWorkspaceHistory(context.workspace) }, 'History'),
					mayChange && button('Import', () => import('./preset.js').then((module) => module.importPreset(context)), { 'data-key': 'import' }),
					button('New preset', () => newPreset(context), { disabled: reason !== '', class: 'primary', 'aria-describedby': reason && 'read-only' }))),
			reason && h('p.note', { id: 'read-only' }, reason),
			form({ class: 'filters', role: 'search' }, () => {},
				h('label.unseen', { for: 'search' }, 'Search presets'), find,
				filter, h('label.unseen', { for: 'status-filter' }, 'Status'), status,
				h('label', { for: 'sort' }, 'Sort by'), sort, direction,
				paging, found),
			bar, list.element),
	}
}

/** Its module is not needed for the list. @param {At} at */
const restore = (at) => import('./preset.js').then((module) => module.restore(at))

/** @param {Context} context @param {Preset} preset @returns {At} */
const atOf = (context, preset) => ({ workspace: context.workspace || preset.workspace_id, slug: preset.slug })

/** Bars of the requests of each hour. Those that failed are on top. @param {Figures[]} points */
function sparkline(points) {
	const most = Math.max(1, ...points.map(({ requests }) => requests)), width = 3
	return svg('svg', { class: 'sparkline', width: points.length * (width + 1), height: 20, 'aria-hidden': 'true' }, points.flatMap(({ requests, errors }, i) => {
		const all = Math.max(requests > 0 ? 2 : 1, 20 * requests / most), failed = 20 * errors / most, x = i * (width + 1)
		return [svg('rect', { x, y: 20 - all, width, height: all, class: requests > 0 ? 'bar' : 'bar none' }), ...(failed > 0 ? [svg('rect', { x, y: 20 - all, width, height: Math.max(2, failed), class: 'bar failed' })] : [])]
	}))
}

const mostLabels = 2

/** @param {Preset} preset @param {(name: string, value: string) => void} filterBy */
function labelsOf(preset, filterBy) {
	const labels = Object.entries(preset.labels ?? {})
	return labels.length > 0 && h('span.labels',
		labels.slice(0, mostLabels).map(([name, target]) => h('button.label', { type: 'button', title: 'Show all with this label', onclick: () => filterBy('label', name) }, user(name), ' ', number(targetText(target)))),
		labels.length > mostLabels && h('span.muted.small', { title: labels.map(([name, target]) => `${name} ${targetText(target)}`).join('\n') }, `+${labels.length - mostLabels}`))
}

/**
 * Changes presets one after another, and says how many were changed. It throws the first failure.
 * @param {Preset[]} all @param {string} what @param {(preset: Preset) => Promise<unknown>} run @param {(changed: Preset[]) => void} [undo]
 */
async function changeAll(all, what, run, undo) {
	/** @type {Preset[]} */
	const changed = []
	try {
		for (const preset of all) {
			await run(preset)
			changed.push(preset)
		}
	} finally {
		changed.length > 0 && say(`${changed.length === 1 ? `${changed[0].slug} is` : `${changed.length} presets are`} ${what}.`, undo && (() => undo(changed)))
	}
}

/**
 * Changes a preset as it is now, and not one that somebody changes meanwhile. It returns the preset of before.
 * @param {Context} context @param {Preset} preset @param {string} method @param {(now: Preset) => object | undefined} body
 */
async function changeNow(context, preset, method, body) {
	const path = presetPath(atOf(context, preset)), { data, tag } = await api.read(path)
	await api.change(method, path, body(data), tag)
	return data
}

/** @param {Context} context @param {Preset[]} all @param {() => void} done */
function archiveAll(context, all, done) {
	ask(context, 'Archive', all.length === 1 ? `Archive ${all[0].slug}?` : `Archive ${all.length} presets?`, ['Requests that name them get 404 from then on. Their versions and labels are kept, and Restore brings them back.'], async () => {
		await changeAll(all, 'archived', (preset) => changeNow(context, preset, 'DELETE', () => undefined), (changed) => changed.forEach((preset) => restore(atOf(context, preset))))
		done()
	}, { isDanger: true })
}

/** @param {Context} context @param {Preset[]} all @param {() => void} done */
function tagAll(context, all, done) {
	const add = textInput({ autofocus: true }), remove = textInput()
	/** Changes the tags of now, whoever set them. @param {Preset} preset @param {string[]} more @param {string[]} less */
	const set = (preset, more, less) => changeNow(context, preset, 'PATCH', ({ tags = [] }) => ({ tags: [...new Set([...tags, ...more])].filter((tag) => !less.includes(tag)) }))
	/** What was there is not added, and what was not is not taken away. @type {Map<Preset, Preset>} */
	const before = new Map()
	ask(context, 'Tag', all.length === 1 ? `Tag ${all[0].slug}` : `Tag ${all.length} presets`, [field('Add', add, 'Tags, with commas between them.'), field('Take away', remove)], async () => {
		const gone = tagsOf(remove.value)
		await changeAll(all, 'tagged', async (preset) => before.set(preset, await set(preset, tagsOf(add.value), gone)), (changed) => {
			const tagsBefore = (/** @type {Preset} */ preset) => before.get(preset)?.tags ?? []
			changeAll(changed, 'tagged as before', (preset) => set(preset, gone.filter((tag) => tagsBefore(preset).includes(tag)), tagsOf(add.value).filter((tag) => !tagsBefore(preset).includes(tag)))).catch((thrown) => say(`Error: ${api.failureOf(thrown).message}`))
		})
		done()
	}, { confirm: 'Save' })
}

/** @param {Context} context @param {{ q: string, status: string }} state */
function emptyList(context, state) {
	if (state.q !== '' || state.status !== '') {
		return h('div.empty', 'No preset matches. The search looks in slugs, names and descriptions, and with in:prompt in what is live.')
	}
	const workspace = context.workspace === 'default' || !session.mayChange() ? '' : `?workspace_id=${encodeURIComponent(context.workspace)}`
	return h('div.empty',
		h('h2', 'No presets yet'),
		elsewhere(context),
		h('p', 'Create the first one with New preset, or with this request:'),
		snippet(`curl ${location.origin}${apiPath}/presets/email-copywriter/chat/completions${workspace} \\
  -H "Authorization: Bearer $KEY" -H "Content-Type: application/json" \\
  -d '{"model": "openai/gpt-5-mini", "temperature": 0.7,
       "messages": [{"role": "system", "content": "Write short, friendly emails."}]}'`, 'the first request'))
}

/** Names other workspaces that have presets. @param {Context} context */
function elsewhere({ workspace, signal }) {
	const place = h('p')
	const read = async () => {
		const { data } = await api.read('/workspaces' + search({ limit: 20 }), signal)
		const found = await Promise.all(data.filter((/** @type {Workspace} */ { id, slug }) => ![id, slug].includes(workspace)).map(async (/** @type {Workspace} */ { slug }) => ({ slug, total: (await api.read('/presets' + search({ workspace_id: slug, limit: 1 }), signal)).total })))
		const full = found.filter(({ total }) => total > 0).sort((a, b) => b.total - a.total)
		fill(place, full.length > 0 && ['Other workspaces have some: ', ...full.flatMap(({ slug, total }, i) => [i > 0 && ', ', h('a', { href: toPresets(slug) }, slug), ` (${total})`]), '.'])
	}
	session.mayChange() && read().catch(() => {}) // the view itself shows what is wrong
	return place
}

/** @param {Context} context */
function newPreset(context) {
	const slug = textInput({ maxlength: 128, autofocus: true })
	const { close } = openDialog('New preset', 'New preset', [
		field('Slug', slug, 'Requests name it as @preset/<slug>. It has letters, digits and . _ ~ -'),
	], {
		signal: context.signal,
		actions: [submit('Continue')],
		submit: () => {
			const text = slug.value.trim()
			if (!/^[A-Za-z0-9][A-Za-z0-9._~-]{0,127}$/.test(text)) {
				setWrong(slug, 'A slug begins with a letter or digit, and has only these and . _ ~ -. It has 1 to 128 characters.')
				slug.focus()
				return
			}
			close()
			go(toPreset({ workspace: context.workspace, slug: text }, 'edit'))
		},
	})
}
