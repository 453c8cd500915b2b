// The workbench: a version is written on the left, tried unsaved on the right, and saved or put live.

import { presetPath, settingsOf, toPreset } from './addresses.js'
import { button, choice, code, field, fill, h, setWrong, shortcut, textInput } from './elements.js'
import * as api from './api.js'
import * as session from './session.js'
import { check, keepLineBreaks, placeOf, readTemplate, requestOf, routes, variableNames, variablesOf } from './capture.js'
import { queryOf, refOf, targetChoices, versionOf } from './target.js'
import { changesOf, conflict, failed } from './conflict.js'
import { ask, openDialog } from './dialogs.js'
import { differences, readSide } from './differences.js'
import { savedInputs } from './inputs.js'
import { warning } from './invisible.js'
import { compact, find, format, lineOf, parse, parseAs } from './json.js'
import { isLabelRight } from './labels.js'
import { dropEdits, go, replace, setGuard } from './navigation.js'
import { presetFrame } from './preset.js'
import { designate, pinned, putLive } from './preset_changes.js'
import { changeReason, labelReason, serveReason } from './rights.js'
import { settingsFields } from './settings_fields.js'
import { attempt, errorBox, load } from './states.js'
import { say } from './status.js'
import { colourJSON, colourMarkdown, textEditor } from './text_editor.js'
import { trial } from './trial.js'

const nothing = { name: 'nothing', version: 0, prompt: null, settings: '{}', template: '{}' }
const firstSettings = '{"model": "openai/gpt-5-mini", "temperature": 0.7}'
const storedPlain = 'presets.plain'

/** @type {MakeView} */
export function editView(context) {
	const { at, signal, address } = context
	const frame = presetFrame(context, 'edit', (preset, select) => {
		const place = h('div'), actions = h('div', { class: 'actions' })
		/** @type {PresetBody['update']} */
		let update
		const ref = refOf(address)
		load(place, signal, async () => {
			const body = workbench(context, preset, await readSide(at, versionOf(preset.data, ref), signal), ref, actions, select)
			update = body.update
			return body.element
		})
		return { element: place, actions: [actions], update: (next) => update?.(next) }
	}, () => {
		const actions = h('div', { class: 'actions' })
		return { ...workbench(context, undefined, { ...nothing, settings: firstSettings, dialect: 'chat' }, '', actions, () => {}), actions: [actions] }
	})
	return { ...frame, title: `Workbench · ${at.slug}` }
}

/**
 * @param {Context} context
 * @param {PresetAnswer | undefined} preset as it was when the edit began, or was looked at
 * @param {Side & { version: number, dialect: Dialect }} base what the edit began with
 * @param {string} ref what the address names
 * @param {HTMLElement} actions the place for the main actions
 * @param {(ref: string) => void} select
 * @returns {PresetBody & { element: Element }}
 */
