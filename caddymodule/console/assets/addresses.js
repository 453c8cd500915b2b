// Each view has an address below the console's path.

const root = document.documentElement.dataset
/** base is the console's path, and api that of the API. Neither ends with a slash. */
export const base = (root.console ?? '/console').replace(/\/+$/, '')
export const api = (root.api ?? '/v1').replace(/\/+$/, '')

/**
 * parse reads an address. The workspace is empty if the address names none.
 *
 * @param {{ pathname: string, search: string }} location
 * @returns {Address}
 */
export function parse(location) {
	/** @type {Address} */
	const address = { view: 'unknown', workspace: '', slug: '', version: 0, from: 0, to: 0, query: new URLSearchParams(location.search) }
	const parts = location.pathname.slice(base.length).split('/').filter((part) => part !== '').map(decode)
	if (parts.length === 0) {
		return { ...address, view: 'presets' }
	}
	if (parts[0] === 'workspaces' && parts.length === 1) {
		return { ...address, view: 'workspaces' }
	}
	if (parts[0] !== 'w' || !parts[1]) {
		return address
	}
	address.workspace = parts[1]
	if (parts.length === 2) {
		return { ...address, view: 'presets' }
	}
	if (parts[2] === 'history' && parts.length === 3) {
		return { ...address, view: 'workspace-history' }
	}
	if (parts[2] !== 'p' || !parts[3]) {
		return address
	}
	address.slug = parts[3]
	const [name = '', argument = ''] = parts.slice(4)
	const versions = /^(\d+)\.\.(\d+)$/.exec(argument)
	if (parts.length === 4) {
		address.view = 'versions'
	} else if (name === 'versions' && /^\d+$/.test(argument)) {
		return { ...address, view: 'versions', version: Number(argument) }
	} else if (name === 'compare' && versions) {
		return { ...address, view: 'compare', from: Number(versions[1]), to: Number(versions[2]) }
	} else if (parts.length === 5 && ['labels', 'try', 'use', 'history', 'new'].includes(name)) {
		address.view = /** @type {ViewName} */ (name)
	}
	return address
}

/** @param {string} part */
function decode(part) {
	try {
		return decodeURIComponent(part)
	} catch {
		return part
	}
}

/** @param {Query} query */
export function search(query) {
	const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== '')
	return given.length === 0 ? '' : '?' + new URLSearchParams(given.map(([name, value]) => [name, String(value)]))
}

const part = encodeURIComponent

/**
 * @param {string} workspace
 * @param {Query} [query]
 */
export function toPresets(workspace, query = {}) {
	return `${base}/w/${part(workspace)}${search(query)}`
}

/**
 * @param {At} at
 * @param {'' | 'labels' | 'try' | 'use' | 'history' | 'new'} [view]
 * @param {Query} [query]
 */
export function toPreset(at, view = '', query = {}) {
	return `${toPresets(at.workspace)}/p/${part(at.slug)}${view && '/' + view}${search(query)}`
}

/** @param {At} at @param {number} version */
export const toVersion = (at, version) => `${toPreset(at)}/versions/${version}`

/** @param {At} at @param {number} from @param {number} to */
export const toComparison = (at, from, to) => `${toPreset(at)}/compare/${from}..${to}`

export const toWorkspaces = `${base}/workspaces`

/** @param {string} workspace */
export const toWorkspaceHistory = (workspace) => `${toPresets(workspace)}/history`

/**
 * presetPath is the path of a preset in the API, or of something below it.
 *
 * @param {At} at
 * @param {string} [below]
 * @param {Query} [query]
 */
export function presetPath(at, below = '', query = {}) {
	return `/presets/${part(at.slug)}${below && '/' + below}${search({ ...query, workspace_id: at.workspace })}`
}
