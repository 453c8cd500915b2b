// Reading the answer of a gateway, streamed or whole, in the three dialects.

/**
 * Reads server-sent events, one after another.
 * @param {ReadableStream<Uint8Array>} body @param {() => void} arrived is called with each chunk
 */
export async function* events(body, arrived) {
	const reader = body.getReader()
	const decoder = new TextDecoder()
	let rest = ''
	try {
		for (;;) {
			const { done, value } = await reader.read()
			if (value) {
				arrived()
			}
			rest += decoder.decode(value, { stream: !done })
			const lines = rest.split(/\r\n|\n|\r(?!$)/)
			rest = done ? '' : lines.pop() ?? ''
			for (const line of lines) {
				if (line.startsWith('data:')) {
					yield line.slice(5).trimStart()
				}
			}
			if (done) {
				return
			}
		}
	} finally {
		reader.cancel().catch(() => {})
	}
}

/**
 * Reads an event's data, or a whole answer: what it adds, and how the answer ended. The end is null
 * while the answer goes on, and empty if it has no reason. Unknown events add nothing.
 * @param {string} data
 */
export function readEvent(data) {
	/** @type {any} */
	let event
	try {
		event = JSON.parse(data) ?? {}
	} catch {
		event = {}
	}
	const type = textOf(event.type)
	const error = event.error ?? event.response?.error
	return {
		pieces: piecesOf(event, type).filter(hasContent),
		usage: usageOf(event.usage ?? event.response?.usage ?? event.message?.usage),
		model: textOf(event.model ?? event.response?.model ?? event.message?.model),
		failure: error || type === 'error' || type === 'response.failed' ? textOf(error) || textOf((error ?? event).message) || 'The gateway reported an error.' : '',
		end: data.trim() === '[DONE]' ? '' : endOf(event, type),
	}
}

/** @param {unknown} value */
const textOf = (value) => (typeof value === 'string' ? value : '')

/** @param {unknown} value @returns {any[]} */
const listOf = (value) => (Array.isArray(value) ? value : [])

/** Reads the tokens, and the cost if the gateway tells it. @param {any} usage @returns {Partial<Used>} */
function usageOf(usage) {
	const found = { input: usage?.input_tokens ?? usage?.prompt_tokens, output: usage?.output_tokens ?? usage?.completion_tokens, cost: usage?.cost }
	return Object.fromEntries(Object.entries(found).filter(([, value]) => typeof value === 'number'))
}

/** @param {any} event @param {string} type */
function endOf(event, type) {
	const response = event.response ?? event
	const chosen = listOf(event.choices).map((choice) => choice.finish_reason).filter(Boolean)
	const reason = chosen.length > 0 ? [...new Set(chosen)].join(', ') : event.delta?.stop_reason ?? event.stop_reason ?? response.incomplete_details?.reason
	const explanation = textOf((event.delta ?? event).stop_details?.explanation)
	const isOver = type === 'message_stop' || !['', 'queued', 'in_progress'].includes(textOf(response.status))
	return reason ? reason + (explanation && `: ${explanation}`) : isOver ? response.status?.replace('completed', '') ?? '' : null
}

/** @param {string} part @param {string} name @param {string} text @returns {Piece} */
const piece = (part, name, text, isWhole = false) => ({ part, name, text, isWhole })

/** @param {Piece} one */
const hasContent = ({ name, text }) => name !== '' || text !== ''

/** @param {any} event @param {string} type @returns {Piece[]} */
function piecesOf(event, type) {
	const place = String(event.output_index ?? event.item_id ?? event.index ?? '')
	if (type === 'content_block_start') {
		return [blockOf(place, event.content_block ?? {})]
	} else if (type === 'content_block_delta') {
		const { text, thinking, partial_json: json } = event.delta ?? {}
		return [piece(place, '', textOf(text)), piece(place, thinking ? 'Reasoning' : '', textOf(thinking)), piece(place, json ? 'Tool call' : '', textOf(json))]
	} else if (type === 'response.output_item.added') {
		return [{ ...itemOf(place, event.item), text: '' }]
	} else if (type === 'response.output_item.done') {
		return outputOf(place, event.item ?? {})
	} else if (type.endsWith('.delta') && !type.includes('audio')) {
		return [piece(innerPlace(place, event.content_index, event.summary_index), namesOfDeltas.get(type.split('.')[1]) ?? 'Tool call', textOf(event.delta))]
	}
	return [
		...listOf(event.choices).flatMap(piecesOfChoice),
		...listOf(event.content).map((block, i) => blockOf(String(i), block)),
		...listOf(event.output).flatMap((item, i) => outputOf(String(i), item)),
	]
}

