// A version is made from a request in a dialect. This file writes that request.

import { isSettingKnown } from './addresses.js'
import { compact, lineOf, parse, parseAs, raw } from './json.js'

/** @type {Record<Dialect, string>} */
export const routes = { responses: 'responses', chat: 'chat/completions', messages: 'messages' }

// The members that hold the prompt and the conversation, which is the last. They are no settings.
/** @type {Record<Dialect, string[]>} */
const promptMembers = { responses: ['instructions', 'input'], chat: ['messages'], messages: ['system', 'messages'] }

/**
 * Returns what is wrong with settings and messages before they are sent. Settings that the server
 * does not know are warnings: it ignores them.
 * @param {string} settings @param {string} messages @param {Dialect} dialect @returns {Problem[]}
 */
export function check(settings, messages, dialect) {
	return /** @type {const} */ ([['Settings', settings, 'object'], ['Messages', messages, 'array']]).flatMap(([field, text, kind]) => {
		const { members, problem, offset } = parseAs(text, kind)
		const wrong = members.filter((member) => promptMembers[dialect].includes(member.name))
			.map((member) => ({ start: member.start, message: `${member.name} is no setting: write the prompt in Prompt` }))
		const unknown = field === 'Settings' ? members.filter((member) => !isSettingKnown(routes[dialect], member.name)).map((member) => ({ start: member.start, message: `${member.name} is unknown here, and is ignored`, isWarning: true })) : []
		return (problem ? [{ start: offset, message: problem }] : [...wrong, ...unknown]).map(({ start, ...more }) => ({ field, line: lineOf(text, start), ...more }))
	})
}

/**
 * Writes the request. A setting that is as before keeps its bytes, and so does a message.
 * @param {Dialect} dialect @param {string | null} prompt
 * @param {string} settings @param {JSONValue[]} messages
 * @param {string} oldSettings @param {JSONValue[]} oldMessages what was edited
 */
export function requestOf(dialect, prompt, settings, messages, oldSettings, oldMessages) {
	const old = parse(oldSettings).members
	/** @param {JSONValue} value @param {(JSONValue | undefined)[]} olds */
	const write = (value, olds) => {
		const text = compact(value)
		const same = olds.find((other) => other && compact(other) === text)
		return same ? raw(same) : text
	}
	const members = parse(settings).members.map((member) =>
		`${member.key}:${write(member.value, [old.find((other) => other.name === member.name)?.value])}`)
	const [first, last] = promptMembers[dialect]
	const items = messages.map((item) => write(item, oldMessages))
	if (prompt !== null) {
		const text = JSON.stringify(prompt)
		last ? members.unshift(`"${first}":${text}`) : items.unshift(`{"role":"system","content":${text}}`)
	}
	if (items.length > 0) {
		members.push(`"${last ?? first}":[${items.join(',')}]`)
	}
	return `{${members.join(',')}}`
}

/**
 * Returns the field that an issue of the server is about, and the place in it.
 * @param {string} path @param {Dialect} dialect @param {boolean} hasPrompt @param {boolean} hasMessages
 * @returns {{ field: Problem['field'], pointer: string }}
 */
export function placeOf(path, dialect, hasPrompt, hasMessages) {
	const [, name, index, ...rest] = path.split('/')
	const names = promptMembers[dialect], n = Number(index) - Number(hasPrompt && names.length === 1)
	if (!names.includes(name)) {
		return { field: 'Settings', pointer: path }
	}
	return name === names.at(-1) && hasMessages && !(n < 0)
		? { field: 'Messages', pointer: ['', n, ...rest].join('/') }
		: { field: 'Prompt', pointer: '' }
}

/**
 * Gives an edited text the line breaks of the earlier text. Browsers edit texts with \n
 * alone. shown is the earlier text in that form.
 * @param {string} text @param {string} before @param {string} shown
 */
export function keepLineBreaks(text, before, shown) {
	if (text === shown) {
		return before
	}
	return before.includes('\r\n') && !/(^|[^\r])\n/.test(before) ? text.replaceAll('\n', '\r\n') : text
}
