// What the views of a preset are about: a version, a label, or what is live. Their addresses name it.

import { presetPath, search } from './addresses.js'
import { choice, fill, h } from './elements.js'
import * as api from './api.js'
import { readTemplate } from './capture.js'
import { readSide } from './differences.js'
import { readUntilDone } from './states.js'
import { targetText, versionName } from './texts.js'

/** unsaved stands for what is on the left of the workbench, and differs from its version. */
export const unsaved = '*'

/** Names what is tried. @param {string} ref */
export const refName = (ref) => (ref === unsaved ? 'unsaved' : ref === '' ? 'live' : /^\d+$/.test(ref) ? `v${ref}` : ref)

/** Says what live or a label stands for now. It is empty for the others. @param {Preset} preset @param {string} ref */
export const standsFor = (preset, ref) => (/^(?:\*|\d+)$/.test(ref) ? '' : targetText({ ...targetOf(preset, ref), protected: false }))

// Selects of the versions of a preset, and of its labels.

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
					select.dispatchEvent(new CustomEvent('change', { bubbles: true, detail: older }))
				})
			}
		})
	}
	const read = async () => {
		options = []
		const first = await page(0, versionsAtOnce)
		unread = first.total
		await (unread > versionsAtOnce ? readOlder() : add(first.data, 0))
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

/** Makes a select of the workspaces that the key reaches. @param {string} value */
export function workspaceChoice(value) {
	const select = choice([{ value, text: value }], value)
	api.readAll((offset) => '/workspaces' + search({ offset, limit: 100 }), 2000).then((all) => {
		fill(select, [...new Set([value, ...all.map(({ slug }) => slug)])].map((slug) => h('option', { value: slug }, slug)))
		select.value = value
	}, () => {}) // the one that is there does
	return select
}

/** Reads the number of a version or a label from an address. It is empty for what is live. @param {Address} address */
export const refOf = ({ query, version, to }) => query.get('label') || query.get('version') || query.get('from') || String(version || to || '')

/** Writes it into an address. @param {string} ref @returns {Query} */
export const queryOf = (ref) => ({ [/^\d+$/.test(ref) ? 'version' : 'label']: ref })

/** @param {Preset} preset @param {string} ref @returns {Target} */
export function targetOf({ designated_version: live, labels }, ref) {
	return ref === '' ? live : /^\d+$/.test(ref) ? { version: Number(ref) } : Object.hasOwn(labels, ref) ? labels[ref] : {}
}

/** Returns a version of a target: of a split the largest. @param {Preset} preset @param {string} ref */
export function versionOf(preset, ref) {
	const { version, split } = targetOf(preset, ref)
	return version ?? [...split ?? []].sort((a, b) => b.weight - a.weight)[0]?.version ?? preset.designated_version.version
}

/**
 * Reads the templates of a target. It throws a Failure.
 * @param {Context} context @param {Preset} preset @param {string} ref @returns {Promise<Template>}
 */
export async function readTemplates({ at, signal }, preset, ref) {
	const target = targetOf(preset, ref)
	const sides = await Promise.all((target.split ?? [target]).map(({ version }) => version ? readSide(at, version, signal) : undefined))
	const found = sides.map((side) => readTemplate(side?.template ?? '{}'))
	return { names: [...new Set(found.flatMap((one) => one.variables))], hasMessages: found.every((one) => one.messages.items.length > 0) }
}
