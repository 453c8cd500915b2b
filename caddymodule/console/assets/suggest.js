// A text field with choices below it, for the keyboard and the pointer.

import { fill, h, user } from './elements.js'

let lists = 0

/**
 * Makes a field offer choices. find returns those for a text, and choose takes the chosen one.
 * @param {HTMLInputElement} input @param {string} name @param {(text: string) => Suggestion[] | Promise<Suggestion[]>} find @param {(chosen: Suggestion) => void} choose
 */
export function suggest(input, name, find, choose) {
	const id = `choices-${++lists}`, list = h('ul', { role: 'listbox', class: 'choices', id, 'aria-label': name, hidden: true })
	for (const [attribute, value] of Object.entries({ role: 'combobox', 'aria-expanded': 'false', 'aria-controls': id, 'aria-autocomplete': 'list' })) {
		input.setAttribute(attribute, value)
	}
	/** @type {Suggestion[]} */
	let shown = []
	let at = -1, asked = 0
	const close = () => {
		asked++
		list.hidden = true
		input.setAttribute('aria-expanded', 'false')
		input.removeAttribute('aria-activedescendant')
	}
	const take = (/** @type {Suggestion} */ chosen) => {
		close()
		choose(chosen)
	}
	const mark = (/** @type {number} */ index) => {
		at = index
		;[...list.children].forEach((option, i) => option.setAttribute('aria-selected', String(i === at)))
		list.children[at]?.scrollIntoView({ block: 'nearest' })
		at >= 0 ? input.setAttribute('aria-activedescendant', `${id}-${at}`) : input.removeAttribute('aria-activedescendant')
	}
	const open = async (text = input.value, first = -1) => {
		const mine = ++asked, found = await find(text)
		if (mine !== asked) {
			return
		}
		shown = found
		fill(list, shown.map((one, i) => h('li', { role: 'option', id: `${id}-${i}`, 'aria-selected': 'false', onpointerdown: (/** @type {Event} */ event) => {
			event.preventDefault()
			take(one)
		} }, user(one.text), one.about && h('span', { class: 'muted number' }, user(one.about)))))
		list.hidden = shown.length === 0
		input.setAttribute('aria-expanded', String(!list.hidden))
		mark(Math.min(first, shown.length - 1))
	}
	input.addEventListener('blur', close)
	input.addEventListener('keydown', (event) => {
		const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
		if (step) {
			list.hidden ? open('', 0) : mark(Math.min(Math.max(at + step, 0), shown.length - 1))
		} else if (event.key === 'Enter' && at >= 0 && !list.hidden && !event.ctrlKey) {
			take(shown[at])
		} else if (event.key === 'Escape' && !list.hidden) {
			close()
			event.stopPropagation()
		} else {
			return
		}
		event.preventDefault()
	})
	return { list, open }
}
