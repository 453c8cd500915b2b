// The editor of a new version. It begins with the prompt and the settings of a version.

import { presetPath, toVersion } from './addresses.js'
import { button, choice, field, fill, h, setWrong, submit, user } from './elements.js'
import * as api from './api.js'
import * as session from './session.js'
import { checkSettings, dialectOf, isPromptPath, keepLineBreaks, requestOf, routes } from './capture.js'
import { changesOf, conflict } from './conflict.js'
import { openDialog } from './dialogs.js'
import { differences, sideOf } from './differences.js'
import { jsonEditor } from './editor.js'
import { find, format, lineOf, parse } from './json.js'
import { dropEdits, go } from './navigation.js'
import { presetFrame } from './preset.js'
import { errorBox, expectContent, whenChanging } from './states.js'
import { say } from './status.js'

/**
 * @typedef {import('./states.js').Context} Context
 * @typedef {api.Answer<api.Preset>} PresetAnswer
 * @typedef {import('./differences.js').Side & { version: number, dialect: api.Dialect }} Base
 */

const firstSettings = '{"model": "openai/gpt-5-mini", "temperature": 0.7}'

/** @param {Context} context */
export function newView(context) {
	/** @type {((preset: PresetAnswer) => void) | undefined} */
	let update
	const frame = presetFrame(context, 'new', (preset) => {
		const place = h('div')
		const from = Number(context.address.query.get('from')) || (preset?.data.designated_version?.version ?? 0)
		const load = async () => {
			fill(place)
			if (!preset) {
				fill(place, form(context, undefined, { name: 'nothing', version: 0, dialect: 'chat', prompt: null, settings: firstSettings }).element)
				return
			}
			const cancel = expectContent(place, context.signal, 12)
			try {
				const path = presetPath({ workspace: context.workspace, slug: context.address.slug }, `versions/${from}`)
				const answer = await api.read(path, context.signal)
				cancel()
				const side = sideOf(answer)
				const made = form(context, preset, { ...side, dialect: dialectOf(answer.data.dialect, side.settings) })
				update = made.update
				fill(place, made.element)
			} catch (thrown) {
				cancel()
				if (!context.signal.aborted) {
					fill(place, errorBox(thrown, load))
				}
			}
		}
		void load()
		return { element: place, update: (next) => update?.(next) }
	}, { mayBeMissing: true })
	return { ...frame, title: `New version · ${context.address.slug}` }
}

/**
 * @param {Context} context
 * @param {PresetAnswer | undefined} preset
 * @param {Base} base
 */
