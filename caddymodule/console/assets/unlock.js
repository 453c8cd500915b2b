// The view that asks for a key, and the same as a dialog over a view with edits.

import { button, field, form, h, setWrong, submit, textInput } from './elements.js'
import * as api from './api.js'
import * as session from './session.js'
import { snippet } from './copy.js'
import { openDialog } from './dialogs.js'

const command = 'caddy presets key create --kind management'

/** @param {string} reason @param {() => void} done */
function keyForm(reason, done) {
	const key = textInput({ class: 'secret', autofocus: true })
	const unlock = submit('Unlock')
	const run = async () => {
		const text = key.value.trim()
		if (!/^[!-~]+$/.test(text)) {
			setWrong(key, 'Enter a key. It has only ASCII characters, and no spaces.')
			key.focus()
			return
		}
		setWrong(key)
		unlock.disabled = true
		unlock.setAttribute('aria-busy', 'true')
		try {
			const { kind, home, rights } = await api.identify(text)
			session.unlock(text, kind, home, rights)
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
	return form({ class: 'unlock' }, run, reason && h('p', { class: 'note' }, reason), field('API key', key), unlock)
}

function keyHelp() {
	return h('div', { class: 'help' },
		h('h2', null, 'What a key may do'),
		h('p', null, 'A management key sees and changes the presets of every workspace. An inference key sees, compares and tries those of its own, and changes nothing.'),
		h('h2', null, 'Where to get one'),
		h('p', null, 'On the server, this command prints a new key once:'),
		snippet(command, 'the command'),
		h('p', { class: 'muted' }, 'The key stays in this tab. It is forgotten with Lock, after 30 minutes without use, and when the tab closes.'))
}

/** Fills the page while there is no key. @param {string} reason @param {() => void} done */
export function unlockView(reason, done) {
	return h('div', { class: 'narrow' }, h('h1', null, 'Unlock the console'), keyForm(reason, done), keyHelp())
}

/** Asks for a key over a view with edits, which stays as it is. @param {string} reason @param {() => void} done @param {() => void} leave */
export function askAgain(reason, done, leave) {
	let isOver = false
	const content = keyForm(reason, () => {
		isOver = true
		close()
		done()
	})
	const { dialog, close } = openDialog('Unlock', 'Unlock the console', [content, h('p', { class: 'muted' }, 'What you typed stays in this tab until then.')], {
		style: 'opaque', mayClose: () => false, // Escape must not lose the edits
		onClose: () => isOver || askAgain(reason, done, leave),
	})
	dialog.querySelector('.actions.end')?.replaceChildren(button('Discard it', () => {
		isOver = true
		close()
		leave()
	}))
}
