// Changes of a preset as a whole: put live, archive, restore, disable, enable, describe.

import { presetPath, toPreset, toPresets } from './addresses.js'
import { code, field, fill, h, labelTag, showIssues, textInput, user } from './elements.js'
import * as api from './api.js'
import { readTemplate, requestOf, routes } from './capture.js'
import { conflict, failed } from './conflict.js'
import { ask, openDialog } from './dialogs.js'
import { differences, partOf, readSide } from './differences.js'
import { format, lineOf, parse, parseAs } from './json.js'
import { numberInput, numberOf } from './key_form.js'
import { go } from './navigation.js'
import { serveReason } from './rights.js'
import * as session from './session.js'
import { load } from './states.js'
import { say } from './status.js'
import { workspaceChoice } from './target.js'
import { limitsText, presetLimits, tagsOf, targetText } from './texts.js'

// The dialog that puts a version live, or rolls back to one.

/** Says who is pinned: what labels serve stays as it is. @param {Preset} preset */
export function pinned({ labels, slug }) {
	const all = Object.entries(labels)
	return all.length > 0 && h('div', { class: 'pinned' },
		h('p', null, all.length === 1 ? 'One label stays where it is, and so do requests for ' : `${all.length} labels stay where they are, and so do requests for `, code(all.length === 1 ? `@preset/${slug}@${all[0][0]}` : `@preset/${slug}@<label>`), ':'),
		h('p', { class: 'labels' }, all.map(([name, target]) => labelTag(name, targetText(target)))))
}

/**
 * Shows what will change for requests, then designates the version.
 * @param {Context} context @param {PresetAnswer} preset as it was when the button was pressed
 * @param {number} version
 */
export function putLive(context, preset, version) {
	const { at } = context
	const sentence = h('p'), comparison = h('div'), stays = h('div')
	const closing = new AbortController()
	const before = () => preset.data.designated_version.version
	const { confirm } = ask(context, 'Put live', `Put v${version} live?`, [sentence, stays, comparison], () => designate(at, version, preset.tag, before()), {
		isWide: true,
		onClose: () => closing.abort(),
		explain: (failure) => conflict(failure, presetPath(at), preset, (now) => {
			preset = now
			show()
		}),
	})
	const show = () => {
		const isLive = before() === version
		fill(sentence, isLive ? `v${version} is live already.` : ['Requests for ', code(`@preset/${at.slug}`), ` get v${version} in place of v${before()}, from the next one on.`])
		fill(stays, pinned(preset.data))
		confirm.disabled = true
		load(comparison, closing.signal, async () => {
			const [a, b] = await Promise.all([before(), version].map((n) => readSide(at, n, closing.signal)))
			confirm.disabled = isLive
			confirm.focus()
			return differences(a, b, closing.signal)
		})
	}
	show()
}

/**
 * Puts a version live. The message offers the way back.
 * @param {At} at @param {number} version @param {string} tag @param {number} [before]
 */
export async function designate(at, version, tag, before) {
	const { tag: next } = await api.change('POST', presetPath(at, 'designate'), { version }, tag)
	say(`v${version} is live${before ? '' : ' again'}.`, before ? { name: 'Undo', run: () => designate(at, before, next).catch(failed) } : undefined)
}

/** Brings an archived preset back. Its tag is unknown, because it cannot be read. @param {At} at */
export async function restore(at) {
	try {
		await api.change('POST', presetPath(at, 'restore'), undefined)
		say(`${at.slug} is restored.`)
	} catch (thrown) {
		failed(thrown)
	}
}

/**
 * Shows a dialog for a change of the preset as someone has seen it: at first, or looking again.
 * @type {AskFirst}
 */
export function askFirst(context, preset, name, heading, body, run, options) {
	ask(context, name, heading, body, () => run(preset), {
		...options, explain: (failure) => conflict(failure, presetPath(context.at), preset, (now) => (preset = now)),
	})
}

