// Copying text. The page's own policy forbids the clipboard's interface, so a selection is
// copied.

import { button, h } from './elements.js'
import { say } from './status.js'

/** @param {string} text */
export function copy(text) {
	const focused = document.activeElement
	const area = h('textarea', { value: text, class: 'unseen', 'aria-label': 'Text to copy' });
	(document.querySelector('dialog:modal') ?? document.body).append(area)
	area.addEventListener('copy', (event) => { // a text field has other line breaks
		event.clipboardData?.setData('text/plain', text)
		event.preventDefault()
	})
	area.select()
	say(document.execCommand('copy') ? 'Copied' : 'The browser does not allow copying. Select the text instead.')
	area.remove()
	if (focused instanceof HTMLElement) {
		focused.focus()
	}
}

/** @param {string} text @param {string} name */
export function snippet(text, name) {
	return h('div', { class: 'code' },
		h('pre', { tabindex: '0', 'aria-label': name, role: 'region' }, h('code', null, text)),
		button('Copy', () => copy(text), { class: 'small', 'aria-label': `Copy ${name}` }))
}

/** Saves a text as a file. @param {string} name @param {string} text @param {string} type */
export function download(name, text, type) {
	const href = URL.createObjectURL(new Blob([text], { type }))
	h('a', { href, download: name }).click()
	setTimeout(() => URL.revokeObjectURL(href), 10000)
}
