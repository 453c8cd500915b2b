// The labels of a preset: set, move, remove and split them, and see their history.

import { presetPath } from './addresses.js'
import { button, field, fill, h, row, setWrong, submit, table, user, when } from './elements.js'
import * as api from './api.js'
import * as session from './session.js'
import { versionChoices } from './compare.js'
import { conflict } from './conflict.js'
import { openDialog } from './dialogs.js'
import { presetFrame } from './preset.js'
import { live, pages, whenChanging } from './states.js'
import { say } from './status.js'

/**
 * @typedef {import('./states.js').Context} Context
 * @typedef {api.Answer<api.Preset>} PresetAnswer
 */

/**
 * targetText says what a label stands for. The weights of a split are shown as percent.
 *
 * @param {api.Target | null} target
 */
export function targetText(target) {
	if (!target) {
		return 'not set'
	}
	if (!target.split) {
		return target.version ? `v${target.version}` : 'not set'
	}
	const sum = target.split.reduce((total, share) => total + share.weight, 0)
	return target.split.map((share) => `v${share.version} ${percent(share.weight, sum)} %`).join(' · ')
}

/**
 * @param {number} weight
 * @param {number} sum
 */
function percent(weight, sum) {
	return String(Math.round((weight / sum) * 10000) / 100)
}

/** @param {Context} context */
export function labelsView(context) {
	const frame = presetFrame(context, 'labels', (preset) => labelsBody(context, /** @type {PresetAnswer} */ (preset)))
	return { ...frame, title: `Labels · ${context.address.slug}` }
}

/**
 * @param {Context} context
 * @param {PresetAnswer} preset
 */
function labelsBody(context, preset) {
	const { workspace, address: { slug } } = context
	const at = { workspace, slug }
	let current = preset
	const reason = session.readOnlyReason()
	const isClosed = () => reason !== '' || current.data.status !== 'active'

	const list = h('div')
	const showList = () => {
		const labels = Object.entries(current.data.labels)
		fill(list, labels.length === 0
			? h('p', { class: 'empty' }, 'No label is set. A label is a movable name for a version, such as staging. Requests name it as ', h('code', null, user(`@preset/${slug}@staging`)), '.')
			: table('Labels', ['Label', 'Stands for', 'Change'], labels.map(([name, target]) => row({}, [
				['Label', h('span', { class: 'slug' }, user(name))],
				['Stands for', shares(target)],
				['Change', h('span', { class: 'actions' },
					button('Move', () => edit(name, target), { class: 'small', disabled: isClosed(), 'data-key': `move-${name}`, 'aria-label': `Move ${name}` }),
					button('History', () => history(context, name), { class: 'small', 'data-key': `history-${name}`, 'aria-label': `History of ${name}` }),
					button('Remove', () => remove(context, current, name, target), { class: 'small', disabled: isClosed(), 'data-key': `remove-${name}`, 'aria-label': `Remove ${name}` }))],
			]))))
	}

	const name = h('input', { type: 'text', autocomplete: 'off', spellcheck: 'false', maxlength: 64 })
	const parts = h('div', { class: 'shares' })
	const total = h('p', { class: 'muted number', role: 'status' })
	const place = h('div')
	const set = submit('Set label', { disabled: isClosed() })

	/** @type {{ version: HTMLSelectElement, weight: HTMLInputElement, element: HTMLElement }[]} */
	let rows = []
	/**
	 * @param {number} version
	 * @param {string} share
	 */
	const addRow = (version, share) => {
		const { selects: [select] } = versionChoices(context, [version])
		const weight = h('input', { type: 'number', min: 0, max: 100, step: 'any', value: share, class: 'weight', oninput: showTotal })
		const n = rows.length + 1
		const one = {
			version: select, weight,
			element: h('div', { class: 'share' },
				field(n === 1 ? 'Version' : `Version ${n}`, select),
				field(n === 1 ? 'Percent' : `Percent ${n}`, weight),
				button('Take out', () => {
					rows = rows.filter((other) => other !== one)
					showRows()
				}, { class: 'small', 'aria-label': `Take out version ${n}` })),
		}
		rows = [...rows, one]
	}
	const showRows = () => {
		if (rows.length === 1) {
			rows[0].weight.value = '100'
		}
		fill(parts, rows.map((one) => one.element))
		parts.classList.toggle('single', rows.length === 1)
		showTotal()
	}
	const showTotal = () => {
		const sum = rows.reduce((all, one) => all + Number(one.weight.value), 0)
		const isRight = Math.abs(sum - 100) < 0.005
		total.textContent = rows.length === 1 ? '' : isRight ? 'The percentages add up to 100.' : `The percentages add up to ${Math.round(sum * 100) / 100}, not to 100.`
		total.classList.toggle('bad', !isRight)
		return isRight
	}
	/**
	 * @param {string} label
	 * @param {api.Target} target
	 */
	const edit = (label, target) => {
		name.value = label
		rows = []
		const split = target.split ?? [{ version: target.version ?? 1, weight: 1 }]
		const sum = split.reduce((all, share) => all + share.weight, 0)
		split.forEach((share) => addRow(share.version, percent(share.weight, sum)))
		showRows()
		rows[0].version.focus()
	}
	const run = async () => {
		const label = name.value.trim()
		setWrong(name)
		if (!/^[A-Za-z0-9][A-Za-z0-9._~-]{0,63}$/.test(label)) {
			setWrong(name, 'A label begins with a letter or digit, and has only letters, digits and . _ ~ -')
			name.focus()
			return
		}
		if (!showTotal()) {
			rows[0].weight.focus()
			return
		}
		const target = rows.length === 1
			? { version: Number(rows[0].version.value) }
			: { split: rows.map((one) => ({ version: Number(one.version.value), weight: Math.round(Number(one.weight.value) * 100) })) }
		const before = current.data.labels[label]
		await whenChanging(place, set, async () => {
			const answer = await api.change('PUT', presetPath(at, `labels/${encodeURIComponent(label)}`), target, current.tag)
			say(`${label} is ${targetText(target)}.`, { name: 'Undo', run: () => putBack(at, label, before, answer.tag) })
			name.value = ''
			rows = []
			addRow(current.data.designated_version?.version ?? 1, '100')
			showRows()
		}, (failure) => {
			const issue = failure.issues.find((one) => one.path === 'label')
			if (issue) {
				setWrong(name, issue.message)
				name.focus()
			}
			return conflict(context, failure, current, (now) => {
				current = now
				showList()
			})
		})
	}
	addRow(preset.data.designated_version?.version ?? 1, '100')
	showRows()
	showList()
	return {
		element: h('div', { class: 'columns' },
			h('section', null, h('h2', null, 'Labels'), list),
			h('section', { class: 'panel' }, h('h2', null, 'Set a label'),
				h('form', { novalidate: true, onsubmit: (/** @type {Event} */ event) => {
					event.preventDefault()
					void run()
				} },
				field('Label', name, 'A new one, or one to move. Numbers and latest are reserved.'),
				parts, total,
				h('p', null, button('Split between versions', () => {
					addRow(Number(rows[0].version.value), '0')
					showRows()
					rows.at(-1)?.version.focus()
				}, { class: 'small', disabled: isClosed() })),
				place,
				h('p', { class: 'actions' }, set)))),
		/** @param {PresetAnswer} next */
		update: (next) => {
			current = next
			set.disabled = isClosed()
			showList()
		},
	}
}

