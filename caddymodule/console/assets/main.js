// The console begins here: the bar at the top, the view of the address, and the keyboard.

import { dropEdits, go, hasEdits, hasKeys, mayLeave, navigations, parse, search, setGuard, toBudgets, toKeys, toPreset, toPresets, toState, toWorkspaceHistory, toWorkspaces, toWorkspaceUsage, watchNavigation } from './addresses.js'
import { button, choice, endMenus, field, fill, form, h, setWrong, submit, suggest, textInput, updateTimes } from './elements.js'
import * as api from './api.js'
import * as session from './session.js'
import { focusKey, isDialogOpen, openDialog, say, snippet } from './states.js'

// The view that asks for a key, and the same as a dialog over a view with edits.

const command = 'caddy presets key create --kind management'

/** @param {string} reason @param {() => void} done */
function keyForm(reason, done) {
	const key = textInput({ class: 'secret', autofocus: true })
	const unlock = submit('Unlock')
	const run = async () => {
		const text = key.value.trim()
		if (!/^[!-~]+$/.test(text)) {
			setWrong(key, 'Enter a key. It has only ASCII characters, and no spaces.')
			key.focus()
			return
		}
		setWrong(key)
		unlock.disabled = true
		unlock.setAttribute('aria-busy', 'true')
		try {
			const { kind, home, rights } = await api.identify(text)
			session.unlock(text, kind, home, rights)
			key.value = ''
			done()
		} catch (thrown) {
			const failure = api.failureOf(thrown)
			const wait = failure.retryAfter ? ` Try again in ${failure.retryAfter} s.` : ''
			setWrong(key, failure.message + wait + (failure.requestId && ` (request id ${failure.requestId})`))
			key.focus()
			key.select()
		} finally {
			unlock.disabled = false
			unlock.removeAttribute('aria-busy')
		}
	}
	return form({ class: 'unlock' }, run, reason && h('p.note', reason), field('API key', key), unlock)
}

function keyHelp() {
	return h('div.help',
		h('h2', 'What a key may do'),
		h('p', 'A management key sees and changes the presets of every workspace. An inference key sees, compares and tries those of its own, and changes nothing.'),
		h('h2', 'Where to get one'),
		h('p', 'On the server, this command prints a new key once:'),
		snippet(command, 'the command'),
		h('p.muted', 'The key stays in this tab. It is forgotten with Lock, after 30 minutes without use, and when the tab closes.'))
}

/** Fills the page while there is no key. @param {string} reason @param {() => void} done */
function unlockView(reason, done) {
	return h('div.narrow', h('h1', 'Unlock the console'), keyForm(reason, done), keyHelp())
}

/** Asks for a key over a view with edits, which stays as it is. @param {string} reason @param {() => void} done @param {() => void} leave */
function askAgain(reason, done, leave) {
	let isOver = false
	const content = keyForm(reason, () => {
		isOver = true
		close()
		done()
	})
	const { dialog, close } = openDialog('Unlock', 'Unlock the console', [content, h('p.muted', 'What you typed stays in this tab until then.')], {
		style: 'opaque', mayClose: () => false, // Escape must not lose the edits
		onClose: () => isOver || askAgain(reason, done, leave),
	})
	dialog.querySelector('.actions.end')?.replaceChildren(button('Discard it', () => {
		isOver = true
		close()
		leave()
	}))
}

// Ctrl+K: goes to presets and views, and does what the view offers, by name.

