// The view that asks for a key, and the same as a dialog over a view with edits.

import { button, field, form, h, setWrong, submit } from './elements.js'
import * as api from './api.js'
import * as session from './session.js'
import { snippet } from './copy.js'
import { openDialog } from './dialogs.js'

const command = 'caddy presets key create --kind management'

/**
 * keyForm asks for a key.
 * @param {string} reason @param {() => void} done
 */
function keyForm(reason, done) {
	const key = h('input', { type: 'text', class: 'secret', autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', required: true, autofocus: true, maxlength: 4096 })
	const unlock = submit('Unlock')
	const shown = h('input', { type: 'checkbox', id: 'show-key', onchange: () => key.classList.toggle('secret', !shown.checked) })
	const run = async () => {
		const text = key.value.trim()
		if (!/^[!-~]+$/.test(text)) {
			setWrong(key, text === '' ? 'Enter a key.' : 'A key has no spaces and only ASCII characters.')
			key.focus()
			return
		}
		setWrong(key)
		unlock.disabled = true
		unlock.setAttribute('aria-busy', 'true')
		try {
			const { kind, home } = await api.identify(text)
			session.unlock(text, kind, home)
			key.value = ''
			done()
		} catch (thrown) {
			const failure = api.failureOf(thrown)
			const wait = failure.retryAfter ? ` Try again in ${failure.retryAfter} s.` : ''
			setWrong(key, failure.message + wait + (failure.requestId && ` (request id ${failure.requestId})`))
			key.focus()
			key.select()
		} finally {
			unlock.disabled = false
			unlock.removeAttribute('aria-busy')
		}
	}
	return form({ class: 'unlock' }, run,
	reason && h('p', { class: 'note' }, reason),
	field('API key', key),
	h('p', { class: 'check' }, shown, h('label', { for: 'show-key' }, 'Show the key')),
	h('p', { class: 'actions' }, unlock))
}

/** keyHelp says which keys there are, and where to get one. */
function keyHelp() {
	return h('div', { class: 'help' },
		h('h2', null, 'What a key may do'),
		h('dl', { class: 'facts' },
			h('dt', null, 'management'), h('dd', null, 'Sees, compares and changes the presets of every workspace.'),
			h('dt', null, 'inference'), h('dd', null, 'Sees and compares the presets of its workspace, and tries them. It cannot change them.')),
		h('h2', null, 'Where to get one'),
		h('p', null, 'Someone with access to the server runs this command. It prints the key once:'),
		snippet(command, 'the command'),
		h('p', { class: 'muted' }, 'The key stays in this tab. It is forgotten with Lock, after 30 minutes without use, and when the tab closes.'))
}

/**
 * unlockView fills the page while there is no key.
 * @param {string} reason @param {() => void} done
 */
export function unlockView(reason, done) {
	return h('div', { class: 'narrow' }, h('h1', null, 'Unlock the console'), keyForm(reason, done), keyHelp())
}

/**
 * askAgain asks for a key over a view with edits, which stays as it is.
 * @param {string} reason @param {() => void} done @param {() => void} leave
 */
export function askAgain(reason, done, leave) {
	let isOver = false
	const content = keyForm(reason, () => {
		isOver = true
		close()
		done()
	})
	const { dialog, close } = openDialog('Unlock', 'Unlock the console', [content, h('p', { class: 'muted' }, 'Your edits stay in this tab until then.')], {
		style: 'opaque',
		// Escape must not lose the edits.
		onClose: () => isOver || askAgain(reason, done, leave),
	})
	dialog.querySelector('.actions.end')?.replaceChildren(button('Discard the edits', () => {
		isOver = true
		close()
		leave()
	}))
	dialog.addEventListener('cancel', (event) => event.preventDefault())
}
