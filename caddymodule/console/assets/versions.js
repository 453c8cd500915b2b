// The versions of a preset: the timeline with the chosen one, and the comparison of two.

import { go, presetPath, toComparison, toDefaultComparison, toVersion } from './addresses.js'
import { button, choice, code, fill, h, labelTag, small, user, visible, warning, when } from './elements.js'
import { percents, versionName } from './figures.js'
import { format, messageList, parse, readTemplate, variableNames } from './dialects.js'
import { differences, partOf, presetFrame, putLive, readSide, serveReason, versionChoices } from './preset.js'
import { copy, keepFocus, live, load, pages } from './states.js'

// The comparison of any two versions of a preset.

/** @type {MakeView} */
export function compareView(context) {
	const { from, to } = context.address
	return presetFrame(context, 'compare', `v${from} and v${to}`, (preset) => compareBody(context, preset))
}

/** @type {MakeBody} */
function compareBody(context, preset) {
	const { at, signal, address: { from, to } } = context
	const result = h('div'), action = h('span')
	const showAction = () => keepFocus(action, () => fill(action, to !== preset.data.designated_version.version && button('Put live', () => putLive(context, preset, to), {
		disabled: serveReason(at, preset.data) !== '' || preset.data.status !== 'active', 'data-key': 'put-live', 'aria-describedby': document.getElementById('read-only') && 'read-only',
	})))
	const [first, second] = versionChoices(context, [from, to])
	for (const [i, select] of [first, second].entries()) {
		select.dataset.key = `version-${i}` // which has the focus again
		select.addEventListener('change', (event) => {
			if (event instanceof CustomEvent) { // older versions were added
				select.value = String([from, to][i])
				return
			}
			go(toComparison(at, Number(first.value), Number(second.value)))
		})
	}
	const show = () => load(result, signal, async () => {
		const [a, b] = await Promise.all([from, to].map((n) => readSide(at, n, signal)))
		return [
			h('div.sides', sideHeading(a), sideHeading(b)),
			from === to ? h('p.empty', 'Both are the same version. Choose another above.') : differences(a, b, signal, true),
		]
	})
	addEventListener('unlock', show, { signal })
	showAction()
	show()
	return {
		element: h('div',
			h('h2.unseen', 'Comparison'),
			h('div.filters',
				h('label', { for: first.id }, 'From'), first, h('label', { for: second.id }, 'To'), second,
				button('Swap', () => go(toComparison(at, to, from)), { 'data-key': 'swap' }), action),
			result),
		update: (next) => {
			preset = next
			showAction()
		},
	}
}

/** @param {Version} version */
function sideHeading(version) {
	return h('p', h('strong.number', versionName(version)), h('span.muted', ' by ', user(version.creator_id), ', ', when(version.created_at)),
		version.message && h('span.message', user(version.message)))
}

// The timeline of a preset's versions, and the chosen version.

const pageSize = 50

/** @type {MakeView} */
export const versionsView = (context) => presetFrame(context, 'versions', context.address.version ? `v${context.address.version}` : '', (preset) => versionsBody(context, preset))

/** @type {MakeBody} */
function versionsBody(context, preset) {
	const { at } = context
	const selected = context.address.version || preset.data.designated_version.version
	const heading = (/** @type {Version} */ version) => versionHeading(context, version, preset)
	const list = timeline(context, selected, context.address.version, () => preset)
	const detail = live(context, presetPath(at, `versions/${selected}`), (answer) => versionDetail(answer, heading(answer.data)), { lines: 12 })
	return {
		element: h('div.split', h('section', { 'aria-label': 'Timeline' }, list.element), h('section', { 'aria-label': `Version ${selected}` }, detail.element)),
		update: (next) => {
			preset = next
			list.redraw()
			const answer = detail.answer()
			if (answer) {
				keepFocus(detail.element, () => detail.element.querySelector('.version-heading')?.replaceWith(heading(answer.data)))
			}
		},
	}
}

/**
 * Lists the versions, the newest first. The API lists the oldest first, so the
 * pages are counted from the end. It shows the newest, or the version that the address names.
 * @param {Context} context @param {number} selected @param {number} named 0 for none @param {() => PresetAnswer} preset
 */
