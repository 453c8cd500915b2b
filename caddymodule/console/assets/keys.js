// The inference keys of a workspace, and its budgets.

import { hasKeys, search, toWorkspaceUsage, workspacePath } from './addresses.js'
import { button, choice, field, h, number, numberInput, numberOf, showIssues, small, table, textInput, user, when } from './elements.js'
import { costText, countText, keyName, percentText } from './figures.js'
import * as api from './api.js'
import * as session from './session.js'
import { ask, copy, failed, live, openDialog, pagedList, say, snippet } from './states.js'

// What is spent of a limit: as a bar, and in words.

/** @type {Record<string, { each: string, name: string }>} */
const intervals = {
	daily: { each: 'a day', name: 'Daily' }, weekly: { each: 'a week', name: 'Weekly' }, monthly: { each: 'a month', name: 'Monthly' }, lifetime: { each: 'in all', name: 'Lifetime' },
}

/** Returns the present window of an interval, in UTC. That in which all counts has no end. @param {string} interval */
function windowOf(interval) {
	const now = new Date(), [year, month, date] = [now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate()]
	const monday = date - (now.getUTCDay() + 6) % 7
	const [start, end] = interval === 'daily' ? [Date.UTC(year, month, date), Date.UTC(year, month, date + 1)]
		: interval === 'weekly' ? [Date.UTC(year, month, monday), Date.UTC(year, month, monday + 7)]
			: interval === 'monthly' ? [Date.UTC(year, month), Date.UTC(year, month + 1)] : [0, Infinity]
	return { start, end, passed: (now.getTime() - start) / (end - start) }
}

/** Says when an interval resets. @param {string} interval */
function resets(interval) {
	const { end } = windowOf(interval)
	return end === Infinity ? h('span.muted', 'never') : when(new Date(end).toISOString())
}

/** @param {number} usd */
const limitText = (usd) => (Number.isInteger(usd) ? `$${countText(usd)}` : costText(usd))

/**
 * Says what will become of a limit: it is used up, or will be before it resets if all goes on
 * as until now. Too little of the interval may have passed to tell.
 * @param {number} share that is spent @param {string} interval
 */
function verdict(share, interval) {
	const { start, end, passed } = windowOf(interval)
	if (share >= 1) {
		return 'Used up. Requests get 403.'
	}
	return passed >= 0.1 && share > passed ? ['At this pace used up ', when(new Date(start + (end - start) * passed / share).toISOString())] : ''
}

/** Shows what is spent of a limit in the present window of an interval, if that is known. @param {string} name @param {number | undefined} spent @param {number} limit @param {string} interval */
function spending(name, spent, limit, interval) {
	if (spent === undefined) {
		return h('p.number', `${limitText(limit)} ${intervals[interval].each}, `, h('span.muted', 'and what is spent is not known now'))
	}
	const share = limit > 0 ? spent / limit : 1
	const percent = percentText(share, share < 0.1 && share > 0 ? 1 : 0)
	return h('div.spending',
		h('p.number', h('span', h('strong', costText(spent)), ` of ${limitText(limit)} ${intervals[interval].each}`), h('span.muted', percent)),
		h('meter', { min: 0, max: 1, low: 0.8, high: 0.999, optimum: 0, value: Math.min(1, share), 'aria-label': `Spent ${intervals[interval].each} by ${name}`, 'aria-valuetext': percent }),
		h('p', { class: share >= 1 ? 'below bad' : 'below' }, verdict(share, interval)))
}

/** @param {number} usd */
const spentText = (usd) => (usd > 0 ? number(costText(usd)) : h('span.muted', '–'))

// The budgets of a workspace: what all of its requests may spend in a day, a week, a month and in all.

/** @type {MakeView} */
export function budgetsView(context) {
	const { workspace } = context
	return {
		title: `Budgets · ${workspace}`,
		element: h('div',
			h('div.heading', h('h1', 'Budgets'), session.mayChange() && h('div.actions', h('a.quiet', { href: toWorkspaceUsage(workspace) }, 'Usage'))),
			session.mayChange() ? budgetList(context) : h('p.note', 'This is an inference key. Only a management key sees the budgets of a workspace.')),
	}
}

/** @param {Context} context */
const budgetsPath = ({ workspace }) => workspacePath(workspace, 'budgets')

/** Says why limits of costs cannot be held, if so. @param {string | null | undefined} why */
const notice = (why) => why && h('p.note', `${why[0].toUpperCase()}${why.slice(1)}.`)

