// The console begins here: the bar at the top, the view of the address, and the keyboard.

import { hasKeys, parse, search, toBudgets, toKeys, toPresets, toWorkspaces } from './addresses.js'
import { button, choice, endMenus, fill, h, updateTimes } from './elements.js'
import * as api from './api.js'
import * as session from './session.js'
import { budgetsView } from './budgets.js'
import { compareView } from './compare.js'
import { isDialogOpen, openDialog } from './dialogs.js'
import { editView } from './edit.js'
import { historyView, workspaceHistoryView } from './history.js'
import { forgetAll } from './kept.js'
import { keysView } from './keys.js'
import { labelsView } from './labels.js'
import { dropEdits, go, hasEdits, mayLeave, navigations, setGuard, watchNavigation } from './navigation.js'
import { presetsView } from './presets.js'
import { focusKey } from './states.js'
import { say } from './status.js'
import { askAgain, unlockView } from './unlock.js'
import { usageView, workspaceUsageView } from './usage.js'
import { useView } from './use.js'
import { versionsView } from './versions.js'
import { workspacesView } from './workspaces.js'

/** @type {Record<ViewName, MakeView>} */
const views = {
	presets: presetsView, workspaces: workspacesView, 'workspace-history': workspaceHistoryView, versions: versionsView, compare: compareView,
	labels: labelsView, edit: editView, use: useView, usage: usageView, 'workspace-usage': workspaceUsageView, history: historyView, unknown: unknownView,
	'workspace-keys': keysView, 'workspace-budgets': budgetsView,
}

const top = /** @type {HTMLElement} */ (document.getElementById('top'))
const main = /** @type {HTMLElement} */ (document.getElementById('main'))
let leaving = new AbortController()
let shownPlace = ''

/** @returns {View} */
function unknownView() {
	return { title: 'Not found', element: h('div', null, h('h1', null, 'Not found'), h('p', null, 'The console has no such address.'), h('p', { class: 'actions' }, h('a', { href: toPresets(session.home()) }, 'All presets'), session.mayChange() && h('a', { href: toWorkspaces }, 'All workspaces'))) }
}

/** Reads the address. Without a workspace it means that of the key. */
function place() {
	const address = parse(location)
	return { ...address, workspace: address.workspace || session.home() }
}

function show() {
	leaving.abort()
	leaving = new AbortController()
	const key = document.activeElement?.getAttribute('data-key')
	const address = place()
	dropEdits()
	endMenus()
	isTyped = false
	document.querySelectorAll('dialog').forEach((dialog) => dialog.close())
	if (!session.isUnlocked()) {
		fill(top, brand())
		document.title = 'Unlock · caddy-presets'
		fill(main, unlockView(lockReason, unlocked))
		main.querySelector('input')?.focus()
		return
	}
	const { workspace, slug } = address
	/** @type {Context} */
	const context = { address, workspace, at: { workspace, slug }, signal: leaving.signal, setGuard }
	const view = views[address.view](context)
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
	return h('a', { class: 'brand', href: toPresets(session.home()) }, 'caddy-presets')
}

/** Draws the bar. The workspaces come later, because they are asked for. */
function drawTop() {
	const { view, workspace } = place()
	/** @param {string} text @param {string} href @param {ViewName} name */
	const link = (text, href, name) => h('a', { href, 'aria-current': view === name && 'page', 'data-key': `to-${name}` }, text)
	const select = choice([{ value: workspace, text: workspace || 'your workspace' }], workspace, {
		id: 'workspace', 'data-key': 'workspace', disabled: !session.mayChange(),
		onchange: () => {
			go(toPresets(select.value))
			select.value = workspace // until it is left
		},
	})
	fill(top,
		brand(),
		h('span', null, h('label', { for: 'workspace', class: 'unseen' }, 'Workspace'), select),
		h('nav', { 'aria-label': 'Main' },
			link('Presets', toPresets(workspace), 'presets'),
			hasKeys && (session.mayIssueKeys() || !session.mayChange()) && link(session.mayChange() ? 'Keys' : 'Key', toKeys(workspace), 'workspace-keys'),
			session.mayChange() && link('Budgets', toBudgets(workspace), 'workspace-budgets'),
			link('Workspaces', toWorkspaces, 'workspaces')),
		h('span', { class: 'gap' }),
		h('span', { class: 'kind' }, session.mayChange() ? 'management' : 'read only'),
		button('?', help, { class: 'quiet small', 'aria-label': 'Keyboard shortcuts', 'data-key': 'help' }),
		button('Lock', () => {
			if (mayLeave() && forgetAll()) {
				lockReason = ''
				session.lock('')
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
	fill(select, !shown && h('option', null, workspace), all.map(({ slug }) => h('option', { value: slug }, slug)))
	select.value = shown ?? workspace
}

let lockReason = '', isTyped = false

function unlocked() {
	lockReason = ''
	document.body.focus() // the next Tab begins at the top
	show()
}

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

function help() {
	const keys = [['/', 'Search presets'], ['j and k', 'Next and previous in a list'], ['n', 'Workbench, or a new key'], ['c', 'Compare'], ['Ctrl+Enter', 'Run in the workbench'], ['Ctrl+S', 'Save a draft'], ['Ctrl+F', 'Find in the prompt'], ['?', 'These shortcuts'], ['Escape', 'Close what is on top']]
	openDialog('Keyboard shortcuts', 'Keyboard shortcuts', [h('dl', { class: 'facts' }, keys.map(([key, text]) => [h('dt', null, h('kbd', null, key)), h('dd', null, text)]).flat())])
}

addEventListener('keydown', (event) => {
	const target = event.target instanceof HTMLElement ? event.target : document.body
	const isTyping = target.matches('input, textarea, select') || target.isContentEditable
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
session.watchIdle()
navigations.addEventListener('navigate', show)
addEventListener('workspaces', drawTop)
addEventListener('input', () => (isTyped = true))
setInterval(updateTimes, 20000)
session.resume()
show()