const namesOfDeltas = new Map([['output_text', ''], ['refusal', 'Refusal'], ['reasoning_text', 'Reasoning'], ['reasoning_summary_text', 'Reasoning']])

/** Names a part of an output item, or the item. @param {string} place @param {number} [content] @param {number} [summary] */
const innerPlace = (place, content, summary) => place + (summary !== undefined ? ` summary ${summary}` : content !== undefined ? ` content ${content}` : '')

/** @param {any} choice @returns {Piece[]} */
function piecesOfChoice(choice) {
	const said = choice.delta ?? choice.message ?? {}, n = choice.index ?? 0
	const content = typeof said.content === 'string' ? [{ type: 'text', text: said.content }] : listOf(said.content)
	const calls = said.function_call ? [{ function: said.function_call }] : listOf(said.tool_calls)
	const reasoning = textOf(said.reasoning) || textOf(said.reasoning_content) || listOf(said.reasoning_details).map((detail) => textOf(detail.text) || textOf(detail.summary)).join('')
	return [
		piece('reasoning', reasoning && 'Reasoning', reasoning),
		...content.map((block) => blockOf(textOf(block.type), block)),
		piece('text', '', textOf(said.audio?.transcript)),
		piece('refusal', said.refusal ? 'Refusal' : '', textOf(said.refusal)),
		...calls.map((call, i) => {
			const what = call.function ?? call.custom ?? {}
			return { ...piece(`call ${call.index ?? i}`, `Tool call ${textOf(what.name)}`.trim(), textOf(what.arguments) || textOf(what.input)), call: { id: textOf(call.id), name: textOf(what.name) } }
		}),
	].filter(hasContent).map((one) => (n === 0 ? one : { ...one, part: `${n} ${one.part}`, name: `Choice ${n + 1}${one.name && ': '}${one.name}` }))
}

/** Reads an item of a response's output, whose parts may have come before. @param {string} place @param {any} item @returns {Piece[]} */
function outputOf(place, item) {
	if (!['message', 'reasoning'].includes(item.type)) {
		return [itemOf(place, item)]
	}
	return [
		...listOf(item.summary).map((block, i) => piece(innerPlace(place, undefined, i), 'Reasoning', textOf(block.text))),
		...listOf(item.content).map((block, i) => blockOf(innerPlace(place, i), item.type === 'reasoning' ? { thinking: block.text } : block)),
	].map((one) => ({ ...one, isWhole: true }))
}

/** Reads a block of a message's content. @param {string} place @param {any} block */
function blockOf(place, block) {
	const { text, thinking, refusal } = block
	return textOf(text) || block.type === 'text' ? piece(place, '', textOf(text))
		: thinking !== undefined ? piece(place, 'Reasoning', textOf(thinking) || listOf(thinking).map((one) => textOf(one.text)).join(''))
			: refusal !== undefined ? piece(place, 'Refusal', textOf(refusal)) : itemOf(place, block)
}

/** Reads a tool call, the result of a tool, or what is unknown: as JSON, under its own type. @param {string} place @param {any} item */
function itemOf(place, { type, name, ...rest }) {
	if (['message', 'reasoning'].includes(type)) {
		return piece(place, '', '')
	}
	const members = Object.entries(rest).filter(([key]) => !['id', 'status'].includes(key))
	const given = rest.arguments ?? rest.input ?? rest.code ?? Object.fromEntries(members)
	const text = typeof given === 'string' ? given : Object.keys(given).length === 0 ? '' : JSON.stringify(given, null, 2)
	const call = ['function_call', 'tool_use'].includes(type) ? { call: { id: textOf(rest.call_id ?? rest.id), name: textOf(name) } } : {}
	return { ...piece(place, name ? `Tool call ${textOf(name)}` : textOf(type).replaceAll('_', ' ') || 'unknown', text, true), ...call }
}
