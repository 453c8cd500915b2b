// The labels of a preset: set, move, remove and split them.

import { mayLose, presetPath } from './addresses.js'
import { code, field, fill, form, h, number, setWrong, small, submit, table, textInput, user } from './elements.js'
import { percents, targetText } from './figures.js'
import * as api from './api.js'
import * as session from './session.js'
import { askFirst, changeReason, labelProtection, labelReason, presetFrame, versionChoices } from './preset.js'
import { attempt, conflict, failed, keepFocus, say } from './states.js'

const valid = /^(?!\d+$|latest$)[A-Za-z0-9][A-Za-z0-9._~-]{0,63}$/

/** Shows an error below a field that holds no label, or one that cannot be changed for a reason. @param {HTMLInputElement} control @param {string} reason */
export function isLabelRight(control, reason) {
	const isValid = valid.test(control.value.trim()), isRight = isValid && !reason
	setWrong(control, isValid ? reason : 'A label begins with a letter or digit, and has only these and . _ ~ -. Numbers and latest are reserved.')
	if (!isRight) {
		control.focus()
	}
	return isRight
}

/** @type {MakeView} */
export const labelsView = (context) => presetFrame(context, 'labels', 'Labels', (preset) => labelsBody(context, preset))

/** @param {At} at @param {string} label */
const labelPath = (at, label, query = {}) => presetPath(at, `labels/${encodeURIComponent(label)}`, query)

