// The workspaces: list, create, change and delete them.

import { search, toPresets, toWorkspaceHistory } from './addresses.js'
import { button, choice, field, fill, h, row, setWrong, submit, table, user, when } from './elements.js'
import * as api from './api.js'
import * as session from './session.js'
import { openDialog } from './dialogs.js'
import { errorBox, live, pages, whenChanging } from './states.js'
import { say } from './status.js'

/**
 * @typedef {import('./states.js').Context} Context
 * @typedef {api.Workspace} Workspace
 */

const limit = 50

/** @param {Context} context */
export function workspacesView(context) {
	const title = 'Workspaces'
	if (!session.mayChange()) {
		return { title, element: h('div', null, h('h1', null, title), h('p', { class: 'note' }, 'This is an inference key. It acts in one workspace, and only a management key sees the others.')) }
	}
	let offset = 0
	const path = () => '/workspaces' + search({ offset, limit })
	const list = live(context, path(), (answer) => [
		table('Workspaces', ['Slug', 'Name', 'Default model', 'Provider sort', 'Disabled tools', 'Created', 'Change'],
			/** @type {Workspace[]} */ (answer.data).map((workspace) => row({}, [
				['Slug', h('a', { href: toPresets(workspace.slug), 'data-row': true, 'data-key': `w-${workspace.slug}`, class: 'slug' }, user(workspace.slug))],
				['Name', user(workspace.name)],
				['Default model', textOrNone(workspace.default_text_model)],
				['Provider sort', textOrNone(workspace.default_provider_sort)],
				['Disabled tools', workspace.disabled_server_tools?.length ? h('span', { class: 'number', title: workspace.disabled_server_tools.join('\n') }, workspace.disabled_server_tools.length) : textOrNone('')],
				['Created', when(workspace.created_at)],
				['Change', h('span', { class: 'actions' },
					button('Change', () => change(context, workspace.slug), { class: 'small', 'data-key': `change-${workspace.slug}`, 'aria-label': `Change ${workspace.slug}` }),
					h('a', { href: toWorkspaceHistory(workspace.slug), class: 'small', 'aria-label': `History of ${workspace.slug}` }, 'History'),
					button('Delete', () => remove(context, workspace), { class: 'small', 'data-key': `delete-${workspace.slug}`, 'aria-label': `Delete ${workspace.slug}` }))],
			]))),
		answer.total > limit && pages(offset, limit, answer.total, (next) => {
			offset = next
			list.show(path())
		}),
	])
	return {
		title,
		element: h('div', null,
			h('div', { class: 'heading' }, h('h1', null, title), h('div', { class: 'actions' }, button('New workspace', () => create(context), { class: 'primary', 'data-key': 'new', 'data-shortcut': 'n' }))),
			h('p', { class: 'muted' }, 'A workspace holds a team’s presets and its defaults.'),
			list.element),
	}
}

/** @param {string | null} text */
function textOrNone(text) {
	return text ? user(text) : h('span', { class: 'muted' }, '–')
}

/** @param {Workspace} [workspace] */
function settingsFields(workspace) {
	const slug = h('input', { type: 'text', value: workspace?.slug ?? '', maxlength: 50, autocomplete: 'off', spellcheck: 'false', disabled: workspace?.slug === 'default' })
	const name = h('input', { type: 'text', value: workspace?.name ?? '', maxlength: 100, dir: 'auto' })
	const description = h('textarea', { value: workspace?.description ?? '', rows: 2, maxlength: 500, dir: 'auto' })
	const model = h('input', { type: 'text', value: workspace?.default_text_model ?? '', autocomplete: 'off', spellcheck: 'false' })
	const image = h('input', { type: 'text', value: workspace?.default_image_model ?? '', autocomplete: 'off', spellcheck: 'false' })
	const sort = choice([{ value: '', text: 'none' }, ...['price', 'throughput', 'latency', 'exacto'].map((value) => ({ value, text: value }))], workspace?.default_provider_sort ?? '')
	const tools = h('textarea', { value: (workspace?.disabled_server_tools ?? []).join('\n'), rows: 3, class: 'mono', spellcheck: 'false' })
	/** @type {Record<string, HTMLElement>} */
	const controls = { slug, name, description, default_text_model: model, default_image_model: image, default_provider_sort: sort, disabled_server_tools: tools }
	return {
		controls,
		elements: [
			field('Slug', slug, 'Lower-case letters, digits and hyphens.'), field('Name', name), field('Description', description),
			field('Default text model', model, 'For requests that name no model, and whose preset names none.'), field('Default image model', image),
			field('Provider sort', sort), field('Disabled server tools', tools, 'One name in each line, such as openrouter:web_search.'),
		],
		values: () => {
			const names = tools.value.split(/[\s,]+/).filter((one) => one !== '')
			return {
				...(slug.disabled ? {} : { slug: slug.value.trim() }), name: name.value.trim(), description: description.value.trim() || null,
				default_text_model: model.value.trim() || null, default_image_model: image.value.trim() || null, default_provider_sort: sort.value || null,
				disabled_server_tools: names.length > 0 ? names : null,
			}
		},
		/** @param {api.Failure} failure */
		showIssues: (failure) => {
			Object.values(controls).forEach((control) => setWrong(control))
			const wrong = failure.issues.map((issue) => ({ control: controls[issue.path.split('/')[1] ?? ''], issue })).filter((one) => one.control)
			wrong.forEach(({ control, issue }) => setWrong(control, issue.message))
			wrong[0]?.control.focus()
			return undefined
		},
	}
}

