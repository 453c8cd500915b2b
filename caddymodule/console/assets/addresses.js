// Each view has an address below the console's path.

const root = document.documentElement.dataset
/** base is the console's path, and api that of the API. Neither ends with a slash. */
export const base = (root.console ?? '/console').replace(/\/+$/, '')
export const api = (root.api ?? '/v1').replace(/\/+$/, '')

/**
 * @typedef {'presets' | 'workspaces' | 'workspace-history' | 'versions' | 'compare' | 'labels' | 'try' | 'use' | 'history' | 'new' | 'unknown'} ViewName
 * @typedef {{ view: ViewName, workspace: string, slug: string, version: number, from: number, to: number, query: URLSearchParams }} Address
 */

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
	switch (true) {
		case parts.length === 4:
			return { ...address, view: 'versions' }
		case name === 'versions' && /^\d+$/.test(argument):
			return { ...address, view: 'versions', version: Number(argument) }
		case name === 'compare' && versions !== null:
			return { ...address, view: 'compare', from: Number(versions?.[1]), to: Number(versions?.[2]) }
		case parts.length === 5 && ['labels', 'try', 'use', 'history', 'new'].includes(name):
			return { ...address, view: /** @type {ViewName} */ (name) }
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

/** @param {Record<string, string | number | undefined>} query */
export function search(query) {
	const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== '')
	return given.length === 0 ? '' : '?' + new URLSearchParams(given.map(([name, value]) => [name, String(value)]))
}

const part = encodeURIComponent

/**
 * @param {string} workspace
 * @param {Record<string, string | number | undefined>} [query]
 */
export function toPresets(workspace, query = {}) {
	return `${base}/w/${part(workspace)}${search(query)}`
}

/**
 * @param {string} workspace
 * @param {string} slug
 * @param {'' | 'labels' | 'try' | 'use' | 'history' | 'new'} [view]
 * @param {Record<string, string | number | undefined>} [query]
 */
export function toPreset(workspace, slug, view = '', query = {}) {
	return `${base}/w/${part(workspace)}/p/${part(slug)}${view && '/' + view}${search(query)}`
}

/**
 * @param {string} workspace
 * @param {string} slug
 * @param {number} version
 */
export function toVersion(workspace, slug, version) {
	return `${toPreset(workspace, slug)}/versions/${version}`
}

/**
 * @param {string} workspace
 * @param {string} slug
 * @param {number} from
 * @param {number} to
 */
export function toComparison(workspace, slug, from, to) {
	return `${toPreset(workspace, slug)}/compare/${from}..${to}`
}

export const toWorkspaces = `${base}/workspaces`

/** @param {string} workspace */
export function toWorkspaceHistory(workspace) {
	return `${toPresets(workspace)}/history`
}

/**
 * presetPath is the path of a preset in the API, or of something below it.
 *
 * @param {{ workspace: string, slug: string }} preset
 * @param {string} [below]
 * @param {Record<string, string | number | undefined>} [query]
 */
export function presetPath(preset, below = '', query = {}) {
	return `/presets/${part(preset.slug)}${below && '/' + below}${search({ ...query, workspace_id: preset.workspace })}`
}
