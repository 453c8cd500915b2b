// Elements are made here, from text alone. No markup is ever parsed.

import { visible } from './invisible.js'

// These are set as properties, because their attributes are only initial values.
const asProperty = new Set(['value', 'disabled', 'hidden'])

/**
 * Makes an element. A property that is a function listens to an event (onclick). Null,
 * undefined and false leave a property or a child out.
 * @template {keyof HTMLElementTagNameMap} Name @param {Name} name @param {Properties | null} [properties]
 * @param {...(Child | Child[])} children @returns {HTMLElementTagNameMap[Name]}
 */
export function h(name, properties, ...children) {
	const element = document.createElement(name)
	for (const [key, value] of Object.entries(properties ?? {})) {
		if (value === null || value === undefined || value === false) {
			continue
		} else if (typeof value === 'function') {
			element.addEventListener(key.slice(2), /** @type {EventListener} */ (value))
		} else if (asProperty.has(key)) {
			/** @type {Record<string, unknown>} */ (/** @type {unknown} */ (element))[key] = value
		} else {
			element.setAttribute(key, value === true ? '' : String(value))
		}
	}
	fill(element, ...children)
	return element
}

/** Makes an element of a picture. @param {string} name @param {Properties} properties @param {...(Child | Child[])} children @returns {SVGElement} */
export function svg(name, properties, ...children) {
	const element = document.createElementNS('http://www.w3.org/2000/svg', name)
	for (const [key, value] of Object.entries(properties)) {
		element.setAttribute(key, String(value))
	}
	fill(element, ...children)
	return element
}

/** Replaces the children of an element. @param {Element} element @param {...(Child | Child[])} children */
export function fill(element, ...children) {
	element.replaceChildren()
	for (const child of children.flat()) { // there may be more than a call can have arguments
		child === null || child === undefined || child === false || element.append(child instanceof Node ? child : String(child))
	}
}

/** Shows text that a user wrote. Its direction and its marks stay inside, and what cannot be seen is a box. @param {string} text */
export const user = (text) => h('bdi', null, visible(text))

/** @param {string} text */
export const code = (text) => h('code', { dir: 'auto' }, user(text))

/** @param {Child} text */
export const number = (text) => h('span', { class: 'number' }, text)

/** @param {string | null | undefined} [text] */
export const textOrNone = (text) => (text ? user(text) : h('span', { class: 'muted' }, '–'))

/** @param {string} name @param {Child} [target] */
export const labelTag = (name, target) => h('span', { class: 'label' }, user(name), ' ', target && number(target))

/**
 * Makes a form that runs a function, and is never sent.
 * @param {Properties} properties @param {() => unknown} run @param {...(Child | Child[])} children
 */
export function form(properties, run, ...children) {
	return h('form', { novalidate: true, ...properties, onsubmit: (/** @type {Event} */ event) => {
		event.preventDefault()
		run()
	} }, ...children)
}

/** A shortcut in a button. It is no part of the button's name. @param {string} keys */
export const shortcut = (keys) => h('kbd', { 'aria-hidden': 'true' }, keys)

/** @param {Child | Child[]} name @param {(event: MouseEvent) => unknown} run @param {Properties} [properties] */
export function button(name, run, properties = {}) {
	return h('button', { type: 'button', onclick: run, ...properties }, name)
}

/** @param {Child | Child[]} name @param {Properties} [properties] */
export function submit(name, properties = {}) {
	return h('button', { type: 'submit', class: 'primary', ...properties }, name)
}

