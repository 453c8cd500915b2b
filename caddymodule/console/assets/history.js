// Who changed what, of a preset or of a whole workspace.

import { presetPath, search, toPreset, toPresets, toVersion } from './addresses.js'
import { button, h, labelTag, row, table, textOrNone, user, when } from './elements.js'
import * as session from './session.js'
import { copy } from './copy.js'
import { presetFrame } from './preset.js'
import { pagedList } from './states.js'
import { targetText } from './texts.js'

const limit = 50

/** @type {Record<string, string>} */
const words = {
	create_version: 'new version', designate: 'put live', update: 'change', set_status: 'set status', protect: 'protection', set_policy: 'policy', set_owner: 'owner',
	create_input: 'new input', update_input: 'change input', delete_input: 'remove input',
	'label.set': 'set label', 'label.move': 'move label', 'label.split': 'split label', 'label.protect': 'protect label', 'label.delete': 'remove label',
	'workspace.create': 'new workspace', 'workspace.update': 'change workspace',
	'key.create': 'new key', 'key.update': 'change key', 'key.rotate': 'rotate key', 'key.delete': 'delete key', 'key.limit_reached': 'limit of a key reached',
}

/** @type {MakeView} */
export function historyView(context) {
	const { at } = context
	const frame = presetFrame(context, 'history', () => ({
		element: h('div', null, h('h2', null, 'History'), records(context, (offset) => presetPath(at, 'history', { offset, limit }))),
	}))
	return { ...frame, title: `History · ${at.slug}` }
}

/** @type {MakeView} */
export function workspaceHistoryView(context) {
	const { workspace } = context
	return {
		title: `History · ${workspace}`,
		element: h('div', null,
			h('p', { class: 'crumbs' }, h('a', { href: toPresets(workspace) }, 'Presets')),
			h('h1', null, 'History of ', user(workspace)),
			records(context, (offset) => `/workspaces/${encodeURIComponent(workspace)}/history${search({ offset, limit })}`)),
	}
}

/** Says what was set: the status, the split, the protection, the owner. @param {Change} change @returns {Child[]} */
function detailsOf({ operation, status, split, protection, label, managed_by: owner, override }) {
	return [
		status && `now ${status}`,
		split && targetText({ split: split.split(',').map((share) => share.split(':').map(Number)).map(([version, weight]) => ({ version, weight })) }),
		protection && `${label ? 'label ' : ''}${protection === 'set' ? 'is protected' : 'is no longer protected'}`,
		operation === 'preset.set_owner' && (owner ? h('span', null, 'managed by ', user(owner)) : 'managed by nobody'),
		override && h('span', null, 'overriding ', user(override)),
	].filter(Boolean)
}

/** @param {Context} context @param {(offset: number) => string} path */
function records(context, path) {
	const { workspace, slug } = context.at
	if (!session.mayChange()) {
		return h('p', { class: 'note' }, 'This is an inference key. The history needs a management key.')
	}
	/** @param {Change} change @returns {HTMLTableRowElement} */
	const draw = (change) => {
		const at = { workspace, slug: change.slug || slug }
		const version = (/** @type {number | null | undefined} */ number) => (number && at.slug ? h('a', { href: toVersion(at, number), class: 'number' }, `v${number}`) : textOrNone())
		const operation = change.operation.replace('preset.', '')
		return row([
			['What', h('span', null, words[operation] ?? operation, change.draft ? ' (draft) ' : ' ', change.label && labelTag(change.label), detailsOf(change).map((detail) => h('span', { class: 'below' }, detail)))],
			...(slug ? [] : [/** @type {[string, Child]} */ (['Preset', at.slug ? h('a', { href: toPreset(at), 'data-row': true, class: 'slug' }, user(at.slug)) : textOrNone()])]),
			['When', when(change.time)],
			['By', h('span', null, user(change.user_id), h('span', { title: change.key_id, class: 'below' }, user(change.key_name || change.key_id || 'the server')))],
			['Before', change.version_before === change.version ? textOrNone() : version(change.version_before)],
			['After', version(change.version)],
			['Message', textOrNone(change.message)],
			['Request', change.request_id && button('Copy id', () => copy(change.request_id), { class: 'small', title: change.request_id, 'aria-label': `Copy id of change ${change.number}` })],
		])
	}
	return pagedList(context, limit, path, (answer) => (answer.data.length === 0
		? h('p', { class: 'empty' }, 'Nothing has changed yet.')
		: table('History', ['What', ...(slug ? [] : ['Preset']), 'When', 'By', 'Before', 'After', 'Message', 'Request'], answer.data.map(draw))))
}
