// JSON as text, and how the dialects write a version, a template and a conversation in it.

import { settingsOf } from './addresses.js'
import { code, h, visible } from './elements.js'

// JSON as text. Values are cut out of the text and never encoded again. So numbers keep
// their digits (0.70), and members their order.

const space = /[ \t\r\n]*/y
const token = /(-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?)|true|false|null/y
const plain = /[^"\\\u0000-\u001f]*/y
const escape = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y

/** SyntaxProblem is what is wrong with a JSON text, and where. */
class SyntaxProblem extends Error {
	/** @param {string} message @param {number} offset */
	constructor(message, offset) {
		super(message)
		this.offset = offset
	}
}

/** Reads a whole JSON text. It throws a SyntaxProblem. @param {string} text @returns {JSONValue} */
export function parse(text) {
	let at = 0
	/** @param {RegExp} pattern */
	const take = (pattern) => {
		pattern.lastIndex = at
		const found = pattern.exec(text)
		at += found?.[0].length ?? 0
		return found
	}
	const next = () => {
		take(space)
		return text[at]
	}
	/** @param {string} message */
	const fail = (message, place = at) => new SyntaxProblem(place >= text.length ? 'the text ends too early' : message, place)
	const skipString = () => {
		for (at++; text[at] !== '"';) {
			take(plain)
			if (text[at] !== '"' && !take(escape)) {
				throw fail(text[at] === '\\' ? 'unknown escape in a string' : 'line break or control character in a string')
			}
		}
		at++
	}
	/** @param {JSONValue} value @param {Set<string>} names of its members before @param {number} depth */
	const readName = (value, names, depth) => {
		if (next() !== '"') {
			throw fail('expected a name in double quotes')
		}
		const start = at
		skipString()
		const key = text.slice(start, at), name = JSON.parse(key)
		if (names.has(name)) {
			throw fail(`the name ${key} is there twice`, start)
		}
		names.add(name)
		if (next() !== ':') {
			throw fail('expected a colon')
		}
		at++
		value.members.push({ name, key, start, value: readValue(depth) })
	}
	/** @param {number} depth @returns {JSONValue} */
	const readValue = (depth) => {
		const first = next()
		/** @type {JSONValue} */
		const value = { kind: 'literal', text, start: at, end: at, members: [], items: [] }
		if (depth > 128) {
			throw fail('more than 128 levels')
		} else if (first === '"') {
			value.kind = 'string'
			skipString()
		} else if (first === '{' || first === '[') {
			const [kind, end] = first === '{' ? /** @type {const} */ (['object', '}']) : /** @type {const} */ (['array', ']'])
			value.kind = kind
			at++
			/** @type {Set<string>} */
			const names = new Set()
			for (let isFirst = true; next() !== end; isFirst = false) {
				if (!isFirst && text[at++] !== ',') {
					throw fail(`expected a comma or ${end}`, at - 1)
				}
				if (kind === 'object') {
					readName(value, names, depth + 1)
				} else {
					value.items.push(readValue(depth + 1))
				}
			}
			at++
		} else {
			const found = take(token)
			if (!found) {
				throw fail('expected a value')
			}
			value.kind = found[1] ? 'number' : 'literal'
		}
		value.end = at
		return value
	}
	const value = readValue(1)
	if (next() !== undefined) {
		throw fail('expected nothing more')
	}
	return value
}

/** Reads a JSON object or array. If the text is none, it has a problem. @param {string} text @param {'object' | 'array'} [kind] */
export function parseAs(text, kind = 'object') {
	try {
		const value = parse(text)
		return { ...value, problem: value.kind === kind ? '' : `must be an ${kind}`, offset: 0 }
	} catch (thrown) {
		const { message, offset } = /** @type {SyntaxProblem} */ (thrown)
		return { members: [], items: [], problem: message, offset }
	}
}

/** Returns a value as it is in its text. @param {JSONValue} value */
export const raw = (value) => value.text.slice(value.start, value.end)

/** @param {JSONValue | undefined} value @param {string} name */
export const memberOf = (value, name) => value?.members.find((member) => member.name === name)?.value

/** Writes what is inside of a value, each with a function. @param {JSONValue} value @param {(value: JSONValue) => string} write */
const insideOf = (value, write, gap = '') => [...value.members.map((member) => `${member.key}:${gap}${write(member.value)}`), ...value.items.map(write)]

/** Writes a value without white space, or with a gap after colons and commas. @param {JSONValue} value @returns {string} */
export function compact(value, gap = '') {
	const inside = insideOf(value, (one) => compact(one, gap), gap).join(`,${gap}`)
	return value.kind === 'object' ? `{${inside}}` : value.kind === 'array' ? `[${inside}]` : raw(value)
}

/** Writes a value in lines. @param {JSONValue} value @returns {string} */
export function format(value, indent = '') {
	const short = compact(value, ' ')
	const children = [...value.items, ...value.members.map((member) => member.value)]
	const isFlat = children.every((child) => child.members.length + child.items.length === 0)
	if (children.length === 0 || (isFlat && short.length <= 60 && (indent !== '' || value.kind === 'array'))) {
		return short
	}
	const inner = `\n${indent}  `
	return short[0] + inner + insideOf(value, (one) => format(one, `${indent}  `), ' ').join(`,${inner}`) + `\n${indent}` + short.at(-1)
}

/** Returns the line of a place in a text, from 1. @param {string} text @param {number} offset */
export const lineOf = (text, offset) => text.slice(0, offset).split('\n').length

/**
 * Returns the place that a JSON Pointer points to. If nothing is there, it returns
 * the place of the enclosing value.
 * @param {JSONValue} value @param {string} pointer
 */
export function find(value, pointer) {
	let place = value.start
	for (const name of pointer.split('/').slice(1).map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))) {
		const member = value.members.find((other) => other.name === name)
		const inner = member?.value ?? value.items[Number(name)]
		if (!inner) {
			break
		}
		place = member?.start ?? inner.start
		value = inner
	}
	return place
}

/**
 * Returns an object's text with another value at a path. All other values keep their bytes. An empty
 * value takes the member out, and then also an object without members around it.
 * @param {string} text @param {string[]} path @param {string} value @returns {string}
 */
export function withValue(text, [name, ...rest], value) {
	const { members } = parse(text), found = members.find((member) => member.name === name)
	const old = found ? raw(found.value) : '', next = rest.length === 0 ? value : withValue(old[0] === '{' ? old : '{}', rest, value).replace(/^\{\}$/, '')
	const texts = members.filter((member) => member !== found || next).map((member) => `${member.key}:${member === found ? next : raw(member.value)}`)
	return `{${[...texts, ...(found || !next ? [] : [`${JSON.stringify(name)}:${next}`])].join(',')}}`
}

/** Returns the value at a path. @param {JSONValue} value @param {string[]} path @returns {JSONValue | undefined} */
export const valueAt = (value, path) => path.reduce((/** @type {JSONValue | undefined} */ one, name) => memberOf(one, name), value)

// How the dialects write a version, a template and a conversation.

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
			h('p.caption', name),
			h('pre.prompt', { tabindex: '0', role: 'region', 'aria-label': `Message ${i + 1}, ${name}`, dir: 'auto' }, visible(content?.kind === 'string' ? textsOf(content)[0] : format(content ?? message))),
		]
	}).flat()
}

/** @param {string[]} names */
export const variableNames = (names) => h('p', names.length > 0 ? ['Variables: ', code(names.join(', '))] : 'There are no variables.')

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

// A line of the log of content, which is pasted into a trial.

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
