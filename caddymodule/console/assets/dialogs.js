// Dialogs. The browser keeps the focus inside, closes them with Escape, and gives the
// focus back.

import { button, form, h, submit, valuesOf } from './elements.js'
import { setGuard } from './navigation.js'
import { attempt, focusHeading, focusKey } from './states.js'

const question = 'What you typed here is not saved. Close it and lose that?'

/**
 * Shows a dialog. Its name is that of the button that opened it. The signal
 * closes it. Whoever closes it, or leaves, is asked first if something was typed, unless that is
 * disposable. While a change is under way, it stays open.
 * @type {OpenDialog}
 */
export function openDialog(name, heading, body, options = {}) {
	const opener = document.activeElement
	const close = () => dialog.close()
	const content = [
		h('h2', null, heading),
		h('div', { class: 'body' }, body),
		h('div', { class: 'actions end' }, button(options.actions ? 'Cancel' : 'Close', () => leave()), options.actions ?? []),
	]
	/** @type {HTMLDialogElement} */
	const dialog = h('dialog', { 'aria-label': name, class: options.style }, options.submit
		? form({}, options.submit, content)
		: content)
	const isDirty = () => options.submit !== undefined && !options.isDisposable && dialog.open && valuesOf(dialog) !== before
	const mayClose = options.mayClose ?? (() => dialog.querySelector('[aria-busy]') === null && (!isDirty() || confirm(question)))
	const leave = () => mayClose() && close()
	const dropGuard = setGuard(isDirty)
	// Browsers let no one keep a dialog open at a second Escape, unless its key press is handled.
	dialog.addEventListener('keydown', (event) => {
		if (event.key === 'Escape' && !event.isComposing) {
			event.preventDefault()
			leave()
		}
	})
	dialog.addEventListener('cancel', (event) => {
		event.preventDefault()
		leave()
	})
	dialog.addEventListener('close', () => {
		dropGuard()
		const told = dialog.querySelector('#status')
		told && document.body.append(told)
		dialog.remove()
		options.onClose?.()
		if (document.activeElement === document.body && !focusKey(document.body, opener?.getAttribute('data-key') ?? '')) {
			focusHeading()
		}
	})
	options.signal?.addEventListener('abort', close)
	document.body.append(dialog)
	dialog.showModal()
	const before = valuesOf(dialog)
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
		style: options.isWide ? 'wide' : '', signal: context.signal, isDisposable: options.isDisposable, actions: [confirm], onClose: options.onClose,
		submit: async () => {
			if (!confirm.disabled && await attempt(place, confirm, run, options.explain)) {
				close()
			}
		},
	})
	return { close, confirm }
}

export const isDialogOpen = () => document.querySelector('dialog:modal') !== null
