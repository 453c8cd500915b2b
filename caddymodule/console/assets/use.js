// How a program uses the preset: snippets for its client, with this site's address.

import { api as apiPath } from './addresses.js'
import { code, field, fill, h } from './elements.js'
import { presetFrame, readTemplates, refOf, targetChoices } from './preset.js'
import { errorBox, readUntilDone, snippet } from './states.js'

/** @type {MakeView} */
export function useView(context) {
	const { slug } = context.at
	return presetFrame(context, 'use', 'Use it', (preset, select) => {
		const ref = targetChoices(context, preset, refOf(context.address), [{ value: '', text: 'what is live' }])
		const place = h('div')
		const show = async () => {
			const asked = ref.value
			try {
				const template = await readTemplates(context, preset.data, asked)
				if (asked === ref.value) {
					const { names } = template
					fill(place,
						names.length > 0 && h('p.intro', 'It is a template. Each request gives a value for each variable: ', code(names.join(', ')), '.', asked && ' OpenRouter’s client cannot name a version together with variables.'),
						h('div.snippets', snippets(slug, asked, template).map(([name, text]) => h('section', h('h3', name), snippet(text, `the snippet for ${name}`)))))
				}
			} catch (thrown) {
				if (asked === ref.value && !context.signal.aborted) {
					fill(place, errorBox(thrown))
				}
				throw thrown
			}
		}
		const look = readUntilDone(show, context.signal)
		ref.addEventListener('change', () => {
			select(ref.value)
			look()
		})
		return {
			element: h('div',
				h('h2', 'Use it'),
				h('p.intro', 'Programs name the preset as their model, ', code(`@preset/${slug}`), ', and use an inference key.'),
				h('div.filters', field('Version or label', ref)),
				place),
			update: (next) => {
				preset = next
				look()
			},
		}
	})
}

/**
 * Writes the snippets. The values of a template's variables are examples, and work. If it has
 * messages, a request needs none.
 * @param {string} slug @param {string} ref @param {Template} template @returns {[string, string][]}
 */
function snippets(slug, ref, { names, hasMessages }) {
	const url = location.origin + apiPath, model = `@preset/${slug}${ref && '@' + ref}`
	// Anthropic's clients add /v1 themselves.
	const root = url.replace(/\/v1$/, '')
	// Names of variables have letters, digits, and _ . - alone. So they are the same text in each language.
	const values = names.map((name) => `"${name}": "value of ${name}"`)
	/** @param {number} indent */
	const variables = (indent) => (values.length > 1 ? `{\n${values.map((value) => ' '.repeat(indent + 2) + value).join(',\n')}\n${' '.repeat(indent)}}` : `{${values}}`)
	/** @param {string} text for versions with variables */
	const given = (text) => (names.length > 0 ? text : '')
	const list = hasMessages ? '' : '{"role": "user", "content": "Hello"}'
	const extra = given(`
    extra_body={"prompt": {"variables": ${variables(4)}}},`)
	return [
		['curl', `curl ${url}/chat/completions \\
  -H "Authorization: Bearer $INFERENCE_KEY" \\
  -H "Content-Type: application/json" \\
  -d '{"model": "${model}"${given(`,
       "prompt": {"variables": ${variables(7)}}`)}${list && `,
       "messages": [${list}]`}}'`],
		['OpenAI, Python', `import os
from openai import OpenAI

client = OpenAI(
    base_url="${url}",
    api_key=os.environ["INFERENCE_KEY"],
)
answer = client.chat.completions.create(
    model="${model}",${extra}
    messages=[${list}],
)
print(answer.choices[0].message.content)`],
		['OpenAI, JavaScript', `import OpenAI from 'openai'

const client = new OpenAI({
  baseURL: '${url}',
  apiKey: process.env.INFERENCE_KEY,
})
const answer = await client.responses.create({
  ${names.length > 0 ? `prompt: { id: '${slug}',${ref && ` version: '${ref}',`} variables: ${variables(2)} }` : `model: '${model}'`},${hasMessages ? '' : `
  input: 'Hello',`}
})
console.log(answer.output_text)`],
		['Anthropic, Python', `import os
from anthropic import Anthropic

client = Anthropic(
    base_url="${root}",
    api_key=os.environ["INFERENCE_KEY"],
)
answer = client.messages.create(
    model="${model}",${extra}
    max_tokens=1024,
    messages=[${list}],
)
print(answer.content[0].text)`],
		...(names.length > 0 && ref ? [] : [/** @type {[string, string]} */ (['OpenRouter, JavaScript', `import { OpenRouter } from '@openrouter/sdk'

const client = new OpenRouter({
  serverURL: '${url}',
  apiKey: process.env.INFERENCE_KEY,
})
${names.length > 0 ? `const answer = await client.responses.send({
  responsesRequest: {
    prompt: { id: '${slug}', variables: ${variables(4)} },${hasMessages ? '' : `
    input: 'Hello',`}
  },
})
console.log(answer.outputText ?? answer.output)` : `const answer = await client.chat.send({
  chatRequest: {
    model: '${model}',
    messages: [${list && `{ role: 'user', content: 'Hello' }`}],
  },
})
console.log(answer.choices[0].message.content)`}`])]),
	]
}
