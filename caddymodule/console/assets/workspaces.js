// The workspaces: list, create, change and delete them.

import { search, toPresets, toWorkspaceHistory, toWorkspaceUsage } from './addresses.js'
import { button, choice, field, h, number, row, showIssues, table, textInput, textOrNone, user, when } from './elements.js'
import * as api from './api.js'
import * as session from './session.js'
import { conflict, failed } from './conflict.js'
import { ask } from './dialogs.js'
import { pagedList } from './states.js'
import { say } from './status.js'

const limit = 50

/** @type {MakeView} */
export function workspacesView(context) {
	const title = 'Workspaces'
	if (!session.mayChange()) {
		return { title, element: h('div', null, h('h1', null, title), h('p', { class: 'note' }, 'This is an inference key. It acts in one workspace, and only a management key sees the others.')) }
	}
	const list = pagedList(context, limit, (offset) => '/workspaces' + search({ offset, limit }), (answer) =>
		table('Workspaces', ['Slug', 'Name', 'Default model', 'Disabled tools', 'Created', 'Actions'], answer.data.map((/** @type {Workspace} */ workspace) => {
			const { slug, disabled_server_tools: tools } = workspace
			/** @param {string} text @param {(context: Context, slug: string) => unknown} run */
			const action = (text, run) => button(text, () => run(context, slug), { class: 'small', 'data-key': `${text} ${slug}`, 'aria-label': `${text} ${slug}` })
			return row([
				['Slug', h('a', { href: toPresets(slug), 'data-row': true, 'data-key': slug, class: 'slug' }, user(slug))],
				['Name', user(workspace.name)],
				['Default model', textOrNone(workspace.default_text_model)],
				['Disabled tools', tools?.length ? number(tools.length) : textOrNone()],
				['Created', when(workspace.created_at)],
				['Actions', h('span', { class: 'actions' }, action('Change', change), session.mayCreateWorkspaces() && action('Delete', remove),
					h('a', { href: toWorkspaceUsage(slug), class: 'small', 'aria-label': `Usage of ${slug}` }, 'Usage'),
					h('a', { href: toWorkspaceHistory(slug), class: 'small', 'aria-label': `History of ${slug}` }, 'History'))],
			])
		})))
	return {
		title,
		element: h('div', null,
			h('div', { class: 'heading' },
				h('h1', null, title),
				h('div', { class: 'actions' }, session.mayCreateWorkspaces() && button('New workspace', () => create(context), { class: 'primary', 'data-key': 'new', 'data-shortcut': 'n' }))),
			list),
	}
}

/** Makes the fields of a workspace. @param {Partial<Workspace>} workspace */
function settingsForm(workspace) {
	/** @param {string | null | undefined} value @param {number} maxlength */
	const input = (value, maxlength = 200) => textInput({ value: value ?? '', maxlength })
	const slug = input(workspace.slug, 50), name = input(workspace.name, 100)
	const description = h('textarea', { value: workspace.description ?? '', rows: 3, maxlength: 500, dir: 'auto' })
	const model = input(workspace.default_text_model), imageModel = input(workspace.default_image_model)
	const sort = choice(['', 'price', 'throughput', 'latency', 'exacto'].map((value) => ({ value, text: value || 'none' })), workspace.default_provider_sort ?? '')
	const tools = h('textarea', { value: (workspace.disabled_server_tools ?? []).join('\n'), rows: 3, class: 'mono', spellcheck: 'false' })
	slug.disabled = workspace.slug === 'default'
	/** @type {Record<string, Control>} */
	const controls = { slug, name, description, default_text_model: model, default_image_model: imageModel, default_provider_sort: sort, disabled_server_tools: tools }
	return {
		elements: [
			field('Slug', slug, 'Lower-case letters, digits and hyphens.'), field('Name', name), field('Description', description),
			field('Default text model', model, 'For requests that name no model, and whose preset names none.'),
			field('Default image model', imageModel, 'For requests for images that name no model.'),
			field('Provider sort', sort), field('Disabled server tools', tools, 'One name in each line, such as openrouter:web_search.'),
		],
		values: () => ({
			...(slug.disabled ? {} : { slug: slug.value.trim() }), name: name.value.trim(), description: description.value.trim() || null,
			default_text_model: model.value.trim() || null, default_image_model: imageModel.value.trim() || null, default_provider_sort: sort.value || null,
			disabled_server_tools: tools.value.trim() ? tools.value.trim().split(/[\s,]+/) : null,
		}),
		controls,
	}
}

/** The bar at the top lists the workspaces, too. */
const tellBar = () => dispatchEvent(new Event('workspaces'))

/** @param {Context} context */
function create(context) {
	const { elements, values, controls } = settingsForm({})
	ask(context, 'New workspace', 'New workspace', elements, async () => {
		const { data } = await api.change('POST', '/workspaces', values())
		say(`The workspace ${data.slug} is created.`)
		tellBar()
	}, { explain: ({ issues }) => showIssues(controls, issues) })
}

/**
 * Runs a function with a workspace as it is now, so that its tag is known.
 * @param {string} slug @param {(path: string, seen: Answer<Workspace>) => unknown} run
 */
function readFirst(slug, run) {
	const path = `/workspaces/${encodeURIComponent(slug)}`
	api.read(path).then((seen) => run(path, seen)).catch(failed)
}

/** @param {Context} context @param {string} slug */
function change(context, slug) {
	readFirst(slug, (path, seen) => {
		const { elements, values, controls } = settingsForm(seen.data)
		ask(context, 'Change', `Change ${slug}`, elements, async () => {
			await api.change('PATCH', path, values(), seen.tag)
			say(`The workspace ${slug} is changed.`)
			tellBar()
		}, { confirm: 'Save', explain: (failure) => showIssues(controls, failure.issues) ?? conflict(failure, path, seen, (now) => (seen = now)) })
	})
}

/** @param {Context} context @param {string} slug */
function remove(context, slug) {
	readFirst(slug, async (path, seen) => {
		const { total } = await api.read('/presets' + search({ status: 'all', limit: 1, workspace_id: slug }))
		const isDefault = slug === 'default'
		const typed = textInput({ autofocus: true, oninput: () => (confirm.disabled = typed.value !== slug) })
		const { confirm } = ask(context, 'Delete', `Delete ${slug}?`, [
			h('p', null, `This removes the workspace with ${total === 1 ? 'its one preset' : `all its ${total} presets`}, their versions and labels. It cannot be undone.`),
			isDefault && h('p', null, 'The workspace default is created again at once, empty.'),
			field('Slug', typed, h('span', null, 'Type ', h('code', null, user(slug)), ' to delete it.')),
		], async () => {
			await api.change('DELETE', path + search({ confirm_default_workspace_deletion: isDefault ? 'true' : '' }), undefined, seen.tag)
			say(`The workspace ${slug} is deleted.`)
			tellBar()
		}, { isDanger: true, isDisposable: true, explain: (failure) => conflict(failure, path, seen, (now) => (seen = now)) })
		confirm.disabled = true
	})
}