/** @param {At} at the workspace and the preset that are shown, the latter empty if none is */
function openPalette({ workspace, slug }) {
	const to = (/** @type {string} */ text, /** @type {string} */ address, about = 'view') => ({ text, about, run: () => go(address) })
	const mayChange = session.mayChange(), at = { workspace, slug }
	// The buttons of the view do what they say.
	const buttons = [...document.querySelectorAll('main .heading button')].filter((one) => !one.matches(':disabled')).map((one) => ({ text: one.textContent ?? '', about: 'action', run: () => /** @type {HTMLElement} */ (one).click() }))
	const fixed = [
		...(slug ? [['Versions', ''], ['Workbench', 'edit'], ['Labels', 'labels'], ['Use it', 'use'], ['Usage', 'usage'], ['History', 'history']].map(([text, view]) => to(`${slug}: ${text}`, toPreset(at, /** @type {'edit'} */ (view)))) : []),
		...buttons, to('Presets', toPresets(workspace)), ...(hasKeys ? [to('Keys', toKeys(workspace))] : []),
		...(mayChange ? [to('Budgets', toBudgets(workspace)), to('Usage of the workspace', toWorkspaceUsage(workspace)), to('History of the workspace', toWorkspaceHistory(workspace))] : []),
		to('Workspaces', toWorkspaces), ...(session.mayCreateWorkspaces() ? [to('State of the server', toState)] : []),
	]
	const input = textInput({ type: 'search', placeholder: 'Go to a preset or a view, or do something', 'aria-label': 'Go to', autofocus: true })
	const { list, open } = suggest(input, 'Places and actions', async (text) => {
		const words = text.toLowerCase().split(/\s+/)
		const known = fixed.filter((one) => words.every((word) => one.text.toLowerCase().includes(word)))
		/** @type {Preset[]} */
		const presets = text.trim() === '' ? [] : await api.read('/presets' + search({ q: text.trim(), limit: 8, workspace_id: workspace })).then(({ data }) => data, () => [])
		return [...presets.map((preset) => to(preset.name === preset.slug ? preset.slug : `${preset.name} (${preset.slug})`, toPreset({ workspace: workspace || preset.workspace_id, slug: preset.slug }), 'preset')), ...known].slice(0, 12)
	}, (chosen) => {
		close()
		chosen.run?.()
	})
	const { close } = openDialog('Go to', 'Go to', [h('div.palette', input, list)], { style: 'top' })
	input.addEventListener('input', () => open(input.value, 0))
	open('', 0)
}

// The page.

// The modules of the views are loaded when they are needed, or are about to be.
/** @type {Record<ViewName, () => Promise<MakeView>>} */
const views = {
	presets: () => import('./presets.js').then((module) => module.presetsView),
	versions: () => import('./versions.js').then((module) => module.versionsView),
	edit: () => import('./edit.js').then((module) => module.editView),
	compare: () => import('./versions.js').then((module) => module.compareView),
	labels: () => import('./labels.js').then((module) => module.labelsView),
	use: () => import('./use.js').then((module) => module.useView),
	usage: () => import('./usage.js').then((module) => module.usageView),
	history: () => import('./history.js').then((module) => module.historyView),
	workspaces: () => import('./workspaces.js').then((module) => module.workspacesView),
	state: () => import('./state.js').then((module) => module.stateView),
	'workspace-usage': () => import('./usage.js').then((module) => module.workspaceUsageView),
	'workspace-history': () => import('./history.js').then((module) => module.workspaceHistoryView),
	'workspace-keys': () => import('./keys.js').then((module) => module.keysView),
	'workspace-budgets': () => import('./keys.js').then((module) => module.budgetsView),
	unknown: async () => unknownView,
}
/** @type {Map<ViewName, MakeView>} */
const loaded = new Map()

/** Loads a view, then shows it if it is still wanted. @param {ViewName} name */
async function loadView(name) {
	try {
		loaded.set(name, await views[name]())
	} catch {
		fill(main, h('div.error', { role: 'alert' }, h('p', h('strong', 'Error: '), 'A part of the page could not be loaded. The server may have a new version of it.'),
			h('p.actions', button('Reload the page', () => location.reload()))))
		return
	}
	if (session.isUnlocked() && place().view === name) {
		show()
	}
}

/** Loads the view of a link that someone points at, so that a click does not wait. @param {Event} event */
function loadSoon({ target }) {
	const link = target instanceof Element ? target.closest('a') : null
	if (link && link.origin === location.origin && session.isUnlocked()) {
		const { view } = parse(link)
		loaded.has(view) || views[view]().then((made) => loaded.set(view, made), () => {})
	}
}

const top = /** @type {HTMLElement} */ (document.getElementById('top'))
const main = /** @type {HTMLElement} */ (document.getElementById('main'))
let leaving = new AbortController()
let shownPlace = ''

