// A line of the log of content, which is pasted into a trial.

import { messagesOf, routes, turnsOf } from './capture.js'
import { memberOf, parseAs, raw } from './json.js'

/** Members that a request to another version does not keep, or that a trial writes itself. */
const replaced = ['model', 'stream', 'stream_options', 'preset', 'prompt', 'prompt_id', 'prompt_version', 'session_id']

/** @param {JSONValue | undefined} value */
const valueOf = (value) => (value ? JSON.parse(raw(value)) : undefined)

/**
 * Reads a line of the log of content as what someone would type to ask the same, and its answer. A line of another
 * workspace, and one that lacks a part of its request, says why it is left out. It is undefined for any other text.
 * @param {string} text @param {string} [workspace] its id, which a preset that is not stored lacks @returns {Logged | { why: string } | undefined}
 */
export function loggedOf(text, workspace) {
	if (!text.trimStart().startsWith('{')) {
		return undefined
	}
	const line = { ...parseAs(text) }, of = (/** @type {string} */ name) => line.members.find((member) => member.name === name)?.value
	const request = of('sent') ?? of('request'), dialect = /** @type {Dialect} */ (valueOf(of('dialect')))
	if (request?.kind !== 'object' || !Object.hasOwn(routes, dialect)) {
		return undefined
	}
	const side = of('sent') ? 'sent' : 'request', lacks = (/** @type {string} */ what) => (valueOf(of(what)) ?? []).includes(side)
	const why = workspace && valueOf(of('workspace')) !== workspace ? 'it is of another workspace' : lacks('cut') ? 'the log does not have its whole request'
		: lacks('files') ? 'the log does not have the images and files of its request' : lacks('masked') ? 'the log does not have the keys in its request' : ''
	if (why) {
		return { why }
	}
	const conversation = dialect === 'responses' ? 'input' : 'messages'
	const turns = readTurns(valueOf(memberOf(request, conversation)) ?? [], dialect)
	const more = request.members.filter(({ name, value }) => !replaced.includes(name) && !(name === conversation && turns.length > 0) && raw(value) !== 'null')
	const variables = (memberOf(memberOf(request, 'prompt'), 'variables')?.members ?? []).filter(({ value }) => value.kind === 'string')
		.map(({ name, value }) => /** @type {const} */ ([name, { kind: valueOf(value) === '' ? 'empty text' : 'text', text: valueOf(value) }]))
	return {
		trial: { turns, variables: Object.fromEntries(variables), dialect, more: more.length > 0 ? `{${more.map(({ key, value }) => `${key}: ${raw(value)}`).join(', ')}}` : '' },
		answer: answerOf(valueOf(of('answer')) ?? []),
	}
}

/**
 * Returns the turns that make the same conversation. There are none if the fields of a trial cannot make it,
 * as with an image.
 * @param {any[] | string} conversation @param {Dialect} dialect
 */
function readTurns(conversation, dialect) {
	const messages = typeof conversation === 'string' ? [{ role: 'user', content: conversation }] : conversation, turns = turnsOf(messages, dialect)
	const isSame = turns.every(({ role }) => ['user', 'assistant', 'tool'].includes(role)) && JSON.stringify(messagesOf(turns, dialect)) === JSON.stringify(messages)
	return isSame ? turns : []
}

/** Returns the text and the tool calls of an answer. @param {any[]} messages */
const answerOf = (messages) => messages.flatMap(({ parts }) => parts).filter(({ type }) => type !== 'reasoning')
	.map(({ name, content, arguments: given }) => (name ? `${name} ${JSON.stringify(given ?? '')}` : content ?? '')).join('\n')
