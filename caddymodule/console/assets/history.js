// Who changed what, of a preset or of a whole workspace.

import { presetPath, replace, search, toPreset, toPresets, toVersion, toWorkspaceHistory, workspacePath } from './addresses.js'
import { button, choice, code, fill, h, labelTag, small, table, textOrNone, user, when } from './elements.js'
import { targetText } from './figures.js'
import * as api from './api.js'
import * as session from './session.js'
import { presetFrame } from './preset.js'
import { attempt, copy, csvOf, download, load, pagedList, say } from './states.js'

const limit = 50
const most = 2000 // changes that filters and the export look at

/** What the filter calls the operations. @type {Record<string, string>} */
const kinds = { create_version: 'new versions', designate: 'put live', 'label.': 'labels', input: 'saved inputs', 'key.': 'keys', 'workspace.': 'workspace', 'preset.': 'all of presets' }

/** What was done, before what it was done to. @type {Record<string, string>} */
const words = {
	'preset.update': 'Changed the preset', 'preset.set_policy': 'Changed the policy', 'preset.archive': 'Archived the preset', 'preset.restore': 'Restored the preset',
	'preset.prune': 'Removed old versions', 'preset.erase': 'Erased the preset',
	'preset.create_input': 'Saved the input', 'preset.update_input': 'Changed the input', 'preset.delete_input': 'Removed the input',
	'label.set': 'Set the label', 'label.move': 'Moved the label', 'label.split': 'Split the label', 'label.protect': 'Changed the protection of the label', 'label.delete': 'Removed the label',
	'workspace.create': 'Made the workspace', 'workspace.update': 'Changed the workspace', 'workspace.delete': 'Deleted the workspace',
	'key.create': 'Issued the key', 'key.update': 'Changed the key', 'key.rotate': 'Rotated the key', 'key.delete': 'Revoked the key', 'key.remove': 'Removed the key', 'key.limit_reached': 'A limit was reached by the key',
}

/** @type {MakeView} */
export function historyView(context) {
	const { at } = context
	return presetFrame(context, 'history', 'History', () => ({
		element: h('div', h('h2', 'History'), records(context, (query) => presetPath(at, 'history', query), (query) => toPreset(at, 'history', query))),
	}))
}

/** @type {MakeView} */
export function workspaceHistoryView(context) {
	const { workspace } = context
	return {
		title: `History · ${workspace}`,
		element: h('div',
			h('p.crumbs', h('a', { href: toPresets(workspace) }, 'Presets')),
			h('h1', 'History of ', user(workspace)),
			records(context, (query) => workspacePath(workspace, 'history') + search(query), (query) => toWorkspaceHistory(workspace) + search(query))),
	}
}

/** Says what was done in a sentence. @param {Change} change @param {(n: number | null | undefined) => Child} version @returns {Child[]} */
function sentence({ operation, status, draft, label, version: to, version_before: from, managed_by: owner, protection, name, input_id: input, changed_key_id: key }, version) {
	const inPlace = from && from !== to ? [' in place of ', version(from)] : []
	switch (operation) {
		case 'preset.create_version':
			return draft ? ['Saved the draft ', version(to)] : ['Put the new ', version(to), ' live', ...inPlace]
		case 'preset.designate':
			return ['Put ', version(to), ' live', ...inPlace]
		case 'preset.set_status':
			return [status === 'disabled' ? 'Disabled the preset' : 'Enabled the preset']
		case 'preset.protect':
			return [protection === 'set' ? 'Protected the preset' : 'Ended the protection of the preset']
		case 'preset.set_owner':
			return owner ? ['Gave the preset to ', user(owner)] : ['Took the preset from its owner']
	}
	const what = key && status ? (status === 'disabled' ? 'Disabled the key' : 'Enabled the key') : words[operation] ?? operation
	const id = input ?? key
	return [what, ' ', ...(label ? [labelTag(label)] : []), ...(label && to && from !== to ? [...(from ? [' from ', version(from)] : []), ' to ', version(to)] : []),
		name ? h('strong', user(name)) : id && code(id.slice(-12))]
}

/** Says what exactly was changed. @param {Change} change @returns {Child[]} */
function details({ split, protection, label, override, message, changes }) {
	const value = (/** @type {unknown} */ of) => (of === null ? 'none' : Array.isArray(of) ? of.join(', ') || 'none' : typeof of === 'string' ? of || 'empty' : JSON.stringify(of))
	return [
		message && h('span.message', user(message)),
		split && targetText({ split: split.split(',').map((share) => share.split(':').map(Number)).map(([version, weight]) => ({ version, weight })) }),
		protection && label && `The label is ${protection === 'set' ? '' : 'no longer '}protected`,
		override && h('span', 'overriding ', user(override)),
		...(changes ?? []).map(({ field, from, to }) => h('span', field.slice(1).replaceAll('/', ' · ').replaceAll('_', ' '),
			...(from === undefined ? [] : [': ', user(value(from)), ' → ', h('strong', user(value(to)))]))),
	].filter(Boolean)
}

