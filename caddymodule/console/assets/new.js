// The editor of a new version. It begins with the prompt and the settings of a version.

import { presetPath, toVersion } from './addresses.js'
import { button, choice, code, field, fill, form, h, setWrong, textInput } from './elements.js'
import * as api from './api.js'
import * as session from './session.js'
import { checkSettings, isPromptPath, keepLineBreaks, requestOf, routes } from './capture.js'
import { changesOf, conflict, failed } from './conflict.js'
import { ask } from './dialogs.js'
import { differences, readSide } from './differences.js'
import { jsonEditor } from './editor.js'
import { find, format, lineOf, parse } from './json.js'
import { isLabelRight } from './labels.js'
import { dropEdits, go } from './navigation.js'
import { presetFrame } from './preset.js'
import { designate } from './preset_changes.js'
import { errorBox, load } from './states.js'
import { say } from './status.js'

const nothing = { name: 'nothing', version: 0, prompt: null, settings: '{}' }
const firstSettings = '{"model": "openai/gpt-5-mini", "temperature": 0.7}'

/** @type {MakeView} */
export function newView(context) {
	const { at, signal, address } = context
	const frame = presetFrame(context, 'new', (preset) => {
		const place = h('div')
		/** @type {PresetBody['update']} */
		let update
		load(place, signal, async () => {
			const from = Number(address.query.get('from')) || preset.data.designated_version.version
			const body = editor(context, preset, await readSide(at, from, signal))
			update = body.update
			return body.element
		})
		return { element: place, update: (next) => update?.(next) }
	}, () => editor(context, undefined, { ...nothing, settings: firstSettings, dialect: 'chat' }))
	return { ...frame, title: `New version · ${at.slug}` }
}

/**
 * @param {Context} context
 * @param {PresetAnswer | undefined} preset as it was when the edit began, or was looked at
 * @param {Side & { version: number, dialect: Dialect }} base
 * @returns {PresetBody & { element: Element }}
 */
