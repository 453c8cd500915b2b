// Reading the streamed answer of a gateway, in the three dialects.

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

/** Reads an event's data: the text that it adds, or how the answer ended. Unknown events add nothing. @param {string} data */
export function pieceOf(data) {
	const piece = { text: '', usage: '', failure: '' }
	/** @type {any} */
	let event
	try {
		event = JSON.parse(data) ?? {}
	} catch {
		return piece // such as [DONE]
	}
	const type = String(event.type ?? '')
	const delta = event.choices?.[0]?.delta
	if (event.error || type === 'error' || type === 'response.failed') {
		const error = event.error ?? event.response?.error ?? event
		piece.failure = textOf(error) || textOf(error.message) || 'The gateway reported an error.'
	} else if (delta) {
		piece.text = textOf(delta.content)
	} else if (type === 'content_block_delta') {
		piece.text = textOf(event.delta?.text)
	} else if (type === 'response.output_text.delta') {
		piece.text = textOf(event.delta)
	}
	piece.usage = usageOf(event.usage ?? event.response?.usage)
	return piece
}

/** @param {unknown} value */
function textOf(value) {
	return typeof value === 'string' ? value : ''
}

/** @param {any} usage */
function usageOf(usage) {
	const input = usage?.input_tokens ?? usage?.prompt_tokens, output = usage?.output_tokens ?? usage?.completion_tokens
	return typeof output !== 'number' ? '' : `${typeof input === 'number' ? `${input} tokens in, ` : ''}${output} tokens out`
}

/** Finds the text of an answer that is not streamed. An unknown form is shown as it is. @param {string} text */
export function wholeText(text) {
	try {
		const answer = JSON.parse(text)
		const blocks = answer.content ?? answer.output?.flatMap((/** @type {any} */ item) => item.content ?? [])
		return textOf(answer.choices?.[0]?.message?.content) || blocks.map((/** @type {any} */ block) => textOf(block.text)).join('') || text
	} catch {
		return text
	}
}
