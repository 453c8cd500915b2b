// What a view shows besides its content: loading, errors, conflicts, dialogs, and what was done.

import { setGuard } from './addresses.js'
import { button, code, fill, form, h, small, submit, user, valuesOf } from './elements.js'
import { targetText } from './figures.js'
import * as api from './api.js'
import * as session from './session.js'

// The status region says what was done, and offers the way back.

let clearing = 0

/** Shows a message in the status region. An empty one clears it. @param {string} text @param {() => unknown} [undo] */
export function say(text, undo) {
	const place = document.getElementById('status')
	const message = place?.querySelector('[role=status]')
	if (!place || !message) {
		return
	}
	const top = document.querySelector('dialog:modal') ?? document.body // what is outside of a dialog cannot be pressed
	place.parentElement === top || top.append(place)
	clearTimeout(clearing)
	const clear = () => {
		fill(message)
		place.querySelector('.action')?.remove()
		place.classList.remove('shown')
	}
	clear()
	fill(message, text)
	if (undo) {
		place.append(h('span.action', small('Undo', () => {
			clear()
			void undo()
		})))
	}
	place.classList.toggle('shown', text !== '')
	clearing = window.setTimeout(clear, undo ? 30000 : 8000)
}

/** Tells a screen reader what can be seen anyway. @param {string} text */
export function tell(text) {
	const place = document.getElementById('told')
	if (place) {
		place.textContent = text
	}
}

// Copying text. The page's own policy forbids the clipboard's interface, so a selection is
// copied.

/** @param {string} text */
export function copy(text) {
	const focused = document.activeElement
	const area = h('textarea.unseen', { value: text, 'aria-label': 'Text to copy' });
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
	return h('div.code',
		h('pre', { tabindex: '0', 'aria-label': name, role: 'region' }, h('code', text)),
		small('Copy', () => copy(text), { 'aria-label': `Copy ${name}` }))
}

/** Writes CSV, in which a formula is text. @param {readonly string[]} head @param {unknown[][]} rows */
export const csvOf = (head, rows) => [head.join(), ...rows.map((cells) => cells.map((cell) =>
	`"${(cell === null || cell === undefined ? '' : typeof cell === 'object' ? JSON.stringify(cell) : String(cell)).replace(/^[=+\-@\t\r]/, "'$&").replaceAll('"', '""')}"`).join())].join('\r\n') + '\r\n'

/** Saves a text as a file. @param {string} name @param {string} text @param {string} type */
export function download(name, text, type) {
	const href = URL.createObjectURL(new Blob([text], { type }))
	h('a', { href, download: name }).click()
	setTimeout(() => URL.revokeObjectURL(href), 10000)
}

// The states of a view: loading, empty, error, offline, and content that looks again.

const pollInterval = 5000
const skeletonDelay = 150

