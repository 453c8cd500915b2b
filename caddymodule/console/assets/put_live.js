// The dialog that puts a version live, or rolls back to one.

import { presetPath } from './addresses.js'
import { fill, h, user } from './elements.js'
import * as api from './api.js'
import { conflict } from './conflict.js'
import { ask } from './dialogs.js'
import { differences, sideOf } from './differences.js'
import { designate } from './preset_changes.js'
import { load } from './states.js'

/**
 * putLive shows what will change for requests, then designates the version.
 *
 * @param {Context} context
 * @param {PresetAnswer} preset as it was when the button was pressed
 * @param {number} version
 */
export function putLive(context, preset, version) {
	const { at } = context
	const sentence = h('p'), comparison = h('div')
	const closing = new AbortController()
	const before = () => preset.data.designated_version.version
	const { confirm } = ask(context, 'Put live', `Put v${version} live?`, [sentence, comparison], () => designate(at, version, preset.tag, before()), {
		isWide: true,
		onClose: () => closing.abort(),
		explain: (failure) => conflict(failure, presetPath(at), preset, (now) => {
			preset = now
			show()
		}),
	})
	const show = () => {
		const isLive = before() === version
		fill(sentence, isLive ? `v${version} is live already.` : ['Requests for ', h('code', null, user(`@preset/${at.slug}`)), ` get v${version} in place of v${before()}, from the next one on.`])
		confirm.disabled = true
		load(comparison, closing.signal, async () => {
			const [a, b] = await Promise.all([before(), version].map((number) => api.read(presetPath(at, `versions/${number}`), closing.signal)))
			confirm.disabled = isLive
			confirm.focus()
			return differences(sideOf(a), sideOf(b), closing.signal)
		})
	}
	show()
}
