// The status region says what was done, and offers the way back.

import { button, fill, h } from './elements.js'

let timer = 0

/** Shows a message in the status region. @param {string} text @param {{ name: string, run: () => unknown }} [action] */
export function say(text, action) {
	const place = document.getElementById('status')
	const message = place?.querySelector('[role=status]')
	if (!place || !message) {
		return
	}
	clearTimeout(timer)
	const clear = () => {
		fill(message)
		place.querySelector('.action')?.remove()
		place.classList.remove('shown')
	}
	clear()
	fill(message, text)
	if (action) {
		place.append(h('span', { class: 'action' }, button(action.name, () => {
			clear()
			void action.run()
		}, { class: 'small' })))
	}
	place.classList.add('shown')
	timer = window.setTimeout(clear, action ? 30000 : 8000)
}