/** Looks whether limits of costs can be held. @param {Context} context */
const noticeOf = (context) => live(context, budgetsPath(context), ({ text }) => notice(JSON.parse(text).limit_notice), { lines: 0, onFailure: () => h('span') }).element

/** @param {Context} context */
function budgetList(context) {
	return live(context, budgetsPath(context), ({ text, data }) => [
		notice(JSON.parse(text).limit_notice),
		!session.mayChangeBudgets() && h('p.note', 'This key manages one workspace alone, so it acts within its budgets and cannot change them.'),
		h('p.intro', 'A budget bounds what all requests of the workspace spend together. Once it is used up, they get 403 until it resets, at midnight in UTC.'),
		table('Budgets', Object.keys(intervals).map((interval) =>
			budgetRow(context, interval, data.find((/** @type {Budget} */ { reset_interval: of }) => (of ?? 'lifetime') === interval))), 'budgets'),
	]).element
}

/** @param {Context} context @param {string} interval @param {Budget | undefined} budget */
function budgetRow(context, interval, budget) {
	const { name } = intervals[interval]
	/** @param {string} text @param {(context: Context, interval: string, budget: Budget | undefined) => unknown} run */
	const action = (text, run) => small(text, () => run(context, interval, budget), { 'data-key': `${text} ${interval}`, 'aria-label': `${text} ${name.toLowerCase()}` })
	/** @type {Cell[]} */
	const cells = [
		['Budget', h('strong', name)],
		['Spent', budget ? spending(name, budget.spend_usd, budget.limit_usd, interval) : h('span.muted', 'no budget')],
		['Resets', budget ? resets(interval) : null],
		['Actions', h('span.actions', budget ? [action('Change', setBudget), action('Remove', removeBudget)] : action('Set', setBudget))],
	]
	return session.mayChangeBudgets() ? cells : cells.slice(0, -1)
}

/** @param {Context} context @param {string} interval @param {ReturnType<typeof numberOf>} usd */
const put = ({ workspace }, interval, usd) => api.change('PUT', workspacePath(workspace, `budgets/${interval}`), { limit_usd: usd })

/** @param {Context} context @param {string} interval @param {Budget | undefined} before */
function setBudget(context, interval, before) {
	const limit = numberInput(before?.limit_usd)
	ask(context, 'Set budget', `${intervals[interval].name} budget`, [
		field('US dollars', limit, 'More than the budgets of shorter times, and less than those of longer ones.'),
	], async () => {
		await put(context, interval, numberOf(limit))
		say('The budget is set, from the next request on.', () => putBack(context, interval, before))
	}, { confirm: 'Save', explain: ({ issues }) => showIssues({ limit_usd: limit }, issues) })
}

/** @param {Context} context @param {string} interval */
const drop = ({ workspace }, interval) => api.change('DELETE', workspacePath(workspace, `budgets/${interval}`), undefined)

/** @param {Context} context @param {string} interval @param {Budget | undefined} before */
const putBack = (context, interval, before) => (before ? put(context, interval, before.limit_usd) : drop(context, interval)).then(() => say('The budget is as before.'), failed)

/** @param {Context} context @param {string} interval @param {Budget | undefined} before */
const removeBudget = (context, interval, before) => drop(context, interval).then(() => say('The budget is removed.', before && (() => putBack(context, interval, before))), failed)

// The form of a key: what it is called, what it may spend, and what it reaches.

/** The limits that count, and how they are said after their number. */
const rates = /** @type {const} */ ([
	{ name: 'requests_per_minute', label: 'Requests a minute', text: 'requests a minute' }, { name: 'tokens_per_minute', label: 'Tokens a minute', text: 'tokens a minute' },
	{ name: 'requests_per_day', label: 'Requests a day', text: 'requests a day' }, { name: 'tokens_per_day', label: 'Tokens a day', text: 'tokens a day' },
	{ name: 'concurrent', label: 'At once', text: 'at once' },
])

/** @param {Control} area */
const listOf = ({ value }) => value.split(/[\s,]+/).filter(Boolean)