function form(context, preset, base) {
	const { workspace, address: { slug } } = context
	const at = { workspace, slug }
	let seen = preset
	const reason = session.readOnlyReason() || (preset && preset.data.status !== 'active' ? 'This preset is disabled, so it takes no new versions.' : '')
	const formatted = format(base.settings)

	const dialect = choice(Object.keys(routes).map((name) => ({ value: name, text: name })), base.dialect)
	const prompt = h('textarea', { value: base.prompt ?? '', rows: 14, dir: 'auto', spellcheck: 'true', class: 'prompt-text' })
	const message = h('input', { type: 'text', maxlength: 500, dir: 'auto', autocomplete: 'off' })
	const label = h('input', { type: 'text', maxlength: 64, autocomplete: 'off', spellcheck: 'false' })
	const settings = jsonEditor(formatted, () => {
		clearTimeout(timer)
		timer = window.setTimeout(() => showProblems(checkSettings(settings.area.value, chosen())), 400)
	})
	let timer = 0
	const chosen = () => /** @type {api.Dialect} */ (dialect.value)
	const promptField = field('Prompt', prompt)
	const settingsField = field('Settings', settings.area, 'JSON, sent as it is written. Numbers keep their digits.')
	settings.area.before(settings.element)
	settingsField.querySelector('label')?.after(settings.element)
	settings.element.querySelector('.sheet')?.prepend(settings.area)

	const place = h('div')
	const notice = h('div')
	const hasChanged = () => prompt.value !== (base.prompt ?? '').replaceAll(/\r\n?/g, '\n') || settings.area.value !== formatted
	let isSaved = false
	context.setGuard(() => !isSaved && (hasChanged() || message.value !== '' || label.value !== ''))

	/** @param {import('./capture.js').Problem[]} problems */
	const showProblems = (problems) => {
		const inSettings = problems.filter((problem) => problem.field === 'Settings')
		settings.setNotes(inSettings)
		setWrong(settings.area, inSettings.map((problem) => `line ${problem.line}: ${problem.message}`).join('; '))
		setWrong(prompt, problems.filter((problem) => problem.field === 'Prompt').map((problem) => problem.message).join('; '))
		const first = problems[0]
		return {
			focus: () => (first?.field === 'Settings' ? settings.showLine(first.line) : first ? prompt.focus() : undefined),
		}
	}
	/** @param {api.Issue[]} issues */
	const problemsOf = (issues) => issues.filter((issue) => issue.path.startsWith('/')).map((issue) => {
		const text = settings.area.value
		return isPromptPath(issue.path, chosen())
			? { field: /** @type {const} */ ('Prompt'), line: 1, message: `${issue.path}: ${issue.message}` }
			: { field: /** @type {const} */ ('Settings'), line: lineOf(text, find(parse(text), issue.path)), message: `${issue.path}: ${issue.message}` }
	})
	const promptNow = () => {
		const text = keepLineBreaks(prompt.value, base.prompt ?? '')
		return text === '' && base.prompt !== '' ? null : text
	}

	/**
	 * save shows what is new, and saves it.
	 *
	 * @param {string} name
	 * @param {boolean} isLive
	 */
	const save = async (name, isLive) => {
		fill(place)
		const problems = checkSettings(settings.area.value, chosen())
		const shown = showProblems(problems)
		if (problems.length > 0) {
			shown.focus()
			return
		}
		if (label.value.trim() !== '' && !/^[A-Za-z0-9][A-Za-z0-9._~-]{0,63}$/.test(label.value.trim())) {
			setWrong(label, 'A label begins with a letter or digit, and has only letters, digits and . _ ~ -')
			label.focus()
			return
		}
		setWrong(label)
		const after = { name: 'new', prompt: promptNow(), settings: settings.area.value }
		const body = requestOf(chosen(), after.prompt, after.settings, base.settings)
		const query = { designate: isLive ? '' : 'false', message: message.value.trim(), label: label.value.trim() }
		const comparison = h('div')
		const wrong = h('div')
		const confirm = submit(name)
		const closing = new AbortController()
		const before = () => (isLive ? seen?.data.designated_version?.version ?? 0 : base.version)
		const sentence = h('p')
		const { close } = openDialog(name, isLive ? `Save and put ${slug} live?` : 'Save as a draft?', [sentence, comparison, wrong], {
			style: 'wide',
			signal: context.signal,
			actions: [confirm],
			onClose: () => closing.abort(),
			submit: async () => {
				await whenChanging(wrong, confirm, async () => {
					const answer = await api.change('POST', presetPath(at, routes[chosen()], query), body, seen?.tag ?? api.absent)
					isSaved = true
					dropEdits()
					const version = isLive || !seen ? answer.data.designated_version.version : await newestVersion(at)
					const ignored = answer.headers.get('X-Preset-Ignored')
					say(`v${version} is ${isLive ? 'saved and live' : 'saved as a draft'}.${ignored ? ` The server does not know, and ignored: ${ignored}.` : ''}`, isLive && seen ? {
						name: 'Undo', run: () => undo(at, seen?.data.designated_version?.version ?? 0, answer.tag),
					} : undefined)
					close()
					go(toVersion(workspace, slug, version))
				}, (failure) => {
					const found = failure.status === 400 ? problemsOf(failure.issues) : []
					if (found.length > 0) {
						close()
						fill(place, errorBox(failure))
						showProblems(found).focus()
					}
					return seen && conflict(context, failure, seen, (now) => {
						seen = now
						fill(notice)
						void show()
					})
				})
			},
		})
		const show = async () => {
			fill(sentence, !seen
				? ['This creates ', h('code', null, user(`@preset/${slug}`)), ', and requests get it from then on.']
				: isLive
					? ['Requests for ', h('code', null, user(`@preset/${slug}`)), ` get it in place of v${before()}, from the next one on.`]
					: `The draft is stored and serves no requests. Its differences from v${before()}:`)
			fill(comparison)
			if (!seen) {
				fill(comparison, differences({ name: 'nothing', prompt: null, settings: '{}' }, after, closing.signal))
				return
			}
			const cancel = expectContent(comparison, closing.signal, 4)
			try {
				const answer = await api.read(presetPath(at, `versions/${before()}`), closing.signal)
				cancel()
				fill(comparison, differences(sideOf(answer), after, closing.signal))
			} catch (thrown) {
				cancel()
				if (!closing.signal.aborted) {
					fill(comparison, errorBox(thrown, show))
				}
			}
		}
		void show()
	}

	const draft = button('Save as draft', () => save('Save as draft', false), { disabled: reason !== '' || !preset, title: preset ? null : 'The first version is always live' })
	const put = button('Save and put live', () => save('Save and put live', true), { disabled: reason !== '', class: 'primary' })
	const element = h('form', { class: 'editor', novalidate: true, onsubmit: (/** @type {Event} */ event) => event.preventDefault() },
		h('h2', null, preset ? `New version from v${base.version}` : 'First version'),
		reason && h('p', { class: 'note' }, reason), notice,
		h('div', { class: 'columns even' }, promptField, settingsField),
		h('div', { class: 'columns even' },
			field('Message', message, 'Why this version exists. It shows in versions and history.'),
			h('div', { class: 'columns even' },
				field('Also set the label', label, 'Optional, in the same step.'),
				preset ? h('p', { class: 'field' }, h('span', { class: 'caption' }, 'Made as'), h('span', null, `${base.dialect}, like v${base.version}`)) : field('Made as', dialect, 'The API whose names the settings use.'))),
		place,
		h('p', { class: 'actions' }, put, draft))
	return {
		element,
		/** @param {PresetAnswer} next */
		update: (next) => {
			if (!seen || next.tag === seen.tag || isSaved) {
				fill(notice)
				return
			}
			fill(notice, h('div', { class: 'note' }, h('p', null, 'The preset has changed since you began. Your edits are untouched.'),
				changesOf(seen.data, next.data),
				h('p', { class: 'actions' }, button('Look again', () => {
					seen = next
					fill(notice)
				}, { class: 'small' }))))
		},
	}
}

/** @param {{ workspace: string, slug: string }} at */
async function newestVersion(at) {
	const first = await api.read(presetPath(at, 'versions', { fields: 'summary', limit: 1 }))
	const last = await api.read(presetPath(at, 'versions', { fields: 'summary', limit: 1, offset: first.total - 1 }))
	return last.data[0].version
}

/**
 * @param {{ workspace: string, slug: string }} at
 * @param {number} version
 * @param {string} tag
 */
async function undo(at, version, tag) {
	try {
		await api.change('POST', presetPath(at, 'designate'), { version }, tag)
		say(`v${version} is live again. The new version stays as a draft.`)
	} catch (thrown) {
		const failure = api.failureOf(thrown)
		say(failure.status === 412 ? 'Nothing was changed, because the preset has changed meanwhile.' : `Error: ${failure.message}`)
	}
}

