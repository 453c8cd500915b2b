// The frame of all views of one preset: its name, what is live, its tabs and its changes.

import { presetPath, search, toPreset, toPresets, toComparison } from './addresses.js'
import { button, fill, h, user } from './elements.js'
import * as api from './api.js'
import * as session from './session.js'
import { targetText } from './labels.js'
import { go } from './navigation.js'
import { archive, describe, disable, enable, restore } from './preset_changes.js'
import { live } from './states.js'

/**
 * @typedef {api.Answer<api.Preset>} PresetAnswer
 * @typedef {{ element: Node, update?: (preset: PresetAnswer) => void, selected?: () => number }} Body
 */

/**
 * presetFrame shows a preset around a body. The body is made once, when the preset is
 * known. It is told when the preset changes.
 *
 * @param {import('./states.js').Context} context
 * @param {string} tab
 * @param {(preset: PresetAnswer | undefined) => Body} make
 * @param {{ mayBeMissing?: boolean }} [options]
 */
export function presetFrame(context, tab, make, options = {}) {
	const { workspace, address: { slug } } = context
	const place = h('div', { class: 'view' })
	/** @type {Body | undefined} */
	let body
	const header = live(context, presetPath({ workspace, slug }), (answer) => {
		if (body) {
			body.update?.(answer)
		} else {
			body = make(answer)
			fill(place, body.element)
		}
		return headerOf(context, tab, answer, () => body?.selected?.() ?? answer.data.designated_version.version)
	}, {
		lines: 2,
		onFailure: async (failure) => {
			if (failure.status !== 404) {
				return undefined
			}
			const archived = await findArchived(context).catch(() => undefined)
			if (archived) {
				return archivedNotice(context, archived)
			}
			if (options.mayBeMissing && !body) {
				body = make(undefined)
				fill(place, body.element)
			}
			return options.mayBeMissing ? missingHeader(context) : undefined
		},
	})
	return { title: slug, element: h('div', null, header.element, place) }
}

/** @param {import('./states.js').Context} context */
function crumbs(context) {
	return [h('a', { href: toPresets(context.workspace) }, 'Presets'), h('span', { class: 'muted', 'aria-hidden': 'true' }, ' / ')]
}

/** @param {import('./states.js').Context} context */
function missingHeader(context) {
	return h('div', { class: 'preset-header' },
		h('div', { class: 'heading' }, h('p', { class: 'crumbs' }, crumbs(context)), h('h1', null, user(context.address.slug))),
		h('p', { class: 'muted' }, 'This preset does not exist yet. Saving creates it.'))
}

/**
 * @param {import('./states.js').Context} context
 * @param {string} tab
 * @param {PresetAnswer} answer
 * @param {() => number} selected
 */
function headerOf(context, tab, answer, selected) {
	const preset = answer.data
	const { workspace } = context
	const reason = session.readOnlyReason() || (preset.status === 'disabled' ? 'This preset is disabled. Requests that name it get 404, and it takes no new versions.' : '')
	const newest = preset.designated_version?.version ?? 1
	const tabs = /** @type {const} */ ([
		['versions', 'Versions', toPreset(workspace, preset.slug)],
		['compare', 'Compare', toComparison(workspace, preset.slug, Math.max(1, newest - 1), newest)],
		['labels', 'Labels', toPreset(workspace, preset.slug, 'labels')],
		['try', 'Try it', toPreset(workspace, preset.slug, 'try')],
		['use', 'Use it', toPreset(workspace, preset.slug, 'use')],
		['history', 'History', toPreset(workspace, preset.slug, 'history')],
	])
	const cannot = { disabled: !session.mayChange(), 'aria-describedby': session.mayChange() ? null : 'read-only', class: 'quiet' }
	return [
		h('div', { class: 'preset-header' },
			h('div', { class: 'heading' },
				h('div', null,
					h('p', { class: 'crumbs' }, crumbs(context)),
					h('h1', null, user(preset.name)),
					preset.name !== preset.slug && h('p', { class: 'slug muted' }, user(preset.slug))),
				tab !== 'new' && h('div', { class: 'actions' },
					button('New version', () => go(toPreset(workspace, preset.slug, 'new', { from: selected() })), {
						disabled: !session.mayChange() || preset.status !== 'active', class: tab === 'versions' ? 'primary' : '', 'data-key': 'new', 'data-shortcut': 'n', 'aria-describedby': reason && 'read-only',
					}))),
			h('p', { class: 'standing' },
				h('span', { class: 'live number' }, h('span', { 'aria-hidden': 'true' }, '● '), `live v${preset.designated_version?.version}`),
				preset.status !== 'active' && h('span', { class: `state ${preset.status}` }, preset.status),
				Object.entries(preset.labels).map(([name, target]) => h('span', { class: 'label' }, user(name), ' ', h('span', { class: 'number' }, targetText(target))))),
			preset.description && h('p', { class: 'description' }, user(preset.description)),
			reason && h('p', { class: 'note', id: 'read-only' }, reason),
			h('div', { class: 'actions more' },
				button('Rename and describe', () => describe(context, answer), { ...cannot, 'data-key': 'describe' }),
				preset.status === 'disabled'
					? button('Enable', () => enable(context, answer), { ...cannot, 'data-key': 'enable' })
					: button('Disable', () => disable(context, answer), { ...cannot, 'data-key': 'disable' }),
				button('Archive', () => archive(context, answer), { ...cannot, disabled: cannot.disabled || preset.status === 'disabled', 'data-key': 'archive', title: preset.status === 'disabled' ? 'Enable the preset first' : null }))),
		h('nav', { class: 'tabs', 'aria-label': 'Preset' }, tabs.map(([name, text, href]) =>
			h('a', { href, 'aria-current': name === tab && 'page', 'data-key': `tab-${name}`, 'data-shortcut': name === 'compare' && 'c' }, text))),
	]
}

/**
 * findArchived returns the preset of the address if it is archived.
 *
 * @param {import('./states.js').Context} context
 */
async function findArchived(context) {
	const { slug } = context.address
	const answer = await api.read('/presets' + search({ status: 'archived', q: slug, sort: 'slug', order: 'asc', limit: 100, workspace_id: context.workspace }), context.signal)
	return /** @type {api.Preset[]} */ (answer.data).find((preset) => preset.slug === slug)
}

/**
 * @param {import('./states.js').Context} context
 * @param {api.Preset} preset
 */
function archivedNotice(context, preset) {
	const reason = session.readOnlyReason()
	return h('div', { class: 'preset-header' },
		h('div', { class: 'heading' }, h('div', null, h('p', { class: 'crumbs' }, crumbs(context)), h('h1', null, user(preset.name))),
			h('div', { class: 'actions' }, button('Restore', () => restore(context, preset.slug), { class: 'primary', disabled: reason !== '' }))),
		h('p', { class: 'note' }, h('span', { class: 'state archived' }, 'archived'), ' Requests that name this preset get 404. Restoring it brings all its versions and labels back. ', reason))
}