function timeline(context, selected, named, preset) {
	const { at } = context
	let page = 0, total = 0, isSought = named > 0
	/** Returns the page of the named version, or one that is nearer. Removed versions leave gaps, so its place is not known. @param {Version[]} versions */
	const pageOfNamed = (versions) => {
		const oldest = versions[0]?.version ?? 0, newest = versions[versions.length - 1]?.version ?? 0
		const steps = named < oldest ? Math.max(1, Math.floor((newest - named) / pageSize)) : named > newest ? -1 : 0
		return Math.min(Math.max(0, page + steps), Math.ceil(total / pageSize) - 1)
	}
	/** @type {HTMLElement | undefined} */
	let shown
	const path = () => {
		const end = Math.max(0, total - page * pageSize), offset = Math.max(0, end - pageSize)
		return presetPath(at, 'versions', { fields: 'summary', offset, limit: total === 0 ? pageSize : Math.max(1, end - offset) })
	}
	const list = live(context, path(), (answer) => {
		if (answer.total !== total && answer.total > pageSize) {
			total = answer.total
			queueMicrotask(() => list.show(path()))
			return []
		}
		total = answer.total
		const nearer = isSought ? pageOfNamed(answer.data) : page
		isSought &&= nearer > page // going back ends the search
		if (nearer !== page) {
			page = nearer
			queueMicrotask(() => list.show(path()))
			return []
		}
		const before = shown?.scrollTop
		const newest = [...answer.data].reverse()
		const ol = (shown = h('ol.timeline', { 'aria-label': 'Versions', role: 'list' }, newest.map((/** @type {Version} */ version) =>
			h('li', h('span', { class: `knot ${version.designated ? 'live' : ''}`, 'aria-hidden': 'true' }, knotOf(version, preset())), h('a', { href: toVersion(at, version.version), 'aria-current': version.version === selected && 'true', 'data-key': `v${version.version}`, 'data-row': true },
					h('span.name', h('strong.number', `v${version.version}`), version.designated ? h('span.live', 'live') : isWaiting(version, preset()) && h('span.muted', 'not live')),
					labelsOf(version, preset()),
					version.message && h('span.message', user(version.message)),
					h('span.by.muted', user(version.creator_id), ', ', when(version.created_at)))))))
		queueMicrotask(() => {
			const current = named ? /** @type {HTMLElement | null} */ (ol.querySelector('li:has([aria-current])')) : null
			ol.scrollTop = before ?? (current ? current.offsetTop - ol.offsetTop - 80 : 0)
		})
		return [
			choice(newest.map((/** @type {Version} */ version) => ({ value: String(version.version), text: [versionName(version), version.message].filter(Boolean).join(' · ').slice(0, 80) })), String(selected), {
				class: 'narrow-only', 'aria-label': 'Version', 'data-key': 'pick', onchange: (/** @type {Event} */ { target }) => go(toVersion(at, Number(/** @type {HTMLSelectElement} */ (target).value))),
			}),
			ol,
			total > pageSize && pages(page * pageSize, pageSize, total, (offset) => {
				page = Math.round(offset / pageSize)
				shown = undefined // begins at its top
				list.show(path())
			}),
		]
	})
	return list
}

/** The sign of a version on the rail: live, in a split, waiting, or past. @param {Version} version @param {PresetAnswer} preset */
const knotOf = (version, preset) => (version.designated ? '●' : version.labels.some((label) => preset.data.labels[label]?.split) ? '◐' : isWaiting(version, preset) ? '○' : '•')

/** Tells a version that is newer than the live one, and that no label names. @param {Version} version @param {PresetAnswer} preset */
const isWaiting = ({ version, labels }, preset) => labels.length === 0 && version > preset.data.designated_version.version

/** Shows the labels of a version, with its shares of splits. @param {Version} version @param {PresetAnswer} preset */
function labelsOf({ version, labels }, preset) {
	return labels.length > 0 && h('span.labels', labels.map((label) => {
		const share = percents(preset.data.labels[label]?.split ?? []).find((one) => one.version === version)
		return labelTag(label, share && `${share.percent} %`)
	}))
}

/** @param {Context} context @param {Version} version @param {PresetAnswer} preset */
function versionHeading({ at, ...context }, version, preset) {
	const n = version.version, liveVersion = preset.data.designated_version.version
	const isLive = n === liveVersion
	/** @param {string} reason */
	const unless = (reason) => ({ disabled: reason !== '' || preset.data.status !== 'active', 'aria-describedby': document.getElementById('read-only') && 'read-only' })
	return h('div.version-heading.heading',
		h('div',
			h('h2', h('span.number', `v${n} `), isLive && h('span.live', '● live')),
			h('p.muted', 'by ', user(version.creator_id), ', ', when(version.created_at), ` · made as ${version.dialect}`),
			labelsOf(version, preset),
			version.message && h('p.message', user(version.message))),
		h('div.actions',
			!isLive && button('Put live', () => putLive({ at, ...context }, preset, n), { ...unless(serveReason(at, preset.data)), 'data-key': 'put-live' }),
			button('Compare', () => go(toDefaultComparison(at, liveVersion, n)), { 'data-key': 'compare' })))
}

/** @param {Answer<Version>} answer @param {Node} heading */
function versionDetail(answer, heading) {
	const prompt = answer.data.system_prompt
	const text = partOf(answer.text, 'template'), { variables, messages } = readTemplate(text)
	const content = [
		h('div.section', h('h3', 'Prompt'),
			prompt && h('span.muted.number', `${answer.data.system_prompt_bytes.toLocaleString('en')} bytes`),
			prompt && small('Copy', () => copy(prompt), { 'aria-label': 'Copy the prompt' })),
		prompt ? h('pre.prompt', { tabindex: '0', role: 'region', 'aria-label': 'Prompt', dir: 'auto' }, visible(prompt)) : h('p.muted', 'This version has no prompt.'),
		...(text !== '{}' ? [
			h('div.section', h('h3', 'Template'), h('span.muted.number', `${answer.data.template_bytes.toLocaleString('en')} bytes`)),
			variableNames(variables),
			...messageList(messages, answer.data.dialect),
		] : []),
		h('div.section', h('h3', 'Settings')),
		h('table.settings', { 'aria-label': 'Settings' }, h('tbody', parse(partOf(answer.text, 'config')).members.map((member) =>
			h('tr', h('th', { scope: 'row' }, code(member.name)), h('td', code(format(member.value))))))),
	]
	return [heading, warning(content.map((one) => one && one.textContent).join('\n')), ...content]
}