/** @type {MakeBody} */
function labelsBody(context, preset) {
	const { at } = context
	let seen = preset // by who fills the form
	const isClosed = () => changeReason(at, preset.data) !== '' || preset.data.status !== 'active'
	const list = h('div')
	const showList = () => keepFocus(list, () => {
		const labels = Object.entries(preset.data.labels)
		/** @param {string} text @param {string} label @param {() => unknown} run */
		const action = (text, label, run) => small(text, run, { disabled: isClosed() || labelReason(at, preset.data, label) !== '', 'data-key': `${text} ${label}`, 'aria-label': `${text} ${label}` })
		fill(list, labels.length === 0
			? h('p.empty', 'No label is set. A label is a movable name for a version, such as staging. Requests name it as ', code(`@preset/${at.slug}@staging`), '.')
			: table('Labels', labels.map(([label, target]) => [
				['Label', h('span.slug', user(label))],
				['Stands for', [number(targetText(target)), h('span.below', labelProtection(preset.data, label))]],
				['Actions', h('span.actions',
					action('Move', label, () => {
					if (mayLose(isDirty)) {
						edit(label, target)
						shares[0].version.focus()
					}
				}),
					(target.protected || session.mayChangeProtected()) && action(target.protected ? 'Unprotect' : 'Protect', label, () => protect(label, target)),
					action('Remove', label, () => remove(context, preset, label, target)))],
			])))
	})
	/** @param {string} label @param {Target} target */
	const protect = (label, target) => putBack(at, label, { ...target, protected: !target.protected }, preset.tag, target)

	const name = textInput({ maxlength: 64 })
	const chosen = () => name.value.trim()
	const parts = h('div'), place = h('div')
	const total = h('p.number', { role: 'status' })
	const set = submit('Set label', { disabled: isClosed() })
	/** @type {ShareFields[]} */
	let shares = []
	/** @param {number} version @param {number} percent */
	const addShare = (version, percent) => {
		const [select] = versionChoices(context, [version])
		const input = h('input', { type: 'number', min: 0, max: 100, step: 'any', value: percent, oninput: showTotal })
		const n = shares.length + 1
		const share = { version: select, percent: input, element: h('div.share',
			field(`Version${n > 1 ? ` ${n}` : ''}`, select), field(`Percent${n > 1 ? ` ${n}` : ''}`, input),
			small('Take out', () => {
				shares = shares.filter((other) => other !== share)
				showShares()
			}, { 'aria-label': `Take out version ${n}` })) }
		shares.push(share)
	}
	const showShares = () => {
		if (shares.length === 1) {
			shares[0].percent.value = '100'
		}
		fill(parts, shares.map((share) => share.element))
		parts.className = shares.length === 1 ? 'single' : ''
		showTotal()
	}
	const showTotal = () => {
		const sum = Math.round(shares.reduce((all, share) => all + Number(share.percent.value), 0) * 100) / 100
		total.textContent = shares.length === 1 ? '' : sum === 100 ? 'The percentages add up to 100.' : `The percentages add up to ${sum}, not to 100.`
		total.classList.toggle('bad', sum !== 100)
		return sum === 100
	}
	/** @param {string} label @param {Target} target */
	const edit = (label, target) => {
		name.value = label
		seen = preset
		shares = []
		percents(target.split ?? [{ version: target.version ?? 1, weight: 1 }]).forEach((share) => addShare(share.version, share.percent))
		showShares()
		atFirst = typed()
	}
	let atFirst = ''
	const typed = () => JSON.stringify([name.value, ...shares.map((share) => [share.version.value, share.percent.value])])
	const isDirty = () => typed() !== atFirst
	context.setGuard(isDirty)
	const run = async () => {
		const label = chosen()
		if (!isLabelRight(name, labelReason(at, preset.data, chosen()))) {
			return
		}
		if (!showTotal()) {
			shares[0].percent.focus()
			return
		}
		const target = shares.length === 1
			? { version: Number(shares[0].version.value) }
			: { split: shares.map((share) => ({ version: Number(share.version.value), weight: Math.round(Number(share.percent.value) * 100) })) }
		const before = seen.data.labels[label]
		await attempt(place, set, async () => {
			const { tag } = await api.change('PUT', labelPath(at, label), target, seen.tag)
			say(`${label} is ${targetText(target)}.`, () => putBack(at, label, before, tag))
			edit('', preset.data.designated_version)
		}, (failure) => conflict(failure, presetPath(at), seen, (now) => {
			seen = preset = now
			showList()
		}))
	}
	edit('', { version: preset.data.designated_version.version })
	showList()
	return {
		element: h('div.columns',
			h('section', h('h2', 'Labels'), list),
			form({ class: 'panel' }, run,
			h('h2', 'Set a label'),
			field('Label', name, 'A new one, or one to move.'),
			parts, total,
			small('Split between versions', () => {
				const used = shares.map((share) => share.version.value)
				addShare(Number([...shares[0].version.options].find(({ value }) => !used.includes(value))?.value ?? used[0]), 0)
				if (shares.length === 2) {
					shares.forEach((share) => (share.percent.value = '50'))
				}
				showShares()
				shares.at(-1)?.version.focus()
			}, { disabled: isClosed() }),
			place,
			h('p.actions.end', set))),
		update: (next) => {
			if (targetText(next.data.labels[chosen()]) === targetText(seen.data.labels[chosen()])) {
				seen = next // nobody has changed the form's label
			}
			preset = next
			set.disabled = isClosed()
			showList()
		},
	}
}

/**
 * Gives a label a target with its protection, or undoes that, unless someone has changed it since.
 * @param {At} at @param {string} label @param {Target | undefined} target
 * @param {string} tag of the label, or of its preset
 * @param {Target} [before] which Undo brings back
 */
function putBack(at, label, target, tag, before) {
	api.change(target ? 'PUT' : 'DELETE', labelPath(at, label), target && { ...target, protected: target.protected ?? false }, tag).then((now) =>
		say(`${label} is ${target ? targetText(target) : 'removed'}${before ? '' : ' again'}.`, before && (() => putBack(at, label, before, now.tag))), failed)
}

/** @param {Context} context @param {PresetAnswer} preset @param {string} label @param {Target} target */
function remove(context, preset, label, target) {
	const { at } = context
	askFirst(context, preset, 'Remove', `Remove the label ${label}?`, [
		h('p', 'Requests for ', code(`@preset/${at.slug}@${label}`), ` get 404 from then on. They get ${targetText(target)} now.`),
	], async (seen) => {
		await api.change('DELETE', labelPath(at, label), undefined, seen.tag)
		say(`${label} is removed.`, () => putBack(at, label, seen.data.labels[label], api.absent))
	}, { isDanger: true })
}
