// The editor of a new version. It begins with the prompt and the settings of a version.

import { presetPath, toVersion } from './addresses.js'
import { button, choice, code, field, fill, form, h, setWrong, textInput } from './elements.js'
import * as api from './api.js'
import { check, keepLineBreaks, placeOf, requestOf, routes } from './capture.js'
import { changesOf, conflict, failed } from './conflict.js'
import { ask } from './dialogs.js'
import { differences, readSide } from './differences.js'
import { jsonEditor } from './editor.js'
import { compact, find, format, lineOf, parse, parseAs } from './json.js'
import { isLabelRight } from './labels.js'
import { dropEdits, go } from './navigation.js'
import { presetFrame } from './preset.js'
import { designate } from './preset_changes.js'
import { changeReason, labelReason, serveReason } from './rights.js'
import { errorBox, load } from './states.js'
import { say } from './status.js'
import { readTemplate, variableNames, variablesOf } from './template.js'

const nothing = { name: 'nothing', version: 0, prompt: null, settings: '{}', template: '{}' }
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
	const formatted = format(parse(base.settings))
	const { messages: baseMessages } = readTemplate(base.template), formattedMessages = format(baseMessages)

	const dialects = choice(Object.keys(routes).map((name) => ({ value: name, text: name })), base.dialect)
	const dialect = () => /** @type {Dialect} */ (dialects.value)
	const prompt = h('textarea', { value: base.prompt ?? '', rows: 16, dir: 'auto', class: 'mono' })
	const message = textInput({ maxlength: 500 })
	const label = textInput({ maxlength: 64 })
	let timer = 0
	const checkSoon = () => {
		clearTimeout(timer)
		timer = window.setTimeout(() => showProblems(findProblems()), 400)
		showActions()
	}
	const settings = jsonEditor(formatted, checkSoon), messages = jsonEditor(formattedMessages, checkSoon)
	const settingsField = field('Settings', settings.area, 'JSON, sent as it is written. Numbers keep their digits.')
	settings.takeFrom(settingsField)
	const messagesField = field('Messages', messages.area, 'A JSON list, such as [{"role": "user", "content": "About {{city}}"}]. They come before those of a request.')
	messages.takeFrom(messagesField)
	const isTemplate = h('input', { type: 'checkbox', onchange: () => {
		showNames()
		showActions()
	} })
	const wasTemplate = isTemplate.checked = base.template !== '{}'
	const names = h('div', { role: 'status' })
	const readMessages = () => parseAs(isTemplate.checked ? messages.area.value : '[]', 'array')
	const findNames = () => variablesOf(prompt.value, readMessages().items, dialect())
	const showNames = () => {
		const found = findNames()
		messagesField.hidden = !isTemplate.checked
		fill(names, isTemplate.checked ? variableNames(found) : found.length > 0 && `Template is off, so the braces around ${found.join(', ')} are text.`)
	}
	const notice = h('div'), place = h('div'), warned = h('div', { role: 'status' })
	let isSaved = false
	const before = prompt.value // with the line breaks of the browser
	const isChanged = () => prompt.value !== before || settings.area.value !== formatted || messages.area.value !== formattedMessages || isTemplate.checked !== wasTemplate
	context.setGuard(() => !isSaved && (isChanged() || message.value + label.value !== ''))
	const live = button('Save and put live', () => save('Save and put live', true), { class: 'primary' })
	const draft = button('Save as draft', () => save('Save as draft', false))
	const why = h('p', { class: 'hint', role: 'status' })
	const showActions = () => {
		const isDisabled = preset !== undefined && preset.data.status !== 'active', guarded = preset?.data ?? { protected: false, managed_by: null, labels: {} }
		const cannotServe = serveReason(at, guarded), cannotChange = changeReason(at, guarded)
		live.disabled = isDisabled || cannotServe !== ''
		draft.disabled = isDisabled || cannotChange !== '' || !preset || !isChanged()
		why.textContent = isDisabled ? 'This preset is disabled, so it takes no new versions.' : cannotServe || (!preset ? 'The first version is always live.' : isChanged() ? '' : `A draft needs a change: this is v${base.version} as it is.`)
	}

	/** @param {Problem} problem */
	const inWords = (problem) => `line ${problem.line}: ${problem.message}`
	/** @param {Problem[]} problems */
	const warningsOf = (problems) => problems.filter((problem) => problem.isWarning)
	/** Shows errors and warnings at their places, and goes to the first error if wanted. @param {Problem[]} problems */
	const showProblems = (problems, isWanted = false) => {
		const first = problems.find((problem) => !problem.isWarning)
		for (const [name, json] of /** @type {const} */ ([['Settings', settings], ['Messages', messages]])) {
			const inside = problems.filter((problem) => problem.field === name)
			json.setNotes(inside)
			setWrong(json.area, inside.filter((problem) => !problem.isWarning).map(inWords).join('; '))
		}
		fill(warned, warningsOf(problems).map((problem) => h('p', { class: 'warned' }, `Settings, ${inWords(problem)}.`)))
		setWrong(prompt, problems.filter((problem) => problem.field === 'Prompt').map((problem) => problem.message).join('; '))
		if (first && isWanted) {
			first.field === 'Prompt' ? prompt.focus() : (first.field === 'Settings' ? settings : messages).showLine(first.line)
		}
	}
	const findProblems = () => check(settings.area.value, isTemplate.checked ? messages.area.value : '[]', dialect())
	/** @param {Failure} failure @param {boolean} hasPrompt @returns {Problem[]} */
	const problemsOf = (failure, hasPrompt) => failure.issues.filter((issue) => issue.path.startsWith('/')).map(({ path, message: text }) => {
		const { field: where, pointer } = placeOf(path, dialect(), hasPrompt, isTemplate.checked)
		const { value } = (where === 'Messages' ? messages : settings).area
		return { field: where, line: lineOf(value, find(parse(value), pointer)), message: `${path}: ${text}` }
	})

	/** Shows what is new, and saves it. @param {string} name @param {boolean} isLive */
	const save = (name, isLive) => {
		clearTimeout(timer)
		const problems = findProblems()
		fill(place)
		showProblems(problems, true)
		setWrong(label)
		if (problems.some((problem) => !problem.isWarning) || (label.value !== '' && !isLabelRight(label, preset ? labelReason(at, preset.data, label.value.trim()) : ''))) {
			return
		}
		const text = keepLineBreaks(prompt.value, base.prompt ?? '', before)
		const own = readMessages()
		const template = isTemplate.checked ? `{"variables":${JSON.stringify(findNames())},"messages":[${own.items.map((item) => compact(item))}]}` : '{}'
		const after = { name: 'new', prompt: text === '' && base.prompt !== '' ? null : text, settings: settings.area.value, template }
		const body = requestOf(dialect(), after.prompt, after.settings, own.items, base.settings, baseMessages.items)
		const path = presetPath(at, routes[dialect()], { designate: isLive ? '' : 'false', template: isTemplate.checked ? 'true' : '', message: message.value.trim(), label: label.value.trim() })
		const sentence = h('p'), comparison = h('div')
		const closing = new AbortController()
		const liveVersion = () => preset?.data.designated_version.version ?? 0
		const { close } = ask(context, name, isLive ? `Save and put ${at.slug} live?` : 'Save as a draft?', [sentence, warningsOf(problems).map((problem) => h('p', { class: 'note' }, `Settings, ${inWords(problem)}.`)), comparison].flat(), async () => {
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
				const found = failure.status === 400 ? problemsOf(failure, after.prompt !== null) : []
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

	prompt.addEventListener('input', showNames)
	prompt.addEventListener('input', showActions)
	messages.area.addEventListener('input', showNames)
	dialects.addEventListener('change', showNames)
	dialects.addEventListener('change', checkSoon)
	showNames()
	showActions()
	return {
		element: form({ class: 'editor' }, () => {},
			h('h2', null, preset ? `New version from v${base.version}` : 'First version'),
			notice,
			h('div', { class: 'columns even' }, h('div', null, field('Prompt', prompt), h('div', { class: 'field' },
				h('label', { class: 'check' }, isTemplate, 'Template'), h('p', { class: 'hint' }, '{{name}} is a variable, and messages are kept. Requests give the values.'), names), messagesField), h('div', null, settingsField, warned)),
			h('div', { class: 'columns even' },
				field('Message', message, 'Why this version exists.'),
				h('div', { class: 'columns even' },
					field('Also set the label', label, 'Optional, in the same step.'),
					preset ? h('p', { class: 'field' }, h('span', { class: 'caption' }, 'Made as'), `${base.dialect}, like v${base.version}`) : field('Made as', dialects, 'The API whose names the settings use.'))),
			place,
			h('p', { class: 'actions' },
				live, draft, why)),
		update: (next) => {
			if (!preset || next.tag === preset.tag || isSaved) {
				showActions()
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
