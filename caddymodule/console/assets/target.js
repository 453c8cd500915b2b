// What the views of a preset are about: a version, a label, or what is live. Their addresses name it.

import { readSide } from './differences.js'
import { readTemplate } from './template.js'

/** Reads the number of a version or a label from an address. It is empty for what is live. @param {Address} address */
export const refOf = ({ query, version, to }) => query.get('label') || query.get('version') || query.get('from') || String(version || to || '')

/** Writes it into an address. @param {string} ref @returns {Query} */
export const queryOf = (ref) => ({ [/^\d+$/.test(ref) ? 'version' : 'label']: ref })

/** @param {Preset} preset @param {string} ref @returns {Target} */
export function targetOf({ designated_version: live, labels }, ref) {
	return ref === '' ? live : /^\d+$/.test(ref) ? { version: Number(ref) } : Object.hasOwn(labels, ref) ? labels[ref] : {}
}

/** Returns a version of a target: of a split the largest. @param {Preset} preset @param {string} ref */
export function versionOf(preset, ref) {
	const { version, split } = targetOf(preset, ref)
	return version ?? [...split ?? []].sort((a, b) => b.weight - a.weight)[0]?.version ?? preset.designated_version.version
}

/**
 * Reads the templates of a target. It throws a Failure.
 * @param {Context} context @param {Preset} preset @param {string} ref @returns {Promise<Template>}
 */
export async function readTemplates({ at, signal }, preset, ref) {
	const target = targetOf(preset, ref)
	const sides = await Promise.all((target.split ?? [target]).map(({ version }) => version ? readSide(at, version, signal) : undefined))
	const found = sides.map((side) => readTemplate(side?.template ?? '{}'))
	return { names: [...new Set(found.flatMap((one) => one.variables))], hasMessages: found.every((one) => one.messages.items.length > 0) }
}
