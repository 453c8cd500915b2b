// The timeline of a preset's versions, and the chosen version.

import { presetPath, toComparison, toPreset, toVersion } from './addresses.js'
import { button, bytes, h, user, when } from './elements.js'
import * as session from './session.js'
import { copy } from './copy.js'
import { settingsOf } from './differences.js'
import { format, parse } from './json.js'
import { go } from './navigation.js'
import { presetFrame } from './preset.js'
import { putLive } from './put_live.js'
import { live, pages } from './states.js'

/**
 * @typedef {import('./states.js').Context} Context
 * @typedef {import('./api.js').Version} Version
 */

export const pageSize = 50

/** @param {Context} context */
export function versionsView(context) {
	const frame = presetFrame(context, 'versions', (preset) => versionsBody(context, /** @type {import('./preset.js').PresetAnswer} */ (preset)))
	return { ...frame, title: context.address.version ? `v${context.address.version} · ${context.address.slug}` : context.address.slug }
}

/**
 * @param {Context} context
 * @param {import('./preset.js').PresetAnswer} preset
 */
function versionsBody(context, preset) {
	const { workspace, address: { slug } } = context
	const at = { workspace, slug }
	let liveVersion = preset.data.designated_version?.version ?? 1
	const selected = context.address.version || liveVersion
	let current = preset

	const side = timeline(context, selected)
	const detail = live(context, presetPath(at, `versions/${selected}`), (answer) => detailOf(answer), { lines: 12 })
	/** @param {import('./api.js').Answer<Version>} answer */
	const detailOf = (answer) => versionDetail(context, answer, current, liveVersion)
	return {
		element: h('div', { class: 'split' }, side.element, h('section', { class: 'detail', 'aria-label': `Version ${selected}` }, detail.element)),
		selected: () => selected,
		/** @param {import('./preset.js').PresetAnswer} next */
		update: (next) => {
			const before = liveVersion
			current = next
			liveVersion = next.data.designated_version?.version ?? 1
			const answer = detail.answer()
			const heading = detail.element.querySelector('.version-heading')
			if (answer && heading && before !== liveVersion) {
				heading.replaceWith(versionHeading(context, answer.data, current, liveVersion))
			}
		},
	}
}

/**
 * timeline lists the versions, the newest first. The API lists the oldest first, so that
 * the pages are counted from the end.
 *
 * @param {Context} context
 * @param {number} selected
 */
