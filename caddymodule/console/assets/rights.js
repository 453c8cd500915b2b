// What stands in the way of a change: the kind of the key, an owner, and protection.

import { button, h, user } from './elements.js'
import * as session from './session.js'

const missing = 'takes a key with the right protected-labels.'

/** Says why a preset cannot be changed. It is empty if it can. @param {At} at @param {Guarded} preset */
export function changeReason(at, { managed_by: owner }) {
	return session.readOnlyReason() || (owner && session.overriddenOwner(at) !== owner ? `This preset is managed by ${owner}.` : '')
}

/** Says why that cannot be changed which requests get, nor the name. It is empty if it can. @param {At} at @param {Guarded} preset */
export function serveReason(at, preset) {
	return changeReason(at, preset) || (preset.protected && !session.mayChangeProtected() ? `This preset is protected: all but drafts ${missing}` : '')
}

/** Says which right is missing to change a label. @param {Guarded} preset @param {string} label */
export const labelProtection = ({ labels }, label) => (labels[label]?.protected && session.mayChange() && !session.mayChangeProtected() ? `The label ${label} is protected: changing it ${missing}` : '')

/** Says why a label cannot be changed. It is empty if it can. @param {At} at @param {Guarded} preset @param {string} label */
export const labelReason = (at, preset, label) => changeReason(at, preset) || labelProtection(preset, label)

/**
 * Says from the start what stands in the way. An owner can be overridden, which redraw shows then.
 * @param {At} at @param {Guarded} preset @param {() => unknown} redraw
 */
export function obstacles(at, preset, redraw) {
	const owner = preset.managed_by, reason = session.readOnlyReason(), protection = serveReason(at, { ...preset, managed_by: null })
	return [
		reason && h('p', null, reason),
		!reason && owner && (changeReason(at, preset)
			? h('p', null, 'This preset is managed by ', user(owner), ', and belongs there: the next ', h('code', null, 'apply'), ' may take back what is changed here. ',
				button('Change anyway', () => {
					session.override(at, owner)
					redraw()
				}, { class: 'small', 'data-key': 'override' }))
			: h('p', null, 'Your changes override ', user(owner), ', which still manages this preset. ',
				button('Stop', () => {
					session.override(at, '')
					redraw()
				}, { class: 'small', 'data-key': 'override', 'aria-label': `Stop overriding ${owner}` }))),
		!reason && protection && h('p', null, protection),
	].filter(Boolean)
}
