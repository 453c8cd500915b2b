// Going from one view to another, without losing edits.

/** navigations are told when the address has changed. */
export const navigations = new EventTarget()

/** @type {Set<() => boolean>} */
const guards = new Set()

/** Says how to find out whether the view, or a dialog, has edits that are not saved. @param {() => boolean} guard */
export function setGuard(guard) {
	guards.add(guard)
	return () => guards.delete(guard)
}

export const hasEdits = () => [...guards].some((isDirty) => isDirty())

export const dropEdits = () => guards.clear()

const question = 'This view has edits that are not saved. Leave it and lose them?'

/** Asks whether edits may be lost, if there are any. */
export function mayLeave() {
	if (hasEdits() && !confirm(question)) {
		return false
	}
	dropEdits()
	return true
}

/** Asks whether edits of a form may be lost, if there are any. @param {() => boolean} isFormDirty */
export const mayLose = (isFormDirty) => !isFormDirty() || confirm('This form has edits that are not saved. Replace and lose them?')

/** The address without the line that it points at. */
const here = () => location.href.replace(/#.*/, '')

let shown = here()

/** Opens an address of the console. @param {string} address */
export function go(address) {
	if (mayLeave()) {
		history.pushState(null, '', address)
		shown = here()
		navigations.dispatchEvent(new Event('navigate'))
	}
}

/** Sets the address of the view that is shown. @param {string} address */
export function replace(address) {
	history.replaceState(null, '', address)
	shown = here()
}

/** Follows links, back, forward and closing. */
export function watchNavigation() {
	addEventListener('popstate', () => {
		if (here() === shown) {
			return
		}
		if (!mayLeave()) {
			history.pushState(null, '', shown)
			return
		}
		shown = here()
		navigations.dispatchEvent(new Event('navigate'))
	})
	addEventListener('beforeunload', (event) => {
		if (hasEdits()) {
			event.preventDefault()
		}
	})
	document.addEventListener('click', (event) => {
		const link = event.target instanceof Element ? event.target.closest('a') : null
		if (!link || event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) {
			return
		}
		if (link.origin !== location.origin || link.hash || link.target || link.getAttribute('href')?.startsWith('#')) {
			return
		}
		event.preventDefault()
		go(link.href)
	})
}