function timeline(context, selected) {
	const { workspace, address: { slug } } = context
	const at = { workspace, slug }
	let page = 0, total = 0
	const path = () => {
		const end = Math.max(0, total - page * pageSize)
		const offset = Math.max(0, end - pageSize)
		return presetPath(at, 'versions', { fields: 'summary', offset, limit: total === 0 ? pageSize : Math.max(1, end - offset) })
	}
	const list = live(context, path(), (answer) => {
		if (answer.total !== total && answer.total > pageSize) {
			total = answer.total
			queueMicrotask(() => list.show(path()))
			return []
		}
		total = answer.total
		/** @type {Version[]} */
		const versions = [...answer.data].reverse()
		const choose = h('select', { 'data-key': 'choose', onchange: () => go(toVersion(workspace, slug, Number(choose.value))) },
			versions.map((version) => h('option', { value: version.version }, `v${version.version}${version.designated ? ' ● live' : ''}${version.labels?.length ? ` · ${version.labels.join(', ')}` : ''}`)))
		choose.value = String(selected)
		queueMicrotask(() => list.element.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest' }))
		return [
			h('label', { class: 'choose' }, 'Version ', choose),
			h('ol', { class: 'timeline', 'aria-label': 'Versions', role: 'list' }, versions.map((version) =>
				h('li', null, h('a', {
					href: toVersion(workspace, slug, version.version), 'aria-current': version.version === selected && 'true', 'data-key': `v${version.version}`, 'data-row': true,
				},
				h('span', { class: 'name' }, h('strong', { class: 'number' }, `v${version.version}`),
					version.designated ? h('span', { class: 'live' }, h('span', { 'aria-hidden': 'true' }, '● '), 'live') : null),
				version.labels?.length ? h('span', { class: 'labels' }, version.labels.map((label) => h('span', { class: 'label' }, user(label)))) : null,
				version.message && h('span', { class: 'message' }, user(version.message)),
				h('span', { class: 'by muted' }, user(version.creator_id), ', ', when(version.created_at)))))),
			total > pageSize && pages(page * pageSize, pageSize, total, (offset) => {
				page = Math.round(offset / pageSize)
				list.show(path())
			}),
		]
	}, { lines: 6 })
	return { element: h('section', { class: 'side', 'aria-label': 'Timeline' }, list.element) }
}

/**
 * @param {Context} context
 * @param {Version} version
 * @param {import('./preset.js').PresetAnswer} preset
 * @param {number} liveVersion
 */
function versionHeading(context, version, preset, liveVersion) {
	const { workspace, address: { slug } } = context
	const isLive = version.version === liveVersion
	const cannot = !session.mayChange() || preset.data.status !== 'active'
	return h('div', { class: 'version-heading' },
		h('div', null,
			h('h2', null, h('span', { class: 'number' }, `v${version.version}`), ' ',
				isLive && h('span', { class: 'live' }, h('span', { 'aria-hidden': 'true' }, '● '), 'live')),
			h('p', { class: 'muted' }, 'by ', user(version.creator_id), ', ', when(version.created_at),
				version.dialect && ` · made as ${version.dialect}`,
				version.labels?.length ? [' · ', ...version.labels.map((label) => h('span', { class: 'label' }, user(label)))] : ''),
			version.message && h('p', { class: 'message' }, user(version.message))),
		h('div', { class: 'actions' },
			!isLive && button('Put live', () => putLive(context, preset, version.version), { disabled: cannot, 'data-key': 'put-live', 'aria-describedby': cannot && 'read-only' }),
			button('Compare', () => go(isLive ? toComparison(workspace, slug, Math.max(1, version.version - 1), version.version) : toComparison(workspace, slug, liveVersion, version.version)), {
				'data-key': 'compare', title: isLive ? 'Compare with the version before' : 'Compare with the live version',
			}),
			button('Edit', () => go(toPreset(workspace, slug, 'new', { from: version.version })), { disabled: cannot, 'data-key': 'edit', title: 'Make a new version from this one', 'aria-describedby': cannot && 'read-only' })))
}

/**
 * @param {Context} context
 * @param {import('./api.js').Answer<Version>} answer
 * @param {import('./preset.js').PresetAnswer} preset
 * @param {number} liveVersion
 */
function versionDetail(context, answer, preset, liveVersion) {
	const version = answer.data
	const settings = settingsOf(answer.text)
	return [
		versionHeading(context, version, preset, liveVersion),
		h('div', { class: 'section' }, h('h3', null, 'Prompt'),
			version.system_prompt ? h('span', { class: 'muted number' }, bytes(version.system_prompt_bytes ?? new TextEncoder().encode(version.system_prompt).length)) : null,
			version.system_prompt ? button('Copy', () => copy(version.system_prompt ?? ''), { class: 'small', 'aria-label': 'Copy the prompt' }) : null),
		version.system_prompt
			? h('pre', { class: 'prompt', tabindex: '0', role: 'region', 'aria-label': 'Prompt', dir: 'auto' }, version.system_prompt)
			: h('p', { class: 'muted' }, 'This version has no prompt.'),
		h('div', { class: 'section' }, h('h3', null, 'Settings'),
			button('Copy', () => copy(format(settings)), { class: 'small', 'aria-label': 'Copy the settings' })),
		settingsTable(settings),
	]
}

/** @param {string} settings */
export function settingsTable(settings) {
	const members = parse(settings).members
	if (members.length === 0) {
		return h('p', { class: 'muted' }, 'This version has no settings.')
	}
	return h('table', { class: 'settings', 'aria-label': 'Settings' }, h('tbody', null, members.map((member) =>
		h('tr', null, h('th', { scope: 'row' }, h('code', null, user(member.name))),
			h('td', null, h('code', { dir: 'auto' }, format(settings, member.value)))))))
}

