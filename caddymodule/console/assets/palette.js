// Ctrl+K: goes to presets and views, and does what the view offers, by name.

import { hasKeys, search, toBudgets, toKeys, toPreset, toPresets, toState, toWorkspaceHistory, toWorkspaceUsage, toWorkspaces } from './addresses.js'
import { h, textInput } from './elements.js'
import * as api from './api.js'
import * as session from './session.js'
import { openDialog } from './dialogs.js'
import { go } from './navigation.js'
import { suggest } from './suggest.js'

/** @param {At} at the workspace and the preset that are shown, the latter empty if none is */
export function openPalette({ workspace, slug }) {
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
	const { close } = openDialog('Go to', 'Go to', [h('div', { class: 'palette' }, input, list)], { style: 'top' })
	input.addEventListener('input', () => open(input.value, 0))
	open('', 0)
}
