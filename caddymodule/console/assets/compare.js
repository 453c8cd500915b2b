// The comparison of any two versions of a preset.

import { presetPath, toComparison } from './addresses.js'
import { button, choice, fill, h, submit, user, when } from './elements.js'
import * as api from './api.js'
import * as session from './session.js'
import { differences, sideOf } from './differences.js'
import { go } from './navigation.js'
import { presetFrame } from './preset.js'
import { putLive } from './put_live.js'
import { errorBox, expectContent } from './states.js'

/**
 * @typedef {import('./states.js').Context} Context
 */

/** @param {Context} context */
export function compareView(context) {
	const { from, to, slug } = context.address
	const frame = presetFrame(context, 'compare', (preset) => compareBody(context, /** @type {import('./preset.js').PresetAnswer} */ (preset)))
	return { ...frame, title: `v${from} and v${to} · ${slug}` }
}

/**
 * @param {Context} context
 * @param {import('./preset.js').PresetAnswer} preset
 */
function compareBody(context, preset) {
	const { workspace, address: { slug, from, to } } = context
	const at = { workspace, slug }
	let current = preset
	const result = h('div')
	const heading = h('div', { class: 'sides' })
	const action = h('span')
	const showAction = () => fill(action, to !== current.data.designated_version?.version && button('Put live', () => putLive(context, current, to), {
		disabled: !session.mayChange() || current.data.status !== 'active', title: `Put v${to} live`, 'data-key': 'put-live', 'aria-describedby': !session.mayChange() && 'read-only',
	}))
	const chosen = versionChoices(context, [from, to])
	const [first, second] = chosen.selects
	const form = h('form', { class: 'filters', onsubmit: (/** @type {Event} */ event) => {
		event.preventDefault()
		go(toComparison(workspace, slug, Number(first.value), Number(second.value)))
	} },
	h('label', { for: first.id }, 'From'), first, h('label', { for: second.id }, 'To'), second,
	submit('Compare', { 'data-key': 'compare' }),
	button('Swap', () => go(toComparison(workspace, slug, to, from)), { class: 'quiet', 'data-key': 'swap' }), action)

	const load = async () => {
		fill(result)
		const cancel = expectContent(result, context.signal, 10)
		try {
			const [a, b] = await Promise.all([from, to].map((number) => api.read(presetPath(at, `versions/${number}`), context.signal)))
			cancel()
			fill(heading, sideHeading(a.data), sideHeading(b.data))
			fill(result, from === to ? h('p', { class: 'empty' }, 'Both are the same version. Choose two versions above.') : differences(sideOf(a), sideOf(b), context.signal))
		} catch (thrown) {
			cancel()
			if (!context.signal.aborted) {
				fill(result, errorBox(thrown, load))
			}
		}
	}
	addEventListener('unlock', () => void load(), { signal: context.signal })
	showAction()
	void load()
	return {
		element: h('div', null, form, heading, result),
		selected: () => to,
		/** @param {import('./preset.js').PresetAnswer} next */
		update: (next) => {
			current = next
			showAction()
		},
	}
}

/** @param {api.Version} version */
function sideHeading(version) {
	return h('p', null, h('strong', { class: 'number' }, `v${version.version}`), ' ', version.designated && h('span', { class: 'live' }, '● live '),
		h('span', { class: 'muted' }, 'by ', user(version.creator_id), ', ', when(version.created_at)),
		version.message && h('span', { class: 'message' }, user(version.message)))
}

let ids = 0

/**
 * versionChoices makes selects of the preset's versions. The newest 500 can be chosen.
 *
 * @param {Context} context
 * @param {number[]} values
 * @param {{ value: string, text: string }[]} [others] come first
 */
export function versionChoices(context, values, others = []) {
	const at = { workspace: context.workspace, slug: context.address.slug }
	const selects = values.map((value) => choice([...others, ...(value ? [{ value: String(value), text: `v${value}` }] : [])], value ? String(value) : others[0]?.value ?? '', { id: `version-${++ids}` }))
	const load = async () => {
		const first = await api.read(presetPath(at, 'versions', { fields: 'summary', offset: 0, limit: 100 }), context.signal)
		/** @type {api.Version[]} */
		let all = first.data
		for (let offset = Math.max(100, first.total - 500); offset < first.total; offset += 100) {
			all = [...all, ...(await api.read(presetPath(at, 'versions', { fields: 'summary', offset, limit: 100 }), context.signal)).data]
		}
		const options = all.reverse().map((version) => ({
			value: String(version.version),
			text: `v${version.version}${version.designated ? ' ● live' : ''}${version.labels?.length ? ` · ${version.labels.join(', ')}` : ''}`,
		}))
		selects.forEach((select) => {
			const { value } = select
			const known = options.some((option) => option.value === value) || others.some((option) => option.value === value)
			fill(select, [...others, ...options, ...(known || !value ? [] : [{ value, text: `v${value}` }])].map((option) => h('option', { value: option.value }, option.text)))
			select.value = value
		})
		return all
	}
	const loaded = load().catch(() => /** @type {api.Version[]} */ ([]))
	return { selects, loaded }
}
