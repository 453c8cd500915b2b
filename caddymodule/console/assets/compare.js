// The comparison of any two versions of a preset.

import { presetPath, toComparison } from './addresses.js'
import { button, choice, fill, form, h, submit, user, when } from './elements.js'
import * as api from './api.js'
import * as session from './session.js'
import { differences, readSide } from './differences.js'
import { go } from './navigation.js'
import { targetText } from './labels.js'
import { presetFrame } from './preset.js'
import { putLive } from './put_live.js'
import { load, readUntilDone } from './states.js'
import { versionName } from './versions.js'

/** @type {MakeView} */
export function compareView(context) {
	const { from, to } = context.address
	return { ...presetFrame(context, 'compare', (preset) => compareBody(context, preset)), title: `v${from} and v${to} · ${context.at.slug}` }
}

/** @type {MakeBody} */
function compareBody(context, preset) {
	const { at, signal, address: { from, to } } = context
	const result = h('div'), action = h('span')
	const showAction = () => fill(action, to !== preset.data.designated_version.version && button('Put live', () => putLive(context, preset, to), {
		disabled: !session.mayChange() || preset.data.status !== 'active', 'data-key': 'put-live', 'aria-describedby': !session.mayChange() && 'read-only',
	}))
	const [first, second] = versionChoices(context, [from, to])
	const show = () => load(result, signal, async () => {
		const [a, b] = await Promise.all([from, to].map((n) => readSide(at, n, signal)))
		return [
			h('div', { class: 'sides' }, sideHeading(a), sideHeading(b)),
			from === to ? h('p', { class: 'empty' }, 'Both are the same version. Choose another above, then Compare.') : differences(a, b, signal),
		]
	})
	addEventListener('unlock', show, { signal })
	showAction()
	show()
	return {
		element: h('div', null,
			h('h2', { class: 'unseen' }, 'Comparison'),
			form({ class: 'filters' }, () => go(toComparison(at, Number(first.value), Number(second.value))),
				h('label', { for: first.id }, 'From'), first, h('label', { for: second.id }, 'To'), second,
				submit('Compare', { 'data-key': 'compare' }), button('Swap', () => go(toComparison(at, to, from)), { 'data-key': 'swap' }), action),
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

let ids = 0

/**
 * Makes selects of the preset's versions. The newest 100 can be chosen.
 * @param {Context} context @param {number[]} values
 * @param {Choice[]} [others] come first
 */
export function versionChoices({ at, signal }, values, others = []) {
	const selects = values.map((value) => choice([...others, ...(value ? [{ value: String(value), text: `v${value}` }] : [])], value ? String(value) : others[0]?.value ?? '', { id: `version-${++ids}` }))
	const page = (/** @type {number} */ offset) => api.read(presetPath(at, 'versions', { fields: 'summary', offset, limit: 100 }), signal)
	const read = async () => {
		const first = await page(0)
		/** @type {Version[]} */
		const all = first.total > 100 ? (await page(first.total - 100)).data : first.data
		const options = [...all].reverse().map((version) => ({ value: String(version.version), text: versionName(version) }))
		for (const select of selects) {
			const { value } = select
			const isKnown = [...others, ...options].some((option) => option.value === value)
			fill(select, [...others, ...options, ...(isKnown ? [] : [{ value, text: `v${value}` }])].map((option) => h('option', { value: option.value }, option.text)))
			select.value = value
		}
		if (values[0] === values[1]) {
			selects[1].value = options[0].value // something to compare
		}
	}
	readUntilDone(read, signal) // the view itself shows what is wrong
	return selects
}

/**
 * Makes a select of what a request can name: the labels and the versions of a preset.
 * @param {Context} context @param {PresetAnswer} preset @param {string} ref what is chosen
 * @param {Choice[]} others come first
 */
export function targetChoices(context, { data: { labels } }, ref, others) {
	const isVersion = /^\d+$/.test(ref), named = [...others.map(({ value }) => value), ...Object.keys(labels)]
	const [select] = versionChoices(context, [isVersion ? Number(ref) : 0], [
		...others, ...Object.entries(labels).map(([value, target]) => ({ value, text: `${value} (${targetText(target)})` })),
		...(isVersion || named.includes(ref) ? [] : [{ value: ref, text: `${ref} (not set)` }]),
	])
	select.value = ref
	return select
}