/** @param {Context} context @param {PresetAnswer} preset */
export function archive(context, preset) {
	const { at } = context
	const text = 'Requests that name this preset get 404 from then on. Its versions and labels are kept, and Restore brings it back.'
	askFirst(context, preset, 'Archive', `Archive ${at.slug}?`, [text], async (seen) => {
		await api.change('DELETE', presetPath(at), undefined, seen.tag)
		say(`${at.slug} is archived.`, { name: 'Undo', run: () => restore(at) })
		go(toPresets(at.workspace))
	}, { isDanger: true })
}

/** @param {Context} context @param {PresetAnswer} preset */
export function disable(context, preset) {
	const { at } = context
	askFirst(context, preset, 'Disable', `Disable ${at.slug}?`, ['Requests that name this preset get 404 from then on. Enable takes that back.'], async (seen) => {
		const now = await api.change('PATCH', presetPath(at), { status: 'disabled' }, seen.tag)
		say(`${at.slug} is disabled.`, { name: 'Undo', run: () => enable(at, now.tag) })
	}, { isDanger: true })
}

/** @param {At} at @param {string} tag */
export function enable(at, tag) {
	return api.change('PATCH', presetPath(at), { status: 'active' }, tag).then(() => say(`${at.slug} is enabled. Requests get it again.`), failed)
}

/** Sets or clears the protection. @param {At} at @param {boolean} isProtected @param {string} tag */
export async function protect(at, isProtected, tag) {
	try {
		const now = await api.change('PATCH', presetPath(at), { protected: isProtected }, tag)
		say(`${at.slug} is ${isProtected ? '' : 'no longer '}protected.`, { name: 'Undo', run: () => protect(at, !isProtected, now.tag) })
	} catch (thrown) {
		failed(thrown)
	}
}

/** @param {Context} context @param {PresetAnswer} preset */
export function describe(context, preset) {
	const { at } = context
	const reason = serveReason(at, preset.data)
	const name = textInput({ value: preset.data.name, maxlength: 128, autofocus: !reason, disabled: reason !== '' })
	const tags = textInput({ value: (preset.data.tags ?? []).join(', ') })
	const description = h('textarea', { value: preset.data.description ?? '', rows: 4, maxlength: 500, dir: 'auto' })
	askFirst(context, preset, 'Rename and describe', 'Rename and describe', [
		field('Name', name, reason || h('span', null, 'The slug stays ', user(at.slug), ', so requests do not change.')),
		field('Description', description, 'Up to 500 characters.'),
		field('Tags', tags, 'With commas between them. The list can be filtered by them.'),
	], async (seen) => {
		await api.change('PATCH', presetPath(at), { name: name.value.trim() || at.slug, description: description.value.trim() || null, ...(tagsOf(tags.value).join() !== (preset.data.tags ?? []).join() && { tags: tagsOf(tags.value) }) }, seen.tag)
		say('The name, the description and the tags are saved.')
	}, { confirm: 'Save' })
}

/**
 * Copies the live version to a new preset, here or in another workspace.
 * @param {Context} context @param {PresetAnswer} preset
 */
export async function duplicate(context, preset) {
	const { at, signal } = context
	const slug = textInput({ value: `${at.slug}-copy`, maxlength: 128, autofocus: true }), workspace = workspaceChoice(at.workspace)
	const { version, dialect } = preset.data.designated_version
	let made = '' // where to go when the dialog has nothing to lose
	ask(context, 'Duplicate', `Duplicate ${at.slug}`, [
		h('p', null, `The new preset begins with v${version}. It has no labels, and no policy.`), field('Slug', slug), field('Workspace', workspace),
	], async () => {
		const side = await readSide(at, version, signal), { messages } = readTemplate(side.template), to = { workspace: workspace.value, slug: slug.value.trim() }
		const { tag } = await api.change('POST', presetPath(to, routes[dialect], { template: side.template === '{}' ? '' : 'true', message: `Copy of ${at.slug} v${version}` }), requestOf(dialect, side.prompt, side.settings, messages.items, side.settings, messages.items), api.absent)
		const { description, tags = [] } = preset.data
		if (description || tags.length > 0) {
			await api.change('PATCH', presetPath(to), { description, ...(tags.length > 0 && { tags }) }, tag)
		}
		say(`${to.slug} is a copy of ${at.slug} v${version}.`)
		made = toPreset(to)
	}, { onClose: () => made && go(made) })
}

