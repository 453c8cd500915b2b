// A 412: someone was first. The page shows what has changed, and never overwrites it.

import { presetPath } from './addresses.js'
import { button, fill, h, user, when } from './elements.js'
import * as api from './api.js'
import * as session from './session.js'
import { targetText } from './labels.js'
import { errorBox } from './states.js'

/**
 * @typedef {api.Answer<api.Preset>} PresetAnswer
 */

/**
 * conflict explains a 412 of a change of a preset. Look again takes the preset as it is
 * now. Other failures are undefined.
 *
 * @param {import('./states.js').Context} context
 * @param {api.Failure} failure
 * @param {PresetAnswer} before
 * @param {(now: PresetAnswer) => unknown} lookedAgain
 * @returns {Node | undefined}
 */
export function conflict(context, failure, before, lookedAgain) {
	if (failure.status !== 412) {
		return undefined
	}
	const list = h('div', null, h('p', { class: 'muted' }, 'Looking at what has changed…'))
	const place = h('div', { class: 'error', role: 'alert' },
		h('p', null, h('strong', null, 'Error: '), 'Nothing was changed, because the preset has changed meanwhile.'), list)
	const at = { workspace: context.workspace, slug: before.data.slug }
	void (async () => {
		try {
			const now = await api.read(presetPath(at), context.signal)
			const records = session.mayChange() ? await api.read(presetPath(at, 'history', { limit: 5 }), context.signal).catch(() => undefined) : undefined
			fill(list, changesOf(before.data, now.data, records?.data), h('p', { class: 'actions' }, button('Look again', () => {
				place.remove()
				lookedAgain(now)
			})))
		} catch (thrown) {
			fill(list, errorBox(thrown))
		}
	})()
	return place
}

/**
 * changesOf lists what differs between two states of a preset.
 *
 * @param {api.Preset} before
 * @param {api.Preset} now
 * @param {api.Change[]} [records]
 */
export function changesOf(before, now, records = []) {
	/** @type {import('./elements.js').Child[][]} */
	const items = []
	if (before.designated_version?.version !== now.designated_version?.version) {
		items.push([`Live was v${before.designated_version?.version} and is v${now.designated_version?.version} now`, ' (', user(now.designated_version?.creator_id ?? ''), ').'])
	}
	for (const name of new Set([...Object.keys(before.labels), ...Object.keys(now.labels)])) {
		const from = before.labels[name] ? targetText(before.labels[name]) : 'not set', to = now.labels[name] ? targetText(now.labels[name]) : 'not set'
		if (from !== to) {
			items.push(['Label ', user(name), ` was ${from} and is ${to} now.`])
		}
	}
	for (const [field, text] of /** @type {const} */ ([['name', 'Name'], ['description', 'Description'], ['status', 'Status']])) {
		if (before[field] !== now[field]) {
			items.push([`${text} was “`, user(before[field] ?? ''), '” and is “', user(now[field] ?? ''), '” now.'])
		}
	}
	const since = records.filter((record) => Date.parse(record.time) > Date.parse(before.updated_at))
	for (const record of since) {
		items.push([h('code', null, record.operation), ' by ', user(record.user_id), ' ', when(record.time), record.message ? [': “', user(record.message), '”'] : ''].flat())
	}
	if (items.length === 0) {
		items.push(['A version was added, or something was changed and changed back.'])
	}
	return h('ul', null, items.map((item) => h('li', null, item)))
}
