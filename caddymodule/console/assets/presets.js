// The list of a workspace's presets.

import { api as apiPath, search, toPreset, toPresets, toWorkspaceHistory, toWorkspaceUsage } from './addresses.js'
import { button, choice, field, fill, form, h, labelTag, number, row, setWrong, submit, table, textInput, textOrNone, user, when } from './elements.js'
import * as session from './session.js'
import { snippet } from './copy.js'
import { openDialog } from './dialogs.js'
import { go, replace } from './navigation.js'
import { restore } from './preset_changes.js'
import { keepFocus, lastPage, live, pages } from './states.js'
import { targetText } from './texts.js'

const limit = 50
const statuses = ['', 'active', 'disabled', 'archived', 'all'].map((value) => ({ value, text: value || 'not archived' }))
/** @type {Record<string, 'asc' | 'desc'>} */
const firstOrder = { updated: 'desc', name: 'asc', slug: 'asc' }

/** @type {MakeView} */
export function presetsView(context) {
	const { query } = context.address
	const state = {
		q: query.get('q') ?? '', status: query.get('status') ?? '', sort: query.get('sort') ?? 'updated',
		order: query.get('order') ?? '', offset: Math.max(0, Math.trunc(Number(query.get('offset'))) || 0),
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

	const find = textInput({ type: 'search', id: 'search', value: state.q, maxlength: 200, 'data-key': 'search' })
	let timer = 0
	find.addEventListener('input', () => {
		clearTimeout(timer)
		timer = window.setTimeout(() => context.signal.aborted || update({ q: find.value.trim() }), 150)
	})
	const status = choice(statuses, state.status, { id: 'status-filter', onchange: () => update({ status: status.value }) })

	/** @param {string} name @param {string} sort */
	const sorter = (name, sort) => {
		const isSorted = state.sort === sort
		const order = state.order || firstOrder[sort]
		const next = isSorted && order === firstOrder[sort] ? (order === 'asc' ? 'desc' : 'asc') : ''
		return h('th', { scope: 'col', role: 'columnheader', 'aria-sort': isSorted ? (order === 'asc' ? 'ascending' : 'descending') : 'none' },
			h('button', { type: 'button', class: 'sort', 'data-key': `sort-${sort}`, onclick: () => update({ sort, order: next }) },
				name, isSorted && h('span', { 'aria-hidden': 'true' }, order === 'asc' ? ' ▴' : ' ▾')))
	}

	const paging = h('div'), found = h('p', { class: 'unseen', role: 'status' })
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
				? h('div', { class: 'empty' }, h('p', null, `The list ends before this page: it has ${answer.total}.`), button('Last page', () => turn(lastPage(answer.total, limit)), { 'data-key': 'last' }))
				: emptyList(context, state)
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
					session.mayChange() && h('a', { class: 'quiet', href: toWorkspaceUsage(context.workspace) }, 'Usage'),
					session.mayChange() && h('a', { class: 'quiet', href: toWorkspaceHistory(context.workspace) }, 'History'),
					button('New preset', () => newPreset(context), { disabled: reason !== '', class: 'primary', 'aria-describedby': reason && 'read-only' }))),
			reason && h('p', { class: 'note', id: 'read-only' }, reason),
			form({ class: 'filters', role: 'search' }, () => {},
				h('label', { for: 'search' }, 'Search presets'), find,
				h('label', { for: 'status-filter' }, 'Status'), status,
				paging, found),
			list.element),
	}
}

/** @param {Context} context @param {Preset} preset */
function presetRow(context, preset) {
	const at = { workspace: context.workspace || preset.workspace_id, slug: preset.slug }
	return row([
		['Slug', h('a', { href: toPreset(at), 'data-key': preset.slug, 'data-row': true, class: 'slug' }, user(preset.slug))],
		['Name', preset.name === preset.slug ? h('span', { class: 'muted same' }, '–') : user(preset.name)],
		['Status', [h('span', { class: `state ${preset.status}` }, preset.status), ' ',
			preset.status === 'archived' && session.mayChange() && button('Restore', () => restore(at), { class: 'small', 'data-key': `restore ${preset.slug}` })]],
		['Live', [preset.status === 'active' && h('span', { class: 'dot' }, '● '), number(`v${preset.designated_version_number}`)]],
		['Labels', labelsOf(preset)],
		['Changed', when(preset.updated_at)],
		['By', user(preset.updated_by)],
	])
}

/** @param {Preset} preset */
function labelsOf(preset) {
	const labels = Object.entries(preset.labels ?? {})
	return labels.length === 0 ? textOrNone() : h('span', { class: 'labels' },
		labels.slice(0, 4).map(([name, target]) => labelTag(name, targetText(target))), labels.length > 4 && h('span', { class: 'muted' }, `and ${labels.length - 4} more`))
}

/** @param {Context} context @param {{ q: string, status: string }} state */
function emptyList(context, state) {
	if (state.q !== '' || state.status !== '') {
		return h('div', { class: 'empty' }, 'No preset matches. The search looks in slugs, names and descriptions.')
	}
	const workspace = context.workspace === 'default' || !session.mayChange() ? '' : `?workspace_id=${encodeURIComponent(context.workspace)}`
	return h('div', { class: 'empty' },
		h('h2', null, 'No presets yet'),
		h('p', null, 'Create the first one with New preset, or with this request:'),
		snippet(`curl ${location.origin}${apiPath}/presets/email-copywriter/chat/completions${workspace} \\
  -H "Authorization: Bearer $KEY" -H "Content-Type: application/json" \\
  -d '{"model": "openai/gpt-5-mini", "temperature": 0.7,
       "messages": [{"role": "system", "content": "Write short, friendly emails."}]}'`, 'the first request'))
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