/** Shows the limits of all requests for the preset together, and changes them with a key that may. @param {Context} context @param {PresetAnswer} preset */
export function limits(context, preset) {
	const { at } = context, heading = `Limits of ${at.slug}`
	if (serveReason(at, preset.data) || !session.mayChangeBudgets()) {
		openDialog('Limits', heading, [h('p', null, limitsText(preset.data))], { signal: context.signal })
		return
	}
	const controls = Object.fromEntries(Object.keys(presetLimits).map((name) => [name, numberInput(preset.data.limits?.[name])]))
	const save = (/** @type {Preset['limits']} */ value, /** @type {string} */ tag) => api.change('PATCH', presetPath(at), { limits: value ?? null }, tag)
	ask(context, 'Limits', heading, [
		h('p', null, 'All requests for the preset count together, whatever their keys. Beyond one of them, they are refused until it resets.'),
		...Object.entries(presetLimits).map(([name, text]) => field(text, controls[name])), h('p', { class: 'hint' }, 'Empty: none.'),
	], async () => {
		const given = Object.entries(controls).filter(([, { value }]) => value.trim()).map(([name, input]) => [name, numberOf(input)]), seen = preset
		const now = await save(given.length > 0 ? Object.fromEntries(given) : null, seen.tag)
		say(given.length > 0 ? 'The limits are saved.' : 'The limits are removed.', { name: 'Undo', run: () => save(seen.data.limits, now.tag).then(() => say('The limits are as before.'), failed) })
	}, { confirm: 'Save', explain: (failure) => showIssues(controls, failure.issues) ?? conflict(failure, presetPath(at), preset, (now) => (preset = now)) })
}

/** Shows the policy, and changes it with a key that may. @param {Context} context @param {PresetAnswer} preset */
export function policy(context, preset) {
	const { at } = context
	/** @param {PresetAnswer} answer */
	const policyOf = (answer) => (answer.data.policy ? partOf(answer.text, 'policy') : '')
	const before = policyOf(preset), text = before && format(parse(before))
	if (serveReason(at, preset.data)) {
		openDialog('Policy', `Policy of ${at.slug}`, [h('pre', { class: 'prompt', tabindex: '0' }, text)], { signal: context.signal })
		return
	}
	const area = h('textarea', { value: text, rows: 16, spellcheck: 'false', class: 'mono', autofocus: true })
	/** @param {string} value @param {string} tag */
	const save = (value, tag) => api.change('PATCH', presetPath(at), `{"policy":${value || 'null'}}`, tag)
	askFirst(context, preset, 'Policy', `Policy of ${at.slug}`, [
		field('Settings that requests may not change', area, h('span', null, 'JSON, such as ', code('{"lock": ["tools"], "bounds": {"temperature": {"max": 1}}}'), '. Leave it empty to remove the policy.')),
	], async (seen) => {
		const value = area.value.trim(), { problem, offset } = parseAs(value || '{}')
		if (problem) {
			throw api.newFailure(`line ${lineOf(value, offset)}: ${problem}`, { status: 400 })
		}
		const now = await save(value, seen.tag)
		say(`The policy is ${value ? 'saved' : 'removed'}.`, { name: 'Undo', run: () => save(policyOf(seen), now.tag).then(() => say('The policy is as before.'), failed) })
	}, { confirm: 'Save', isWide: true })
}
