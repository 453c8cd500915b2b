// The dialog that puts a version live, or rolls back to one.

import { presetPath } from './addresses.js'
import { code, fill, h } from './elements.js'
import { conflict } from './conflict.js'
import { ask } from './dialogs.js'
import { differences, readSide } from './differences.js'
import { designate } from './preset_changes.js'
import { load } from './states.js'

/**
 * Shows what will change for requests, then designates the version.
 * @param {Context} context @param {PresetAnswer} preset as it was when the button was pressed
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
		fill(sentence, isLive ? `v${version} is live already.` : ['Requests for ', code(`@preset/${at.slug}`), ` get v${version} in place of v${before()}, from the next one on.`])
		confirm.disabled = true
		load(comparison, closing.signal, async () => {
			const [a, b] = await Promise.all([before(), version].map((n) => readSide(at, n, closing.signal)))
			confirm.disabled = isLive
			confirm.focus()
			return differences(a, b, closing.signal)
		})
	}
	show()
}