/** @param {api.Target} target */
function shares(target) {
	if (!target.split) {
		return h('span', { class: 'number' }, `v${target.version}`)
	}
	const sum = target.split.reduce((all, share) => all + share.weight, 0)
	const bar = h('span', { class: 'bar', 'aria-hidden': 'true' }, target.split.map((share) => {
		const piece = h('span')
		piece.style.flexGrow = String(share.weight / sum)
		return piece
	}))
	return h('span', { class: 'split-target' }, h('span', { class: 'number' }, targetText(target)), bar)
}

/**
 * putBack makes a label what it was before a change.
 *
 * @param {{ workspace: string, slug: string }} at
 * @param {string} label
 * @param {api.Target | undefined} before
 * @param {string} tag of the label after the change, empty if it is to be read
 */
async function putBack(at, label, before, tag) {
	const path = presetPath(at, `labels/${encodeURIComponent(label)}`)
	try {
		tag ||= (await api.read(path)).tag // a removed label keeps its tag
		await (before ? api.change('PUT', path, before, tag) : api.change('DELETE', path, undefined, tag))
		say(before ? `${label} is ${targetText(before)} again.` : `${label} is removed again.`)
	} catch (thrown) {
		const failure = api.failureOf(thrown)
		say(failure.status === 412 ? 'Nothing was changed, because the label has changed meanwhile.' : `Error: ${failure.message}`)
	}
}

/**
 * @param {Context} context
 * @param {PresetAnswer} preset
 * @param {string} label
 * @param {api.Target} target
 */
function remove(context, preset, label, target) {
	const at = { workspace: context.workspace, slug: preset.data.slug }
	const place = h('div')
	const confirm = submit('Remove', { class: 'danger' })
	let { tag } = preset
	const { close } = openDialog('Remove', `Remove the label ${label}?`, [
		h('p', null, 'Requests for ', h('code', null, user(`@preset/${at.slug}@${label}`)), ` get 404 from then on. They get ${targetText(target)} now.`), place,
	], {
		signal: context.signal,
		actions: [confirm],
		submit: async () => {
			const isDone = await whenChanging(place, confirm, async () => {
				await api.change('DELETE', presetPath(at, `labels/${encodeURIComponent(label)}`), undefined, tag)
				say(`${label} is removed.`, { name: 'Undo', run: () => putBack(at, label, target, '') })
			}, (failure) => conflict(context, failure, preset, (now) => (tag = now.tag)))
			if (isDone) {
				close()
			}
		},
	})
}

/**
 * history shows the changes of a label.
 *
 * @param {Context} context
 * @param {string} label
 */
function history(context, label) {
	const at = { workspace: context.workspace, slug: context.address.slug }
	const closing = new AbortController()
	const limit = 20
	let offset = 0
	const path = () => presetPath(at, `labels/${encodeURIComponent(label)}`, { offset, limit })
	const list = live({ ...context, signal: closing.signal }, path(), (answer) => {
		/** @type {api.Label} */
		const found = answer.data
		return [
			table('Changes', ['When', 'By', 'Before', 'After'], found.history.map((change) => row({}, [
				['When', when(change.time)], ['By', user(change.user_id)], ['Before', h('span', { class: 'number' }, targetText(change.from))], ['After', h('span', { class: 'number' }, targetText(change.to))],
			]))),
			found.history_count > limit && pages(offset, limit, found.history_count, (next) => {
				offset = next
				list.show(path())
			}),
		]
	})
	openDialog('History', `History of ${label}`, [list.element], { style: 'wide', signal: context.signal, onClose: () => closing.abort() })
}
