// A 412: another change came first. The page shows what has changed, and never overwrites it.

import { button, code, fill, h, user } from './elements.js'
import * as api from './api.js'
import { errorBox } from './states.js'
import { say } from './status.js'
import { targetText } from './texts.js'

/**
 * Explains a 412. Its button Look again reads the object again. For other failures it
 * returns undefined.
 * The path is that of the object.
 * @type {ExplainConflict}
 */
export function conflict(failure, path, before, lookedAgain) {
	if (failure.status !== 412) {
		return undefined
	}
	const list = h('div', null, 'Looking at what was changed…')
	const place = h('div', { class: 'error', role: 'alert' }, h('p', null, h('strong', null, 'Error: '), 'Nothing was saved, because this was changed meanwhile.'), list)
	api.read(path).then((now) => fill(list, changesOf(before.data, now.data), h('p', { class: 'actions' }, button('Look again', () => {
		const next = /** @type {HTMLElement | null | undefined} */ (place.closest('form')?.querySelector('[type=submit]'))
		place.remove()
		lookedAgain(now)
		next?.focus()
	}))), (thrown) => fill(list, errorBox(thrown)))
	return place
}

/** Lists what differs between two states of a preset or a workspace. @param {any} before @param {any} now */
export function changesOf(before, now) {
	/** @type {Child[][]} */
	const items = []
	/** @param {Child} name @param {Child} from @param {Child} to */
	const add = (name, from, to) => items.push([name, ' was ', from, ', and is ', to, ' now.'])
	for (const name of Object.keys(now)) {
		if (name === 'designated_version') {
			const [from, to] = [before[name].version, now[name].version]
			from !== to && add('Live', `v${from}`, h('span', null, `v${to}, by `, user(now.updated_by)))
		} else if (name === 'labels') {
			for (const label of Object.keys({ ...before.labels, ...now.labels })) {
				const [from, to] = [before, now].map((one) => targetText(one.labels[label]))
				from !== to && add(h('span', null, 'The label ', user(label)), from, to)
			}
		} else if (!/_at$|_by$|_id$|_number$/.test(name) && JSON.stringify(before[name]) !== JSON.stringify(now[name])) {
			add(code(name), user(JSON.stringify(before[name])), user(JSON.stringify(now[name])))
		}
	}
	return h('ul', null, (items.length > 0 ? items : [['A version was added, or something was changed and changed back.']]).map((item) => h('li', null, item)))
}

/** Says that a change without a dialog was not made. @param {unknown} thrown */
export function failed(thrown) {
	const { status, message, requestId } = api.failureOf(thrown)
	say(status === 412 ? 'Nothing was saved, because this was changed meanwhile.' : `Error: ${message}${requestId && ` (request id ${requestId})`}`)
}
