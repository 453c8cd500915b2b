// The inference keys of a workspace. Who has an inference key sees that one alone.

import { hasKeys, search, toWorkspaceUsage } from './addresses.js'
import { button, h, row, table, user, when } from './elements.js'
import * as session from './session.js'
import { notice, noticeOf } from './budgets.js'
import { snippet } from './copy.js'
import { changeKey, nameOf, newKey, removeKey, rotateKey, setDisabled } from './key_changes.js'
import { rates } from './key_form.js'
import { spending, spentText } from './spending.js'
import { live, pagedList } from './states.js'

const limit = 100

/** @type {MakeView} */
export function keysView(context) {
	const mayIssue = session.mayIssueKeys()
	const title = session.mayChange() ? 'Keys' : 'Your key'
	return {
		title: `${title} · ${context.workspace}`,
		element: h('div', null,
			h('div', { class: 'heading' }, h('h1', null, title), hasKeys && mayIssue && h('div', { class: 'actions' },
				h('a', { class: 'quiet', href: toWorkspaceUsage(context.workspace, { by: 'key' }) }, 'Usage by key'),
				button('New key', () => newKey(context), { class: 'primary', 'data-key': 'new', 'data-shortcut': 'n' }))),
			!hasKeys ? off() : mayIssue ? [noticeOf(context), list(context)] : session.mayChange()
				? h('p', { class: 'note' }, 'This key sees no others. That takes a management key with the right issue-keys.') : ownKey(context)),
	}
}

const off = () => h('div', { class: 'empty' },
	h('h2', null, 'This server has no API of keys'),
	h('p', null, 'The option ', h('code', null, 'key_api'), ' in its Caddyfile turns it on:'),
	snippet('presets {\n\tkey_api\n}', 'the Caddyfile with key_api'))

/** @param {Context} context */
function list(context) {
	const path = (/** @type {number} */ offset) => '/keys' + search({ workspace_id: context.workspace, include_disabled: 'true', offset, limit })
	return pagedList(context, limit, path, ({ data, total }) => (total === 0
		? h('div', { class: 'empty' }, h('h2', null, 'No keys yet'), h('p', null, 'Give each developer, agent and service a key of its own. Then each has its own limit and its own usage, and can be stopped alone.'))
		: h('div', null, h('p', { class: 'hint number' }, data.length < total ? `${total} keys` : summary(data)), table('Keys', ['Key', 'Reach', 'Limit', 'This month', 'Last used', 'Actions'], data.map((/** @type {Key} */ key) => keyRow(context, key)), 'keys'))))
}

/** Counts the keys, and those that someone may want to look at. @param {Key[]} keys */
function summary(keys) {
	/** @param {string} word @param {(key: Key) => unknown} is */
	const count = (word, is) => [keys.filter(is).length, word]
	return [count(keys.length === 1 ? 'key' : 'keys', () => true), count('disabled', (key) => key.disabled), count('expired', isExpired), count('used up', (key) => key.limit_remaining === 0)]
		.filter(([n]) => n).map((part) => part.join(' ')).join(' · ')
}

/** @param {Context} context @param {Key} key */
function keyRow(context, key) {
	const name = nameOf(key)
	/** @param {string} text @param {(context: Context, key: Key) => unknown} run */
	const action = (text, run) => button(text, () => run(context, key), { class: 'small', 'data-key': `${text} ${key.id}`, 'aria-label': `${text} ${name}` })
	return row([
		['Key', [
			h('span', { class: 'standing' }, h('button', { type: 'button', class: 'quiet name', 'data-row': true, 'data-key': key.id, title: `Change ${name}`, onclick: () => changeKey(context, key) }, user(name)), stateOf(key)),
			h('span', { class: 'below', title: key.label }, 'inference ', key.label !== name && h('code', null, key.label.replace('caddypresets_inf_', ''))),
			key.grace_ends_at && h('span', { class: 'below' }, 'The former secret ends ', when(key.grace_ends_at)),
		]],
		['Reach', reach(key)],
		['Limit', limitsOf(key, name)],
		['This month', [spentText(key.usage_monthly), key.usage_daily > 0 && h('span', { class: 'below' }, ' today ', spentText(key.usage_daily))]],
		['Last used', [timeOr(key.last_used_at, 'never'), h('span', { class: 'below' }, ' ', key.expires_at ? [isExpired(key) ? 'expired ' : 'expires ', when(key.expires_at)] : 'never expires')]],
		['Actions', h('span', { class: 'actions' }, action(key.disabled ? 'Enable' : 'Disable', setDisabled), action('Rotate', rotateKey), action('Delete', removeKey))],
	])
}