/** @returns {View} */
function unknownView() {
	return { title: 'Not found', element: h('div', h('h1', 'Not found'), h('p', 'The console has no such address.'), h('p.actions', h('a', { href: toPresets(session.home()) }, 'All presets'), session.mayChange() && h('a', { href: toWorkspaces }, 'All workspaces'))) }
}

/** Reads the address. Without a workspace it means that of the key. */
function place() {
	const address = parse(location)
	return { ...address, workspace: address.workspace || session.home() }
}

function show() {
	const makeView = loaded.get(place().view)
	if (session.isUnlocked() && !makeView) {
		loadView(place().view)
		return
	}
	leaving.abort()
	leaving = new AbortController()
	const key = document.activeElement?.getAttribute('data-key')
	const address = place()
	dropEdits()
	endMenus()
	isTyped = false
	document.querySelectorAll('dialog').forEach((dialog) => dialog.close())
	if (!session.isUnlocked() || !makeView) {
		fill(top, brand())
		document.title = 'Unlock · caddy-presets'
		fill(main, unlockView(lockReason, unlocked))
		main.querySelector('input')?.focus()
		return
	}
	const { workspace, slug } = address
	/** @type {Context} */
	const context = { address, workspace, at: { workspace, slug }, signal: leaving.signal, setGuard }
	const view = makeView(context)
	document.title = `${view.title} · caddy-presets`
	drawTop()
	fill(main, view.element)
	document.body.dataset.view = address.view
	// The same preset keeps its place. Another view begins at the top.
	const next = `${workspace} ${slug} ${address.view}`
	const isSame = next === shownPlace
	isSame || scrollTo(0, 0)
	if (!(key && ((isSame && focusKey(main, key)) || focusKey(top, key))) && shownPlace !== '') {
		main.focus({ preventScroll: true })
	}
	shownPlace = next
}

function brand() {
	return h('a.brand', { href: toPresets(session.home()) }, 'caddy-presets')
}

/** Draws the bar. The workspaces come later, because they are asked for. */
function drawTop() {
	const { view, workspace } = place()
	/** @param {string} text @param {string} href @param {ViewName} name */
	const link = (text, href, name) => h('a', { href, 'aria-current': view === name && 'page', 'data-key': `to-${name}` }, text)
	const isId = /^[\da-f]{8}-[\da-f-]{27}$/.test(workspace) // which only an inference key sees
	const select = choice([{ value: workspace, text: !workspace || isId ? 'your workspace' : workspace }], workspace, {
		id: 'workspace', 'data-key': 'workspace', disabled: !session.mayChange(),
		onchange: () => {
			go(toPresets(select.value))
			select.value = workspace // until it is left
		},
	})
	fill(top,
		view === 'edit' && h('a.skip', { href: '#main', onclick: (/** @type {Event} */ event) => {
			event.preventDefault()
			focusKey(main, 'prompt')
		} }, 'Skip to the prompt'),
		brand(),
		h('span', h('label.unseen', { for: 'workspace' }, 'Workspace'), select),
		h('nav', { 'aria-label': 'Main' },
			link('Presets', toPresets(workspace), 'presets'),
			hasKeys && (session.mayIssueKeys() || !session.mayChange()) && link(session.mayChange() ? 'Keys' : 'Key', toKeys(workspace), 'workspace-keys'),
			session.mayChange() && link('Budgets', toBudgets(workspace), 'workspace-budgets'),
			session.mayChange() && link('Usage', toWorkspaceUsage(workspace), 'workspace-usage'),
			link('Workspaces', toWorkspaces, 'workspaces'),
			session.mayCreateWorkspaces() && link('State', toState, 'state')),
		h('span.gap'),
		h('span.kind', session.mayChange() ? 'management' : 'read only'),
		button('Go to', palette, { class: 'small go-to', title: 'Ctrl+K', 'data-key': 'go-to' }),
		button('?', help, { class: 'quiet small', 'aria-label': 'Keyboard shortcuts', 'data-key': 'help' }),
		button('Lock', () => {
			if (mayLeave() && session.forgetAll()) {
				lockReason = ''
				session.lockAll()
			}
		}, { 'data-key': 'lock' }))
	if (session.mayChange()) {
		void fillWorkspaces(select, workspace)
	}
}

