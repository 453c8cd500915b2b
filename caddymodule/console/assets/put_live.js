// The dialog that puts a version live, or rolls back to one.

import { presetPath } from './addresses.js'
import { code, fill, h, labelTag } from './elements.js'
import { conflict } from './conflict.js'
import { ask } from './dialogs.js'
import { differences, readSide } from './differences.js'
import { designate } from './preset_changes.js'
import { load } from './states.js'
import { targetText } from './texts.js'

/** Says who is pinned: what labels serve stays as it is. @param {Preset} preset */
export function pinned({ labels, slug }) {
	const all = Object.entries(labels)
	return all.length > 0 && h('div', { class: 'pinned' },
		h('p', null, all.length === 1 ? 'One label stays where it is, and so do requests for ' : `${all.length} labels stay where they are, and so do requests for `, code(all.length === 1 ? `@preset/${slug}@${all[0][0]}` : `@preset/${slug}@<label>`), ':'),
		h('p', { class: 'labels' }, all.map(([name, target]) => labelTag(name, targetText(target)))))
}

/**
 * Shows what will change for requests, then designates the version.
 * @param {Context} context @param {PresetAnswer} preset as it was when the button was pressed
 * @param {number} version
 */
export function putLive(context, preset, version) {
	const { at } = context
	const sentence = h('p'), comparison = h('div'), stays = h('div')
	const closing = new AbortController()
	const before = () => preset.data.designated_version.version
	const { confirm } = ask(context, 'Put live', `Put v${version} live?`, [sentence, stays, comparison], () => designate(at, version, preset.tag, before()), {
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
		fill(stays, pinned(preset.data))
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
