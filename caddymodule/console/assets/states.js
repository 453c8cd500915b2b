// The states of a view: loading, empty, error, offline, and content that looks again.

import { button, code, fill, h, user } from './elements.js'
import * as api from './api.js'
import * as session from './session.js'
import { copy } from './copy.js'

const pollInterval = 5000
const skeletonDelay = 150

/** Shows an error: its words, its places, and its request id to copy. @param {unknown} thrown @param {() => unknown} [again] */
export function errorBox(thrown, again) {
	const { isOffline, message, retryAfter, issues, requestId } = api.failureOf(thrown)
	return h('div', { class: 'error', role: 'alert' },
		h('p', null, h('strong', null, isOffline ? 'Offline: ' : 'Error: '), user(message), retryAfter && ` Try again in ${retryAfter} s.`),
		issues.length > 0 && h('ul', null, issues.map((issue) => h('li', null, code(issue.path || 'body'), ': ', user(issue.message)))),
		h('p', { class: 'actions' },
			requestId && h('span', { class: 'muted' }, 'Request id ', h('code', null, requestId)),
			requestId && button('Copy request id', () => copy(requestId), { class: 'small' }),
			again && button('Try again', again, { class: 'small' })))
}

/**
 * Reads now, and again every few seconds while the server cannot answer. It returns a
 * function that reads once more.
 * @param {() => Promise<unknown>} read @param {AbortSignal} signal
 */
export function readUntilDone(read, signal) {
	let timer = 0
	let latest = 0
	let isDone = false
	const look = async () => {
		clearTimeout(timer)
		const mine = ++latest
		isDone = signal.aborted
		try {
			if (!isDone && session.isUnlocked()) {
				await read()
				isDone ||= mine === latest
			}
		} catch (thrown) {
			const { status } = api.failureOf(thrown)
			if (mine === latest && !signal.aborted && (status === 0 || status === 429 || status >= 500)) {
				timer = window.setTimeout(again, pollInterval)
			}
		}
	}
	const again = () => isDone || document.hidden || look()
	document.addEventListener('visibilitychange', again, { signal })
	addEventListener('unlock', again, { signal })
	look()
	return look
}

/** Shows a skeleton unless there is content within 150 ms. @param {Element} place @param {number} lines */
function expectContent(place, lines) {
	const timer = setTimeout(() => {
		if (place.childElementCount === 0) {
			fill(place, h('div', { class: 'skeleton' }, h('span', { class: 'unseen' }, 'Loading'), Array.from({ length: lines }, () => h('div'))))
		}
	}, skeletonDelay)
	return () => clearTimeout(timer)
}

/**
 * Fills a place with what a function returns, or with its error.
 * @param {Element} place @param {AbortSignal} signal @param {() => Promise<Child | Child[]>} make
 */
export async function load(place, signal, make) {
	fill(place)
	const cancel = expectContent(place, 5)
	signal.addEventListener('abort', cancel)
	try {
		fill(place, await make())
	} catch (thrown) {
		if (!signal.aborted) {
			fill(place, errorBox(thrown, () => load(place, signal, make)))
		}
	} finally {
		cancel()
	}
}

/**
 * Shows what a path of the API has, and looks again every few seconds while the tab
 * is visible. The content is drawn again only if it has changed.
 * @type {MakeLive}
 */