function workbench(context, preset, base, ref, actions, select) {
	const { at, signal } = context, mayTry = session.mayChange()
	let timer = 0
	const dialects = choice(Object.keys(routes).map((name) => ({ value: name, text: name })), base.dialect)
	const dialect = () => /** @type {Dialect} */ (dialects.value)
	const checkSoon = () => {
		clearTimeout(timer)
		timer = window.setTimeout(() => showProblems(findProblems()), 400)
		changed()
	}
	const prompt = textEditor(base.prompt ?? '', colourMarkdown, () => changed())
	const settings = textEditor(format(parse(base.settings)), colourJSON, checkSoon), messages = textEditor(format(readTemplate(base.template).messages), colourJSON, checkSoon)
	const oldMessages = () => readTemplate(base.template).messages.items
	const [promptField, settingsField, messagesField] = /** @type {const} */ ([['Prompt', prompt], ['Settings', settings], ['Messages', messages]]).map(([name, editor]) => {
		const place = field(name, editor.area)
		editor.takeFrom(place)
		editor !== messages || place.classList.add('short')
		return place
	})
	const message = textInput({ maxlength: 500, placeholder: 'Why this version exists' }), label = textInput({ maxlength: 64 })
	const fields = settingsFields(dialect, () => settings.area.value, (text) => {
		settings.setValue(text)
		checkSoon()
	}, (name) => {
		showAs(true)
		const found = parse(settings.area.value).members.find((member) => member.name === name)
		found && settings.showLine(lineOf(settings.area.value, found.start))
	})
	const isTemplate = h('input', { type: 'checkbox', onchange: () => changed() })
	const names = h('div', { role: 'status', class: 'names' }), messagesName = h('summary'), messagesBox = h('details', { class: 'messages', open: oldMessages().length > 0 }, messagesName, messages.search, messagesField)
	prompt.area.setAttribute('data-key', 'prompt') // which a link skips to
	const warned = h('div', { role: 'status' }), unseen = h('div', { role: 'status' }), place = h('div'), notice = h('div')

	/** What is saved, to compare with. */
	let before = { prompt: '', settings: '', messages: '', isTemplate: false }
	const now = () => ({ prompt: prompt.area.value, settings: settings.area.value, messages: messages.area.value, isTemplate: isTemplate.checked })
	const isChanged = () => JSON.stringify(now()) !== JSON.stringify(before)
	isTemplate.checked = base.template !== '{}'
	before = now()
	let isOver = false
	context.setGuard(() => !isOver && isChanged())

	const readMessages = () => parseAs(isTemplate.checked ? messages.area.value : '[]', 'array')
	const findNames = () => variablesOf(prompt.area.value, readMessages().items, dialect())
	/** What would be saved. Its prompt has the line breaks of before. */
	const written = () => {
		const text = keepLineBreaks(prompt.area.value, base.prompt ?? '', before.prompt)
		const template = isTemplate.checked ? `{"variables":${JSON.stringify(findNames())},"messages":[${readMessages().items.map((item) => compact(item))}]}` : '{}'
		return { name: 'unsaved', prompt: text === '' && base.prompt !== '' ? null : text, settings: settings.area.value, template }
	}
	const bodyOf = (/** @type {Side} */ side) => requestOf(dialect(), side.prompt, side.settings, readMessages().items, base.settings, oldMessages())

	/** @param {Problem} problem */
	const inWords = (problem) => `line ${problem.line}: ${problem.message}`
	const findProblems = () => check(settings.area.value, isTemplate.checked ? messages.area.value : '[]', dialect())
	/** Shows errors and warnings at their places, and goes to the first error if wanted. @param {Problem[]} problems */
	const showProblems = (problems, isWanted = false) => {
		const first = problems.find((problem) => !problem.isWarning)
		if (first?.field === 'Settings' && settingsField.hidden) {
			showAs(true)
		}
		for (const [name, json] of /** @type {const} */ ([['Settings', settings], ['Messages', messages]])) {
			const inside = problems.filter((problem) => problem.field === name)
			json.setNotes(inside)
			messagesBox.open ||= json === messages && inside.length > 0
			setWrong(json.area, inside.filter((problem) => !problem.isWarning).map(inWords).join('; '))
		}
		fill(warned, problems.filter((problem) => problem.isWarning).map((problem) => h('p', { class: 'warned' }, `Settings, ${inWords(problem)}.`)))
		setWrong(prompt.area, problems.filter((problem) => problem.field === 'Prompt').map((problem) => problem.message).join('; '))
		if (first && isWanted) {
			first.field === 'Prompt' ? prompt.area.focus() : (first.field === 'Settings' ? settings : messages).showLine(first.line)
		}
	}
	/** @param {Failure} failure @param {boolean} hasPrompt @returns {Problem[]} */
	const problemsOf = (failure, hasPrompt) => failure.issues.filter((issue) => issue.path.startsWith('/')).map(({ path, message: text }) => {
		const { field: where, pointer } = placeOf(path, dialect(), hasPrompt, isTemplate.checked)
		const { value } = (where === 'Messages' ? messages : settings).area
		return { field: where, line: lineOf(value, find(parse(value), pointer)), message: `${path}: ${text}` }
	})
	/** Tells whether all is right that can be told here, and shows what is not. */
	const isRight = () => {
		clearTimeout(timer)
		const problems = findProblems()
		fill(place)
		showProblems(problems, true)
		return !fields.isWrong() && problems.every((problem) => problem.isWarning)
	}

	// The names of settings, while one is typed as JSON. Tab takes the first.
	const completions = h('p', { class: 'other-settings completions', role: 'status' })
	const complete = (/** @type {string} */ name) => {
		const { value, selectionStart: end } = settings.area, typed = /[A-Za-z_]*$/.exec(value.slice(0, end))?.[0] ?? ''
		settings.area.setSelectionRange(end - typed.length, value[end] === '"' ? end + 1 : end)
		document.execCommand('insertText', false, `${name}": `) // which the browser can undo
	}
	const offer = () => {
		const { value, selectionStart: end } = settings.area, typed = /[{,]\s*"([A-Za-z_]+)$/.exec(value.slice(0, end))?.[1]
		const known = typed === undefined ? [] : settingsOf(routes[dialect()]).filter((name) => name.startsWith(typed) && !value.includes(`"${name}"`)).slice(0, 8)
		fill(completions, known.map((name) => h('button', { type: 'button', class: 'chip mono', onpointerdown: (/** @type {Event} */ event) => {
			event.preventDefault()
			complete(name)
		} }, name)))
	}
	settings.area.addEventListener('input', offer)
	settings.area.addEventListener('blur', () => fill(completions))
	settings.area.addEventListener('keydown', (event) => {
		const first = completions.firstElementChild?.textContent
		if (event.key === 'Tab' && !event.shiftKey && first) {
			event.preventDefault()
			complete(first)
		}
	})

	// The settings as fields, or as JSON.
	const asFields = button('Fields', () => showAs(false), { class: 'small', 'aria-pressed': 'true' }), asJSON = button('JSON', () => showAs(true), { class: 'small', 'aria-pressed': 'false' })
	const showAs = (/** @type {boolean} */ isJSON) => {
		const isBroken = parseAs(settings.area.value).problem !== ''
		isJSON ||= isBroken
		asFields.setAttribute('aria-pressed', String(!isJSON))
		asJSON.setAttribute('aria-pressed', String(isJSON))
		settingsField.hidden = completions.hidden = !isJSON
		fields.element.hidden = isJSON
		isJSON || fields.read()
		isBroken && showProblems(findProblems(), true)
	}

	// The main actions.
	const draft = button(['Save draft', shortcut('⌃S')], () => saveDraft(), { 'data-key': 'save-draft', title: 'Ctrl+S' })
	const live = button('Put live…', () => goLive(), { class: 'primary', 'data-key': 'save-live' })
	const compare = button('Changes', () => showChanges(), { class: 'quiet', 'data-key': 'changes' })
	const why = h('p', { class: 'hint why', role: 'status' })
	fill(actions, compare, draft, live)
	const showActions = () => {
		const isDisabled = preset !== undefined && preset.data.status !== 'active', guarded = preset?.data ?? { protected: false, managed_by: null, labels: {} }
		const cannotServe = serveReason(at, guarded), cannotChange = changeReason(at, guarded), isLive = preset?.data.designated_version.version === base.version
		live.disabled = isDisabled || cannotServe !== '' || (isLive && !isChanged())
		draft.disabled = isDisabled || cannotChange !== '' || !preset || !isChanged()
		compare.hidden = !preset || !isChanged()
		why.textContent = isDisabled ? 'This preset is disabled, so it takes no new versions.' : cannotServe || (!preset ? 'The first version is always live.' : isChanged() ? '' : `This is v${base.version} as it is.`)
	}
	const template = () => ({ names: isTemplate.checked ? findNames() : [], hasMessages: readMessages().items.length > 0 })
	let shownNames = ''
	const changed = () => {
		const found = findNames(), state = [isTemplate.checked, isChanged(), dialect(), ...found].join(), { problem, items } = readMessages()
		messagesName.textContent = `Messages: ${problem ? 'wrong' : items.length || 'none'}`
		fill(unseen, warning([prompt, settings, messages].map(({ area }) => area.value).join('\n'), '', 'They are marked below') ?? '')
		if (state !== shownNames) {
			shownNames = state
			messagesBox.hidden = !isTemplate.checked
			fill(names, isTemplate.checked ? variableNames(found) : found.length > 0 && h('p', null, `Template is off, so the braces around ${found.join(', ')} are text.`))
			right.refresh()
		}
		right.showAge()
		showActions()
	}

	/** Keeps what was saved as what the edit begins with. @param {Answer<any>} answer */
	const saved = async (answer) => {
		const { version } = answer.data.created_version ?? answer.data.designated_version
		if (!preset) {
			isOver = true
			dropEdits()
			go(toPreset(at, 'edit', { from: version }))
			return version
		}
		preset = answer
		before = now()
		base = await readSide(at, version, signal)
		message.value = label.value = ''
		ref = String(version)
		fill(notice)
		if (![...chosen.options].some(({ value }) => value === ref)) {
			chosen.prepend(h('option', { value: ref }, `v${version}`))
		}
		chosen.value = ref
		replace(toPreset(at, 'edit', { from: version }))
		select(ref)
		changed()
		return version
	}
	const ignoredBy = (/** @type {Answer<any>} */ { headers }) => {
		const ignored = headers.get('X-Preset-Ignored')
		return ignored ? ` The server does not know, and ignored: ${ignored}.` : ''
	}
	/** @param {Side} side @param {boolean} isLive */
	const send = (side, isLive) => api.change('POST', presetPath(at, routes[dialect()], {
		designate: isLive ? '' : 'false', template: isTemplate.checked ? 'true' : '', message: message.value.trim(), label: isLive ? label.value.trim() : '',
	}), bodyOf(side), preset?.tag ?? api.absent)
	/** @param {Side} side @param {() => void} lookedAgain @returns {Explain} */
	const explain = (side, lookedAgain) => (failure) => {
		const found = failure.status === 400 ? problemsOf(failure, side.prompt !== null) : []
		if (found.length > 0) {
			showProblems(found, true)
		}
		return preset && conflict(failure, presetPath(at), preset, (next) => {
			preset = next
			fill(notice)
			fill(place)
			lookedAgain()
			showActions()
		})
	}
	const saveDraft = () => {
		if (draft.disabled || !isRight()) {
			return
		}
		const side = written()
		attempt(place, draft, async () => {
			const answer = await send(side, false), version = await saved(answer)
			say(`v${version} is saved as a draft.${ignoredBy(answer)}`)
		}, explain(side, () => {})).finally(showActions)
	}
	const showChanges = () => openDialog('Changes', `Changes since v${base.version}`, [parseAs(settings.area.value).problem ? h('p', { class: 'note' }, 'The settings are no JSON yet.') : differences({ ...base, name: `v${base.version}` }, written(), signal)], { style: 'wide', signal })
	/** Shows what is new for requests, then saves it and puts it live. */
	const goLive = () => {
		if (preset && !isChanged()) {
			putLive(context, preset, base.version)
			return
		}
		setWrong(label)
		if (!isRight()) {
			return
		}
		const side = written()
		const sentence = h('p'), comparison = h('div'), stays = h('div'), reason = textInput({ maxlength: 500, value: message.value })
		const closing = new AbortController()
		const liveVersion = () => preset?.data.designated_version.version ?? 0
		const { close } = ask(context, 'Put live', preset ? 'Save and put live?' : `Create ${at.slug}?`, [
			sentence, stays, h('div', { class: 'columns even' }, field('Message', reason, 'Why this version exists.'), field('Also set the label', label, 'Optional, in the same step.')),
			...[...warned.children].map((one) => one.cloneNode(true)), comparison,
		], async () => {
			if (label.value !== '' && !isLabelRight(label, preset ? labelReason(at, preset.data, label.value.trim()) : '')) {
				throw api.newFailure('The label is not right.', { status: 400 })
			}
			message.value = reason.value
			const earlier = liveVersion(), answer = await send(side, true), version = await saved(answer)
			say(`v${version} is saved and live.${ignoredBy(answer)}`, earlier ? { name: 'Undo', run: () => designate(at, earlier, answer.tag).catch(failed) } : undefined)
		}, {
			isWide: true, isDisposable: true,
			onClose: () => closing.abort(),
			explain: (failure) => {
				const own = explain(side, show)(failure)
				if (failure.status === 400 && failure.issues.some((issue) => issue.path.startsWith('/'))) {
					close()
					fill(place, errorBox(failure))
					showProblems(problemsOf(failure, side.prompt !== null), true)
				}
				return own
			},
		})
		const show = () => {
			const from = liveVersion(), named = code(`@preset/${at.slug}`)
			fill(sentence, preset ? ['Requests for ', named, ` get it in place of v${from}, from the next one on.`] : ['This creates ', named, ', and requests get it from then on.'])
			fill(stays, preset && pinned(preset.data))
			load(comparison, closing.signal, async () => differences(from ? await readSide(at, from, closing.signal) : nothing, side, closing.signal))
		}
		show()
	}

	// What the left is about.
	const chosen = preset ? targetChoices(context, preset, ref, [{ value: '', text: 'live' }]) : choice([{ value: '', text: 'new' }], '')
	chosen.addEventListener('change', () => {
		const next = chosen.value
		chosen.value = ref // until it is left
		go(toPreset(at, 'edit', queryOf(next)))
	})
	/** @type {Draft} */
	const left = {
		isChanged: () => mayTry && (!preset || isChanged()), ref: () => ref, dialect, template, isTemplate: () => isTemplate.checked, keyChanged: fields.showModel, state: () => JSON.stringify(now()), body: () => bodyOf(written()), setGuard: (guard) => {
			dropTrial()
			dropTrial = setGuard(guard)
		},
		problem: () => (parseAs(settings.area.value).problem || readMessages().problem || fields.isWrong() ? 'What stands on the left is not right yet.' : ''),
	}
	const right = trial(context, preset, left)
	preset && right.inputs.append(savedInputs(context, () => /** @type {PresetAnswer} */ (preset), left, right))
	let dropTrial = () => {}
	const isPlain = () => sessionStorage.getItem(storedPlain) !== null
	const colours = button('Colours', () => {
		isPlain() ? sessionStorage.removeItem(storedPlain) : sessionStorage.setItem(storedPlain, '1')
		showColours()
	}, { class: 'small' })
	const showColours = () => {
		colours.setAttribute('aria-pressed', String(!isPlain()))
		;[prompt, settings, messages].forEach((editor) => editor.setColoured(!isPlain()))
	}
	for (const control of mayTry ? [] : [prompt.area, settings.area, messages.area]) {
		control.readOnly = true
	}
	if (!mayTry) {
		fields.element.setAttribute('inert', '')
		isTemplate.disabled = true
	}
	dialects.addEventListener('change', () => {
		showAs(asJSON.getAttribute('aria-pressed') === 'true')
		checkSoon()
	})
	const element = h('div', { class: 'workbench' },
		h('section', { class: 'writing', 'aria-label': 'Version' },
			notice,
			h('div', { class: 'strip' },
				h('span', { class: 'inline-field' }, field('Version or label', chosen)), preset ? h('span', { class: 'muted small made-as' }, `made as ${base.dialect}`) : h('span', { class: 'inline-field' }, field('Made as', dialects)),
				h('label', { class: 'check' }, isTemplate, 'Template'), h('span', { class: 'gap' }), button('Find', prompt.find, { class: 'small', title: 'Ctrl+F' }), colours,
				h('span', { class: 'group', role: 'group', 'aria-label': 'Settings as' }, asFields, asJSON)),
			fields.element, settingsField, completions, warned, place, unseen,
			prompt.search, promptField, h('div', { class: 'strip' }, messagesBox, names), h('div', { class: 'message-line' }, mayTry && field('Message', message), why)),
		h('section', { class: 'trying', 'aria-label': 'Trial' }, right.element))
	/** @param {KeyboardEvent} event */
	const press = (event) => {
		if (!(event.ctrlKey || event.metaKey) || event.altKey || document.querySelector('dialog:modal')) {
			return
		}
		if (event.key === 'Enter') {
			right.run()
		} else if (event.key === 's') {
			saveDraft()
		} else {
			return
		}
		event.preventDefault()
	}
	addEventListener('keydown', press, { signal })
	showColours()
	showAs(false)
	changed()
	return {
		element,
		update: (next) => {
			right.update(next)
			if (!preset || next.tag === preset.tag) {
				showActions()
				return
			}
			if (!isChanged()) {
				preset = next
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
