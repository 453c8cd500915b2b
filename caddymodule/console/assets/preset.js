// The frame of all views of one preset: its name, what is live, its tabs and its changes.

import { presetPath, search, toDefaultComparison, toPreset, toVersion } from './addresses.js'
import { button, fill, h, labelTag, menu, user } from './elements.js'
import * as api from './api.js'
import * as session from './session.js'
import { go, replace } from './navigation.js'
import { archive, describe, disable, duplicate, enable, limits, policy, protect, restore } from './preset_changes.js'
import { changeReason, obstacles, serveReason } from './rights.js'
import { errorBox, live } from './states.js'
import { queryOf, refOf, versionOf } from './target.js'
import { targetText } from './texts.js'

/**
 * Shows a preset around a body. The body is made once, when the preset is
 * known, and is told when the preset changes. If the preset may be missing, the body is
 * made without it. The tabs are about the version or the label of the address, until the body
 * selects another.
 * @type {MakeFrame}
 */
export function presetFrame(context, tab, make, makeMissing) {
	const place = h('div')
	/** @type {PresetBody | undefined} */
	let body
	let ref = refOf(context.address)
	const select = (/** @type {string} */ chosen) => {
		ref = chosen
		replace(location.pathname + search(queryOf(ref)))
		header.redraw()
	}
	const header = live(context, presetPath(context.at), (answer) => {
		if (body) {
			body.update?.(answer)
		} else {
			body = make(answer, select)
			fill(place, body.element)
		}
		return headerOf(context, tab, answer, ref, () => header.redraw(), body.actions)
	}, {
		lines: 2,
		onFailure: async (failure, again) => {
			const isMissing = failure.status === 404
			const archived = isMissing && await findArchived(context).catch(() => undefined)
			if (archived) {
				return archivedHeader(context, archived, again)
			}
			if (isMissing && makeMissing) {
				body ??= makeMissing()
				fill(place, body.element)
				return h('div', null, heading(context, context.at.slug, [], body.actions ?? []), h('p', { class: 'muted' }, 'This preset does not exist yet. Saving creates it.'))
			}
			return body && !isMissing ? undefined : h('div', null, heading(context, context.at.slug, [], []), errorBox(failure, again))
		},
	})
	return { title: context.at.slug, element: h('div', null, header.element, place) }
}

/** @param {Context} context @param {string} name @param {Child[]} standing @param {Child[]} actions */
function heading({ at }, name, standing, actions) {
	return h('div', { class: 'heading one-line' },
		h('h1', null, user(name)), name !== at.slug && h('span', { class: 'slug muted' }, user(at.slug)),
		h('p', { class: 'standing' }, standing), h('span', { class: 'gap' }), h('div', { class: 'actions' }, actions))
}

