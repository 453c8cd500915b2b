// The comparison of any two versions of a preset.

import { presetPath, toComparison } from './addresses.js'
import { button, choice, fill, form, h, submit, user, when } from './elements.js'
import * as api from './api.js'
import { differences, readSide } from './differences.js'
import { go } from './navigation.js'
import { targetText } from './labels.js'
import { presetFrame } from './preset.js'
import { putLive } from './put_live.js'
import { serveReason } from './rights.js'
import { keepFocus, load, readUntilDone } from './states.js'
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
	const showAction = () => keepFocus(action, () => fill(action, to !== preset.data.designated_version.version && button('Put live', () => putLive(context, preset, to), {
		disabled: serveReason(at, preset.data) !== '' || preset.data.status !== 'active', 'data-key': 'put-live', 'aria-describedby': document.getElementById('read-only') && 'read-only',
	})))
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

const versionsAtOnce = 100
let ids = 0

/**
 * Makes selects of the preset's versions, the newest first. Each older 100 are one more choice away.
 * @param {Context} context @param {number[]} values
 * @param {Choice[]} [others] come first
 */
export function versionChoices({ at, signal }, values, others = []) {
	const selects = values.map((value) => choice([...others, ...(value ? [{ value: String(value), text: `v${value}` }] : [])], value ? String(value) : others[0]?.value ?? '', { id: `version-${++ids}` }))
	const page = (/** @type {number} */ offset, /** @type {number} */ limit) => api.read(presetPath(at, 'versions', { fields: 'summary', offset, limit }), signal)
	/** @type {Choice[]} */
	let options = []
	let unread = 0 // older versions
	const older = 'older'
	/** Adds older versions. @param {Version[]} versions the oldest first @param {number} offset of the first */
	const add = (versions, offset) => {
		options = [...options, ...[...versions].reverse().map((version) => ({ value: String(version.version), text: versionName(version) }))]
		unread = offset
		for (const select of selects) {
			const { value } = select
			const isKnown = value === older || [...others, ...options].some((option) => option.value === value)
			fill(select, [...others, ...options, ...(unread > 0 ? [{ value: older, text: `Older versions (${unread})…` }] : []), ...(isKnown ? [] : [{ value, text: `v${value}` }])].map((option) => h('option', { value: option.value }, option.text)))
			select.value = value
		}
	}
	const readOlder = async () => {
		const offset = Math.max(0, unread - versionsAtOnce), { data } = await page(offset, unread - offset)
		add(data, offset)
		return String(data[data.length - 1].version)
	}
	for (const select of selects) {
		select.addEventListener('change', (event) => {
			if (select.value === older) {
				event.stopImmediatePropagation()
				select.disabled = true
				readOlder().catch(() => options[options.length - 1].value).then((next) => {
					select.disabled = false
					select.value = next
					select.focus()
					select.dispatchEvent(new Event('change', { bubbles: true }))
				})
			}
		})
	}
	const read = async () => {
		options = []
		const first = await page(0, versionsAtOnce)
		unread = first.total
		await (unread > versionsAtOnce ? readOlder() : add(first.data, 0))
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
