// The public API: the key, entity tags, idempotency and errors.

import { api } from './addresses.js'
import * as session from './session.js'

/**
 * @typedef {{ path: string, message: string }} Issue
 * @typedef {{ version: number, weight: number }} Share
 * @typedef {{ version?: number | null, split?: Share[] }} Target
 * @typedef {'responses' | 'chat' | 'messages'} Dialect
 * @typedef {{
 *   version: number, creator_id: string, created_at: string, system_prompt: string | null,
 *   designated?: boolean, labels?: string[], message?: string | null, dialect?: string | null,
 *   system_prompt_bytes?: number, config_bytes?: number,
 * }} Version
 * @typedef {{
 *   id: string, name: string, slug: string, description: string | null, status: 'active' | 'disabled' | 'archived',
 *   creator_user_id: string, updated_at: string, created_at: string, labels: Record<string, Target>,
 *   workspace_id: string, designated_version_id: string, designated_version?: Version,
 *   designated_version_number?: number, updated_by?: string,
 * }} Preset
 * @typedef {{
 *   id: string, name: string, slug: string, description: string | null, default_text_model: string | null,
 *   default_image_model: string | null, default_provider_sort: string | null, disabled_server_tools: string[] | null,
 *   created_at: string, updated_at: string | null, created_by: string,
 * }} Workspace
 * @typedef {{
 *   number: number, time: string, operation: string, user_id: string, key_id: string, key_name?: string | null,
 *   version_before?: number | null, version?: number | null, label?: string | null, message?: string | null,
 *   request_id: string, slug?: string | null, preset?: string | null, object?: { slug?: string },
 * }} Change
 * @typedef {{ number: number, time: string, key_id: string, user_id: string, from: Target | null, to: Target | null }} LabelChange
 * @typedef {{ label: string, version?: number | null, split?: Share[], history: LabelChange[], history_count: number }} Label
 */

/**
 * Answer is a successful answer. Its text is the JSON as it came.
 *
 * @template T
 * @typedef {{ text: string, data: T, total: number, tag: string, headers: Headers, at: number }} Answer
 */

/** Failure is an error of the API, or that it cannot be reached. */
export class Failure extends Error {
	/**
	 * @param {string} message
	 * @param {{ status?: number, issues?: Issue[], requestId?: string, retryAfter?: string }} [more]
	 */
	constructor(message, more = {}) {
		super(message)
		/** status is that of the answer, 0 if there was none. */
		this.status = more.status ?? 0
		this.issues = more.issues ?? []
		this.requestId = more.requestId ?? ''
		this.retryAfter = more.retryAfter ?? ''
	}

	get isOffline() {
		return this.status === 0
	}
}

/**
 * failureOf makes a Failure of whatever was thrown.
 *
 * @param {unknown} thrown
 */
export function failureOf(thrown) {
	return thrown instanceof Failure ? thrown : new Failure(thrown instanceof Error ? thrown.message : String(thrown), { status: -1 })
}

/**
 * @param {unknown} thrown
 */
export function isAborted(thrown) {
	return thrown instanceof DOMException && thrown.name === 'AbortError'
}

/**
 * ask sends a request to a path of the API. It throws a Failure.
 *
 * @param {string} method
 * @param {string} path
 * @param {{ key?: string, headers?: Record<string, string>, body?: string, signal?: AbortSignal }} [options]
 * @returns {Promise<Response>}
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
		throw new Failure('The server does not answer.')
	}
}

/**
 * readFailure reads an answer that is an error, in the form of any route.
 *
 * @param {Response} response
 * @returns {Promise<Failure>}
 */
export async function readFailure(response) {
	const text = await response.text().catch(() => '')
	let message = '', issues = /** @type {Issue[]} */ ([])
	try {
		const { error } = JSON.parse(text)
		message = typeof error === 'string' ? error : error.message
		issues = error.metadata?.issues ?? []
	} catch {
		message = text.trim().slice(0, 500)
	}
	return new Failure(message || `The server answered ${response.status}.`, {
		status: response.status, issues,
		requestId: response.headers.get('X-Request-Id') ?? '',
		retryAfter: response.headers.get('Retry-After') ?? '',
	})
}

