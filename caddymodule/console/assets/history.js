// Who changed what, of a preset or of a whole workspace.

import { presetPath, search, toPreset, toPresets, toVersion } from './addresses.js'
import { button, h, row, table, user, when } from './elements.js'
import * as session from './session.js'
import { copy } from './copy.js'
import { presetFrame } from './preset.js'
import { live, pages } from './states.js'

/**
 * @typedef {import('./states.js').Context} Context
 * @typedef {import('./api.js').Change} Change
 */

const limit = 50

/** @param {Context} context */
export function historyView(context) {
	const { workspace, address: { slug } } = context
	const frame = presetFrame(context, 'history', () => ({
		element: h('div', null, h('h2', null, 'History'), records(context, (offset) => presetPath({ workspace, slug }, 'history', { offset, limit }), slug)),
	}))
	return { ...frame, title: `History · ${slug}` }
}

/** @param {Context} context */
export function workspaceHistoryView(context) {
	const { workspace } = context
	return {
		title: `History · ${workspace}`,
		element: h('div', null,
			h('p', { class: 'crumbs' }, h('a', { href: toPresets(workspace) }, 'Presets')),
			h('h1', null, 'History of ', user(workspace)),
			records(context, (offset) => `/workspaces/${encodeURIComponent(workspace)}/history${search({ offset, limit })}`, '')),
	}
}

/**
 * @param {Context} context
 * @param {(offset: number) => string} path
 * @param {string} slug of the preset, empty for a workspace
 */
function records(context, path, slug) {
	const { workspace } = context
	if (!session.mayChange()) {
		return h('p', { class: 'note' }, 'This is an inference key. The history needs a management key.')
	}
	let offset = 0
	const list = live(context, path(0), (answer) => {
		/** @type {Change[]} */
		const changes = answer.data
		if (changes.length === 0) {
			return h('p', { class: 'empty' }, 'Nothing has changed yet.')
		}
		const version = (/** @type {Change} */ change, /** @type {number | null | undefined} */ number) => {
			const name = nameOf(change) || slug
			return !number ? h('span', { class: 'muted' }, '–') : name ? h('a', { href: toVersion(workspace, name, number), class: 'number' }, `v${number}`) : `v${number}`
		}
		return [
			table('History', ['What', ...(slug ? [] : ['Preset']), 'When', 'By', 'Key', 'Before', 'After', 'Message', 'Request'], changes.map((change) => row({}, [
				['What', h('span', null, words(change.operation), change.label ? [' ', h('span', { class: 'label' }, user(change.label))] : '')],
				...(slug ? [] : [/** @type {[string, import('./elements.js').Child]} */ (['Preset', nameOf(change) ? h('a', { href: toPreset(workspace, nameOf(change)), 'data-row': true, class: 'slug' }, user(nameOf(change))) : h('span', { class: 'muted' }, '–')])]),
				['When', when(change.time)],
				['By', user(change.user_id)],
				['Key', h('span', { title: change.key_id, class: 'key' }, user(change.key_name || change.key_id || 'the server'))],
				['Before', version(change, change.version_before)],
				['After', version(change, change.version)],
				['Message', change.message ? user(change.message) : h('span', { class: 'muted' }, '–')],
				['Request', change.request_id ? button('Copy id', () => copy(change.request_id), { class: 'small', title: change.request_id, 'aria-label': `Copy the request id of change ${change.number}` }) : ''],
			])), 'history'),
			answer.total > limit && pages(offset, limit, answer.total, (next) => {
				offset = next
				list.show(path(offset))
			}),
		]
	}, { lines: 8 })
	return list.element
}

/** @param {Change} change */
function nameOf(change) {
	return change.slug ?? change.preset ?? change.object?.slug ?? ''
}

/** @type {Record<string, string>} */
const operations = {
	'preset.create': 'created', 'preset.create_version': 'new version', 'preset.designate': 'put live', 'preset.update': 'changed', 'preset.archive': 'archived',
	'preset.restore': 'restored', 'preset.prune': 'old versions removed', 'label.set': 'label set', 'label.put': 'label set', 'label.delete': 'label removed',
	'preset.put_label': 'label set', 'preset.delete_label': 'label removed',
	'workspace.create': 'workspace created', 'workspace.update': 'workspace changed', 'workspace.delete': 'workspace deleted',
}

/** @param {string} operation */
function words(operation) {
	return operations[operation] ?? operation.replace(/^\w+\./, '').replaceAll('_', ' ')
}
