// The gateway's list of models, and a field that picks one of it.

import { fill, h, number, user } from './elements.js'
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
export const modelText = ({ context, input, output }) => [
	context > 0 && (context >= 1e6 ? `${Number((context / 1e6).toFixed(1))}M` : `${Math.round(context / 1000)}k`),
	!isNaN(input) && !isNaN(output) && (input + output === 0 ? 'free' : `$${priceOf(input)} / $${priceOf(output)}`),
].filter(Boolean).join(' · ')

/**
 * Makes a text field offer the models of the list, and say about the chosen one.
 * @param {HTMLInputElement} input @param {HTMLElement} about @param {() => void} changed
 */
export function pickModel(input, about, changed) {
	const list = h('ul', { role: 'listbox', class: 'choices', id: 'model-choices', 'aria-label': 'Models', hidden: true })
	for (const [name, value] of Object.entries({ role: 'combobox', 'aria-expanded': 'false', 'aria-controls': list.id, 'aria-autocomplete': 'list' })) {
		input.setAttribute(name, value)
	}
	/** @type {Model[]} */
	let all = []
	let at = -1
	const show = async () => {
		all = await models()
		const model = all.find(({ id }) => id === input.value)
		fill(about, model ? number(modelText(model) || 'listed') : all.length > 0 && input.value && !input.value.startsWith('@preset/') ? h('span', { class: 'warn' }, 'not in the gateway’s list') : all.length === 0 && !session.inferenceKey() && 'Its list needs an inference key.')
	}
	const close = () => {
		list.hidden = true
		at = -1
		input.setAttribute('aria-expanded', 'false')
		input.removeAttribute('aria-activedescendant')
	}
	const choose = (/** @type {string} */ id) => {
		input.value = id
		close()
		changed()
		show()
	}
	const open = (/** @type {string} */ text) => {
		const words = text.toLowerCase().split(/\s+/)
		const shown = all.filter(({ id }) => words.every((word) => id.toLowerCase().includes(word))).slice(0, most)
		at = -1
		fill(list, shown.map((model, i) => h('li', { role: 'option', id: `model-${i}`, 'aria-selected': 'false', onpointerdown: (/** @type {Event} */ event) => {
			event.preventDefault()
			choose(model.id)
		} }, user(model.id), h('span', { class: 'muted number' }, modelText(model)))))
		list.hidden = shown.length === 0
		input.setAttribute('aria-expanded', String(!list.hidden))
	}
	input.addEventListener('focus', () => show().then(() => document.activeElement === input && input.matches(':focus-visible') && open('')))
	input.addEventListener('click', () => show().then(() => open('')))
	input.addEventListener('input', () => {
		show()
		open(input.value)
	})
	input.addEventListener('blur', close)
	input.addEventListener('keydown', (event) => {
		const options = [...list.children]
		const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
		if (step) {
			list.hidden && open('')
			at = Math.min(Math.max(at + step, 0), list.childElementCount - 1)
			options.forEach((option, i) => option.setAttribute('aria-selected', String(i === at)))
			options[at]?.scrollIntoView({ block: 'nearest' })
			input.setAttribute('aria-activedescendant', `model-${at}`)
		} else if (event.key === 'Enter' && at >= 0 && !list.hidden && !event.ctrlKey) {
			choose(all.find(({ id }) => id === options[at].firstElementChild?.textContent)?.id ?? input.value)
		} else if (event.key === 'Escape' && !list.hidden) {
			close()
			event.stopPropagation()
		} else {
			return
		}
		event.preventDefault()
	})
	show()
	return { list, show }
}
