// The status region says what was done, and offers the way back.

import { button, fill, h } from './elements.js'

let timer = 0

/** Shows a message in the status region. An empty one clears it. @param {string} text @param {{ name: string, run: () => unknown }} [action] */
export function say(text, action) {
	const place = document.getElementById('status')
	const message = place?.querySelector('[role=status]')
	if (!place || !message) {
		return
	}
	const top = document.querySelector('dialog:modal') ?? document.body // what is outside of a dialog cannot be pressed
	place.parentElement === top || top.append(place)
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
	place.classList.toggle('shown', text !== '')
	timer = window.setTimeout(clear, action ? 30000 : 8000)
}

/** Tells a screen reader what can be seen anyway. @param {string} text */
export function tell(text) {
	const place = document.getElementById('told')
	if (place) {
		place.textContent = text
	}
}
