// The gateway's list of models, and a field that picks one of it.

import { fill, h, number, suggest } from './elements.js'
import * as api from './api.js'
import * as session from './session.js'

const most = 60 // choices at once

/** @type {Map<string, Promise<Model[]>>} */
const lists = new Map()
session.locks.addEventListener('lock', () => lists.clear())

/** Reads the list with the inference key of the tab. It is empty if there is no key, or no list. @returns {Promise<Model[]>} */
export function models() {
	const key = session.inferenceKey()
	if (!key) {
		return Promise.resolve([])
	}
	const known = lists.get(key) ?? api.ask('GET', '/models', { key }).then(async (response) => {
		const { data } = response.ok ? await response.json() : { data: [] }
		return (Array.isArray(data) ? data : []).filter(({ id }) => typeof id === 'string' && !id.startsWith('@preset/')).map(({ id, pricing, ...model }) => ({
			id, context: Number(model.context_length ?? model.max_model_len ?? model.context_window) || 0,
			input: Number(pricing?.prompt ?? NaN), output: Number(pricing?.completion ?? NaN),
		}))
	}).catch(() => {
		lists.delete(key)
		return []
	})
	lists.set(key, known)
	return known
}

/** A price of a million tokens. @param {number} price of one */
const priceOf = (price) => Number((price * 1e6).toPrecision(3))

/** Says the context and the price of a model, where the list has them. @param {Model} model */
const modelText = ({ context, input, output }) => [
	context > 0 && (context >= 1e6 ? `${Number((context / 1e6).toFixed(1))}M` : `${Math.round(context / 1000)}k`),
	!isNaN(input) && !isNaN(output) && (input + output === 0 ? 'free' : `$${priceOf(input)} / $${priceOf(output)}`),
].filter(Boolean).join(' · ')

/**
 * Makes a text field offer the models of the list, and say about the chosen one.
 * @param {HTMLInputElement} input @param {HTMLElement} about @param {() => void} changed
 */
export function pickModel(input, about, changed) {
	/** @type {Model[]} */
	let all = []
	const { list, open } = suggest(input, 'Models', (text) => {
		const words = text.toLowerCase().split(/\s+/)
		return all.filter(({ id }) => words.every((word) => id.toLowerCase().includes(word))).slice(0, most).map((model) => ({ text: model.id, about: modelText(model) }))
	}, ({ text }) => {
		input.value = text
		changed()
		show()
	})
	const show = async () => {
		all = await models()
		const model = all.find(({ id }) => id === input.value)
		fill(about, model ? number(modelText(model) || 'listed') : all.length > 0 && input.value && !input.value.startsWith('@preset/') ? h('span.warn', 'not in the gateway’s list') : all.length === 0 && !session.inferenceKey() && 'Its list needs an inference key.')
	}
	input.addEventListener('click', () => show().then(() => open('')))
	input.addEventListener('input', () => {
		show()
		open()
	})
	show()
	return { list, show }
}
