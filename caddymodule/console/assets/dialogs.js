// Dialogs. The browser keeps the focus inside, closes them with Escape, and gives the
// focus back.

import { button, h } from './elements.js'

/**
 * openDialog shows a dialog. Its name is that of the button that opened it.
 *
 * @param {string} name
 * @param {string} heading
 * @param {(import('./elements.js').Child)[]} body
 * @param {{ actions?: HTMLButtonElement[], style?: string, onClose?: () => void, signal?: AbortSignal, submit?: () => unknown }} [options]
 */
export function openDialog(name, heading, body, options = {}) {
	const opener = document.activeElement
	const cancel = button(options.actions ? 'Cancel' : 'Close', () => dialog.close())
	const content = [
		h('h2', null, heading),
		h('div', { class: 'body' }, body),
		h('div', { class: 'actions end' }, cancel, options.actions ?? []),
	]
	const dialog = h('dialog', { 'aria-label': name, class: options.style ?? '' }, options.submit
		? h('form', { novalidate: true, onsubmit: (/** @type {Event} */ event) => {
			event.preventDefault()
			void options.submit?.()
		} }, content)
		: content)
	dialog.addEventListener('close', () => {
		dialog.remove()
		options.onClose?.()
		if (opener instanceof HTMLElement && opener.isConnected && (document.activeElement === document.body || document.activeElement === null)) {
			opener.focus()
		} else if (document.activeElement === document.body || document.activeElement === null) {
			document.getElementById('main')?.focus()
		}
	})
	options.signal?.addEventListener('abort', () => dialog.close())
	document.body.append(dialog)
	dialog.showModal()
	return { dialog, close: () => dialog.close() }
}

/** isDialogOpen reports whether a dialog is on top. */
export const isDialogOpen = () => document.querySelector('dialog:modal') !== null
