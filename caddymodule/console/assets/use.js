// How a program uses the preset: snippets for its client, with this site's address.

import { api as apiPath } from './addresses.js'
import { choice, code, field, fill, h } from './elements.js'
import { snippet } from './copy.js'
import { targetText } from './labels.js'
import { presetFrame } from './preset.js'

/** @type {MakeView} */
export function useView(context) {
	const { slug } = context.at
	const frame = presetFrame(context, 'use', (preset) => {
		const labels = Object.entries(preset.data.labels).map(([value, target]) => ({ value, text: `${value} (${targetText(target)})` }))
		const ref = choice([{ value: '', text: 'what is live' }, ...labels], '', { onchange: () => show() })
		const place = h('div', { class: 'snippets' })
		const show = () => fill(place, snippets(`@preset/${slug}${ref.value && '@' + ref.value}`).map(([name, text]) => h('section', null, h('h3', null, name), snippet(text, `the snippet for ${name}`))))
		show()
		return {
			element: h('div', null,
				h('h2', null, 'Use it'),
				h('p', { class: 'intro' }, 'Programs name the preset as their model, ', code(`@preset/${slug}`), ', and use an inference key.'),
				h('div', { class: 'filters' }, field('Version or label', ref)),
				place),
		}
	})
	return { ...frame, title: `Use it · ${slug}` }
}

/** @param {string} model @returns {[string, string][]} */
function snippets(model) {
	const url = location.origin + apiPath
	// Anthropic's clients add /v1 themselves.
	const root = url.replace(/\/v1$/, '')
	return [
		['curl', `curl ${url}/chat/completions \\
  -H "Authorization: Bearer $INFERENCE_KEY" \\
  -H "Content-Type: application/json" \\
  -d '{"model": "${model}",
       "messages": [{"role": "user", "content": "Hello"}]}'`],
		['OpenAI, Python', `import os
from openai import OpenAI

client = OpenAI(
    base_url="${url}",
    api_key=os.environ["INFERENCE_KEY"],
)
answer = client.chat.completions.create(
    model="${model}",
    messages=[{"role": "user", "content": "Hello"}],
)
print(answer.choices[0].message.content)`],
		['OpenAI, JavaScript', `import OpenAI from 'openai'

const client = new OpenAI({
  baseURL: '${url}',
  apiKey: process.env.INFERENCE_KEY,
})
const answer = await client.responses.create({
  model: '${model}',
  input: 'Hello',
})
console.log(answer.output_text)`],
		['Anthropic, Python', `import os
from anthropic import Anthropic

client = Anthropic(
    base_url="${root}",
    api_key=os.environ["INFERENCE_KEY"],
)
answer = client.messages.create(
    model="${model}",
    max_tokens=1024,
    messages=[{"role": "user", "content": "Hello"}],
)
print(answer.content[0].text)`],
		['OpenRouter, JavaScript', `import { OpenRouter } from '@openrouter/sdk'

const client = new OpenRouter({
  serverURL: '${url}',
  apiKey: process.env.INFERENCE_KEY,
})
const answer = await client.chat.send({
  chatRequest: {
    model: '${model}',
    messages: [{ role: 'user', content: 'Hello' }],
  },
})
console.log(answer.choices[0].message.content)`],
	]
}