/** Makes the fields of a key. A new one also has a user and an end. @param {Partial<Key>} key */
function keyForm(key) {
	const isNew = !key.hash
	/** @param {string[] | null | undefined} list */
	const names = (list) => h('textarea.mono', { value: (list ?? []).join('\n'), rows: 3, spellcheck: 'false' })
	const name = textInput({ value: key.name ?? '', maxlength: 256, autofocus: true })
	const limit = numberInput(key.limit)
	const reset = choice([['monthly', 'each month'], ['weekly', 'each week'], ['daily', 'each day'], ['', 'never']].map(([value, text]) => ({ value, text })), (isNew ? 'monthly' : key.limit_reset) ?? '')
	const owner = textInput({ maxlength: 256 }), expires = h('input', { type: 'date' })
	const presets = names(key.presets), models = names(key.models)
	const required = h('input', { type: 'checkbox', checked: key.preset_required })
	const counts = rates.map((rate) => ({ ...rate, input: numberInput(key.limits?.[rate.name]) }))
	const hasReach = Boolean(key.presets || key.models || key.preset_required)
	return {
		elements: [
			field('Name', name, isNew && 'Who or what uses it, such as ci-agent.'),
			h('div.columns.even',
				field('Limit in US dollars', limit, 'Empty: no limit.'),
				field('Resets', reset, 'At midnight in UTC.')),
			isNew && h('div.columns.even',
				field('Expires after', expires, 'That day in UTC. Empty: never.'),
				field('User', owner, 'For usage and histories.')),
			h('details', { open: hasReach }, h('summary', 'Presets and models that it reaches'),
				field('Presets', presets, 'One slug in each line. Empty: all.'),
				h('div.field', h('label.check', required, 'Each request must name a preset')),
				field('Models', models, 'One name in each line, such as openai/*. Empty: all. Presets may use others.')),
			h('details', { open: Boolean(key.limits) }, h('summary', 'Limits of requests and tokens'),
				h('div.counts', counts.map(({ label, input }) => field(label, input))),
				h('p.hint', 'Empty: none. Beyond one of them, requests get 429 and may come again later.')),
		],
		/** @type {Record<string, Control>} */
		controls: { name, limit, limit_reset: reset, creator_user_id: owner, expires_at: expires, presets, models, ...Object.fromEntries(counts.map(({ name: member, input }) => [member, input])) },
		/** Returns the members of a key. What a key lacks is null. */
		values: () => {
			const limits = counts.filter(({ input }) => input.value.trim()).map(({ name: member, input }) => [member, numberOf(input)])
			return {
				name: name.value.trim(), limit: numberOf(limit), limit_reset: reset.value || null, limits: limits.length > 0 ? Object.fromEntries(limits) : null,
				presets: presets.value.trim() ? listOf(presets) : null, preset_required: required.checked, models: models.value.trim() ? listOf(models) : null,
				creator_user_id: owner.value.trim() || null, expires_at: expires.value ? `${expires.value}T23:59:59Z` : null,
			}
		},
	}
}

// Changes of keys: issue, change, disable, rotate and delete them.

/** @param {Key} key */
const pathOf = (key, below = '') => `/keys/${key.hash}${below}`

/**
 * Explains that a change of secrets may have been made. No answer about them is kept, so one that is
 * lost cannot be asked for again.
 * @type {Explain}
 */
const unsure = ({ isOffline }) => (isOffline ? h('div.error', { role: 'alert' },
	h('p', h('strong', 'Offline: '), 'The server does not answer. It may have done this all the same, so look at the list before you try again.')) : undefined)

/** @param {Context} context */
function newKey(context) {
	const { elements, values, controls } = keyForm({})
	/** @type {Answer<Key> | undefined} */
	let made
	ask(context, 'New key', 'New key', elements, async () => {
		const given = Object.entries(values()).filter(([, value]) => value !== null && value !== false)
		made = await api.change('POST', '/keys', { workspace_id: context.workspace, ...Object.fromEntries(given) })
	}, { confirm: 'Issue key', explain: (failure) => showIssues(controls, failure.issues) ?? unsure(failure), onClose: () => made && showSecret(context, made, 'The key is issued.') })
}

/** @param {Context} context @param {Key} key */
function changeKey(context, key) {
	const { elements, values, controls } = keyForm(key)
	const before = values()
	ask(context, 'Change key', `Change ${keyName(key)}`, elements, async () => {
		const changed = Object.entries(values()).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(before[/** @type {keyof typeof before} */ (name)])).map(([name]) => name)
		/** @param {object} from */
		const patch = (from) => Object.fromEntries(Object.entries(from).filter(([name]) => changed.includes(name)))
		if (changed.length > 0) {
			const { data } = await api.change('PATCH', pathOf(key), patch(values()))
			say(`${keyName(data)} is changed, from the next request on.`, () => api.change('PATCH', pathOf(data), patch(before)).then(() => say(`${keyName(key)} is as before.`), failed))
		}
	}, { confirm: 'Save', explain: ({ issues }) => showIssues(controls, issues) })
}

