// JSON as text. Numbers keep their digits (0.70), and members their order, because values
// are cut out of the text and never written anew.

/** SyntaxProblem is an error in JSON, with its place in the text. */
export class SyntaxProblem extends Error {
	/**
	 * @param {string} message
	 * @param {number} offset
	 */
	constructor(message, offset) {
		super(message)
		this.offset = offset
	}
}

const space = /[ \t\r\n]*/y
const number = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y
const plain = /[^"\\\u0000-\u001f]*/y
const escape = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y
const word = /true|false|null/y
const maxDepth = 128

/**
 * parse reads a whole JSON text. It throws a SyntaxProblem.
 *
 * @param {string} text
 * @returns {JSONValue}
 */
export function parse(text) {
	let at = 0

	/** @param {RegExp} pattern */
	const take = (pattern) => {
		pattern.lastIndex = at
		const found = pattern.exec(text)
		if (found) {
			at += found[0].length
		}
		return found !== null
	}
	const skip = () => {
		take(space)
		return text[at]
	}
	/** @param {string} message */
	const fail = (message, place = at) => new SyntaxProblem(place >= text.length ? 'the text ends too early' : message, place)
	/** @returns {JSONValue} */
	const readString = () => {
		const start = at++
		for (;;) {
			take(plain)
			if (text[at] === '"') {
				at++
				return { kind: 'string', start, end: at, members: [], items: [] }
			}
			if (!take(escape)) {
				throw fail(text[at] === '\\' ? 'unknown escape in a string' : 'a string must not contain a line break or a control character')
			}
		}
	}
	/**
	 * @param {number} depth
	 * @returns {JSONValue}
	 */
	const readValue = (depth) => {
		const next = skip()
		const start = at
		if (depth > maxDepth) {
			throw fail(`more than ${maxDepth} levels`)
		}
		/** @type {JSONValue} */
		const value = { kind: 'literal', start, end: start, members: [], items: [] }
		if (next === '"') {
			return readString()
		} else if (next === '{' || next === '[') {
			readAll(value, depth)
		} else if (take(number)) {
			value.kind = 'number'
		} else if (!take(word)) {
			throw fail('expected a value')
		}
		value.end = at
		return value
	}
	/**
	 * @param {JSONValue} value
	 * @param {number} depth
	 */
	const readAll = (value, depth) => {
		value.kind = text[at] === '{' ? 'object' : 'array'
		const end = text[at] === '{' ? '}' : ']'
		const names = new Set()
		at++
		if (skip() === end) {
			at++
			return
		}
		for (;;) {
			if (value.kind === 'object') {
				if (skip() !== '"') {
					throw fail('expected a name in double quotes')
				}
				const start = at
				const quoted = readString()
				const name = decode(text, quoted)
				if (names.has(name)) {
					throw new SyntaxProblem(`the name ${JSON.stringify(name)} is there twice`, start)
				}
				names.add(name)
				if (skip() !== ':') {
					throw fail('expected a colon')
				}
				at++
				value.members.push({ name, start, value: readValue(depth + 1) })
			} else {
				value.items.push(readValue(depth + 1))
			}
			const next = skip()
			if (next === end) {
				at++
				return
			}
			if (next !== ',') {
				throw fail(`expected a comma or ${end}`)
			}
			at++
		}
	}

	const value = readValue(1)
	skip()
	if (at < text.length) {
		throw fail('expected nothing more')
	}
	return value
}

/**
 * decode returns the text that a JSON string stands for.
 *
 * @param {string} text
 * @param {JSONValue} value
 * @returns {string}
 */
export function decode(text, value) {
	return JSON.parse(text.slice(value.start, value.end))
}

/**
 * memberOf returns a member's value.
 *
 * @param {JSONValue | undefined} value
 * @param {string} name
 */
export function memberOf(value, name) {
	return value?.members.find((member) => member.name === name)?.value
}

/**
 * format indents a JSON text.
 *
 * @param {string} text
 * @param {JSONValue} [value]
 * @param {string} [indent]
 * @returns {string}
 */
export function format(text, value = parse(text), indent = '') {
	const children = value.kind === 'object' ? value.members.map((member) => member.value) : value.items
	if (value.kind !== 'object' && value.kind !== 'array') {
		return text.slice(value.start, value.end)
	}
	const [open, close] = value.kind === 'object' ? '{}' : '[]'
	if (children.length === 0) {
		return `${open}${close}`
	}
	const short = compact(text, value, ' ')
	if ((indent !== '' || value.kind === 'array') && short.length <= 60 && children.every((child) => child.members.length + child.items.length === 0)) {
		return short
	}
	const inner = indent + '  '
	const parts = children.map((child, i) => inner + nameOf(text, value, i) + (value.kind === 'object' ? ' ' : '') + format(text, child, inner))
	return `${open}\n${parts.join(',\n')}\n${indent}${close}`
}

/**
 * @param {string} text
 * @param {JSONValue} value
 * @param {number} i
 */
function nameOf(text, value, i) {
	const member = value.members[i]
	return member ? text.slice(member.start, stringEnd(text, member.start)) + ':' : ''
}

/**
 * stringEnd returns where the JSON string at a place ends.
 *
 * @param {string} text
 * @param {number} start
 */
function stringEnd(text, start) {
	let at = start + 1
	while (text[at] !== '"') {
		at += text[at] === '\\' ? 2 : 1
	}
	return at + 1
}

/**
 * compact takes the white space out of a JSON text. A gap stays after colons and commas
 * if given.
 *
 * @param {string} text
 * @param {JSONValue} [value]
 * @param {string} [gap]
 * @returns {string}
 */
export function compact(text, value = parse(text), gap = '') {
	switch (value.kind) {
		case 'object':
			return `{${value.members.map((member, i) => nameOf(text, value, i) + gap + compact(text, member.value, gap)).join(',' + gap)}}`
		case 'array':
			return `[${value.items.map((item) => compact(text, item, gap)).join(',' + gap)}]`
		default:
			return text.slice(value.start, value.end)
	}
}

/**
 * lineOf returns the line of a place in a text, from 1.
 *
 * @param {string} text
 * @param {number} offset
 */
export function lineOf(text, offset) {
	let line = 1
	for (let i = text.indexOf('\n'); i >= 0 && i < offset; i = text.indexOf('\n', i + 1)) {
		line++
	}
	return line
}

/**
 * find returns where a JSON Pointer points to in a text. If something is missing there,
 * it is the place of what encloses it.
 *
 * @param {JSONValue} value
 * @param {string} pointer
 */
export function find(value, pointer) {
	let place = value.start
	for (const part of pointer.split('/').slice(1).map((text) => text.replaceAll('~1', '/').replaceAll('~0', '~'))) {
		const member = value.members.find((other) => other.name === part)
		const next = member?.value ?? value.items[Number(part)]
		if (!next) {
			break
		}
		place = member?.start ?? next.start
		value = next
	}
	return place
}
