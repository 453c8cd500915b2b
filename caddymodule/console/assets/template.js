// Templates: versions with variables in their prompt and their messages.

import { code, h } from './elements.js'
import { visible } from './invisible.js'
import { format, memberOf, parse, raw } from './json.js'

const variable = /\\\{\{|\{\{ *([\p{L}\p{M}\p{Nd}_][\p{L}\p{M}\p{Nd}_.-]*) *\}\}/gu
const textTypes = ['text', 'input_text', 'output_text']

/** Reads a member that is a string. @param {JSONValue | undefined} value @param {string} name @returns {string | undefined} */
function textOf(value, name) {
	const found = memberOf(value, name)
	return found?.kind === 'string' ? JSON.parse(raw(found)) : undefined
}

/** Returns the texts of a content: a string, or a list of parts. @param {JSONValue | undefined} content @returns {string[]} */
function textsOf(content) {
	return content?.kind === 'string' ? [JSON.parse(raw(content))] : (content?.items ?? []).flatMap((part) => {
		const type = textOf(part, 'type') ?? ''
		return type === 'tool_result' ? textsOf(memberOf(part, 'content')) : textTypes.includes(type) ? textOf(part, 'text') ?? [] : []
	})
}

/** Returns the content of a message, or of a tool's result. Other items have none. @param {JSONValue} message @param {Dialect} dialect */
function contentOf(message, dialect) {
	const type = (dialect === 'responses' && textOf(message, 'type')) || 'message'
	return memberOf(message, { message: 'content', function_call_output: 'output' }[type] ?? '')
}

/**
 * Returns the names of the variables, as the server finds them.
 * @param {string} prompt @param {JSONValue[]} messages @param {Dialect} dialect
 */
export function variablesOf(prompt, messages, dialect) {
	const texts = [prompt, ...messages.flatMap((message) => textsOf(contentOf(message, dialect)))]
	return [...new Set(texts.flatMap((text) => [...text.matchAll(variable)].flatMap(([, name]) => name ?? [])))]
}

/** Reads a template. Other versions have neither variables nor messages. @param {string} template */
export function readTemplate(template) {
	return {
		variables: /** @type {string[]} */ (JSON.parse(template).variables ?? []),
		messages: memberOf(parse(template), 'messages') ?? parse('[]'),
	}
}

/** Shows messages: who says each, and its text or its JSON. @param {JSONValue} messages @param {Dialect} dialect */
export function messageList(messages, dialect) {
	return messages.items.map((message, i) => {
		const content = contentOf(message, dialect), name = textOf(message, 'role') ?? textOf(message, 'type') ?? 'message'
		return [
			h('p', { class: 'caption' }, name),
			h('pre', { class: 'prompt', tabindex: '0', role: 'region', 'aria-label': `Message ${i + 1}, ${name}`, dir: 'auto' }, visible(content?.kind === 'string' ? textsOf(content)[0] : format(content ?? message))),
		]
	}).flat()
}

/** @param {string[]} names */
export const variableNames = (names) => h('p', null, names.length > 0 ? ['Variables: ', code(names.join(', '))] : 'There are no variables.')
