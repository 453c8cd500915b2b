// The budgets of a workspace: what all of its requests may spend in a day, a week, a month and in all.

import { toWorkspaceUsage, workspacePath } from './addresses.js'
import { button, field, h, row, showIssues, table } from './elements.js'
import * as api from './api.js'
import * as session from './session.js'
import { failed } from './conflict.js'
import { ask } from './dialogs.js'
import { numberInput, numberOf } from './key_form.js'
import { intervals, resets, spending } from './spending.js'
import { live } from './states.js'
import { say } from './status.js'

/** @type {MakeView} */
export function budgetsView(context) {
	const { workspace } = context
	return {
		title: `Budgets · ${workspace}`,
		element: h('div', null,
			h('div', { class: 'heading' }, h('h1', null, 'Budgets'), session.mayChange() && h('div', { class: 'actions' }, h('a', { class: 'quiet', href: toWorkspaceUsage(workspace) }, 'Usage'))),
			session.mayChange() ? list(context) : h('p', { class: 'note' }, 'This is an inference key. Only a management key sees the budgets of a workspace.')),
	}
}

/** @param {Context} context */
const budgetsPath = ({ workspace }) => workspacePath(workspace, 'budgets')

/** Says why limits of costs cannot be held, if so. @param {string | null | undefined} why */
export const notice = (why) => why && h('p', { class: 'note' }, `${why[0].toUpperCase()}${why.slice(1)}.`)

/** Looks whether limits of costs can be held. @param {Context} context */
export const noticeOf = (context) => live(context, budgetsPath(context), ({ text }) => notice(JSON.parse(text).limit_notice), { lines: 0, onFailure: () => h('span') }).element

/** @param {Context} context */
function list(context) {
	return live(context, budgetsPath(context), ({ text, data }) => [
		notice(JSON.parse(text).limit_notice),
		!session.mayChangeBudgets() && h('p', { class: 'note' }, 'This key manages one workspace alone, so it acts within its budgets and cannot change them.'),
		h('p', { class: 'intro' }, 'A budget bounds what all requests of the workspace spend together. Once it is used up, they get 403 until it resets, at midnight in UTC.'),
		table('Budgets', ['Budget', 'Spent', 'Resets', session.mayChangeBudgets() && 'Actions'].filter(Boolean), Object.keys(intervals).map((interval) =>
			budgetRow(context, interval, data.find((/** @type {Budget} */ { reset_interval: of }) => (of ?? 'lifetime') === interval))), 'budgets'),
	]).element
}

/** @param {Context} context @param {string} interval @param {Budget | undefined} budget */
function budgetRow(context, interval, budget) {
	const { name } = intervals[interval]
	/** @param {string} text @param {(context: Context, interval: string, budget: Budget | undefined) => unknown} run */
	const action = (text, run) => button(text, () => run(context, interval, budget), { class: 'small', 'data-key': `${text} ${interval}`, 'aria-label': `${text} ${name.toLowerCase()}` })
	/** @type {[string, Child | Child[]][]} */
	const cells = [
		['Budget', h('strong', null, name)],
		['Spent', budget ? spending(name, budget.spend_usd, budget.limit_usd, interval) : h('span', { class: 'muted' }, 'no budget')],
		['Resets', budget ? resets(interval) : null],
		['Actions', h('span', { class: 'actions' }, budget ? [action('Change', setBudget), action('Remove', removeBudget)] : action('Set', setBudget))],
	]
	return row(session.mayChangeBudgets() ? cells : cells.slice(0, -1))
}

/** @param {Context} context @param {string} interval @param {number} usd */
const put = ({ workspace }, interval, usd) => api.change('PUT', workspacePath(workspace, `budgets/${interval}`), { limit_usd: usd })

/** @param {Context} context @param {string} interval @param {Budget | undefined} before */
function setBudget(context, interval, before) {
	const limit = numberInput(before?.limit_usd)
	ask(context, 'Set budget', `${intervals[interval].name} budget`, [
		field('US dollars', limit, 'More than the budgets of shorter times, and less than those of longer ones.'),
	], async () => {
		await api.change('PUT', workspacePath(context.workspace, `budgets/${interval}`), { limit_usd: numberOf(limit) })
		say('The budget is set, from the next request on.', { name: 'Undo', run: () => (before ? put(context, interval, before.limit_usd) : drop(context, interval)).then(() => say('The budget is as before.'), failed) })
	}, { confirm: 'Save', explain: ({ issues }) => showIssues({ limit_usd: limit }, issues) })
}

/** @param {Context} context @param {string} interval */
const drop = ({ workspace }, interval) => api.change('DELETE', workspacePath(workspace, `budgets/${interval}`), undefined)

/** @param {Context} context @param {string} interval @param {Budget | undefined} before */
async function removeBudget(context, interval, before) {
	try {
		await drop(context, interval)
		say('The budget is removed.', before && { name: 'Undo', run: () => put(context, interval, before.limit_usd).then(() => say('The budget is as before.'), failed) })
	} catch (thrown) {
		failed(thrown)
	}
}
