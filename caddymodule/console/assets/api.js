// The public API: the key, entity tags, idempotency and errors.

import { api, presetOf } from './addresses.js'
import * as session from './session.js'

/**
 * Makes an error of the API. Its status is 0 if no answer came.
 * @param {string} message
 * @param {Partial<Failure>} [more]
 * @returns {Failure}
 */
export function newFailure(message, more = {}) {
	return Object.assign(new Error(message), { status: 0, isOffline: false, issues: [], requestId: '', retryAfter: '', ...more })
}

/** Makes a failure of whatever was thrown. @param {unknown} thrown @returns {Failure} */
export function failureOf(thrown) {
	return thrown instanceof Error && 'status' in thrown ? /** @type {Failure} */ (thrown) : newFailure(String(thrown), { status: -1 })
}

/** @param {unknown} thrown */
const isAborted = (thrown) => thrown instanceof DOMException && thrown.name === 'AbortError'

/**
 * Sends a request to a path of the API. It throws a Failure.
 * @param {string} method @param {string} path
 * @param {RequestOptions} [options]
 */
export async function ask(method, path, options = {}) {
	/** @type {Record<string, string>} */
	const headers = { ...options.headers, Authorization: `Bearer ${options.key ?? session.secret()}` }
	if (options.body !== undefined) {
		headers['Content-Type'] = 'application/json'
	}
	try {
		return await fetch(api + path, {
			method, headers, body: options.body ?? null, signal: options.signal ?? null,
			cache: 'no-store', credentials: 'omit', redirect: 'error', referrerPolicy: 'no-referrer',
		})
	} catch (thrown) {
		if (isAborted(thrown)) {
			throw thrown
		}
		throw newFailure('The server does not answer.', { isOffline: true })
	}
}

/** Reads an answer that is an error, in the form of any route. @param {Response} response */
export async function readFailure(response) {
	const text = await response.text().catch(() => '')
	let error
	try {
		({ error } = JSON.parse(text))
	} catch {
		error = text.trim().slice(0, 500)
	}
	return newFailure((typeof error === 'string' ? error : error?.message) || `The server answered ${response.status}.`, {
		status: response.status, issues: error?.metadata?.issues ?? [],
		requestId: response.headers.get('X-Request-Id') ?? '',
		retryAfter: response.headers.get('Retry-After') ?? '',
	})
}

/** Reads the text of an answer. A 401 ends the session. @param {Response} response */
async function textOf(response) {
	if (!response.ok) {
		const failure = await readFailure(response)
		if (failure.status === 401) {
			session.lock('The server no longer takes this key. Nothing was changed.')
		}
		throw failure
	}
	return response.text().catch((thrown) => {
		throw isAborted(thrown) ? thrown : newFailure('The connection ended before the answer was complete.')
	})
}

/** Reads an answer in JSON. @param {Response} response @returns {Promise<Answer<any>>} */
async function answerOf(response) {
	const text = await textOf(response)
	const parsed = JSON.parse(text)
	return {
		text, data: parsed.data, total: parsed.total_count ?? 0,
		tag: response.headers.get('ETag') ?? '', headers: response.headers,
	}
}

/** @type {Map<string, Answer<any>>} */
const answers = new Map()
const maxAnswers = 100

session.locks.addEventListener('lock', () => {
	answers.clear()
	reads.clear()
})

/** Returns the last answer of a path, if it is in memory. @param {string} path @returns {Answer<any> | undefined} */
export const known = (path) => answers.get(path)

/** Reads under way, each for all who asked meanwhile. @type {Map<string, { answer: Promise<Answer<any>>, ending: AbortController, waiting: number }>} */
const reads = new Map()

/**
 * Gets a path. If nothing has changed there, it returns the same answer as before.
 * @param {string} path @param {AbortSignal} [signal] @returns {Promise<Answer<any>>}
 */
export async function read(path, signal) {
	signal?.throwIfAborted()
	const ending = new AbortController(), one = reads.get(path) ?? { answer: readNow(path, ending.signal), ending, waiting: 0 }
	const isOver = () => reads.get(path) === one && reads.delete(path)
	reads.set(path, one)
	one.waiting++
	let leave = () => {}
	try {
		return await Promise.race([one.answer, new Promise((_, reject) => {
			leave = () => {
				--one.waiting || (isOver(), one.ending.abort())
				reject(signal?.reason)
			}
			signal?.addEventListener('abort', leave)
		})])
	} finally {
		signal?.removeEventListener('abort', leave)
		isOver()
	}
}

