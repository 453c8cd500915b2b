// Changes of keys: issue, change, disable, rotate and delete them.

import { button, choice, field, h, showIssues, when } from './elements.js'
import * as api from './api.js'
import { failed } from './conflict.js'
import { copy } from './copy.js'
import { ask, openDialog } from './dialogs.js'
import { keyForm } from './key_form.js'
import { say } from './status.js'

/** Names a key for people. It may have no name of its own. @param {Key} key */
export const nameOf = (key) => key.name || key.label

/** @param {Key} key */
const pathOf = (key, below = '') => `/keys/${key.hash}${below}`

/**
 * Explains that a change of secrets may have been made. No answer about them is kept, so one that is
 * lost cannot be asked for again.
 * @type {Explain}
 */
const unsure = ({ isOffline }) => (isOffline ? h('div', { class: 'error', role: 'alert' },
	h('p', null, h('strong', null, 'Offline: '), 'The server does not answer. It may have done this all the same, so look at the list before you try again.')) : undefined)

/** @param {Context} context */
export function newKey(context) {
	const { elements, values, controls } = keyForm({})
	/** @type {Answer<Key> | undefined} */
	let made
	ask(context, 'New key', 'New key', elements, async () => {
		const given = Object.entries(values()).filter(([, value]) => value !== null && value !== false)
		made = await api.change('POST', '/keys', { workspace_id: context.workspace, ...Object.fromEntries(given) })
	}, { confirm: 'Issue key', explain: (failure) => showIssues(controls, failure.issues) ?? unsure(failure), onClose: () => made && showSecret(context, made, 'The key is issued.') })
}

/** @param {Context} context @param {Key} key */
export function changeKey(context, key) {
	const { elements, values, controls } = keyForm(key)
	const before = values()
	ask(context, 'Change key', `Change ${nameOf(key)}`, elements, async () => {
		const changed = Object.entries(values()).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(before[/** @type {keyof typeof before} */ (name)])).map(([name]) => name)
		/** @param {object} from */
		const patch = (from) => Object.fromEntries(Object.entries(from).filter(([name]) => changed.includes(name)))
		if (changed.length > 0) {
			const { data } = await api.change('PATCH', pathOf(key), patch(values()))
			say(`${nameOf(data)} is changed, from the next request on.`, { name: 'Undo', run: () => api.change('PATCH', pathOf(data), patch(before)).then(() => say(`${nameOf(key)} is as before.`), failed) })
		}
	}, { confirm: 'Save', explain: ({ issues }) => showIssues(controls, issues) })
}

/** Disables a key, or enables a disabled one. The message offers the way back. @param {Context} context @param {Key} key */
export async function setDisabled(context, key) {
	try {
		const { data } = await api.change('PATCH', pathOf(key), { disabled: !key.disabled })
		say(key.disabled ? `${nameOf(key)} is enabled.` : `${nameOf(key)} is disabled. Its requests get 401.`, { name: 'Undo', run: () => setDisabled(context, data) })
	} catch (thrown) {
		failed(thrown)
	}
}

/** @param {Context} context @param {Key} key */
export function rotateKey(context, key) {
	const grace = choice([['', 'not at all'], ['1h', 'for an hour'], ['24h', 'for a day'], ['7d', 'for a week'], ['30d', 'for 30 days']].map(([value, text]) => ({ value, text })), '24h')
	/** @type {Answer<Key> | undefined} */
	let made
	ask(context, 'Rotate', `Rotate ${nameOf(key)}?`, [
		h('p', null, 'It gets a new secret. Its name, limits, usage and history stay.'),
		field('The present secret still works', grace, 'Long enough to put the new one in its place. A secret of an earlier rotation ends at once.'),
	], async () => {
		made = await api.change('POST', pathOf(key, '/rotate'), grace.value ? { grace: grace.value } : {})
	}, { isDisposable: true, explain: unsure, onClose: () => made && showSecret(context, made, made.data.grace_ends_at ? ['The former secret ends ', when(made.data.grace_ends_at), ', so put this one in its place until then.'] : 'The former secret has ended.') })
}

/** @param {Context} context @param {Key} key */
export function removeKey(context, key) {
	ask(context, 'Delete', `Delete ${nameOf(key)}?`, [
		h('p', null, 'Its requests get 401 from the next one on, for good. Histories keep its name, and usage its id.'),
		!key.disabled && h('p', null, 'Disable it instead if that may have to be taken back.'),
	], async () => {
		await api.change('DELETE', pathOf(key), undefined)
		say(`${nameOf(key)} is deleted.`)
	}, { isDanger: true, isDisposable: true })
}

/** Shows a new secret, which nobody can see again. Who has not copied it is asked first. @param {Context} context @param {Answer<Key>} answer @param {Child | Child[]} text */
function showSecret(context, { text: json, data }, text) {
	/** @type {string} */
	const secret = JSON.parse(json).key
	let isCopied = false
	const copied = h('span', { role: 'status', class: 'good' })
	const { dialog } = openDialog('Secret', `The secret of ${nameOf(data)}`, [
		h('p', null, text),
		h('p', null, h('strong', null, 'Copy the secret now. It is not shown again'), ', because the server keeps only its hash.'),
		h('pre', { class: 'panel secret-text', tabindex: '0', role: 'region', 'aria-label': 'Secret' }, h('code', null, secret)),
		h('p', { class: 'actions' }, button('Copy secret', () => copy(secret), { class: 'primary', autofocus: true }), copied),
	], { signal: context.signal, mayClose: () => isCopied || confirm('The secret is not copied, and is not shown again. Close it?') })
	dialog.addEventListener('copy', () => {
		isCopied = true
		copied.textContent = 'Copied'
	})
}
