// The session is the API key and what it may do. It lives in this tab, until it is locked.

const stored = 'presets.session'
const storedTime = 'presets.active'
const idleLimit = 30 * 60 * 1000

const session = { key: '', kind: 'inference', home: 'default', rights: '', inferenceKey: '' }

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
 * Begins a session. home is the workspace that an address without one means. rights are those that
 * not every management key has.
 * @param {string} key @param {string} kind @param {string} home @param {string} rights
 */
export function unlock(key, kind, home, rights) {
	Object.assign(session, { key, kind, home, rights })
	store()
	touch()
}

const store = () => sessionStorage.setItem(stored, JSON.stringify(session))

function forget() {
	session.key = session.inferenceKey = ''
	overridden.clear()
	sessionStorage.removeItem(stored)
	sessionStorage.removeItem(storedTime)
}

// Where nothing else can run at this origin, tabs give each other the key, which is stored nowhere for that.
const tabs = document.documentElement.dataset.tabs === 'true' ? new BroadcastChannel('presets.session') : undefined
let isAsking = false
tabs?.addEventListener('message', ({ data }) => {
	if (data.ask && session.key !== '') {
		tabs.postMessage({ session })
	} else if (data.session && isAsking && session.key === '') {
		isAsking = false
		Object.assign(session, data.session)
		store()
		touch()
		locks.dispatchEvent(new Event('unlock'))
	} else if (data.lock) {
		lock('Another tab locked the console.')
	}
})

/** Asks other tabs for the session, for a moment. */
export function askTabs() {
	if (tabs && session.key === '') {
		isAsking = true
		tabs.postMessage({ ask: true })
		setTimeout(() => (isAsking = false), 2000)
	}
}

/** Ends the session in all tabs. */
export function lockAll() {
	tabs?.postMessage({ lock: true })
	lock('')
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
export const home = () => session.home
export const mayChange = () => session.kind === 'management'
const has = (/** @type {string} */ right) => session.rights.split(', ').includes(right)
export const mayChangeProtected = () => mayChange() && has('protected-labels')
export const mayCreateWorkspaces = () => mayChange() && has('workspaces')
export const mayIssueKeys = () => mayChange() && has('issue-keys')
/** A key of one workspace acts within its budgets, so it cannot change them. */
export const mayChangeBudgets = () => mayCreateWorkspaces()

/** readOnlyReason is why a key may not change anything. It is empty if it may. */
export const readOnlyReason = () => (mayChange() ? '' : 'This is an inference key. It sees and compares, but only a management key can change presets.')

// The owners of presets that someone changes nevertheless, by workspace and slug.
/** @type {Map<string, string>} */
const overridden = new Map()

/** Has changes of a preset override its owner, or no longer if the owner is empty. @param {At} at @param {string} owner */
export const override = ({ workspace, slug }, owner) => overridden.set(`${workspace}/${slug}`, owner)

/** The owner that changes of a preset override, or empty. @param {At} at */
export const overriddenOwner = ({ workspace, slug }) => overridden.get(`${workspace}/${slug}`) ?? ''

/** inferenceKey is the key for requests to the gateway. */
export const inferenceKey = () => (session.kind === 'inference' ? session.key : session.inferenceKey)
/** @param {string} key */
export function setInferenceKey(key) {
	session.inferenceKey = key
	store()
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

// What someone typed to try a version, for each preset. It lives in this tab, until Lock is pressed.

const storedTrial = 'presets.try.'

/** @param {string} id of a preset @returns {Partial<Trial>} */
export const kept = (id) => JSON.parse(sessionStorage.getItem(storedTrial + id) ?? '{}')

/**
 * Keeps what was typed, or nothing. It returns whether there was room.
 * @param {string} id of a preset @param {Trial | undefined} trial
 */
export function keep(id, trial) {
	try {
		trial ? sessionStorage.setItem(storedTrial + id, JSON.stringify(trial)) : sessionStorage.removeItem(storedTrial + id)
		return true
	} catch {
		return false
	}
}

/** Forgets everything, after asking. It returns whether it did. */
export function forgetAll() {
	const names = Object.keys(sessionStorage).filter((name) => name.startsWith(storedTrial))
	const mayForget = names.length === 0 || confirm('Lock also forgets what you typed to try. Lock?')
	if (mayForget) {
		names.forEach((name) => sessionStorage.removeItem(name))
	}
	return mayForget
}