/**
 * answerOf reads an answer. A 401 ends the session.
 *
 * @param {Response} response
 * @returns {Promise<Answer<any>>}
 */
async function answerOf(response) {
	if (!response.ok) {
		const failure = await readFailure(response)
		if (failure.status === 401) {
			session.lock('The server no longer takes this key. Nothing was changed, and your edits are still here.')
		}
		throw failure
	}
	let text = ''
	try {
		text = await response.text()
	} catch (thrown) {
		throw isAborted(thrown) ? thrown : new Failure('The connection ended before the answer was complete.')
	}
	const parsed = JSON.parse(text)
	return {
		text, data: parsed.data, total: parsed.total_count ?? 0,
		tag: response.headers.get('ETag') ?? '', headers: response.headers, at: Date.now(),
	}
}

/** @type {Map<string, Answer<any>>} */
const answers = new Map()
const maxAnswers = 100

session.locks.addEventListener('lock', () => answers.clear())

/**
 * known returns the last answer of a path, if it is in memory.
 *
 * @param {string} path
 * @returns {Answer<any> | undefined}
 */
export function known(path) {
	return answers.get(path)
}

/**
 * read gets a path. If nothing has changed there, it returns the same answer as before.
 *
 * @param {string} path
 * @param {AbortSignal} [signal]
 * @returns {Promise<Answer<any>>}
 */
export async function read(path, signal) {
	const before = answers.get(path)
	const response = await ask('GET', path, { signal, headers: before?.tag ? { 'If-None-Match': before.tag } : {} })
	const answer = before && response.status === 304 ? before : await answerOf(response)
	answer.at = Date.now()
	answers.delete(path)
	answers.set(path, answer)
	for (const oldest of answers.keys()) {
		if (answers.size <= maxAnswers) {
			break
		}
		answers.delete(oldest)
	}
	return answer
}

// A change that may have been made has kept its idempotency key. Sending it again with
// the same body is the same change.
/** @type {Map<string, string>} */
const open = new Map()

/** absent stands for the tag of what must not exist yet. */
export const absent = '*'

/**
 * change sends a change. With a tag it is made only if the object still has this tag.
 *
 * @param {string} method
 * @param {string} path
 * @param {string | object | undefined} body JSON text as it is sent, or an object
 * @param {string} [tag]
 * @returns {Promise<Answer<any>>}
 */
export async function change(method, path, body, tag = '') {
	const text = typeof body === 'object' ? JSON.stringify(body) : body
	const name = [session.secret(), method, path, text].join('\n')
	const key = open.get(name) ?? randomName()
	open.set(name, key)
	const answer = await ask(method, path, { body: text, headers: { 'Idempotency-Key': key, ...conditionOf(tag) } }).then(answerOf).catch((thrown) => {
		const { status } = failureOf(thrown)
		if (status >= 400 && status < 500) {
			open.delete(name) // nothing was changed
		}
		throw thrown
	})
	open.delete(name)
	changes.dispatchEvent(new Event('change'))
	return answer
}

/**
 * @param {string} tag
 * @returns {Record<string, string>}
 */
function conditionOf(tag) {
	return tag === absent ? { 'If-None-Match': '*' } : tag ? { 'If-Match': tag } : {}
}

/** changes tells views that something was changed here. */
export const changes = new EventTarget()

function randomName() {
	return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/**
 * identify finds out what a key may do, and where.
 *
 * @param {string} key
 * @returns {Promise<{ kind: session.Kind, home: string }>}
 */
export async function identify(key) {
	const workspaces = await ask('GET', '/workspaces?limit=1', { key })
	if (workspaces.ok) {
		return { kind: 'management', home: 'default' }
	}
	if (workspaces.status !== 403) {
		throw await readFailure(workspaces)
	}
	const presets = await ask('GET', '/presets?limit=1&workspace_id=default', { key })
	if (presets.ok) {
		return { kind: 'inference', home: 'default' }
	}
	const own = await ask('GET', '/presets?limit=1&status=all', { key })
	if (!own.ok) {
		throw await readFailure(own)
	}
	const { data } = await own.json()
	return { kind: 'inference', home: data[0]?.workspace_id ?? 'default' }
}