/** @param {HTMLSelectElement} select @param {string} workspace */
async function fillWorkspaces(select, workspace) {
	/** @type {Workspace[]} */
	const all = []
	try {
		for (let reads = 0, total = 1; all.length < total && reads < 20; reads++) {
			const answer = await api.read('/workspaces' + search({ offset: Math.max(0, all.length - 1), limit: 100 }))
			const last = all.pop()
			if (last && last.id !== answer.data[0]?.id) {
				all.length = 0 // some were deleted meanwhile, and others may be missed
			} else {
				all.push(...answer.data)
			}
			total = answer.total
		}
	} catch {
		return // the view itself shows what is wrong
	}
	const shown = all.find((one) => [one.id, one.slug].includes(workspace))?.slug
	fill(select, !shown && h('option', workspace), all.map(({ slug }) => h('option', { value: slug }, slug)))
	select.value = shown ?? workspace
}

let lockReason = '', isTyped = false

function unlocked() {
	lockReason = ''
	document.body.focus() // the next Tab begins at the top
	show()
}

session.locks.addEventListener('unlock', unlocked)

session.locks.addEventListener('lock', (event) => {
	lockReason = String(/** @type {CustomEvent} */ (event).detail)
	if (!lockReason || !(isTyped || hasEdits() || isDialogOpen())) {
		shownPlace = ''
		show()
		return
	}
	main.querySelectorAll('input.secret').forEach((input) => (/** @type {HTMLInputElement} */ (input).value = ''))
	askAgain(lockReason, () => {
		lockReason = ''
		drawTop()
		say('Unlocked. What you typed is still here.')
		dispatchEvent(new Event('unlock'))
	}, () => {
		dropEdits()
		show()
	})
})

const palette = () => openPalette(place())

function help() {
	const keys = [
		['Ctrl+K', 'Go to a preset or a view, or do something'], ['/', 'Search presets'], ['j and k', 'Next and previous in a list'], ['n', 'Workbench, or a new key'], ['c', 'Compare'],
		['Ctrl+Enter', 'Run in the workbench'], ['Ctrl+S', 'Save a draft'], ['Ctrl+F', 'Find in the prompt'], ['?', 'These shortcuts'], ['Escape', 'Close what is on top'],
	]
	openDialog('Keyboard shortcuts', 'Keyboard shortcuts', [h('dl.facts', keys.map(([key, text]) => [h('dt', h('kbd', key)), h('dd', text)]).flat())])
}

addEventListener('keydown', (event) => {
	const target = event.target instanceof HTMLElement ? event.target : document.body
	const isTyping = target.matches('input, textarea, select') || target.isContentEditable
	if ((event.ctrlKey || event.metaKey) && event.key === 'k' && session.isUnlocked() && !isDialogOpen()) {
		event.preventDefault()
		palette()
		return
	}
	if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || !session.isUnlocked() || isDialogOpen()) {
		return
	}
	if (isTyping) {
		if (event.key === 'Escape') {
			target.blur()
		}
		return
	}
	switch (event.key) {
		case '/':
			if (!document.getElementById('search')) {
				go(toPresets(place().workspace))
			}
			document.getElementById('search')?.focus()
			break
		case 'j':
		case 'k': {
			const rows = [.../** @type {NodeListOf<HTMLElement>} */ (main.querySelectorAll('[data-row]'))]
			const at = rows.indexOf(/** @type {HTMLElement} */ (document.activeElement))
			rows[event.key === 'j' ? Math.min(at + 1, rows.length - 1) : Math.max(at - 1, 0)]?.focus()
			break
		}
		case 'n':
		case 'c':
			/** @type {HTMLElement | null} */ (main.querySelector(`[data-shortcut="${event.key}"]:not([disabled])`))?.click()
			break
		case '?':
			help()
			break
		default:
			return
	}
	event.preventDefault()
})

watchNavigation()
addEventListener('pointerover', loadSoon)
addEventListener('focusin', loadSoon)
session.watchIdle()
navigations.addEventListener('navigate', show)
addEventListener('workspaces', drawTop)
addEventListener('input', () => (isTyped = true))
setInterval(updateTimes, 20000)
session.resume()
show()
session.askTabs()
