// The workspaces: list, create, change and delete them.

import { search, toPresets, toWorkspaceHistory, toWorkspaceUsage, workspacePath } from './addresses.js'
import { button, choice, field, fill, h, rowAction, showIssues, table, textInput, user, when } from './elements.js'
import { costText, countOf, countText, errorRate, percentText, sumOf } from './figures.js'
import * as api from './api.js'
import * as session from './session.js'
import { ask, conflict, failed, pagedList, say } from './states.js'

const limit = 50

/** @type {MakeView} */
export function workspacesView(context) {
	const title = 'Workspaces'
	if (!session.mayChange()) {
		return { title, element: h('div', h('h1', title), h('p.note', 'This is an inference key. It acts in one workspace, and only a management key sees the others.')) }
	}
	let queue = Promise.resolve() // a report at a time
	const list = pagedList(context, limit, (offset) => '/workspaces' + search({ offset, limit }), (answer) =>
		table('Workspaces', answer.data.map((/** @type {Workspace} */ workspace) => {
			const { slug, name, default_text_model: model, disabled_server_tools: tools, limits, budgets } = workspace
			const [presets, used] = [0, 1].map(() => h('span.number'))
			queue = queue.then(() => (context.signal.aborted ? undefined : figures(context, slug, presets, used))).catch(() => {}) // the list does without
			return [
				['Workspace', h('div.who', h('div', h('a', { href: toPresets(slug), 'data-row': true, 'data-key': slug },
					name !== slug && h('span.name', user(name)), h('span', { class: name === slug ? 'slug name' : 'slug muted' }, user(slug))),
				h('span.labels', model && h('span.state', user(model)), tools?.length && h('span.state', `${tools.length} tools disabled`), limits && h('span.state', 'limits'), budgets && h('span.state', 'budgets'))))],
				['Presets', presets], ['24 hours', used],
				['Created', when(workspace.created_at)],
				['Actions', h('span.actions', rowAction('Change', slug, () => change(context, slug)), session.mayCreateWorkspaces() && rowAction('Delete', slug, () => remove(context, slug)),
					h('a.small', { href: toWorkspaceUsage(slug), 'aria-label': `Usage of ${slug}` }, 'Usage'),
					h('a.small', { href: toWorkspaceHistory(slug), 'aria-label': `History of ${slug}` }, 'History'))],
			]
		})))
	return {
		title,
		element: h('div',
			h('div.heading',
				h('h1', title),
				h('div.actions', session.mayCreateWorkspaces() && button('New workspace', () => create(context), { class: 'primary', 'data-key': 'new', 'data-shortcut': 'n' }))),
			list),
	}
}

/** Shows how many presets a workspace has, and what was used in the last day. They come after the list. @param {Context} context @param {string} slug @param {HTMLElement[]} places */
async function figures({ signal }, slug, ...[presets, used]) {
	const from = new Date(Math.floor(Date.now() / 3600000 - 23) * 3600000).toISOString()
	const [list, { data }] = await Promise.all([api.read('/presets' + search({ workspace_id: slug, limit: 1 }), signal), api.read(workspacePath(slug, 'usage') + search({ by: 'status', step: 'hour', from }), signal)])
	const total = sumOf(data.series.map((/** @type {UsageSeries} */ series) => series.total))
	presets.textContent = countText(list.total)
	fill(used, countOf(total.requests, 'request'), total.requests > 0 && h('span.below', `${percentText(errorRate(total))} errors`, total.cost && ` · ${costText(Number(total.cost))}`))
}

/** Makes the fields of a workspace. @param {Partial<Workspace>} workspace */
function settingsForm(workspace) {
	/** @param {string | null | undefined} value @param {number} maxlength */
	const input = (value, maxlength = 200) => textInput({ value: value ?? '', maxlength })
	const slug = input(workspace.slug, 50), name = input(workspace.name, 100)
	const description = h('textarea', { value: workspace.description ?? '', rows: 3, maxlength: 500, dir: 'auto' })
	const model = input(workspace.default_text_model), imageModel = input(workspace.default_image_model)
	const sort = choice(['', 'price', 'throughput', 'latency', 'exacto'].map((value) => ({ value, text: value || 'none' })), workspace.default_provider_sort ?? '')
	const tools = h('textarea.mono', { value: (workspace.disabled_server_tools ?? []).join('\n'), rows: 3, spellcheck: 'false' })
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
			h('p', `This removes the workspace with ${total === 1 ? 'its one preset' : `all its ${total} presets`}, their versions and labels. It cannot be undone.`),
			isDefault && h('p', 'The workspace default is created again at once, empty.'),
			field('Slug', typed, h('span', 'Type ', h('code', user(slug)), ' to delete it.')),
		], async () => {
			await api.change('DELETE', path + search({ confirm_default_workspace_deletion: isDefault ? 'true' : '' }), undefined, seen.tag)
			say(`The workspace ${slug} is deleted.`)
			tellBar()
		}, { isDanger: true, isDisposable: true, explain: (failure) => conflict(failure, path, seen, (now) => (seen = now)) })
		confirm.disabled = true
	})
}