export function live({ signal }, path, draw, options = {}) {
	const notice = h('div')
	const content = h('div')
	/** @type {Answer<any> | undefined} */
	let shown
	let asking = new AbortController()
	let timer = 0
	let cancelSkeleton = () => {}

	/** @param {Answer<any>} answer */
	const show = (answer) => {
		cancelSkeleton()
		fill(notice)
		if (shown === answer) {
			return
		}
		shown = answer
		const drawn = [draw(answer)].flat() // which may move the focus itself
		keepFocus(content, () => fill(content, drawn))
	}
	const look = async () => {
		clearTimeout(timer)
		asking.abort()
		if (signal.aborted || !session.isUnlocked()) { // a request without a key counts as a wrong one
			return
		}
		const mine = (asking = new AbortController())
		const isOver = () => mine.signal.aborted || signal.aborted
		try {
			const answer = await api.read(path, mine.signal)
			if (!isOver()) {
				show(answer)
			}
		} catch (thrown) {
			if (isOver()) {
				return
			}
			cancelSkeleton()
			const failure = api.failureOf(thrown)
			const own = await options.onFailure?.(failure, look)
			if (!shown || own) {
				fill(content)
				shown = undefined
			}
			if (failure.status !== 401 && !isOver()) {
				fill(notice, own ?? errorBox(failure, look))
			}
		}
		if (!isOver()) {
			timer = window.setTimeout(() => document.hidden || look(), pollInterval)
		}
	}
	const start = () => {
		cancelSkeleton()
		const answer = api.known(path)
		if (answer) {
			show(answer)
		} else if (!shown) {
			cancelSkeleton = expectContent(content, options.lines ?? 5)
		}
		look()
	}
	document.addEventListener('visibilitychange', () => document.hidden || look(), { signal })
	addEventListener('online', look, { signal })
	addEventListener('unlock', look, { signal })
	api.changes.addEventListener('change', look, { signal })
	signal.addEventListener('abort', () => {
		clearTimeout(timer)
		cancelSkeleton()
		asking.abort()
	})
	start()
	return {
		element: h('div', { class: 'live-content' }, notice, content),
		answer: () => shown,
		redraw: () => {
			const answer = shown
			shown = undefined
			answer && show(answer)
		},
		show(next) {
			path = next
			start()
		},
	}
}

/**
 * Draws a place again. The focus stays with the element of the same key. If that is gone, it goes
 * to the heading, and never to the body.
 * @param {Element} place @param {() => unknown} draw
 */
export function keepFocus(place, draw) {
	const focused = place.contains(document.activeElement) ? document.activeElement : null
	draw()
	if (focused && !focused.isConnected && !focusKey(place, focused.getAttribute('data-key') ?? '')) {
		focusHeading()
	}
}

export function focusHeading() {
	const heading = document.querySelector('main h1')
	if (heading instanceof HTMLElement) {
		heading.tabIndex = -1
		heading.focus({ preventScroll: true })
	}
}

/** Focuses an enabled element. @param {Element} place @param {string} key */
export function focusKey(place, key) {
	const found = place.querySelector(`[data-key="${CSS.escape(key)}"]`)
	if (found instanceof HTMLElement) {
		found.focus({ preventScroll: true })
	}
	return found !== null && found === document.activeElement
}

/** Returns where the last page begins. @param {number} total @param {number} limit */
export const lastPage = (total, limit) => Math.floor((total - 1) / limit) * limit

/**
 * Makes the buttons of a list's pages.
 * @type {MakePages}
 */
export function pages(offset, limit, total, go) {
	const last = Math.min(offset + limit, total), isBeyond = offset >= total && total > 0
	return h('nav', { class: 'pages', 'aria-label': 'Pages' },
		h('span', { class: 'muted number' }, total === 0 ? 'none' : isBeyond ? `beyond the last of ${total}` : `${offset + 1}–${last} of ${total}`),
		button('Previous', () => go(isBeyond ? lastPage(total, limit) : Math.max(0, offset - limit)), { disabled: offset === 0, class: 'small', 'data-key': 'previous' }),
		button('Next', () => go(offset + limit), { disabled: last >= total, class: 'small', 'data-key': 'next' }))
}

/**
 * pagedList is live content of a path with pages.
 * @type {MakePagedList}
 */
export function pagedList(context, limit, path, draw, count) {
	let offset = 0
	const list = live(context, path(0), (answer) => [
		draw(answer),
		(count?.(answer) ?? answer.total) > limit && pages(offset, limit, count?.(answer) ?? answer.total, (next) => {
			offset = next
			list.show(path(offset))
		}),
	])
	return list.element
}

/**
 * Makes a change. A button shows that it is under way. It returns whether the
 * change was made, and shows an error in a place otherwise.
 * @type {Attempt}
 */
export async function attempt(place, pressed, run, explain) {
	fill(place)
	pressed.setAttribute('aria-busy', 'true')
	pressed.disabled = true
	try {
		await run()
		return true
	} catch (thrown) {
		const failure = api.failureOf(thrown)
		fill(place, explain?.(failure) ?? errorBox(failure))
		return false
	} finally {
		pressed.removeAttribute('aria-busy')
		pressed.disabled = false
	}
}