/** Disables a key, or enables a disabled one. The message offers the way back. @param {Context} context @param {Key} key */
async function setDisabled(context, key) {
	try {
		const { data } = await api.change('PATCH', pathOf(key), { disabled: !key.disabled })
		say(key.disabled ? `${keyName(key)} is enabled.` : `${keyName(key)} is disabled. Its requests get 401.`, () => setDisabled(context, data))
	} catch (thrown) {
		failed(thrown)
	}
}

/** @param {Context} context @param {Key} key */
function rotateKey(context, key) {
	const grace = choice([['', 'not at all'], ['1h', 'for an hour'], ['24h', 'for a day'], ['7d', 'for a week'], ['30d', 'for 30 days']].map(([value, text]) => ({ value, text })), '24h')
	/** @type {Answer<Key> | undefined} */
	let made
	ask(context, 'Rotate', `Rotate ${keyName(key)}?`, [
		h('p', 'It gets a new secret. Its name, limits, usage and history stay.'),
		field('The present secret still works', grace, 'Long enough to put the new one in its place. A secret of an earlier rotation ends at once.'),
	], async () => {
		made = await api.change('POST', pathOf(key, '/rotate'), grace.value ? { grace: grace.value } : {})
	}, { isDisposable: true, explain: unsure, onClose: () => made && showSecret(context, made, made.data.grace_ends_at ? ['The former secret ends ', when(made.data.grace_ends_at), ', so put this one in its place until then.'] : 'The former secret has ended.') })
}

/** @param {Context} context @param {Key} key */
function removeKey(context, key) {
	ask(context, 'Delete', `Delete ${keyName(key)}?`, [
		h('p', 'Its requests get 401 from the next one on, for good. Histories keep its name, and usage its id.'),
		!key.disabled && h('p', 'Disable it instead if that may have to be taken back.'),
	], async () => {
		await api.change('DELETE', pathOf(key), undefined)
		say(`${keyName(key)} is deleted.`)
	}, { isDanger: true, isDisposable: true })
}

/** Shows a new secret, which nobody can see again. Who has not copied it is asked first. @param {Context} context @param {Answer<Key>} answer @param {Child | Child[]} text */
function showSecret(context, { text: json, data }, text) {
	/** @type {string} */
	const secret = JSON.parse(json).key
	let isCopied = false
	const copied = h('span.good', { role: 'status' })
	const { dialog } = openDialog('Secret', `The secret of ${keyName(data)}`, [
		h('p', text),
		h('p', h('strong', 'Copy the secret now. It is not shown again'), ', because the server keeps only its hash.'),
		h('pre.panel.secret-text', { tabindex: '0', role: 'region', 'aria-label': 'Secret' }, h('code', secret)),
		h('p.actions', button('Copy secret', () => copy(secret), { class: 'primary', autofocus: true }), copied),
	], { signal: context.signal, mayClose: () => isCopied || confirm('The secret is not copied, and is not shown again. Close it?') })
	dialog.addEventListener('copy', () => {
		isCopied = true
		copied.textContent = 'Copied'
	})
}

// The inference keys of a workspace. Who has an inference key sees that one alone.

const limit = 100

/** @type {MakeView} */
export function keysView(context) {
	const mayIssue = session.mayIssueKeys()
	const title = session.mayChange() ? 'Keys' : 'Your key'
	return {
		title: `${title} · ${context.workspace}`,
		element: h('div',
			h('div.heading', h('h1', title), hasKeys && mayIssue && h('div.actions',
				h('a.quiet', { href: toWorkspaceUsage(context.workspace, { by: 'key' }) }, 'Usage by key'),
				button('New key', () => newKey(context), { class: 'primary', 'data-key': 'new', 'data-shortcut': 'n' }))),
			!hasKeys ? off() : mayIssue ? [noticeOf(context), keyList(context)] : session.mayChange()
				? h('p.note', 'This key sees no others. That takes a management key with the right issue-keys.') : ownKey(context)),
	}
}

const off = () => h('div.empty',
	h('h2', 'This server has no API of keys'),
	h('p', 'The option ', h('code', 'key_api'), ' in its Caddyfile turns it on:'),
	snippet('presets {\n\tkey_api\n}', 'the Caddyfile with key_api'))

/** @param {Context} context */
function keyList(context) {
	const path = (/** @type {number} */ offset) => '/keys' + search({ workspace_id: context.workspace, include_disabled: 'true', offset, limit })
	return pagedList(context, limit, path, ({ data, total }) => (total === 0
		? h('div.empty', h('h2', 'No keys yet'), h('p', 'Give each developer, agent and service a key of its own. Then each has its own limit and its own usage, and can be stopped alone.'))
		: h('div', h('p.hint.number', data.length < total ? `${total} keys` : summary(data)), table('Keys', data.map((/** @type {Key} */ key) => keyRow(context, key)), 'keys'))))
}

