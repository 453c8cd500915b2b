// How the dialects write a version, a template and a conversation.

import { settingsOf } from './addresses.js'
import { code, h } from './elements.js'
import { visible } from './invisible.js'
import { compact, format, lineOf, memberOf, parse, parseAs, raw } from './json.js'

// Templates: versions with variables in their prompt and their messages.

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

// A conversation as the dialects write it: texts, calls of tools, and their results.

/** @param {string} text */
function objectOf(text) {
	try {
		return JSON.parse(text)
	} catch {
		return {}
	}
}

/** Writes the turns as a request has them. @param {Turn[]} turns @param {Dialect} dialect @returns {object[]} */
export function messagesOf(turns, dialect) {
	return turns.flatMap((turn) => /** @type {any[]} */ (written(turn, dialect))).reduce((/** @type {any[]} */ all, next) => {
		const last = all[all.length - 1] // the results of one answer's calls are one message
		if (dialect === 'messages' && last?.role === 'user' && isResult(last) && isResult(next)) {
			last.content.push(...next.content)
			return all
		}
		return [...all, next]
	}, [])
}

/** @param {Turn} turn @param {Dialect} dialect */
function written({ role, text, calls = [], id = '' }, dialect) {
	if (dialect === 'responses') {
		return role === 'tool' ? [{ type: 'function_call_output', call_id: id, output: text }] : [
			...(text !== '' || calls.length === 0 ? [{ role, content: text }] : []),
			...calls.map((call) => ({ type: 'function_call', call_id: call.id, name: call.name, arguments: call.arguments })),
		]
	} else if (dialect === 'messages') {
		return [role === 'tool' ? { role: 'user', content: [{ type: 'tool_result', tool_use_id: id, content: text }] } : calls.length === 0 ? { role, content: text } : {
			role, content: [...(text === '' ? [] : [{ type: 'text', text }]), ...calls.map((call) => ({ type: 'tool_use', id: call.id, name: call.name, input: objectOf(call.arguments) }))],
		}]
	}
	return [role === 'tool' ? { role, tool_call_id: id, content: text } : calls.length === 0 ? { role, content: text } : {
		role, content: text || null, tool_calls: calls.map((call) => ({ id: call.id, type: 'function', function: { name: call.name, arguments: call.arguments } })),
	}]
}

/** @param {any} message */
const isResult = ({ content }) => Array.isArray(content) && content[0]?.type === 'tool_result'

/** @param {any} content */
const textOfContent = (content) => (typeof content === 'string' ? content : Array.isArray(content) ? content.map((part) => part?.text ?? '').join('') : content ? JSON.stringify(content) : '')

/** Reads messages as turns. Parts without text are left out. @param {any[] | string} messages @param {Dialect} dialect @returns {Turn[]} */
export function turnsOf(messages, dialect) {
	/** @type {Turn[]} */
	const turns = []
	/** @type {Map<string, string>} */
	const names = new Map()
	const call = (/** @type {string} */ id, /** @type {string} */ name, /** @type {string} */ given) => {
		names.set(id, name)
		return { id, name, arguments: given }
	}
	for (const message of typeof messages === 'string' ? [{ role: 'user', content: messages }] : messages) {
		const { role, type, content } = message, parts = Array.isArray(content) ? content : []
		const results = dialect === 'messages' ? parts.filter((part) => part.type === 'tool_result') : []
		if (type === 'function_call') {
			const last = turns[turns.length - 1], next = call(message.call_id, message.name, message.arguments)
			last?.role === 'assistant' ? (last.calls = [...last.calls ?? [], next]) : turns.push({ role: 'assistant', text: '', calls: [next] })
		} else if (type === 'function_call_output' || role === 'tool') {
			const id = message.call_id ?? message.tool_call_id
			turns.push({ role: 'tool', text: textOfContent(message.output ?? content), id, name: names.get(id) ?? '' })
		} else if (results.length > 0) {
			turns.push(...results.map((result) => ({ role: 'tool', text: textOfContent(result.content), id: result.tool_use_id, name: names.get(result.tool_use_id) ?? '' })))
		} else {
			const calls = [...(message.tool_calls ?? []).map((/** @type {any} */ one) => call(one.id, one.function?.name ?? '', one.function?.arguments ?? '')), ...parts.filter((part) => part.type === 'tool_use').map((part) => call(part.id, part.name, JSON.stringify(part.input)))]
			turns.push({ role, text: textOfContent(content), ...(calls.length > 0 && { calls }) })
		}
	}
	return turns
}

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
		const unknown = field === 'Settings' ? members.filter((member) => !settingsOf(routes[dialect]).includes(member.name)).map((member) => ({ start: member.start, message: `${member.name} is unknown here, and is ignored`, isWarning: true })) : []
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