/** @param {Context} context @param {string} tab @param {PresetAnswer} answer @param {string} selected @param {() => unknown} redraw @param {Child[]} [actions] */
function headerOf(context, tab, answer, selected, redraw, actions) {
	const preset = answer.data, { at } = context
	const version = preset.designated_version.version
	const ref = tab === 'compare' && selected === String(version) ? '' : selected // compared with what is live
	const n = versionOf(preset, ref), query = queryOf(ref), { label } = query
	const isDisabled = preset.status === 'disabled'
	const cannotChange = changeReason(at, preset) !== '', cannotServe = serveReason(at, preset) !== ''
	const reasons = [...obstacles(at, preset, redraw), ...(isDisabled && session.mayChange() ? [h('p', null, 'This preset is disabled. Requests that name it get 404, and it takes no new versions.')] : [])]
	/** @type {[string, string, string][]} */
	const tabs = [
		['versions', 'Versions', ref ? toVersion(at, n) + search({ label }) : toPreset(at)], ['compare', 'Compare', toDefaultComparison(at, version, n) + search({ label })],
		['labels', 'Labels', toPreset(at, 'labels', query)], ['edit', 'Workbench', toPreset(at, 'edit', query)], ['use', 'Use it', toPreset(at, 'use', query)],
		['usage', 'Usage', toPreset(at, 'usage', query)], ['history', 'History', toPreset(at, 'history', query)],
	]
	const labels = Object.entries(preset.labels), splits = labels.filter(([, { split }]) => split)
	const tagOf = (/** @type {[string, Target]} */ [name, target]) => labelTag(name, targetText(target))
	// One line has room for what serves. The rest is one click away.
	const more = [
		...labels.filter((one) => one !== splits[0]).map(tagOf),
		preset.protected && h('span', { class: 'state' }, 'protected'), preset.policy && h('span', { class: 'state' }, 'policy'),
		preset.managed_by && h('span', { class: 'state' }, 'managed by ', user(preset.managed_by)),
		...(preset.tags ?? []).map((tag) => h('span', { class: 'tag' }, '#', user(tag))),
	].filter(Boolean)
	const described = { 'aria-describedby': reasons.length > 0 && 'read-only' }
	/** @param {string} name @param {() => unknown} run */
	const item = (name, run, cannot = cannotServe) => button(name, run, { disabled: cannot, ...described })
	return [
		heading(context, preset.name, [
			h('span', { class: 'live number' }, `● live v${version}`),
			preset.status !== 'active' && h('span', { class: `state ${preset.status}` }, preset.status),
			splits.slice(0, 1).map(tagOf),
			more.length > 1 ? menu([`+${more.length}`, h('span', { class: 'unseen' }, ' more labels and marks')], 'marks', more) : more,
		].flat(), [
			menu('Actions', 'actions', [
				item('Rename and describe', () => describe(context, answer), cannotChange),
				item('Policy', () => policy(context, answer), !preset.policy && cannotServe),
				(preset.protected || session.mayChangeProtected()) && item(preset.protected ? 'Unprotect' : 'Protect', () => protect(at, !preset.protected, answer.tag)),
				isDisabled ? item('Enable', () => enable(at, answer.tag)) : item('Disable', () => disable(context, answer)),
				item('Limits', () => limits(context, answer), !preset.limits && (cannotServe || !session.mayChangeBudgets())),
				item('Duplicate', () => duplicate(context, answer), !session.mayChange()),
				item('Export', () => import('./preset_file.js').then((module) => module.exportPreset(context, answer)), false),
				item('Archive', () => archive(context, answer), isDisabled || cannotServe),
			]),
			...actions ?? [button('Edit', () => go(toPreset(at, 'edit', { from: n })), {
				disabled: cannotChange || isDisabled, class: tab === 'versions' && 'primary', 'data-key': 'edit', 'data-shortcut': 'n', ...described,
			})],
		]),
		preset.description && h('p', { class: 'description muted' }, user(preset.description)),
		reasons.length > 0 && h('div', { class: 'note', id: 'read-only' }, reasons),
		h('nav', { class: 'tabs', 'aria-label': 'Preset' }, tabs.map(([name, text, href]) =>
			h('a', { href, 'aria-current': name === tab && 'page', 'data-key': `tab-${name}`, 'data-shortcut': name === 'compare' && 'c' }, text))),
	]
}

/** Returns the preset of the address if it is archived. @param {Context} context @returns {Promise<Preset | undefined>} */
async function findArchived({ at, signal }) {
	const answer = await api.read('/presets' + search({ status: 'archived', q: at.slug, sort: 'slug', order: 'asc', limit: 100, workspace_id: at.workspace }), signal)
	return answer.data.find((/** @type {Preset} */ preset) => preset.slug === at.slug)
}

/** @param {Context} context @param {Preset} preset @param {() => unknown} redraw */
function archivedHeader(context, preset, redraw) {
	return h('div', null,
		heading(context, preset.name, [h('span', { class: 'state archived' }, 'archived')], [button('Restore', () => restore(context.at), { class: 'primary', disabled: serveReason(context.at, preset) !== '' })]),
		h('div', { class: 'note' }, h('p', null, 'Requests that name this preset get 404. Restoring it brings all its versions and labels back.'), obstacles(context.at, preset, redraw)))
}
