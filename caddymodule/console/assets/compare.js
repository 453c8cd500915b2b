// The comparison of any two versions of a preset.

import { toComparison } from './addresses.js'
import { button, fill, h, user, when } from './elements.js'
import { versionChoices } from './target.js'
import { differences, readSide } from './differences.js'
import { go } from './navigation.js'
import { presetFrame } from './preset.js'
import { putLive } from './preset_changes.js'
import { serveReason } from './rights.js'
import { keepFocus, load } from './states.js'
import { versionName } from './texts.js'

/** @type {MakeView} */
export function compareView(context) {
	const { from, to } = context.address
	return { ...presetFrame(context, 'compare', (preset) => compareBody(context, preset)), title: `v${from} and v${to} · ${context.at.slug}` }
}

/** @type {MakeBody} */
function compareBody(context, preset) {
	const { at, signal, address: { from, to } } = context
	const result = h('div'), action = h('span')
	const showAction = () => keepFocus(action, () => fill(action, to !== preset.data.designated_version.version && button('Put live', () => putLive(context, preset, to), {
		disabled: serveReason(at, preset.data) !== '' || preset.data.status !== 'active', 'data-key': 'put-live', 'aria-describedby': document.getElementById('read-only') && 'read-only',
	})))
	const [first, second] = versionChoices(context, [from, to])
	for (const [i, select] of [first, second].entries()) {
		select.dataset.key = `version-${i}` // which has the focus again
		select.addEventListener('change', (event) => {
			if (event instanceof CustomEvent) { // older versions were added
				select.value = String([from, to][i])
				return
			}
			go(toComparison(at, Number(first.value), Number(second.value)))
		})
	}
	const show = () => load(result, signal, async () => {
		const [a, b] = await Promise.all([from, to].map((n) => readSide(at, n, signal)))
		return [
			h('div', { class: 'sides' }, sideHeading(a), sideHeading(b)),
			from === to ? h('p', { class: 'empty' }, 'Both are the same version. Choose another above.') : differences(a, b, signal, true),
		]
	})
	addEventListener('unlock', show, { signal })
	showAction()
	show()
	return {
		element: h('div', null,
			h('h2', { class: 'unseen' }, 'Comparison'),
			h('div', { class: 'filters' },
				h('label', { for: first.id }, 'From'), first, h('label', { for: second.id }, 'To'), second,
				button('Swap', () => go(toComparison(at, to, from)), { 'data-key': 'swap' }), action),
			result),
		update: (next) => {
			preset = next
			showAction()
		},
	}
}

/** @param {Version} version */
function sideHeading(version) {
	return h('p', null, h('strong', { class: 'number' }, versionName(version)), h('span', { class: 'muted' }, ' by ', user(version.creator_id), ', ', when(version.created_at)),
		version.message && h('span', { class: 'message' }, user(version.message)))
}
