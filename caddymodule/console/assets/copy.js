// Copying text. Pages that came over plain HTTP from another machine have no clipboard
// of their own, so that a selection is copied there.

import { button, h } from './elements.js'
import { say } from './status.js'

/** @param {string} text */
export async function copy(text) {
	try {
		await navigator.clipboard.writeText(text)
	} catch {
		const focused = document.activeElement
		const area = h('textarea', { value: text, class: 'unseen', 'aria-label': 'Text to copy' })
		const place = document.querySelector('dialog:modal') ?? document.body
		place.append(area)
		area.select()
		const done = document.execCommand('copy')
		area.remove()
		if (focused instanceof HTMLElement) {
			focused.focus()
		}
		if (!done) {
			say('The browser does not allow copying. Select the text instead.')
			return
		}
	}
	say('Copied')
}

/**
 * snippet shows text that can be copied.
 * @param {string} text @param {string} name
 */
export function snippet(text, name) {
	return h('div', { class: 'code' },
		h('pre', { tabindex: '0', 'aria-label': name, role: 'region' }, h('code', null, text)),
		button('Copy', () => copy(text), { class: 'small', 'aria-label': `Copy ${name}` }))
}
