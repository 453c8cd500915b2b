// The state of the server: its stores, their backups and nodes, the webhooks, and what is measured.

import { h, number, table, user, when } from './elements.js'
import { countText } from './figures.js'
import * as session from './session.js'
import { live } from './states.js'

const day = 86400000

/** @param {number} n */
const bytesText = (n) => (n >= 1e9 ? `${(n / 1e9).toFixed(1)} GB` : `${(n / 1e6).toFixed(0)} MB`)
/** @param {string | null} [time] */
const timeOr = (time) => (time ? when(time) : h('span.muted', 'none'))

/** Says what is not as usual in details, whose names are those of the API. @param {object | null} details */
const detailsOf = (details) => Object.entries(details ?? {}).filter(([name, value]) => value && !/bytes$/.test(name)).map(([name, value], i) => [
	i > 0 && ' · ', name.replace('_seconds', '').replaceAll('_', ' '), value !== true && [' ', name.endsWith('_at') ? when(value) : name.endsWith('_seconds') ? `${value} s` : user(String(value))],
].flat()).flat()

/** Says what an operator should look at. @param {ServerState} state @returns {string[]} */
function problemsOf({ stores, webhooks, usage }) {
	return [
		...stores.flatMap(({ store, available, writable, damaged, error, last_backup: backup, details }) => [
			!available && `${store} is not available.`, available && !writable && `${store} takes no changes.`, damaged && `${store} is damaged.`, error && `${store}: ${error}`,
			details?.free_bytes !== undefined && details.needed_bytes !== undefined && details.free_bytes < details.needed_bytes && `${store} has ${bytesText(details.free_bytes)} of free disk, and needs ${bytesText(details.needed_bytes)}.`,
			backup && Date.now() - Date.parse(backup) > 2 * day && `The last backup of ${store} is older than two days.`,
		]),
		...webhooks.map(({ host, last_failure: failure, last_delivery: delivery }) => failure && (!delivery || failure > delivery) && `The webhook ${host} does not take what is sent.`),
		usage.lost > 0 && `The usage of ${countText(usage.lost)} requests is lost.`, usage.overflowed > 0 && `${countText(usage.overflowed)} sums of usage had no room of their own, and are in “other”.`,
	].filter((text) => typeof text === 'string').filter(Boolean)
}

/** @type {MakeView} */
export function stateView(context) {
	const shown = live(context, '/presets/-/state', ({ data }) => {
		/** @type {ServerState} */
		const state = data
		const problems = problemsOf(state), unsaved = state.stores.filter(({ available, last_backup: backup }) => available && !backup).map(({ store }) => `${store} has no backup since this process began.`)
		const all = [...problems, ...unsaved]
		return [
			h('div', { class: problems.length > 0 ? 'error' : all.length > 0 ? 'note' : 'note well' }, all.length > 0 ? h('ul', all.map((text) => h('li', user(text)))) : h('p', h('strong.good', 'All is well. '), 'Stores take changes, and nothing is lost.')),
			table('Stores', state.stores.map(({ store, current, available, writable, damaged, last_backup: backup, details }) => [
				['Store', [h('span.mono', user(store)), current && state.stores.length > 1 && h('span.below', 'of this site')]],
				['State', !available ? h('span.bad', 'not available') : damaged ? h('span.bad', 'damaged') : writable ? h('span.good', 'takes changes') : h('span.warn', 'read only')],
				['Last backup', [timeOr(backup), !backup && h('span.below', ' since this process began')]],
				['Disk', details?.free_bytes !== undefined ? number(`${bytesText(details.free_bytes)} free`) : h('span.muted', '–')],
				['Details', detailsOf(details)],
			])),
			...state.stores.filter(({ nodes }) => nodes).map(({ store, nodes }) => table(`Nodes of ${store}`, (nodes ?? []).map(({ name, ...more }) => [
				['Node', user(name)], ['Details', detailsOf(more)],
			]))),
			state.webhooks.length === 0 ? h('p.hint', 'No webhook is set.') : table('Webhooks', state.webhooks.map((hook) => [
				['Webhook', user(hook.host)], ['Waiting', number(countText(hook.waiting))], ['Last delivery', timeOr(hook.last_delivery)], ['Last failure', timeOr(hook.last_failure)],
			])),
			h('p.hint', `Usage is ${state.usage.measured ? '' : 'not '}measured. `, state.version === '(devel)' ? 'The server runs a build without a version.' : ['The server runs ', h('code', user(state.version)), '.']),
		].filter(Boolean)
	})
	return {
		title: 'State',
		element: h('div.server-state', h('div.heading.one-line', h('h1', 'State')),
			session.mayCreateWorkspaces() ? shown.element : h('p.note', 'This needs a management key of all workspaces.')),
	}
}
