// Changes of a preset as a whole: archive, restore, disable, enable, rename and describe.

import { presetPath, toPresets } from './addresses.js'
import { field, h, submit, user } from './elements.js'
import * as api from './api.js'
import { conflict } from './conflict.js'
import { openDialog } from './dialogs.js'
import { go } from './navigation.js'
import { whenChanging } from './states.js'
import { say } from './status.js'

/**
 * @typedef {import('./states.js').Context} Context
 * @typedef {api.Answer<api.Preset>} PresetAnswer
 */

/**
 * failed says that a change without a dialog was not made.
 *
 * @param {unknown} thrown
 */
function failed(thrown) {
	const failure = api.failureOf(thrown)
	if (failure.status === 412) {
		say('Nothing was changed, because the preset has changed meanwhile. Look again.')
	} else {
		say(`Error: ${failure.message}${failure.requestId && ` (request id ${failure.requestId})`}`)
	}
}

/**
 * restore brings an archived preset back. Its tag is unknown, because it cannot be read.
 *
 * @param {Context} context
 * @param {string} slug
 */
export async function restore(context, slug) {
	const at = { workspace: context.workspace, slug }
	try {
		const answer = await api.change('POST', presetPath(at, 'restore'), undefined)
		say(`${slug} is restored.`, { name: 'Undo', run: () => api.change('DELETE', presetPath(at), undefined, answer.tag).then(() => say(`${slug} is archived again.`), failed) })
	} catch (thrown) {
		failed(thrown)
	}
}

/**
 * ask shows a dialog for a change that stops requests.
 *
 * @param {Context} context
 * @param {PresetAnswer} answer
 * @param {string} name
 * @param {string} text
 * @param {(tag: string) => Promise<void>} run
 */
function ask(context, answer, name, text, run) {
	const place = h('div')
	const confirm = submit(name, { class: 'danger' })
	let tag = answer.tag
	const { close } = openDialog(name, `${name} ${answer.data.slug}?`, [h('p', null, text), place], {
		signal: context.signal,
		actions: [confirm],
		submit: async () => {
			if (await whenChanging(place, confirm, () => run(tag), (failure) => conflict(context, failure, answer, (now) => (tag = now.tag)))) {
				close()
			}
		},
	})
}

/**
 * @param {Context} context
 * @param {PresetAnswer} answer
 */
export function archive(context, answer) {
	const { slug } = answer.data
	const at = { workspace: context.workspace, slug }
	ask(context, answer, 'Archive', 'Requests that name this preset get 404 from then on, and lists leave it out. Its versions and labels are kept, and Restore brings it back.', async (tag) => {
		await api.change('DELETE', presetPath(at), undefined, tag)
		say(`${slug} is archived.`, { name: 'Undo', run: () => restore(context, slug) })
		go(toPresets(context.workspace))
	})
}

/**
 * @param {Context} context
 * @param {PresetAnswer} answer
 */
export function disable(context, answer) {
	const at = { workspace: context.workspace, slug: answer.data.slug }
	ask(context, answer, 'Disable', 'Requests that name this preset get 404 from then on. Enable takes that back.', async (tag) => {
		const now = await api.change('PATCH', presetPath(at), { status: 'disabled' }, tag)
		say(`${at.slug} is disabled.`, { name: 'Undo', run: () => enable(context, now) })
	})
}

/**
 * @param {Context} context
 * @param {PresetAnswer} answer
 */
export async function enable(context, answer) {
	const at = { workspace: context.workspace, slug: answer.data.slug }
	await api.change('PATCH', presetPath(at), { status: 'active' }, answer.tag).then(() => say(`${at.slug} is enabled. Requests get it again.`), failed)
}

/**
 * @param {Context} context
 * @param {PresetAnswer} answer
 */
export function describe(context, answer) {
	const preset = answer.data
	const at = { workspace: context.workspace, slug: preset.slug }
	const name = h('input', { type: 'text', value: preset.name, required: true, maxlength: 128, dir: 'auto', autofocus: true })
	const description = h('textarea', { value: preset.description ?? '', rows: 4, maxlength: 500, dir: 'auto' })
	const place = h('div')
	const save = submit('Save')
	let { tag } = answer
	const { close } = openDialog('Rename and describe', 'Rename and describe', [
		field('Name', name, h('span', null, 'The slug stays ', user(preset.slug), ', so requests do not change.')),
		field('Description', description, 'Up to 500 characters.'), place,
	], {
		signal: context.signal,
		actions: [save],
		submit: async () => {
			const isDone = await whenChanging(place, save, async () => {
				await api.change('PATCH', presetPath(at), { name: name.value.trim() || preset.slug, description: description.value.trim() || null }, tag)
			}, (failure) => conflict(context, failure, answer, (now) => (tag = now.tag)))
			if (isDone) {
				close()
				say('The name and the description are saved.')
			}
		},
	})
}