/** @param {Context} context @param {(query: Query) => string} path @param {(query: Query) => string} address */
function records(context, path, address) {
	const { workspace, slug } = context.at, { query } = context.address
	if (!session.mayChange()) {
		return h('p.note', 'This is an inference key. The history needs a management key.')
	}
	/** @param {Change} change @returns {Cell[]} */
	const draw = (change) => {
		const at = { workspace, slug: change.slug || slug }
		const version = (/** @type {number | null | undefined} */ n) => n && (/^(preset|label)\./.test(change.operation) ? h('a.number', { href: toVersion(at, n) }, `v${n}`) : `v${n}`)
		const isOfPreset = /^(preset|label)\./.test(change.operation)
		return [
			['What', h('span', sentence(change, version), details(change).map((detail) => h('span.below', detail)))],
			...(slug ? [] : [/** @type {Cell} */ (['Preset', isOfPreset ? h('a.slug', { href: toPreset(at), 'data-row': true }, user(at.slug)) : textOrNone()])]),
			['When', when(change.time)],
			['By', h('span', user(change.user_id), h('span.below', { title: change.key_id }, user(change.key_name || change.key_id || 'the server')))],
			['Request', change.request_id && small('Copy id', () => copy(change.request_id), { title: change.request_id, 'aria-label': `Copy id of change ${change.number}` })],
		]
	}
	const drawAll = (/** @type {Change[]} */ all) => (all.length === 0 ? h('p.empty', 'Nothing has changed.')
		: table('History', all.map(draw), 'changes'))

	/** Reads the newest changes. @returns {Promise<Change[]>} */
	const readAll = () => api.readAll((offset) => path({ offset, limit: 100 }), most, context.signal)
	const place = h('div')
	const isChosen = (/** @type {Change} */ { operation, user_id: author }) => operation.includes(kind.value) && (!by.value || author === by.value)
	let looking = new AbortController()
	const choose = () => {
		replace(address({ what: kind.value, by: by.value }))
		show()
	}
	const show = async () => {
		looking.abort()
		looking = new AbortController()
		const signal = AbortSignal.any([looking.signal, context.signal])
		if (!kind.value && !by.value) {
			fill(place, pagedList({ ...context, signal }, limit, (offset) => path({ offset, limit }), ({ data }) => {
				know(data)
				return drawAll(data)
			}))
			return
		}
		await load(place, signal, async () => {
			const all = await readAll(), found = all.filter(isChosen)
			know(all)
			return [h('p.hint', { role: 'status' }, `${found.length} of the ${all.length === most ? `newest ${most}` : all.length} changes`), drawAll(found)]
		})
	}
	const authors = new Set([query.get('by') ?? ''].filter(Boolean))
	/** Offers the authors of changes, too. @param {Change[]} all */
	const know = (all) => {
		const before = by.value
		all.forEach(({ user_id: author }) => authors.add(author))
		fill(by, h('option', { value: '' }, 'everyone'), [...authors].sort().map((author) => h('option', { value: author }, author)))
		by.value = before
	}
	const kind = choice([{ value: '', text: 'everything' }, ...Object.entries(kinds).filter(([value]) => !slug || !/^(key|workspace|preset)/.test(value)).map(([value, text]) => ({ value, text }))], query.get('what') ?? '', { 'aria-label': 'What', onchange: choose })
	const by = choice([], '', { 'aria-label': 'By', onchange: choose })
	know([])
	by.value = query.get('by') ?? ''
	const failed = h('div')
	const save = button('Download CSV', () => attempt(failed, save, async () => {
		const columns = /** @type {const} */ (['number', 'time', 'operation', 'user_id', 'key_id', 'key_name', 'slug', 'version_before', 'version', 'draft', 'label', 'split', 'status', 'protection', 'managed_by', 'override', 'name', 'changes', 'message', 'request_id'])
		const all = (await readAll()).filter(isChosen)
		download(`history-${slug || workspace}.csv`, csvOf(columns, all.map((change) => columns.map((name) => change[name]))), 'text/csv')
		say(`${all.length} changes are downloaded${all.length === most ? ', the newest' : ''}.`)
	}), { 'data-key': 'csv' })
	show()
	return h('div', h('div.filters', kind, ' by ', by, h('span.gap'), save), failed, place)
}