/** @param {Context} context */
function create(context) {
	const fields = settingsFields()
	const place = h('div')
	const confirm = submit('New workspace')
	const { close } = openDialog('New workspace', 'New workspace', [...fields.elements, place], {
		signal: context.signal,
		actions: [confirm],
		submit: async () => {
			const isDone = await whenChanging(place, confirm, async () => {
				const answer = await api.change('POST', '/workspaces', fields.values())
				say(`The workspace ${answer.data.slug} is created.`)
			}, fields.showIssues)
			if (isDone) {
				close()
				dispatchEvent(new Event('workspaces'))
			}
		},
	})
}

/**
 * change edits a workspace as it is now, so that its tag is known.
 *
 * @param {Context} context
 * @param {string} slug
 */
async function change(context, slug) {
	const path = `/workspaces/${encodeURIComponent(slug)}`
	/** @type {api.Answer<Workspace>} */
	let seen
	try {
		seen = await api.read(path, context.signal)
	} catch (thrown) {
		say(`Error: ${api.failureOf(thrown).message}`)
		return
	}
	const fields = settingsFields(seen.data)
	const place = h('div')
	const confirm = submit('Save')
	const { close } = openDialog('Change', `Change ${slug}`, [...fields.elements, place], {
		signal: context.signal,
		actions: [confirm],
		submit: async () => {
			const isDone = await whenChanging(place, confirm, async () => {
				await api.change('PATCH', path, fields.values(), seen.tag)
				say(`The workspace ${slug} is changed.`)
			}, (failure) => fields.showIssues(failure) ?? conflict(context, failure, path, seen, (now) => (seen = now)))
			if (isDone) {
				close()
				dispatchEvent(new Event('workspaces'))
			}
		},
	})
}

/**
 * conflict explains a 412 of a workspace: which fields have changed.
 *
 * @param {Context} context
 * @param {api.Failure} failure
 * @param {string} path
 * @param {api.Answer<Workspace>} before
 * @param {(now: api.Answer<Workspace>) => unknown} lookedAgain
 */
function conflict(context, failure, path, before, lookedAgain) {
	if (failure.status !== 412) {
		return undefined
	}
	const list = h('div')
	const place = h('div', { class: 'error', role: 'alert' }, h('p', null, h('strong', null, 'Error: '), 'Nothing was changed, because the workspace has changed meanwhile.'), list)
	api.read(path, context.signal).then((now) => {
		const names = /** @type {(keyof Workspace)[]} */ (Object.keys(now.data)).filter((name) => name !== 'updated_at' && JSON.stringify(now.data[name]) !== JSON.stringify(before.data[name]))
		fill(list, h('ul', null, names.map((name) => h('li', null, h('code', null, name), ' was ', user(JSON.stringify(before.data[name])), ' and is ', user(JSON.stringify(now.data[name])), ' now.'))),
			h('p', { class: 'actions' }, button('Look again', () => {
				place.remove()
				lookedAgain(now)
			})))
	}, (thrown) => fill(list, errorBox(thrown)))
	return place
}

/**
 * @param {Context} context
 * @param {Workspace} workspace
 */
async function remove(context, workspace) {
	const path = `/workspaces/${encodeURIComponent(workspace.slug)}`
	const isDefault = workspace.slug === 'default'
	/** @type {api.Answer<Workspace>} */
	let seen
	let count = ''
	try {
		seen = await api.read(path, context.signal)
		const presets = await api.read('/presets' + search({ status: 'all', limit: 1, workspace_id: workspace.slug }), context.signal)
		count = presets.total === 1 ? 'its one preset' : `all its ${presets.total} presets`
	} catch (thrown) {
		say(`Error: ${api.failureOf(thrown).message}`)
		return
	}
	const typed = h('input', { type: 'text', autocomplete: 'off', spellcheck: 'false', autofocus: true, oninput: () => (confirm.disabled = typed.value !== workspace.slug) })
	const confirm = submit('Delete', { class: 'danger', disabled: true })
	const place = h('div')
	const { close } = openDialog('Delete', `Delete ${workspace.slug}?`, [
		h('p', null, `This removes the workspace with ${count}, their versions and labels. It cannot be undone.`),
		isDefault && h('p', null, 'The workspace default is created again at once, empty.'),
		field('Slug', typed, h('span', null, 'Type ', h('code', null, user(workspace.slug)), ' to delete it.')), place,
	], {
		signal: context.signal,
		actions: [confirm],
		submit: async () => {
			if (typed.value !== workspace.slug) {
				return
			}
			const isDone = await whenChanging(place, confirm, async () => {
				await api.change('DELETE', path + search({ confirm_default_workspace_deletion: isDefault ? 'true' : '' }), undefined, seen.tag)
				say(`The workspace ${workspace.slug} is deleted.`)
			}, (failure) => conflict(context, failure, path, seen, (now) => (seen = now)))
			if (isDone) {
				close()
				dispatchEvent(new Event('workspaces'))
			}
		},
	})
}
