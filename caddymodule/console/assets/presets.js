// The list of a workspace's presets.

import { api as apiPath, presetPath, search, toPreset, toPresets, toWorkspaceHistory } from './addresses.js'
import { button, choice, field, fill, h, row, setWrong, submit, table, user, when } from './elements.js'
import * as api from './api.js'
import * as session from './session.js'
import { code } from './copy.js'
import { openDialog } from './dialogs.js'
import { targetText } from './labels.js'
import { go, replace } from './navigation.js'
import { restore } from './preset_changes.js'
import { live, pages } from './states.js'

const limit = 50
const statuses = [
	{ value: '', text: 'not archived' }, { value: 'active', text: 'active' }, { value: 'disabled', text: 'disabled' },
	{ value: 'archived', text: 'archived' }, { value: 'all', text: 'all' },
]
/** @type {Record<string, 'asc' | 'desc'>} */
const firstOrder = { updated: 'desc', name: 'asc', slug: 'asc' }

/** @type {MakeView} */
export function presetsView(context) {
	const { query } = context.address
	const state = {
		q: query.get('q') ?? '', status: query.get('status') ?? '', sort: query.get('sort') ?? 'updated',
		order: query.get('order') ?? '', offset: Number(query.get('offset') ?? 0),
	}
	const path = () => '/presets' + search({ ...state, order: state.order || firstOrder[state.sort], limit, workspace_id: context.workspace })
	const address = () => toPresets(context.workspace, {
		q: state.q, status: state.status, order: state.order, sort: state.sort === 'updated' ? '' : state.sort, offset: state.offset || '',
	})
	/** @param {Partial<typeof state>} changed */
	const update = (changed) => {
		Object.assign(state, { offset: 0 }, changed)
		replace(address())
		list.show(path())
	}

	const find = h('input', { type: 'search', id: 'search', value: state.q, autocomplete: 'off', spellcheck: 'false', maxlength: 200, 'data-key': 'search' })
	let timer = 0
	find.addEventListener('input', () => {
		clearTimeout(timer)
		timer = window.setTimeout(() => update({ q: find.value.trim() }), 150)
	})
	const status = choice(statuses, state.status, { id: 'status-filter', onchange: () => update({ status: status.value }) })

	/** @param {string} name @param {string} sort */
	const sorter = (name, sort) => {
		const isSorted = state.sort === sort
		const order = state.order || firstOrder[sort]
		const next = isSorted && order === firstOrder[sort] ? (order === 'asc' ? 'desc' : 'asc') : ''
		return h('th', { scope: 'col', role: 'columnheader', 'aria-sort': isSorted ? (order === 'asc' ? 'ascending' : 'descending') : 'none' },
			h('button', { type: 'button', class: 'sort', 'data-key': `sort-${sort}`, onclick: () => update({ sort, order: next }) },
				name, h('span', { 'aria-hidden': 'true' }, isSorted ? (order === 'asc' ? ' ▴' : ' ▾') : '')))
	}

	const paging = h('div')
	const list = live(context, path(), (answer) => {
		/** @type {Preset[]} */
		const presets = answer.data
		fill(paging, pages(state.offset, limit, answer.total, (offset) => {
			update({ offset })
			scrollTo(0, 0)
		}))
		if (presets.length === 0) {
			return answer.total > 0 ? h('p', { class: 'empty' }, 'This page is empty now. ', button('First page', () => update({}))) : emptyList(context, state)
		}
		return table('Presets',
			[sorter('Slug', 'slug'), sorter('Name', 'name'), 'Status', 'Live', 'Labels', sorter('Changed', 'updated'), 'By'],
			presets.map((preset) => presetRow(context, preset)), 'presets')
	}, { lines: 10 })

	const reason = session.readOnlyReason()
	return {
		title: 'Presets',
		element: h('div', null,
			h('div', { class: 'heading' }, h('h1', null, 'Presets'),
				h('div', { class: 'actions' },
					session.mayChange() && h('a', { class: 'quiet', href: toWorkspaceHistory(context.workspace) }, 'History'),
					button('New preset', () => newPreset(context), { disabled: reason !== '', class: 'primary', 'aria-describedby': reason && 'read-only' }))),
			reason && h('p', { class: 'note', id: 'read-only' }, reason),
			h('form', { class: 'filters', role: 'search', onsubmit: (/** @type {Event} */ event) => event.preventDefault() },
				h('label', { for: 'search' }, 'Search presets'), find,
				h('label', { for: 'status-filter' }, 'Status'), status,
				paging),
			list.element),
	}
}

/**
 * @param {Context} context
 * @param {Preset} preset
 */
