// A version is made from a request in a dialect. This file writes that request.

import { compact, lineOf, parse, parseObject, raw } from './json.js'

/** @type {Record<Dialect, string>} */
export const routes = { responses: 'responses', chat: 'chat/completions', messages: 'messages' }

// The members that hold the prompt or the conversation. They are no settings.
/** @type {Record<Dialect, string[]>} */
const promptMembers = { responses: ['instructions', 'input'], chat: ['messages'], messages: ['system', 'messages'] }

/** Returns what is wrong with settings before they are sent. @param {string} text @param {Dialect} dialect @returns {Problem[]} */
export function checkSettings(text, dialect) {
	const { members, problem, offset } = parseObject(text)
	if (problem) {
		return [{ field: 'Settings', line: lineOf(text, offset), message: problem }]
	}
	return members.filter((member) => promptMembers[dialect].includes(member.name)).map((member) => ({
		field: 'Settings', line: lineOf(text, member.start), message: `${member.name} is no setting: write the prompt in Prompt`,
	}))
}

/**
 * Writes the request. A setting that is as before keeps its bytes.
 * @param {Dialect} dialect @param {string | null} prompt @param {string} settings
 * @param {string} before the settings that were edited
 */
export function requestOf(dialect, prompt, settings, before) {
	const old = parse(before).members
	const members = parse(settings).members.map((member) => {
		const text = compact(member.value)
		const same = old.find((other) => other.name === member.name)
		const kept = same && compact(same.value) === text ? raw(same.value) : text
		return `${member.key}:${kept}`
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

/** Reports whether an issue of the server is about the prompt. @param {string} path @param {Dialect} dialect */
export function isPromptPath(path, dialect) {
	return promptMembers[dialect].some((name) => path === `/${name}` || path.startsWith(`/${name}/`))
}

/**
 * Gives an edited text the line breaks of the text before. Browsers edit
 * texts with \n alone, so that shown is the text before with those.
 * @param {string} text @param {string} before @param {string} shown
 */
export function keepLineBreaks(text, before, shown) {
	if (text === shown) {
		return before
	}
	return before.includes('\r\n') && !/(^|[^\r])\n/.test(before) ? text.replaceAll('\n', '\r\n') : text
}
