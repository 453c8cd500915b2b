// The session is the API key and what it may do. It lives in this tab, until it is locked.

const stored = 'presets.session'
const storedTime = 'presets.active'
const idleLimit = 30 * 60 * 1000

const session = { key: '', kind: 'inference', home: 'default', inferenceKey: '' }

/** locks are told why the session ended. */
export const locks = new EventTarget()

/** Goes on with the session that this tab has kept, unless it was idle for too long. */
export function resume() {
	if (Date.now() - Number(sessionStorage.getItem(storedTime)) > idleLimit) {
		forget()
	}
	Object.assign(session, JSON.parse(sessionStorage.getItem(stored) ?? '{}'))
	touch()
}

/**
 * Begins a session. home is the workspace that an address without one means.
 * @param {string} key @param {string} kind @param {string} home
 */
export function unlock(key, kind, home) {
	Object.assign(session, { key, kind, home })
	sessionStorage.setItem(stored, JSON.stringify({ key, kind, home }))
	touch()
}

function forget() {
	session.key = session.inferenceKey = ''
	sessionStorage.removeItem(stored)
	sessionStorage.removeItem(storedTime)
}

/** Ends the session. The page shows the reason beside the field for the key. @param {string} reason */
export function lock(reason) {
	if (session.key !== '') {
		forget()
		locks.dispatchEvent(new CustomEvent('lock', { detail: reason }))
	}
}

export const isUnlocked = () => session.key !== ''
export const secret = () => session.key
export const kind = () => session.kind
export const home = () => session.home
export const mayChange = () => session.kind === 'management'

/** readOnlyReason is why a key may not change anything. It is empty if it may. */
export const readOnlyReason = () => (mayChange() ? '' : 'This is an inference key. It sees and compares, but only a management key can change presets.')

/** inferenceKey is the key for requests to the gateway. */
export const inferenceKey = () => (session.kind === 'inference' ? session.key : session.inferenceKey)
/** @param {string} key */
export function setInferenceKey(key) {
	session.inferenceKey = key
}

let touched = 0

/** Notes that someone uses the page. */
function touch() {
	touched = Date.now()
	sessionStorage.setItem(storedTime, String(touched))
}

function lockIfIdle() {
	if (session.key !== '' && Date.now() - touched > idleLimit) {
		lock('The console was locked after 30 minutes without use.')
	}
}

/** Locks the session after 30 minutes without a key press or a click. */
export function watchIdle() {
	for (const event of ['keydown', 'pointerdown', 'wheel', 'touchstart']) {
		addEventListener(event, () => {
			lockIfIdle()
			if (Date.now() - touched > 5000) {
				touch()
			}
		}, { capture: true, passive: true })
	}
	document.addEventListener('visibilitychange', lockIfIdle)
	setInterval(lockIfIdle, 10000)
}