/** @param {string} path @param {AbortSignal} signal @returns {Promise<Answer<any>>} */
async function readNow(path, signal) {
	const before = answers.get(path)
	const response = await ask('GET', path, { signal, headers: before?.tag ? { 'If-None-Match': before.tag } : {} })
	const next = before && response.status === 304 ? before : await answerOf(response)
	const answer = before && before.text === next.text && before.tag === next.tag ? before : next // keys have no tags
	answers.delete(path)
	answers.set(path, answer)
	if (answers.size > maxAnswers) {
		answers.delete([...answers.keys()][0])
	}
	return answer
}

/** Gets a path in another media type than JSON. @param {string} path @param {string} media @param {AbortSignal} signal */
export async function readAs(path, media, signal) {
	return textOf(await ask('GET', path, { signal, headers: { Accept: media } }))
}

// The idempotency keys of changes with an unknown outcome. A repeated change with the same
// body uses its key again.
/** @type {Map<string, string>} */
const open = new Map()

/** Stands for the tag of what must not exist yet. */
export const absent = '*'

/**
 * Sends a change. With a tag it is made only if the object still has this tag.
 * Its body is JSON text as it is sent, or an object.
 * @type {SendChange}
 */
export async function change(method, path, body, tag = '') {
	const text = typeof body === 'object' ? JSON.stringify(body) : body
	const override = session.overriddenOwner(presetOf(path))
	const name = [method, path, text, tag, override].join('\n')
	const key = open.get(name) ?? randomName()
	open.set(name, key)
	const answer = await ask(method, path, { body: text, headers: { ...(isKept(path) && { 'Idempotency-Key': key }), ...conditionOf(tag), ...(override && { 'X-Preset-Override': override }) } }).then(answerOf).catch((thrown) => {
		const { status } = failureOf(thrown)
		if (status >= 400 && status < 500) {
			open.delete(name) // nothing was changed
		}
		throw thrown
	})
	open.clear()
	reads.clear() // they began before
	changes.dispatchEvent(new Event('change'))
	return answer
}

/** Tells whether an answer is kept for a repeated request. Those with secrets are not. @param {string} path */
const isKept = (path) => !path.startsWith('/keys')

/** @param {string} tag @returns {Record<string, string>} */
function conditionOf(tag) {
	return tag === absent ? { 'If-None-Match': '*' } : tag ? { 'If-Match': tag } : {}
}

/** Tells views that something was changed here. */
export const changes = new EventTarget()

function randomName() {
	return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** Finds out what a key may do, and where. @param {string} key */
export async function identify(key) {
	const workspaces = await ask('GET', '/workspaces?limit=1', { key })
	if (workspaces.ok) {
		const { data, total_count: total } = await workspaces.json()
		// A key with --only-workspace sees one, perhaps not the default one.
		return { kind: 'management', home: total === 1 ? data[0].slug : 'default', rights: workspaces.headers.get('X-Preset-Rights') ?? '' }
	}
	if (workspaces.status !== 403) {
		throw await readFailure(workspaces)
	}
	const presets = await ask('GET', '/presets?limit=1&workspace_id=default', { key })
	if (presets.ok) {
		return { kind: 'inference', home: 'default', rights: '' }
	}
	const own = await ask('GET', '/presets?limit=1&status=all', { key })
	if (!own.ok) {
		throw await readFailure(own)
	}
	const { data } = await own.json()
	return { kind: 'inference', home: data[0]?.workspace_id ?? '', rights: '' }
}

/** Reads the pages of a list, one after another. @param {(offset: number) => string} path @param {number} most @param {AbortSignal} [signal] @returns {Promise<any[]>} */
export async function readAll(path, most, signal) {
	/** @type {any[]} */
	const all = []
	for (let total = 1; all.length < Math.min(total, most);) {
		const answer = await read(path(all.length), signal)
		all.push(...answer.data)
		total = answer.data.length > 0 ? answer.total : 0
	}
	return all
}
