// What is spent of a limit: as a bar, and in words.

import { h, number, when } from './elements.js'
import { costText, countText, percentText } from './usage_figures.js'

/** @type {Record<string, { each: string, name: string }>} */
export const intervals = {
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
export function resets(interval) {
	const { end } = windowOf(interval)
	return end === Infinity ? h('span', { class: 'muted' }, 'never') : when(new Date(end).toISOString())
}

/** @param {number} usd */
export const limitText = (usd) => (Number.isInteger(usd) ? `$${countText(usd)}` : costText(usd))

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
export function spending(name, spent, limit, interval) {
	if (spent === undefined) {
		return h('p', { class: 'number' }, `${limitText(limit)} ${intervals[interval].each}, `, h('span', { class: 'muted' }, 'and what is spent is not known now'))
	}
	const share = limit > 0 ? spent / limit : 1
	const percent = percentText(share, share < 0.1 && share > 0 ? 1 : 0)
	return h('div', { class: 'spending' },
		h('p', { class: 'number' }, h('span', null, h('strong', null, costText(spent)), ` of ${limitText(limit)} ${intervals[interval].each}`), h('span', { class: 'muted' }, percent)),
		h('meter', { min: 0, max: 1, low: 0.8, high: 0.999, optimum: 0, value: Math.min(1, share), 'aria-label': `Spent ${intervals[interval].each} by ${name}`, 'aria-valuetext': percent }),
		h('p', { class: share >= 1 ? 'below bad' : 'below' }, verdict(share, interval)))
}

/** @param {number} usd */
export const spentText = (usd) => (usd > 0 ? number(costText(usd)) : h('span', { class: 'muted' }, '–'))
