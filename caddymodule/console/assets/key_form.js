// The form of a key: what it is called, what it may spend, and what it reaches.

import { choice, field, h, textInput } from './elements.js'

/** The limits that count, and how they are said after their number. */
export const rates = /** @type {const} */ ([
	{ name: 'requests_per_minute', label: 'Requests a minute', text: 'requests a minute' }, { name: 'tokens_per_minute', label: 'Tokens a minute', text: 'tokens a minute' },
	{ name: 'requests_per_day', label: 'Requests a day', text: 'requests a day' }, { name: 'tokens_per_day', label: 'Tokens a day', text: 'tokens a day' },
	{ name: 'concurrent', label: 'At once', text: 'at once' },
])

/** Makes a field for a number, as text: what is no number is sent, and the server says so. @param {number | null | undefined} value */
export const numberInput = (value) => textInput({ value: value ?? '', inputmode: 'decimal', maxlength: 20 })

/** Reads numberInput. Null is no number. @param {Control} input */
export function numberOf({ value }) {
	const text = value.trim().replace(/^\$\s*/, '')
	return text === '' ? null : Number.isFinite(Number(text)) ? Number(text) : text
}

/** @param {Control} area */
const listOf = ({ value }) => value.split(/[\s,]+/).filter(Boolean)

/** Makes the fields of a key. A new one also has a user and an end. @param {Partial<Key>} key */
export function keyForm(key) {
	const isNew = !key.hash
	/** @param {string[] | null | undefined} list */
	const names = (list) => h('textarea', { value: (list ?? []).join('\n'), rows: 3, class: 'mono', spellcheck: 'false' })
	const name = textInput({ value: key.name ?? '', maxlength: 256, autofocus: true })
	const limit = numberInput(key.limit)
	const reset = choice([['monthly', 'each month'], ['weekly', 'each week'], ['daily', 'each day'], ['', 'never']].map(([value, text]) => ({ value, text })), (isNew ? 'monthly' : key.limit_reset) ?? '')
	const user = textInput({ maxlength: 256 }), expires = h('input', { type: 'date' })
	const presets = names(key.presets), models = names(key.models)
	const required = h('input', { type: 'checkbox', checked: key.preset_required })
	const counts = rates.map((rate) => ({ ...rate, input: numberInput(key.limits?.[rate.name]) }))
	const hasReach = Boolean(key.presets || key.models || key.preset_required)
	return {
		elements: [
			field('Name', name, isNew && 'Who or what uses it, such as ci-agent.'),
			h('div', { class: 'columns even' },
				field('Limit in US dollars', limit, 'Empty: no limit.'),
				field('Resets', reset, 'At midnight in UTC.')),
			isNew && h('div', { class: 'columns even' },
				field('Expires after', expires, 'That day in UTC. Empty: never.'),
				field('User', user, 'For usage and histories.')),
			h('details', { open: hasReach }, h('summary', null, 'Presets and models that it reaches'),
				field('Presets', presets, 'One slug in each line. Empty: all.'),
				h('div', { class: 'field' }, h('label', { class: 'check' }, required, 'Each request must name a preset')),
				field('Models', models, 'One name in each line, such as openai/*. Empty: all. Presets may use others.')),
			h('details', { open: Boolean(key.limits) }, h('summary', null, 'Limits of requests and tokens'),
				h('div', { class: 'counts' }, counts.map(({ label, input }) => field(label, input))),
				h('p', { class: 'hint' }, 'Empty: none. Beyond one of them, requests get 429 and may come again later.')),
		],
		/** @type {Record<string, Control>} */
		controls: { name, limit, limit_reset: reset, creator_user_id: user, expires_at: expires, presets, models, ...Object.fromEntries(counts.map(({ name: member, input }) => [member, input])) },
		/** Returns the members of a key. What a key lacks is null. */
		values: () => {
			const limits = counts.filter(({ input }) => input.value.trim()).map(({ name: member, input }) => [member, numberOf(input)])
			return {
				name: name.value.trim(), limit: numberOf(limit), limit_reset: reset.value || null, limits: limits.length > 0 ? Object.fromEntries(limits) : null,
				presets: presets.value.trim() ? listOf(presets) : null, preset_required: required.checked, models: models.value.trim() ? listOf(models) : null,
				creator_user_id: user.value.trim() || null, expires_at: expires.value ? `${expires.value}T23:59:59Z` : null,
			}
		},
	}
}