/** @param {string | null} time @param {string} word */
const timeOr = (time, word) => (time ? when(time) : h('span', { class: 'muted' }, word))

/** @param {Key} key */
const isExpired = ({ expires_at: end }) => end !== null && Date.parse(end) <= Date.now()

/** @param {Key} key */
function stateOf(key) {
	const state = isExpired(key) ? 'expired' : key.disabled ? 'disabled' : ''
	return state && h('span', { class: `state ${state}` }, state)
}

/** Says which presets and models a key reaches. @param {Key} key */
function reach({ presets, models, preset_required: isRequired }) {
	/** @param {string} word @param {string[] | null} names */
	const some = (word, names) => h('p', null, names
		? [`${word}${names.length > 1 ? 's' : ''} `, h('code', { title: names.join('\n') }, user(names.slice(0, 3).join(', '))), names.length > 3 && ` and ${names.length - 3} more`]
		: `every ${word}`)
	return [
		presets || models ? [some('preset', presets), some('model', models)] : 'every preset and model',
		isRequired && h('span', { class: 'below' }, 'must name a preset'),
	].flat()
}

/** Returns what a key has spent of its limit, if that is known. @param {KeyFigures} key */
const spentOf = (key) => (key.limit !== null && key.limit_remaining === null ? undefined : { daily: key.usage_daily, weekly: key.usage_weekly, monthly: key.usage_monthly, lifetime: key.usage }[key.limit_reset ?? 'lifetime'])

/** @param {KeyFigures} key @param {string} name */
function limitsOf(key, name) {
	const counts = rates.filter(({ name: rate }) => key.limits?.[rate]).map(({ name: rate, text }) => `${key.limits?.[rate]?.toLocaleString('en')} ${text}`)
	return [
		key.limit === null ? h('span', { class: 'muted' }, 'no limit of cost') : spending(name, spentOf(key), key.limit, key.limit_reset ?? 'lifetime'),
		counts.length > 0 && h('span', { class: 'below number' }, counts.join(', ')),
	]
}

/** Shows the key that someone has. @param {Context} context */
function ownKey(context) {
	return live(context, '/key', ({ data }) => {
		/** @type {KeyFigures & { budgets: (Budget & { scope: string })[], limit_notice: string | null }} */
		const key = data, budgets = key.budgets.filter(({ scope }) => scope === 'workspace')
		/** @param {string} name @param {Child | Child[]} value */
		const fact = (name, value) => [h('dt', null, name), h('dd', null, value)]
		return [notice(key.limit_notice), h('dl', { class: 'facts own-key' },
			fact('Key', h('code', null, key.label)),
			fact('Limit', limitsOf(key, 'your key')),
			fact('Today', spentText(key.usage_daily)), fact('This week', spentText(key.usage_weekly)), fact('This month', spentText(key.usage_monthly)), fact('In all', spentText(key.usage)),
			fact('Expires', timeOr(key.expires_at, 'never')),
			budgets.length > 0 && fact('Workspace', budgets.map(({ limit_usd: usd, spend_usd: spent, reset_interval: interval }) => spending('the workspace', spent, usd, interval ?? 'lifetime'))))]
	}).element
}
