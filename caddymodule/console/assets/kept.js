// What someone typed to try, for each preset. It lives in this tab, until Lock is pressed.

const prefix = 'presets.try.'

/** @param {string} id of a preset @returns {Partial<Trial>} */
export const kept = (id) => JSON.parse(sessionStorage.getItem(prefix + id) ?? '{}')

/**
 * Keeps what was typed, or nothing. It returns whether there was room.
 * @param {string} id of a preset @param {Trial | undefined} trial
 */
export function keep(id, trial) {
	try {
		trial ? sessionStorage.setItem(prefix + id, JSON.stringify(trial)) : sessionStorage.removeItem(prefix + id)
		return true
	} catch {
		return false
	}
}

/** Forgets everything, after asking. It returns whether it did. */
export function forgetAll() {
	const names = Object.keys(sessionStorage).filter((name) => name.startsWith(prefix))
	const mayForget = names.length === 0 || confirm('Lock also forgets what you typed to try. Lock?')
	if (mayForget) {
		names.forEach((name) => sessionStorage.removeItem(name))
	}
	return mayForget
}
