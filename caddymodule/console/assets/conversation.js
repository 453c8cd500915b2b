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
const textOf = (content) => (typeof content === 'string' ? content : Array.isArray(content) ? content.map((part) => part?.text ?? '').join('') : content ? JSON.stringify(content) : '')

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
			turns.push({ role: 'tool', text: textOf(message.output ?? content), id, name: names.get(id) ?? '' })
		} else if (results.length > 0) {
			turns.push(...results.map((result) => ({ role: 'tool', text: textOf(result.content), id: result.tool_use_id, name: names.get(result.tool_use_id) ?? '' })))
		} else {
			const calls = [...(message.tool_calls ?? []).map((/** @type {any} */ one) => call(one.id, one.function?.name ?? '', one.function?.arguments ?? '')), ...parts.filter((part) => part.type === 'tool_use').map((part) => call(part.id, part.name, JSON.stringify(part.input)))]
			turns.push({ role, text: textOf(content), ...(calls.length > 0 && { calls }) })
		}
	}
	return turns
}