/** Counts the keys, and those that someone may want to look at. @param {Key[]} keys */
function summary(keys) {
	/** @param {string} word @param {(key: Key) => unknown} is */
	const count = (word, is) => [keys.filter(is).length, word]
	return [count(keys.length === 1 ? 'key' : 'keys', () => true), count('disabled', (key) => key.disabled), count('expired', isExpired), count('used up', (key) => key.limit_remaining === 0)]
		.filter(([n]) => n).map((part) => part.join(' ')).join(' · ')
}

/** @param {Context} context @param {Key} key @returns {Cell[]} */
function keyRow(context, key) {
	const name = keyName(key)
	/** @param {string} text @param {(context: Context, key: Key) => unknown} run */
	const action = (text, run) => small(text, () => run(context, key), { 'data-key': `${text} ${key.id}`, 'aria-label': `${text} ${name}` })
	return [
		['Key', [
			h('span.standing', h('button.quiet.name', { type: 'button', 'data-row': true, 'data-key': key.id, title: `Change ${name}`, onclick: () => changeKey(context, key) }, user(name)), stateOf(key)),
			h('span.below', { title: key.label }, 'inference ', key.label !== name && h('code', key.label.replace('caddypresets_inf_', ''))),
			key.grace_ends_at && h('span.below', 'The former secret ends ', when(key.grace_ends_at)),
		]],
		['Reach', reach(key)],
		['Limit', limitsOf(key, name)],
		['This month', [spentText(key.usage_monthly), key.usage_daily > 0 && h('span.below', ' today ', spentText(key.usage_daily))]],
		['Last used', [timeOr(key.last_used_at, 'never'), h('span.below', ' ', key.expires_at ? [isExpired(key) ? 'expired ' : 'expires ', when(key.expires_at)] : 'never expires')]],
		['Actions', h('span.actions', action(key.disabled ? 'Enable' : 'Disable', setDisabled), action('Rotate', rotateKey), action('Delete', removeKey))],
	]
}

/** @param {string | null} time @param {string} word */
const timeOr = (time, word) => (time ? when(time) : h('span.muted', word))

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
	const some = (word, names) => h('p', names
		? [`${word}${names.length > 1 ? 's' : ''} `, h('code', { title: names.join('\n') }, user(names.slice(0, 3).join(', '))), names.length > 3 && ` and ${names.length - 3} more`]
		: `every ${word}`)
	return [
		presets || models ? [some('preset', presets), some('model', models)] : 'every preset and model',
		isRequired && h('span.below', 'must name a preset'),
	].flat()
}

/** Returns what a key has spent of its limit, if that is known. @param {KeyFigures} key */
const spentOf = (key) => (key.limit !== null && key.limit_remaining === null ? undefined : { daily: key.usage_daily, weekly: key.usage_weekly, monthly: key.usage_monthly, lifetime: key.usage }[key.limit_reset ?? 'lifetime'])

/** @param {KeyFigures} key @param {string} name */
function limitsOf(key, name) {
	const counts = rates.filter(({ name: rate }) => key.limits?.[rate]).map(({ name: rate, text }) => `${key.limits?.[rate]?.toLocaleString('en')} ${text}`)
	return [
		key.limit === null ? h('span.muted', 'no limit of cost') : spending(name, spentOf(key), key.limit, key.limit_reset ?? 'lifetime'),
		counts.length > 0 && h('span.below.number', counts.join(', ')),
	]
}

/** Shows the key that someone has. @param {Context} context */
function ownKey(context) {
	return live(context, '/key', ({ data }) => {
		/** @type {KeyFigures & { budgets: (Budget & { scope: string })[], limit_notice: string | null }} */
		const key = data, budgets = key.budgets.filter(({ scope }) => scope === 'workspace')
		/** @param {string} name @param {Child | Child[]} value */
		const fact = (name, value) => [h('dt', name), h('dd', value)]
		return [notice(key.limit_notice), h('dl.facts.own-key',
			fact('Key', h('code', key.label)),
			fact('Limit', limitsOf(key, 'your key')),
			fact('Today', spentText(key.usage_daily)), fact('This week', spentText(key.usage_weekly)), fact('This month', spentText(key.usage_monthly)), fact('In all', spentText(key.usage)),
			fact('Expires', timeOr(key.expires_at, 'never')),
			budgets.length > 0 && fact('Workspace', budgets.map(({ limit_usd: usd, spend_usd: spent, reset_interval: interval }) => spending('the workspace', spent, usd, interval ?? 'lifetime'))))]
	}).element
}
