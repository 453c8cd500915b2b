// Dialogs. The browser keeps the focus inside, closes them with Escape, and gives the
// focus back.

import { button, form, h, submit } from './elements.js'
import { attempt } from './states.js'

/**
 * Shows a dialog. Its name is that of the button that opened it. The signal
 * closes it.
 * @type {OpenDialog}
 */
export function openDialog(name, heading, body, options = {}) {
	const opener = document.activeElement
	const close = () => dialog.close()
	const content = [
		h('h2', null, heading),
		h('div', { class: 'body' }, body),
		h('div', { class: 'actions end' }, button(options.actions ? 'Cancel' : 'Close', () => close()), options.actions ?? []),
	]
	/** @type {HTMLDialogElement} */
	const dialog = h('dialog', { 'aria-label': name, class: options.style }, options.submit
		? form({}, options.submit, content)
		: content)
	dialog.addEventListener('close', () => {
		dialog.remove()
		options.onClose?.()
		if (document.activeElement === document.body) {
			const next = opener instanceof HTMLElement && opener.isConnected ? opener : document.getElementById('main')
			next?.focus()
		}
	})
	options.signal?.addEventListener('abort', close)
	document.body.append(dialog)
	dialog.showModal()
	return { dialog, close }
}

/**
 * Shows a dialog that makes a change. It closes when the change is made. Otherwise it
 * shows the error, which explain may put into other words.
 * Its name is also that of the button, unless confirm is given.
 * @type {AskInDialog}
 */
export function ask(context, name, heading, body, run, options = {}) {
	const place = h('div')
	const confirm = submit(options.confirm ?? name, { class: options.isDanger ? 'danger' : 'primary' })
	const { close } = openDialog(name, heading, [...body, place], {
		style: options.isWide ? 'wide' : '', signal: context.signal, actions: [confirm], onClose: options.onClose,
		submit: async () => {
			if (!confirm.disabled && await attempt(place, confirm, run, options.explain)) {
				close()
			}
		},
	})
	return { close, confirm }
}

export const isDialogOpen = () => document.querySelector('dialog:modal') !== null
