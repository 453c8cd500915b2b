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
const parts = (value, write, gap = '') => [...value.members.map((member) => `${member.key}:${gap}${write(member.value)}`), ...value.items.map(write)]

/** Writes a value without white space, or with a gap after colons and commas. @param {JSONValue} value @returns {string} */
export function compact(value, gap = '') {
	const inside = parts(value, (one) => compact(one, gap), gap).join(`,${gap}`)
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
	return short[0] + inner + parts(value, (one) => format(one, `${indent}  `), ' ').join(`,${inner}`) + `\n${indent}` + short.at(-1)
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
