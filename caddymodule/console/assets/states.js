// The states of a view: loading, empty, error, offline, and content that looks again.

import { button, fill, h, user } from './elements.js'
import * as api from './api.js'
import { copy } from './copy.js'

const pollInterval = 5000
const skeletonDelay = 150

/**
 * Context is what a view gets. Its signal ends when another view takes its place.
 *
 * @typedef {import('./addresses.js').Address} Address
 * @typedef {{
 *   address: Address, workspace: string, signal: AbortSignal,
 *   setGuard: (isDirty: () => boolean) => void,
 * }} Context
 */

/**
 * errorBox shows an error: its words, its places, and its request id to copy.
 *
 * @param {unknown} thrown
 * @param {() => unknown} [again]
 */
export function errorBox(thrown, again) {
	const failure = api.failureOf(thrown)
	const id = failure.requestId
	return h('div', { class: 'error', role: 'alert' },
		h('p', null, h('strong', null, failure.isOffline ? 'Offline: ' : 'Error: '), user(failure.message),
			failure.retryAfter && ` Try again in ${failure.retryAfter} s.`),
		failure.issues.length > 0 && h('ul', null, failure.issues.map((issue) =>
			h('li', null, h('code', null, user(issue.path || 'body')), ': ', user(issue.message)))),
		h('p', { class: 'actions' },
			id && h('span', { class: 'muted' }, 'Request id ', h('code', null, id)),
			id && button('Copy request id', () => copy(id), { class: 'small' }),
			again && button('Try again', again, { class: 'small' })))
}

/** skeleton holds the place of content that is loading. */
export function skeleton(lines = 5) {
	return h('div', { class: 'skeleton' }, h('span', { class: 'unseen' }, 'Loading'),
		Array.from({ length: lines }, () => h('div', { 'aria-hidden': 'true' })))
}

/**
 * after150 shows a skeleton unless there is content within 150 ms.
 *
 * @param {Element} place
 * @param {AbortSignal} signal
 * @param {number} [lines]
 */
export function expectContent(place, signal, lines) {
	const timer = setTimeout(() => {
		if (!signal.aborted && place.childElementCount === 0) {
			fill(place, skeleton(lines))
		}
	}, skeletonDelay)
	return () => clearTimeout(timer)
}

/**
 * keepFocus runs a function that makes elements anew, and gives the focus to the element
 * with the same data-key as before.
 *
 * @param {Element} place
 * @param {() => void} draw
 */
export function keepFocus(place, draw) {
	const key = place.contains(document.activeElement) ? document.activeElement?.getAttribute('data-key') : null
	draw()
	if (key) {
		/** @type {HTMLElement | null} */ (place.querySelector(`[data-key="${CSS.escape(key)}"]`))?.focus({ preventScroll: true })
	}
}

/**
 * live shows what a path of the API has, and looks again every few seconds while the tab
 * is visible. The content is drawn anew only if it has changed.
 *
 * @param {Context} context
 * @param {string} path
 * @param {(answer: api.Answer<any>, before: api.Answer<any> | undefined) => import('./elements.js').Child | import('./elements.js').Child[]} draw
 * @param {{ lines?: number, onFailure?: (failure: api.Failure) => Node | undefined | Promise<Node | undefined> }} [options]
 */
export function live(context, path, draw, options = {}) {
	const notice = h('div', { class: 'notice' })
	const content = h('div', { class: 'content' })
	const element = h('div', { class: 'live' }, notice, content)
	/** @type {api.Answer<any> | undefined} */
	let shown
	let current = path
	let asking = new AbortController()
	let timer = 0
	let cancelSkeleton = () => {}

	/** @param {api.Answer<any>} answer */
	const show = (answer) => {
		cancelSkeleton()
		fill(notice)
		if (shown !== answer) {
			const before = shown
			shown = answer
			keepFocus(content, () => fill(content, .../** @type {import('./elements.js').Child[]} */ ([draw(answer, before)].flat())))
		}
	}
	const look = async () => {
		clearTimeout(timer)
		asking.abort()
		if (context.signal.aborted) {
			return
		}
		const mine = (asking = new AbortController())
		try {
			const answer = await api.read(current, mine.signal)
			if (!mine.signal.aborted && !context.signal.aborted) {
				show(answer)
			}
		} catch (thrown) {
			if (mine.signal.aborted || context.signal.aborted) {
				return
			}
			cancelSkeleton()
			const failure = api.failureOf(thrown)
			const own = await options.onFailure?.(failure)
			if (!shown || own) {
				fill(content)
				shown = undefined
			}
			if (failure.status !== 401) {
				fill(notice, own ?? errorBox(failure, look))
			}
		}
		if (!mine.signal.aborted) {
			timer = window.setTimeout(() => (document.hidden ? undefined : look()), pollInterval)
		}
	}
	const start = () => {
		cancelSkeleton()
		const answer = api.known(current)
		if (answer) {
			show(answer)
		} else if (!shown) {
			cancelSkeleton = expectContent(content, context.signal, options.lines)
		}
		void look()
	}
	const options2 = { signal: context.signal }
	document.addEventListener('visibilitychange', () => document.hidden || void look(), options2)
	addEventListener('online', () => void look(), options2)
	api.changes.addEventListener('change', () => void look(), options2)
	addEventListener('unlock', () => void look(), options2)
	context.signal.addEventListener('abort', () => {
		clearTimeout(timer)
		cancelSkeleton()
		asking.abort()
	})
	start()
	return {
		element,
		look,
		answer: () => shown,
		/** @param {string} next */
		show(next) {
			current = next
			start()
		},
	}
}

/**
 * pages makes the buttons of a list's pages.
 *
 * @param {number} offset
 * @param {number} limit
 * @param {number} total
 * @param {(offset: number) => void} go
 */
export function pages(offset, limit, total, go) {
	const last = Math.min(offset + limit, total)
	return h('nav', { class: 'pages', 'aria-label': 'Pages' },
		h('span', { class: 'muted number' }, total === 0 ? 'none' : `${offset + 1}–${last} of ${total}`),
		button('Previous', () => go(Math.max(0, offset - limit)), { disabled: offset === 0, class: 'small', 'data-key': 'previous' }),
		button('Next', () => go(offset + limit), { disabled: last >= total, class: 'small', 'data-key': 'next' }))
}

/**
 * whenChanging disables a button and shows progress while a change is under way. It
 * returns whether the change was made, and shows an error otherwise.
 *
 * @param {Element} place for an error
 * @param {HTMLButtonElement | null} pressed
 * @param {() => Promise<void>} run
 * @param {(failure: api.Failure) => Node | undefined} [explain]
 */
export async function whenChanging(place, pressed, run, explain) {
	fill(place)
	if (pressed) {
		pressed.setAttribute('aria-busy', 'true')
		pressed.disabled = true
	}
	try {
		await run()
		return true
	} catch (thrown) {
		if (!isAbort(thrown)) {
			const failure = api.failureOf(thrown)
			fill(place, explain?.(failure) ?? errorBox(failure))
		}
		return false
	} finally {
		pressed?.removeAttribute('aria-busy')
		if (pressed) {
			pressed.disabled = false
		}
	}
}

const isAbort = api.isAborted
