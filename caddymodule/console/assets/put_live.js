// The dialog that puts a version live, or rolls back to one.

import { presetPath } from './addresses.js'
import { fill, h, submit, user } from './elements.js'
import * as api from './api.js'
import { conflict } from './conflict.js'
import { openDialog } from './dialogs.js'
import { differences, sideOf } from './differences.js'
import { errorBox, expectContent, whenChanging } from './states.js'
import { say } from './status.js'

/**
 * @typedef {import('./states.js').Context} Context
 * @typedef {api.Answer<api.Preset>} PresetAnswer
 */

/**
 * putLive shows what will change for requests, then designates the version.
 *
 * @param {Context} context
 * @param {PresetAnswer} preset as it was when the button was pressed
 * @param {number} version
 */
export function putLive(context, preset, version) {
	const { slug } = preset.data
	const at = { workspace: context.workspace, slug }
	let seen = preset
	const confirm = submit('Put live')
	const sentence = h('p')
	const comparison = h('div')
	const place = h('div')
	const closing = new AbortController()
	const { close } = openDialog('Put live', `Put v${version} live?`, [sentence, comparison, place], {
		style: 'wide',
		signal: context.signal,
		actions: [confirm],
		onClose: () => closing.abort(),
		submit: async () => {
			const before = seen.data.designated_version?.version ?? 0
			const isDone = await whenChanging(place, confirm, async () => {
				const now = await designate(at, version, seen.tag)
				say(`v${version} is live.`, { name: 'Undo', run: () => undo(at, before, now.tag) })
			}, (failure) => conflict(context, failure, seen, (now) => {
				seen = now
				void show()
			}))
			if (isDone) {
				close()
			}
		},
	})
	const show = async () => {
		const from = seen.data.designated_version?.version ?? 0
		fill(comparison)
		fill(sentence, 'Requests for ', h('code', null, user(`@preset/${slug}`)), ` get v${version} in place of v${from}, from the next one on.`)
		confirm.disabled = true
		const cancel = expectContent(comparison, closing.signal, 4)
		try {
			const [a, b] = await Promise.all([from, version].map((number) => api.read(presetPath(at, `versions/${number}`), closing.signal)))
			cancel()
			fill(comparison, differences(sideOf(a), sideOf(b), closing.signal))
			confirm.disabled = from === version
			if (from === version) {
				fill(sentence, `v${version} is live already.`)
			} else {
				confirm.focus()
			}
		} catch (thrown) {
			cancel()
			if (!closing.signal.aborted) {
				fill(comparison, errorBox(thrown, show))
			}
		}
	}
	void show()
}

/**
 * @param {{ workspace: string, slug: string }} at
 * @param {number} version
 * @param {string} tag
 */
function designate(at, version, tag) {
	return api.change('POST', presetPath(at, 'designate'), { version }, tag)
}

/**
 * undo puts the earlier version live again, if nothing else has changed since.
 *
 * @param {{ workspace: string, slug: string }} at
 * @param {number} version
 * @param {string} tag
 */
async function undo(at, version, tag) {
	try {
		await designate(at, version, tag)
		say(`v${version} is live again.`)
	} catch (thrown) {
		const failure = api.failureOf(thrown)
		say(failure.status === 412 ? 'Nothing was changed, because the preset has changed meanwhile.' : `Error: ${failure.message}`)
	}
}

