// Elements are made here, from text alone. No markup is ever parsed.

// Characters that cannot be seen, or that change the direction of text, are shown as boxes.

// Emoji, and joiners between letters of scripts that need them, are seen. Everything else that
// Unicode lets programs ignore is not.
const picture = String.raw`(?:\p{RGI_Emoji}|\p{Extended_Pictographic})(?:(?<![\uFE0E\uFE0F])[\uFE0E\uFE0F])?`
const emoji = String.raw`${picture}(?:\u200D${picture})*`
const joining = `[[\\p{L}\\p{M}]&&[${['Arab', 'Syrc', 'Mong', 'Deva', 'Beng', 'Guru', 'Gujr', 'Orya', 'Taml', 'Telu', 'Knda', 'Mlym', 'Sinh', 'Khmr', 'Mymr'].map((script) => `\\p{Script=${script}}`).join('')}]]`
const hidden = String.raw`[[\p{Cc}\p{Default_Ignorable_Code_Point}\u2028\u2029\uFFF9-\uFFFB]--[\t\n]]`
const suspect = new RegExp(hidden, 'v')
const each = `(${hidden})\\1*`
const strict = new RegExp(each, 'gv'), usual = new RegExp(`${emoji}|\\r(?=\\n)|(?<=${joining})[\\u200C\\u200D](?=${joining})|${each}`, 'gv')

/** @type {[RegExp, string][]} */
const kinds = [
	[/\p{Bidi_Control}/v, 'changes the direction'], [/[\u{E0000}-\u{E007F}]/v, 'a tag'], [/\p{Variation_Selector}/v, 'a variation selector'],
	[/\p{Cc}/v, 'a control character'], [/[^]/v, 'cannot be seen'],
]

/** @param {string} character */
const nameOf = (character) => `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`

/** @param {string} run equal characters */
function box(run, character = String.fromCodePoint(run.codePointAt(0) ?? 0)) {
	const element = document.createElement('span'), inside = document.createElement('span')
	const count = run.length / character.length
	const name = nameOf(character) + (count > 1 ? ` ×${count}` : '')
	element.className = 'box'
	element.dataset.code = name
	element.dir = 'ltr'
	element.title = `${name}, ${kinds.find(([kind]) => kind.test(character))?.[1]}`
	element.setAttribute('role', 'img')
	element.setAttribute('aria-label', element.title)
	inside.append(run) // it is copied, and the code is not
	element.append(inside)
	return element
}

const maxBoxes = 5000 // of a text, because more would stop the browser

/**
 * Splits a text into what can be seen and boxes. isStrict also shows what is usual in emoji and in
 * words, and is for what makes two texts differ.
 * @param {string} text @param {{ from?: number, to?: number, isStrict?: boolean }} [part] the part to show
 * @returns {(string | Node)[]}
 */
export function visible(text, { from = 0, to = text?.length, isStrict = false } = {}) {
	if (!suspect.test(text)) {
		return [from === 0 && to === text?.length ? text : text.slice(from, to)]
	}
	/** @type {(string | Node)[]} */
	const shown = []
	let end = from
	for (const { 0: run, 1: character, index } of text.matchAll(isStrict ? strict : usual)) {
		const a = Math.max(index, from), b = Math.min(index + run.length, to)
		if (shown.length >= 2 * maxBoxes) {
			break
		} else if (character !== undefined && a < b) {
			shown.push(text.slice(end, a), box(text.slice(a, b)))
			end = b
		}
	}
	return [...shown, text.slice(end, to)].filter((one) => one !== '')
}

const maxNamed = 8

/** Warns of the characters that visible shows as boxes. There is no line without them. @param {string} text @param {string} [where] @param {string} [marks] */
export function warning(text, where = '', marks = 'Boxes show them') {
	/** @type {Map<string, number>} */
	const counts = new Map()
	if (suspect.test(text)) {
		for (const [run, character] of text.matchAll(usual)) {
			character && counts.set(character, (counts.get(character) ?? 0) + run.length / character.length)
		}
	}
	if (counts.size === 0) {
		return undefined
	}
	const named = [...counts].slice(0, maxNamed).map(([character, count]) => nameOf(character) + (count > 1 ? ` (${count} times)` : ''))
	const line = document.createElement('p')
	line.className = 'note'
	const isMuch = [...counts.values()].reduce((sum, count) => sum + count, 0) > maxBoxes
	line.append(
		where && `${where}: `, 'Some characters cannot be seen, or change the direction of text. ', marks, ': ', named.join(', '),
		counts.size > maxNamed ? ` and ${counts.size - maxNamed} others.` : '.', isMuch ? ` Only the first ${maxBoxes} of a text have boxes.` : '')
	return line
}

// Elements.

// These are set as properties, because their attributes are only initial values.
const asProperty = new Set(['value', 'disabled', 'hidden'])

/**
 * Makes an element. Its name may be followed by classes (p.note). Properties may come before the children: one
 * that is a function listens to an event (onclick). Null, undefined and false leave a property or a child out.
 * @template {string} Name @param {Name} name @param {...(Properties | Child | Child[])} given @returns {ElementOf<Name>}
 */
