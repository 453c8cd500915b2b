// A version is made from a request in a dialect. This file writes that request.

import { SyntaxProblem, compact, lineOf, parse } from './json.js'

/** @type {Record<Dialect, string>} */
export const routes = { responses: 'responses', chat: 'chat/completions', messages: 'messages' }

// The members that hold the prompt or the conversation. They are no settings.
/** @type {Record<Dialect, string[]>} */
const promptMembers = { responses: ['instructions', 'input'], chat: ['messages'], messages: ['system', 'messages'] }

// Settings that only one dialect has. Older versions do not say what they were made from.
const onlyResponses = ['max_tool_calls', 'max_output_tokens', 'text', 'include', 'truncation']
const onlyMessages = ['fallbacks', 'stop_sequences', 'thinking', 'output_config', 'context_management', 'speed']

/**
 * dialectOf returns the dialect of a version.
 *
 * @param {string | null | undefined} dialect
 * @param {string} settings
 * @returns {Dialect}
 */
export function dialectOf(dialect, settings) {
	if (dialect && dialect in routes) {
		return /** @type {Dialect} */ (dialect)
	}
	const names = parse(settings).members.map((member) => member.name)
	return names.some((name) => onlyResponses.includes(name)) ? 'responses' : names.some((name) => onlyMessages.includes(name)) ? 'messages' : 'chat'
}

/**
 * checkSettings returns what is wrong with settings before they are sent.
 *
 * @param {string} text
 * @param {Dialect} dialect
 * @returns {Problem[]}
 */
export function checkSettings(text, dialect) {
	try {
		const root = parse(text)
		if (root.kind !== 'object') {
			return [{ field: 'Settings', line: 1, message: 'must be an object in braces' }]
		}
		return root.members.filter((member) => promptMembers[dialect].includes(member.name)).map((member) => ({
			field: /** @type {const} */ ('Settings'), line: lineOf(text, member.start), message: `${member.name} is no setting: write the prompt in Prompt`,
		}))
	} catch (thrown) {
		if (thrown instanceof SyntaxProblem) {
			return [{ field: 'Settings', line: lineOf(text, thrown.offset), message: thrown.message }]
		}
		throw thrown
	}
}

/**
 * requestOf writes the request. A setting that is as before keeps its bytes.
 *
 * @param {Dialect} dialect
 * @param {string | null} prompt
 * @param {string} settings
 * @param {string} before the settings that were edited
 */
export function requestOf(dialect, prompt, settings, before) {
	const old = parse(before).members
	const members = parse(settings).members.map((member) => {
		const text = compact(settings, member.value)
		const same = old.find((other) => other.name === member.name)
		const kept = same && compact(before, same.value) === text ? before.slice(same.value.start, same.value.end) : text
		return `${JSON.stringify(member.name)}:${kept}`
	})
	if (prompt !== null) {
		const text = JSON.stringify(prompt)
		members.unshift({
			responses: `"instructions":${text}`,
			chat: `"messages":[{"role":"system","content":${text}}]`,
			messages: `"system":${text}`,
		}[dialect])
	}
	return `{${members.join(',')}}`
}

/**
 * isPromptPath reports whether an issue of the server is about the prompt.
 *
 * @param {string} path
 * @param {Dialect} dialect
 */
export function isPromptPath(path, dialect) {
	return promptMembers[dialect].some((name) => path === `/${name}` || path.startsWith(`/${name}/`))
}

/**
 * keepLineBreaks gives an edited text the line breaks of the text before. Browsers edit
 * texts with \n alone, so that shown is the text before with those.
 *
 * @param {string} text
 * @param {string} before
 * @param {string} shown
 */
export function keepLineBreaks(text, before, shown) {
	if (text === shown) {
		return before
	}
	return before.includes('\r\n') && !/(^|[^\r])\n/.test(before) ? text.replaceAll('\n', '\r\n') : text
}