function presetRow(context, preset) {
	const liveCell = h('span', { class: 'number' })
	const by = h('span')
	showDetails(context, preset, liveCell, by)
	const at = { workspace: context.workspace, slug: preset.slug }
	return row([
		['Slug', h('a', { href: toPreset(at), 'data-key': preset.slug, 'data-row': true, class: 'slug' }, user(preset.slug))],
		['Name', preset.name === preset.slug ? h('span', { class: 'muted same' }, '–') : user(preset.name)],
		['Status', [h('span', { class: `state ${preset.status}` }, preset.status), ' ',
			preset.status === 'archived' && session.mayChange() && button('Restore', () => restore(at), { class: 'small', 'data-key': `restore ${preset.slug}` })]],
		['Live', liveCell],
		['Labels', labelsOf(preset)],
		['Changed', when(preset.updated_at)],
		['By', by],
	])
}

/** @param {Preset} preset */
function labelsOf(preset) {
	const labels = Object.entries(preset.labels ?? {})
	if (labels.length === 0) {
		return h('span', { class: 'muted' }, '–')
	}
	const shown = labels.slice(0, 4).map(([name, target]) => h('span', { class: 'label' }, user(name), ' ', h('span', { class: 'number' }, targetText(target))))
	return h('span', { class: 'labels' }, shown, labels.length > 4 && h('span', { class: 'muted' }, `and ${labels.length - 4} more`))
}

// The live version and the author of the last change come with the list, or else one by one.
/** @type {Map<string, Promise<[string, string]>>} */
const details = new Map()
session.locks.addEventListener('lock', () => details.clear())
let asking = Promise.resolve()

/**
 * @param {Context} context
 * @param {Preset} preset
 * @param {Element} liveCell
 * @param {Element} by
 */
function showDetails(context, preset, liveCell, by) {
	/** @param {[string, string]} found */
	const show = ([version, author]) => {
		fill(liveCell, version ? [h('span', { class: 'dot' }, '●'), ` v${version}`] : '–')
		fill(by, author ? user(author) : h('span', { class: 'muted' }, '–'))
	}
	if (preset.designated_version_number !== undefined) {
		show([String(preset.designated_version_number), preset.updated_by ?? preset.creator_user_id])
		return
	}
	const key = `${preset.id} ${preset.updated_at} ${preset.designated_version_id}`
	let found = details.get(key)
	if (!found) {
		found = asking.then(() => lookUp(context, preset))
		asking = found.then(() => {}, () => {})
		details.set(key, found)
		found.catch(() => details.delete(key))
	}
	found.then(show, () => show(['', '']))
}

/**
 * @param {Context} context
 * @param {Preset} preset
 * @returns {Promise<[string, string]>}
 */
async function lookUp(context, preset) {
	context.signal.throwIfAborted()
	if (preset.status === 'archived') {
		return ['', '']
	}
	const response = await api.ask('GET', presetPath({ workspace: context.workspace, slug: preset.slug }), { signal: context.signal })
	if (!response.ok) {
		throw await api.readFailure(response)
	}
	const { designated_version: version } = (await response.json()).data
	return [String(version.version), version.creator_id]
}

/**
 * @param {Context} context
 * @param {{ q: string, status: string }} state
 */
function emptyList(context, state) {
	if (state.q !== '' || state.status !== '') {
		return h('div', { class: 'empty' }, h('p', null, 'No preset matches.'), h('p', { class: 'muted' }, 'The search looks in slugs, names and descriptions.'))
	}
	const workspace = context.workspace === 'default' || !session.mayChange() ? '' : `?workspace_id=${encodeURIComponent(context.workspace)}`
	return h('div', { class: 'empty' },
		h('h2', null, 'No presets yet'),
		h('p', null, 'Create the first one with New preset, or with a management key in $KEY:'),
		code(`curl ${location.origin}${apiPath}/presets/email-copywriter/chat/completions${workspace} \\
  -H "Authorization: Bearer $KEY" -H "Content-Type: application/json" \\
  -d '{"model": "openai/gpt-5-mini", "temperature": 0.7,
       "messages": [{"role": "system", "content": "Write short, friendly emails."}]}'`, 'the first request'))
}

/** @param {Context} context */
function newPreset(context) {
	const slug = h('input', { type: 'text', autocomplete: 'off', spellcheck: 'false', maxlength: 128, autofocus: true })
	const { close } = openDialog('New preset', 'New preset', [
		field('Slug', slug, 'Requests name it as @preset/<slug>. Letters, digits and . _ ~ -'),
	], {
		signal: context.signal,
		actions: [submit('Continue')],
		submit: () => {
			const text = slug.value.trim()
			if (!/^[A-Za-z0-9][A-Za-z0-9._~-]{0,127}$/.test(text)) {
				setWrong(slug, 'A slug begins with a letter or digit, and has only letters, digits and . _ ~ -')
				slug.focus()
				return
			}
			close()
			go(toPreset({ workspace: context.workspace, slug: text }, 'new'))
		},
	})
}