/** Shows an error: its words, its places, and its request id to copy. @param {unknown} thrown @param {() => unknown} [again] */
export function errorBox(thrown, again) {
	const { isOffline, message, retryAfter, issues, requestId } = api.failureOf(thrown)
	return h('div.error', { role: 'alert' },
		h('p', h('strong', isOffline ? 'Offline: ' : 'Error: '), user(message), retryAfter && ` Try again in ${retryAfter} s.`),
		issues.length > 0 && h('ul', issues.map((issue) => h('li', code(issue.path || 'body'), ': ', user(issue.message)))),
		h('p.actions',
			requestId && h('span.muted', 'Request id ', h('code', requestId)),
			requestId && small('Copy request id', () => copy(requestId)),
			again && small('Try again', again)))
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
			fill(place, h('div.skeleton', h('span.unseen', 'Loading'), Array.from({ length: lines }, () => h('div'))))
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
		element: h('div.live-content', notice, content),
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

function focusHeading() {
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
	return h('nav.pages', { 'aria-label': 'Pages' },
		h('span.muted.number', total === 0 ? 'none' : isBeyond ? `beyond the last of ${total}` : `${offset + 1}–${last} of ${total}`),
		small('Previous', () => go(isBeyond ? lastPage(total, limit) : Math.max(0, offset - limit)), { disabled: offset === 0, 'data-key': 'previous' }),
		small('Next', () => go(offset + limit), { disabled: last >= total, 'data-key': 'next' }))
}

/**
 * pagedList is live content of a path with pages.
 * @type {MakePagedList}
 */
export function pagedList(context, limit, path, draw) {
	let offset = 0
	const list = live(context, path(0), (answer) => [
		draw(answer),
		answer.total > limit && pages(offset, limit, answer.total, (next) => {
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

// Dialogs. The browser keeps the focus inside, closes them with Escape, and gives the
// focus back.

const question = 'What you typed here is not saved. Close it and lose that?'

/**
 * Shows a dialog. Its name is that of the button that opened it. The signal
 * closes it. Whoever closes it, or leaves, is asked first if something was typed, unless that is
 * disposable. While a change is under way, it stays open.
 * @type {OpenDialog}
 */
export function openDialog(name, heading, body, options = {}) {
	const opener = document.activeElement
	const close = () => dialog.close()
	const content = [
		h('h2', heading),
		h('div.body', body),
		h('div.actions.end', button(options.actions ? 'Cancel' : 'Close', () => leave()), options.actions ?? []),
	]
	/** @type {HTMLDialogElement} */
	const dialog = h('dialog', { 'aria-label': name, class: options.style }, options.submit
		? form({}, options.submit, content)
		: content)
	const isDirty = () => options.submit !== undefined && !options.isDisposable && dialog.open && valuesOf(dialog) !== before
	const mayClose = options.mayClose ?? (() => dialog.querySelector('[aria-busy]') === null && (!isDirty() || confirm(question)))
	const leave = () => mayClose() && close()
	const dropGuard = setGuard(isDirty)
	// Browsers let no one keep a dialog open at a second Escape, unless its key press is handled.
	dialog.addEventListener('keydown', (event) => {
		if (event.key === 'Escape' && !event.isComposing) {
			event.preventDefault()
			leave()
		}
	})
	dialog.addEventListener('cancel', (event) => {
		event.preventDefault()
		leave()
	})
	dialog.addEventListener('close', () => {
		dropGuard()
		const told = dialog.querySelector('#status')
		told && document.body.append(told)
		dialog.remove()
		options.onClose?.()
		if (document.activeElement === document.body && !focusKey(document.body, opener?.getAttribute('data-key') ?? '')) {
			focusHeading()
		}
	})
	options.signal?.addEventListener('abort', close)
	document.body.append(dialog)
	dialog.showModal()
	const before = valuesOf(dialog)
	return { dialog, close }
}

/**
 * Shows a dialog that makes a change. It closes when the change is made. Otherwise it
 * shows the error, which explain may put into other words.
 * Its name is also that of the button, unless confirm is given.
 * @type {AskInDialog}
 */
export function ask(context, name, heading, body, run, options = {}) {
	const place = h('div')
	const confirm = submit(options.confirm ?? name, { class: options.isDanger ? 'danger' : 'primary' })
	const { close } = openDialog(name, heading, [...body, place], {
		style: options.isWide ? 'wide' : '', signal: context.signal, isDisposable: options.isDisposable, actions: [confirm], onClose: options.onClose,
		submit: async () => {
			if (!confirm.disabled && await attempt(place, confirm, run, options.explain)) {
				close()
			}
		},
	})
	return { close, confirm }
}

export const isDialogOpen = () => document.querySelector('dialog:modal') !== null

// A 412: another change came first. The page shows what has changed, and never overwrites it.

/**
 * Explains a 412. Its button Look again reads the object again. For other failures it
 * returns undefined.
 * The path is that of the object.
 * @type {ExplainConflict}
 */
export function conflict(failure, path, before, lookedAgain) {
	if (failure.status !== 412) {
		return undefined
	}
	const list = h('div', 'Looking at what was changed…')
	const place = h('div.error', { role: 'alert' }, h('p', h('strong', 'Error: '), 'Nothing was saved, because this was changed meanwhile.'), list)
	api.read(path).then((now) => fill(list, changesOf(before.data, now.data), h('p.actions', button('Look again', () => {
		const next = /** @type {HTMLElement | null | undefined} */ (place.closest('form')?.querySelector('[type=submit]'))
		place.remove()
		lookedAgain(now)
		next?.focus()
	}))), (thrown) => fill(list, errorBox(thrown)))
	return place
}

/** Lists what differs between two states of a preset or a workspace. @param {any} before @param {any} now */
export function changesOf(before, now) {
	/** @type {Child[][]} */
	const items = []
	/** @param {Child} name @param {Child} from @param {Child} to */
	const add = (name, from, to) => items.push([name, ' was ', from, ', and is ', to, ' now.'])
	for (const name of Object.keys(now)) {
		if (name === 'designated_version') {
			const [from, to] = [before[name].version, now[name].version]
			from !== to && add('Live', `v${from}`, h('span', `v${to}, by `, user(now.updated_by)))
		} else if (name === 'labels') {
			for (const label of Object.keys({ ...before.labels, ...now.labels })) {
				const [from, to] = [before, now].map((one) => targetText(one.labels[label]))
				from !== to && add(h('span', 'The label ', user(label)), from, to)
			}
		} else if (!/_at$|_by$|_id$|_number$/.test(name) && JSON.stringify(before[name]) !== JSON.stringify(now[name])) {
			add(code(name), user(JSON.stringify(before[name])), user(JSON.stringify(now[name])))
		}
	}
	return h('ul', (items.length > 0 ? items : [['A version was added, or something was changed and changed back.']]).map((item) => h('li', item)))
}

/** Says that a change without a dialog was not made. @param {unknown} thrown */
export function failed(thrown) {
	const { status, message, requestId } = api.failureOf(thrown)
	say(status === 412 ? 'Nothing was saved, because this was changed meanwhile.' : `Error: ${message}${requestId && ` (request id ${requestId})`}`)
}