function editor(context, preset, base) {
	const { at } = context
	const reason = session.readOnlyReason() || (preset && preset.data.status !== 'active' ? 'This preset is disabled, so it takes no new versions.' : '')
	const formatted = format(parse(base.settings))

	const dialects = choice(Object.keys(routes).map((name) => ({ value: name, text: name })), base.dialect)
	const dialect = () => /** @type {Dialect} */ (dialects.value)
	const prompt = h('textarea', { value: base.prompt ?? '', rows: 16, dir: 'auto', class: 'mono' })
	const message = textInput({ maxlength: 500 })
	const label = textInput({ maxlength: 64 })
	let timer = 0
	const settings = jsonEditor(formatted, () => {
		clearTimeout(timer)
		timer = window.setTimeout(() => showProblems(checkSettings(settings.area.value, dialect())), 400)
	})
	const settingsField = field('Settings', settings.area, 'JSON, sent as it is written. Numbers keep their digits.')
	settings.takeFrom(settingsField)
	const notice = h('div'), place = h('div')
	let isSaved = false
	const before = prompt.value // with the line breaks of the browser
	context.setGuard(() => !isSaved && (prompt.value !== before || settings.area.value !== formatted || message.value + label.value !== ''))

	/** Shows errors at their places, and goes to the first one if wanted. @param {Problem[]} problems */
	const showProblems = (problems, isWanted = false) => {
		const [first] = problems
		const inSettings = problems.filter((problem) => problem.field === 'Settings')
		settings.setNotes(inSettings)
		setWrong(settings.area, inSettings.map((problem) => `line ${problem.line}: ${problem.message}`).join('; '))
		setWrong(prompt, problems.filter((problem) => problem.field === 'Prompt').map((problem) => problem.message).join('; '))
		if (first && isWanted) {
			first.field === 'Settings' ? settings.showLine(first.line) : prompt.focus()
		}
	}
	/** @param {Failure} failure @returns {Problem[]} */
	const problemsOf = (failure) => failure.issues.filter((issue) => issue.path.startsWith('/')).map(({ path, message: text }) => ({
		field: isPromptPath(path, dialect()) ? 'Prompt' : 'Settings',
		line: lineOf(settings.area.value, find(parse(settings.area.value), path)), message: `${path}: ${text}`,
	}))

	/** Shows what is new, and saves it. @param {string} name @param {boolean} isLive */
	const save = (name, isLive) => {
		const problems = checkSettings(settings.area.value, dialect())
		fill(place)
		showProblems(problems, true)
		setWrong(label)
		if (problems.length > 0 || (label.value !== '' && !isLabelRight(label))) {
			return
		}
		const text = keepLineBreaks(prompt.value, base.prompt ?? '', before)
		const after = { name: 'new', prompt: text === '' && base.prompt !== '' ? null : text, settings: settings.area.value }
		const body = requestOf(dialect(), after.prompt, after.settings, base.settings)
		const path = presetPath(at, routes[dialect()], { designate: isLive ? '' : 'false', message: message.value.trim(), label: label.value.trim() })
		const sentence = h('p'), comparison = h('div')
		const closing = new AbortController()
		const liveVersion = () => preset?.data.designated_version.version ?? 0
		const { close } = ask(context, name, isLive ? `Save and put ${at.slug} live?` : 'Save as a draft?', [sentence, comparison], async () => {
			const answer = await api.change('POST', path, body, preset?.tag ?? api.absent)
			isSaved = true
			dropEdits()
			const { version } = answer.data.created_version ?? answer.data.designated_version
			const ignored = answer.headers.get('X-Preset-Ignored')
			const earlier = liveVersion()
			say(`v${version} is saved ${isLive ? 'and live' : 'as a draft'}.${ignored ? ` The server does not know, and ignored: ${ignored}.` : ''}`, isLive && earlier ? {
				name: 'Undo', run: () => designate(at, earlier, answer.tag).catch(failed),
			} : undefined)
			go(toVersion(at, version))
		}, {
			isWide: true,
			onClose: () => closing.abort(),
			explain: (failure) => {
				const found = failure.status === 400 ? problemsOf(failure) : []
				if (found.length > 0) {
					close()
					fill(place, errorBox(failure))
					showProblems(found, true)
				}
				return preset && conflict(failure, presetPath(at), preset, (now) => {
					preset = now
					fill(notice)
					show()
				})
			},
		})
		const show = () => {
			const from = isLive ? liveVersion() : base.version
			const named = code(`@preset/${at.slug}`)
			fill(sentence, !preset ? ['This creates ', named, ', and requests get it from then on.']
				: isLive ? ['Requests for ', named, ` get it in place of v${from}, from the next one on.`]
					: `The draft is stored and serves no requests. It differs from v${from}:`)
			load(comparison, closing.signal, async () =>
				differences(from ? await readSide(at, from, closing.signal) : nothing, after, closing.signal))
		}
		show()
	}

	return {
		element: form({ class: 'editor' }, () => {},
			h('h2', null, preset ? `New version from v${base.version}` : 'First version'),
			notice,
			h('div', { class: 'columns even' }, field('Prompt', prompt), settingsField),
			h('div', { class: 'columns even' },
				field('Message', message, 'Why this version exists.'),
				h('div', { class: 'columns even' },
					field('Also set the label', label, 'Optional, in the same step.'),
					preset ? h('p', { class: 'field' }, h('span', { class: 'caption' }, 'Made as'), `${base.dialect}, like v${base.version}`) : field('Made as', dialects, 'The API whose names the settings use.'))),
			place,
			h('p', { class: 'actions' },
				button('Save and put live', () => save('Save and put live', true), { disabled: reason !== '', class: 'primary' }),
				button('Save as draft', () => save('Save as draft', false), { disabled: reason !== '' || !preset, title: preset ? null : 'The first version is always live' }))),
		update: (next) => {
			if (!preset || next.tag === preset.tag || isSaved) {
				return
			}
			fill(notice, h('div', { class: 'note' }, h('p', null, 'Someone else changed the preset since you began. Your edits are untouched.'), changesOf(preset.data, next.data),
				h('p', { class: 'actions' }, button('Look again', () => {
					preset = next
					fill(notice)
				}, { class: 'small' }))))
		},
	}
}
