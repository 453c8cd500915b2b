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