export function h(name, ...given) {
	const [tag, ...classes] = name.split('.'), element = document.createElement(tag), first = given[0]
	const hasProperties = first?.constructor === Object
	/** @type {Properties} */
	const properties = { class: classes.join(' ') || null, ...(hasProperties && /** @type {Properties} */ (first)) }
	for (const [key, value] of Object.entries(properties)) {
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
	fill(element, .../** @type {Children} */ (hasProperties ? given.slice(1) : given))
	return /** @type {ElementOf<Name>} */ (element)
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
export const user = (text) => h('bdi', visible(text))

/** @param {string} text */
export const code = (text) => h('code', { dir: 'auto' }, user(text))

/** @param {Child} text */
export const number = (text) => h('span.number', text)

/** @param {string | null | undefined} [text] */
export const textOrNone = (text) => (text ? user(text) : h('span.muted', '–'))

/** @param {string} name @param {Child} [target] */
export const labelTag = (name, target) => h('span.label', user(name), ' ', target && number(target))

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

/** A button beside others, or in a row. @param {Child | Child[]} name @param {(event: MouseEvent) => unknown} run @param {Properties} [properties] */
export const small = (name, run, properties) => button(name, run, { class: 'small', ...properties })

/** A small button of a row, with the row's name for who does not see it. @param {string} text @param {string} name @param {() => unknown} run @param {Properties} [properties] */
export const rowAction = (text, name, run, properties) => small(text, run, { 'data-key': `${text} ${name}`, 'aria-label': `${text} ${name}`, ...properties })

/** @param {Child | Child[]} name @param {Properties} [properties] */
export function submit(name, properties = {}) {
	return h('button.primary', { type: 'submit', ...properties }, name)
}

/** Makes a field for one line that no browser corrects or fills in. @param {Properties} [properties] */
export const textInput = (properties) => h('input', { type: 'text', autocomplete: 'off', autocapitalize: 'off', spellcheck: 'false', dir: 'auto', ...properties })

/** Makes a field for a number, as text: what is no number is sent, and the server says so. @param {number | null | undefined} value */
export const numberInput = (value) => textInput({ value: value ?? '', inputmode: 'decimal', maxlength: 20 })

/** Reads numberInput. Null is no number. @param {Control} input */
export function numberOf({ value }) {
	const text = value.trim().replace(/^\$\s*/, '')
	return text === '' ? null : Number.isFinite(Number(text)) ? Number(text) : text
}

/** Makes a menu of buttons. It closes with a choice, with Escape, and when the focus leaves it. @param {Child | Child[]} name @param {string} key @param {Child[]} children */
export function menu(name, key, children) {
	const summary = h('summary', { 'data-key': key }, name), items = h('div.menu-items', children)
	const close = () => details.removeAttribute('open')
	const isOpen = document.querySelector(`.menu[open] > [data-key="${key}"]`) !== null // and is drawn again
	const details = h('details.menu', { open: isOpen, onfocusout: (/** @type {FocusEvent} */ { relatedTarget: next }) => next instanceof Node && !details.contains(next) && close() }, summary, items)
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
	return h('div.field',
		h('label', { for: id }, name),
		control,
		h('p.hint', { id: `${id}-hint`, hidden: !hint }, hint),
		h('p.wrong', { id: `${id}-error`, hidden: true }))
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
 * Makes a table of rows, whose cells each have the name of their column, also for narrow screens. It has explicit
 * roles: narrow screens show rows as blocks, and browsers then drop the implicit roles.
 * @param {string} name @param {Cell[][]} rows @param {string} [style] @param {Child} [first] what the first column is called, if not as its cells say
 */
export function table(name, rows, style = '', first) {
	return h('table', { 'aria-label': name, role: 'table', class: style },
		h('thead', { role: 'rowgroup' }, h('tr', { role: 'row' }, (rows[0] ?? []).map(([column], i) => h('th', { scope: 'col', role: 'columnheader' }, i === 0 && first ? first : user(column))))),
		h('tbody', { role: 'rowgroup' }, rows.map((cells) => h('tr', { role: 'row' }, cells.map(([column, child], i) =>
			h(i === 0 ? 'th' : 'td', { role: i === 0 ? 'rowheader' : 'cell', scope: i === 0 && 'row', 'data-column': column }, child))))))
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

// A text field with choices below it, for the keyboard and the pointer.

let lists = 0

/**
 * Makes a field offer choices. find returns those for a text, and choose takes the chosen one.
 * @param {HTMLInputElement} input @param {string} name @param {(text: string) => Suggestion[] | Promise<Suggestion[]>} find @param {(chosen: Suggestion) => void} choose
 */
export function suggest(input, name, find, choose) {
	const id = `choices-${++lists}`, list = h('ul.choices', { role: 'listbox', id, 'aria-label': name, hidden: true })
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
		} }, user(one.text), one.about && h('span.muted.number', user(one.about)))))
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
