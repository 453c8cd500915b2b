// One preset as a file: as presets are in files, but in JSON, and without labels.

import { presetPath, toPreset } from './addresses.js'
import { field, h, textInput } from './elements.js'
import * as api from './api.js'
import { readTemplate, requestOf, routes } from './capture.js'
import { download } from './copy.js'
import { failed } from './conflict.js'
import { ask } from './dialogs.js'
import { readSide } from './differences.js'
import { format, lineOf, memberOf, parse, parseAs, raw } from './json.js'
import { go } from './navigation.js'
import { say } from './status.js'
import { workspaceChoice } from './target.js'

const kept = ['name', 'description', 'tags', 'policy', 'limits'], ofInput = ['name', 'dialect', 'messages', 'input', 'variables', 'notes']
const dialects = /** @type {Dialect[]} */ (['responses', 'chat', 'messages'])

/** Picks the members of an object that have a value. @param {JSONValue | undefined} of @param {string[]} names */
const pick = (of, names) => names.flatMap((name) => {
	const value = memberOf(of, name)
	return value && raw(value) !== 'null' ? [`${JSON.stringify(name)}:${raw(value)}`] : []
})

/** Writes what is live, and the saved inputs. @param {Context} context @param {PresetAnswer} preset */
export async function exportPreset({ at, signal }, preset) {
	try {
		const { version, dialect } = preset.data.designated_version
		const [side, inputs] = await Promise.all([readSide(at, version, signal), api.read(presetPath(at, 'inputs', { limit: 100 }), signal)])
		const { messages } = readTemplate(side.template), all = memberOf(parse(inputs.text), 'data')?.items ?? []
		const members = [
			...pick(memberOf(parse(preset.text), 'data'), kept),
			...(all.length > 0 ? [`"inputs":[${all.map((input) => `{${pick(input, ofInput).join()}}`).join()}]`] : []),
			...(side.template === '{}' ? [] : ['"template":true']),
			`"${dialect}":${requestOf(dialect, side.prompt, side.settings, messages.items, side.settings, messages.items)}`,
		]
		download(`${at.slug}.json`, format(parse(`{${members.join()}}`)) + '\n', 'application/json')
		say(`${at.slug} v${version} is downloaded, with ${all.length} saved inputs.`)
	} catch (thrown) {
		failed(thrown)
	}
}

/** Makes a new preset of a file. @param {Context} context */
export function importPreset(context) {
	const file = h('input', { type: 'file', accept: '.json,application/json', onchange: () => {
		slug.value ||= (file.files?.[0]?.name ?? '').replace(/\.[^.]*$/, '').replaceAll(/[^A-Za-z0-9._~-]/g, '-')
	} })
	const slug = textInput({ maxlength: 128 }), workspace = workspaceChoice(context.workspace)
	let made = '' // where to go when the dialog has nothing to lose
	ask(context, 'Import', 'Import a preset', [field('File', file, 'JSON, as Export writes it.'), field('Slug', slug), field('Workspace', workspace)], async () => {
		const text = await file.files?.[0]?.text() ?? '', { problem, offset } = parseAs(text)
		const root = problem ? undefined : parse(text), dialect = dialects.find((name) => memberOf(root, name)), body = dialect && memberOf(root, dialect)
		if (!dialect || !body) {
			throw api.newFailure(problem ? `line ${lineOf(text, offset)}: ${problem}` : 'The file has no request: responses, chat or messages', { status: 400 })
		}
		const to = { workspace: workspace.value, slug: slug.value.trim() }, template = memberOf(root, 'template')
		const { tag } = await api.change('POST', presetPath(to, routes[dialect], { template: template && raw(template) === 'true' ? 'true' : '', message: 'Imported from a file' }), raw(body), api.absent)
		const more = pick(root, kept)
		more.length > 0 && await api.change('PATCH', presetPath(to), `{${more.join()}}`, tag)
		for (const input of memberOf(root, 'inputs')?.items ?? []) {
			await api.change('POST', presetPath(to, 'inputs'), raw(input))
		}
		say(`${to.slug} is imported.`)
		made = toPreset(to)
	}, { onClose: () => made && go(made) })
}
