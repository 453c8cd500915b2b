// A line of the log of content, which is pasted into Try.

import { routes } from './capture.js'
import { memberOf, parseAs, raw } from './json.js'

/** Members that a request to another version does not keep, or that Try writes itself. */
const replaced = ['model', 'stream', 'stream_options', 'preset', 'prompt', 'prompt_id', 'prompt_version', 'session_id']

/** @param {JSONValue | undefined} value */
const textOf = (value) => value?.kind === 'string' ? /** @type {string} */ (JSON.parse(raw(value))) : ''

/**
 * Reads a line of the log of content as what someone would type to ask the same. It is undefined for any
 * other text.
 * @param {string} text @returns {Trial | undefined}
 */
export function trialOf(text) {
	if (!text.trimStart().startsWith('{')) {
		return undefined
	}
	const line = { ...parseAs(text) }, of = (/** @type {string} */ name) => line.members.find((member) => member.name === name)?.value
	const request = of('sent') ?? of('request'), dialect = textOf(of('dialect'))
	if (request?.kind !== 'object' || !(dialect in routes)) {
		return undefined
	}
	const conversation = dialect === 'responses' ? 'input' : 'messages', most = dialect === 'responses' ? 'max_output_tokens' : 'max_tokens'
	const turns = turnsOf(memberOf(request, conversation))
	const numberOf = (/** @type {string} */ name) => {
		const value = memberOf(request, name)
		return value?.kind === 'number' ? raw(value) : ''
	}
	const fields = [...replaced, 'temperature', most, ...(turns.length > 0 ? [conversation] : [])]
	const more = request.members.filter(({ name, value }) => !fields.includes(name) && raw(value) !== 'null')
	const variables = (memberOf(memberOf(request, 'prompt'), 'variables')?.members ?? []).filter(({ value }) => value.kind === 'string')
		.map(({ name, value }) => /** @type {const} */ ([name, textOf(value) === '' ? { kind: 'empty text', text: '' } : { kind: 'text', text: textOf(value) }]))
	return {
		turns, variables: Object.fromEntries(variables), second: '-', dialect, temperature: numberOf('temperature'), maxTokens: numberOf(most),
		more: more.length > 0 ? `{${more.map(({ key, value }) => `${key}: ${raw(value)}`).join(', ')}}` : '',
		logged: answerOf(of('answer')),
	}
}

/**
 * Returns the messages that Try has fields for. It is empty if one is of another form, such as one with an
 * image, or a result of a tool.
 * @param {JSONValue | undefined} conversation
 */
function turnsOf(conversation) {
	if (conversation?.kind === 'string') {
		return [{ role: 'user', text: textOf(conversation) }]
	}
	const turns = (conversation?.items ?? []).map((item) => {
		const isPlain = item.members.every(({ name }) => ['role', 'content', 'type'].includes(name)) && memberOf(item, 'content')?.kind === 'string'
		return isPlain ? { role: textOf(memberOf(item, 'role')), text: textOf(memberOf(item, 'content')) } : { role: '', text: '' }
	})
	return turns.every(({ role }) => ['user', 'assistant'].includes(role)) ? turns : []
}

/** Returns the text and the tool calls of an answer. @param {JSONValue | undefined} answer */
function answerOf(answer) {
	const parts = (answer?.items ?? []).flatMap((message) => memberOf(message, 'parts')?.items ?? []).filter((part) => textOf(memberOf(part, 'type')) !== 'reasoning')
	return parts.map((part) => {
		const name = textOf(memberOf(part, 'name')), given = memberOf(part, 'arguments')
		return name === '' ? textOf(memberOf(part, 'content')) : `${name} ${given ? raw(given) : ''}`
	}).join('\n')
}
