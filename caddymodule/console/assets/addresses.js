// Each view has an address below the console's path, and here is how to go from one to another.

// Each view has an address below the console's path.

const root = document.documentElement.dataset
/** base is the console's path, and api that of the API. Neither ends with a slash. */
const base = (root.console ?? '/console').replace(/\/+$/, '')
export const api = (root.api ?? '/v1').replace(/\/+$/, '')
/** hasKeys is whether the API has keys. If not, their paths are the gateway's. */
export const hasKeys = root.keys === 'true'
/** @type {Record<string, string>} */
const settings = JSON.parse(root.settings ?? '{}')
/** The settings that the API knows. @param {string} route that makes a version */
export const settingsOf = (route) => (settings[route] ?? '').split(' ')

const form = new RegExp('^(?:/(workspaces|state)|/w/([^/]+)(?:/(history|usage|keys|budgets)|/p/([^/]+)(?:/(labels|edit|try|new|use|usage|history)|/versions/([1-9]\\d*)|/(compare)/([1-9]\\d*)\\.\\.([1-9]\\d*))?)?)?/?$')

/**
 * Reads an address. The workspace is empty if the address names none.
 * @param {{ pathname: string, search: string }} location @returns {Address}
 */
export function parse(location) {
	const found = form.exec(location.pathname.slice(base.length))
	const [, workspaces, workspace = '', of, slug = '', view, version, compare, from, to] = found ?? []
	const name = !found ? 'unknown' : workspaces ?? (of ? `workspace-${of}` : undefined) ?? (view === 'new' || view === 'try' ? 'edit' : view) ?? compare ?? (slug ? 'versions' : 'presets')
	return {
		view: /** @type {ViewName} */ (name), workspace: decodeURIComponent(workspace), slug: decodeURIComponent(slug),
		version: Number(version ?? 0), from: Number(from ?? 0), to: Number(to ?? 0), query: new URLSearchParams(location.search),
	}
}

/** @param {Query} query */
export function search(query) {
	const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== '')
	return given.length === 0 ? '' : '?' + new URLSearchParams(given.map(([name, value]) => [name, String(value)]))
}

const part = encodeURIComponent

/** The workspace is empty if it is that of the key, and unknown. @param {string} workspace @param {Query} [query] */
export function toPresets(workspace, query = {}) {
	return `${base}${workspace && '/w/' + part(workspace)}${search(query)}`
}

/** @param {At} at @param {'' | 'labels' | 'edit' | 'use' | 'usage' | 'history'} [view] @param {Query} [query] */
export function toPreset(at, view = '', query = {}) {
	return `${toPresets(at.workspace)}/p/${part(at.slug)}${view && '/' + view}${search(query)}`
}

/** @param {At} at @param {number} version */
export const toVersion = (at, version) => `${toPreset(at)}/versions/${version}`

/** @param {At} at @param {number} from @param {number} to */
export const toComparison = (at, from, to) => `${toPreset(at)}/compare/${from}..${to}`

/** Compares a version with the live one, or the live one with the one before. @param {At} at @param {number} live @param {number} n */
export const toDefaultComparison = (at, live, n) => toComparison(at, n === live ? Math.max(1, n - 1) : live, n)

export const toWorkspaces = `${base}/workspaces`
export const toState = `${base}/state`

/** @param {string} workspace */
export const toWorkspaceHistory = (workspace) => `${toPresets(workspace)}/history`

/** @param {string} workspace @param {Query} [query] */
export const toWorkspaceUsage = (workspace, query = {}) => `${toPresets(workspace)}/usage${search(query)}`

/** @param {string} workspace */
export const toKeys = (workspace) => `${toPresets(workspace)}/keys`

/** @param {string} workspace */
export const toBudgets = (workspace) => `${toPresets(workspace)}/budgets`

/** workspacePath is the path of a workspace in the API, or of something below it. @param {string} workspace @param {string} [below] */
export const workspacePath = (workspace, below = '') => `/workspaces/${part(workspace)}${below && '/' + below}`

/** presetPath is the path of a preset in the API, or of something below it. @param {At} at @param {string} [below] @param {Query} [query] */
export function presetPath(at, below = '', query = {}) {
	return `/presets/${part(at.slug)}${below && '/' + below}${search({ ...query, workspace_id: at.workspace })}`
}

/** presetOf returns the preset of a path of presetPath. Its slug is empty for other paths. @param {string} path @returns {At} */
export function presetOf(path) {
	const { pathname, searchParams } = new URL(path, location.origin)
	return { workspace: searchParams.get('workspace_id') ?? '', slug: decodeURIComponent(/^\/presets\/([^/]+)/.exec(pathname)?.[1] ?? '') }
}

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