/** Makes a field for one line that no browser corrects or fills in. @param {Properties} [properties] */
export const textInput = (properties) => h('input', { type: 'text', autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', dir: 'auto', ...properties })

/** Makes a menu of buttons. It closes with a choice, with Escape, and when the focus leaves it. @param {Child | Child[]} name @param {string} key @param {Child[]} children */
export function menu(name, key, children) {
	const summary = h('summary', { 'data-key': key }, name), items = h('div', { class: 'menu-items' }, children)
	const close = () => details.removeAttribute('open')
	const isOpen = document.querySelector(`.menu[open] > [data-key="${key}"]`) !== null // and is drawn again
	const details = h('details', { class: 'menu', open: isOpen, onfocusout: (/** @type {FocusEvent} */ { relatedTarget: next }) => next instanceof Node && !details.contains(next) && close() }, summary, items)
	details.addEventListener('toggle', () => { // it stays within the window
		items.classList.remove('from-left')
		items.classList.toggle('from-left', items.getBoundingClientRect().left < 8)
	})
	details.addEventListener('keydown', (event) => {
		const all = [...items.querySelectorAll('button:not(:disabled)')], step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
		if (step) {
			const at = all.indexOf(/** @type {Element} */ (document.activeElement))
			details.open = true
			;/** @type {HTMLElement | undefined} */ (all.at(at < 0 && step < 0 ? -1 : (at + step) % all.length))?.focus()
		} else if (event.key === 'Escape' && details.open) {
			close()
			summary.focus()
		} else {
			return
		}
		event.preventDefault()
		event.stopPropagation()
	})
	details.addEventListener('click', (event) => {
		if (event.target instanceof HTMLButtonElement) {
			close()
			summary.focus() // whoever opens a dialog gives the focus back
		}
	}, { capture: true })
	document.addEventListener('click', (event) => event.target instanceof Node && !details.contains(event.target) && close(), { signal: closings.signal })
	return details
}

let closings = new AbortController()

/** Ends what the menus of a view listen to. */
export function endMenus() {
	closings.abort()
	closings = new AbortController()
}

let fields = 0

/**
 * Puts a label, a hint and a place for an error around a control.
 * @param {string} name @param {Control} control
 * @param {Child} [hint]
 */
export function field(name, control, hint) {
	const id = `field-${++fields}`
	control.id = id
	control.setAttribute('aria-describedby', `${id}-hint ${id}-error`)
	return h('div', { class: 'field' },
		h('label', { for: id }, name),
		control,
		h('p', { class: 'hint', id: `${id}-hint`, hidden: !hint }, hint),
		h('p', { class: 'wrong', id: `${id}-error`, hidden: true }))
}

/** Shows an error below a control of field, or takes it away. @param {Element} control @param {string} [text] */
export function setWrong(control, text = '') {
	const place = document.getElementById(`${control.id}-error`)
	if (text) {
		control.setAttribute('aria-invalid', 'true')
	} else {
		control.removeAttribute('aria-invalid')
	}
	if (place) {
		place.hidden = text === ''
		place.textContent = text && `Error: ${text}`
	}
}

/** Shows what is wrong with each control of a form. The controls have the names of members. @param {Record<string, Control>} controls @param {Issue[]} issues @returns {undefined} */
export function showIssues(controls, issues) {
	Object.values(controls).forEach((control) => setWrong(control))
	for (const { path, message } of issues.toReversed()) {
		const control = path.split('/').map((name) => controls[name]).find(Boolean)
		if (control) {
			control.closest('details')?.setAttribute('open', '')
			setWrong(control, message)
			control.focus() // in the end that of the first
		}
	}
}

/** Returns what the controls of a place have, to compare it with what they had. @param {Element} place */
export function valuesOf(place) {
	return JSON.stringify([...place.querySelectorAll('input, textarea, select')].map((control) => (control.matches('[type=checkbox]')
		? control.matches(':checked') : /** @type {Control} */ (control).value)))
}

/** @param {Choice[]} options @param {string} value @param {Properties} [properties] */
export function choice(options, value, properties = {}) {
	const select = h('select', properties, options.map((option) => h('option', { value: option.value }, option.text)))
	select.value = value
	return select
}

/**
 * Makes a table. It has explicit roles. Narrow screens show rows as blocks, and
 * browsers then drop the implicit roles.
 * @param {string} name @param {(Child | HTMLTableCellElement)[]} head @param {HTMLTableRowElement[]} rows
 * @param {string} [style]
 */
export function table(name, head, rows, style = '') {
	const cells = head.map((cell) => (cell instanceof HTMLTableCellElement ? cell : h('th', { scope: 'col', role: 'columnheader' }, cell)))
	return h('table', { 'aria-label': name, role: 'table', class: style },
		h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, cells)),
		h('tbody', { role: 'rowgroup' }, rows))
}

/** Makes a row of table. Each cell has its column's name for narrow screens. @param {[string, Child | Child[]][]} cells */
export function row(cells) {
	return h('tr', { role: 'row' }, cells.map(([name, child], i) =>
		h(i === 0 ? 'th' : 'td', { role: i === 0 ? 'rowheader' : 'cell', scope: i === 0 && 'row', 'data-column': name }, child)))
}

const units = /** @type {const} */ ([['year', 31536000], ['month', 2592000], ['week', 604800], ['day', 86400], ['hour', 3600], ['minute', 60]])
const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto', style: 'short' })
const ahead = new Intl.RelativeTimeFormat('en', { style: 'short' }) // 40 hours are not "tomorrow"
const absolute = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'long' })

/** @param {string} time */
function sinceText(time) {
	const seconds = (Date.parse(time) - Date.now()) / 1000
	for (const [unit, size] of units) {
		if (Math.abs(seconds) >= size) {
			return (seconds > 0 ? ahead : relative).format(Math.trunc(seconds / size), unit)
		}
	}
	return 'just now'
}

/** Shows how long ago a time was. The full time is its title. @param {string} time */
export const when = (time) => h('time', { datetime: time, title: absolute.format(new Date(time)) }, sinceText(time))

export function updateTimes() {
	for (const element of document.querySelectorAll('time')) {
		element.textContent = sinceText(element.dateTime)
	}
}
