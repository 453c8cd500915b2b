// Characters that cannot be seen, or that change the direction of text, are shown as boxes.

// Emoji, and joiners between letters of scripts that need them, are seen. Everything else that
// Unicode lets programs ignore is not.
const picture = String.raw`(?:\p{RGI_Emoji}|\p{Extended_Pictographic})(?:(?<![\uFE0E\uFE0F])[\uFE0E\uFE0F])?`
const emoji = String.raw`${picture}(?:\u200D${picture})*`
const joining = `[[\\p{L}\\p{M}]&&[${['Arab', 'Syrc', 'Mong', 'Deva', 'Beng', 'Guru', 'Gujr', 'Orya', 'Taml', 'Telu', 'Knda', 'Mlym', 'Sinh', 'Khmr', 'Mymr'].map((script) => `\\p{Script=${script}}`).join('')}]]`
const hidden = String.raw`[[\p{Cc}\p{Default_Ignorable_Code_Point}\u2028\u2029\uFFF9-\uFFFB]--[\t\n]]`
const suspect = new RegExp(hidden, 'v')
const each = `(${hidden})\\1*`
const strict = new RegExp(each, 'gv'), usual = new RegExp(`${emoji}|\\r(?=\\n)|(?<=${joining})[\\u200C\\u200D](?=${joining})|${each}`, 'gv')

/** @type {[RegExp, string][]} */
const kinds = [
	[/\p{Bidi_Control}/v, 'changes the direction'], [/[\u{E0000}-\u{E007F}]/v, 'a tag'], [/\p{Variation_Selector}/v, 'a variation selector'],
	[/\p{Cc}/v, 'a control character'], [/[^]/v, 'cannot be seen'],
]

/** @param {string} character */
const nameOf = (character) => `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`

/** @param {string} run equal characters */
function box(run, character = String.fromCodePoint(run.codePointAt(0) ?? 0)) {
	const element = document.createElement('span'), inside = document.createElement('span')
	const count = run.length / character.length
	const name = nameOf(character) + (count > 1 ? ` ×${count}` : '')
	element.className = 'box'
	element.dataset.code = name
	element.dir = 'ltr'
	element.title = `${name}, ${kinds.find(([kind]) => kind.test(character))?.[1]}`
	element.setAttribute('role', 'img')
	element.setAttribute('aria-label', element.title)
	inside.append(run) // it is copied, and the code is not
	element.append(inside)
	return element
}

const maxBoxes = 5000 // of a text, because more would stop the browser

/**
 * Splits a text into what can be seen and boxes. isStrict also shows what is usual in emoji and in
 * words, and is for what makes two texts differ.
 * @param {string} text @param {{ from?: number, to?: number, isStrict?: boolean }} [part] the part to show
 * @returns {(string | Node)[]}
 */
export function visible(text, { from = 0, to = text?.length, isStrict = false } = {}) {
	if (!suspect.test(text)) {
		return [from === 0 && to === text?.length ? text : text.slice(from, to)]
	}
	/** @type {(string | Node)[]} */
	const shown = []
	let end = from
	for (const { 0: run, 1: character, index } of text.matchAll(isStrict ? strict : usual)) {
		const a = Math.max(index, from), b = Math.min(index + run.length, to)
		if (shown.length >= 2 * maxBoxes) {
			break
		} else if (character !== undefined && a < b) {
			shown.push(text.slice(end, a), box(text.slice(a, b)))
			end = b
		}
	}
	return [...shown, text.slice(end, to)].filter((one) => one !== '')
}

const maxNamed = 8

/** Warns of the characters that visible shows as boxes. There is no line without them. @param {string} text @param {string} [where] @param {string} [marks] */
export function warning(text, where = '', marks = 'Boxes show them') {
	/** @type {Map<string, number>} */
	const counts = new Map()
	if (suspect.test(text)) {
		for (const [run, character] of text.matchAll(usual)) {
			character && counts.set(character, (counts.get(character) ?? 0) + run.length / character.length)
		}
	}
	if (counts.size === 0) {
		return undefined
	}
	const named = [...counts].slice(0, maxNamed).map(([character, count]) => nameOf(character) + (count > 1 ? ` (${count} times)` : ''))
	const line = document.createElement('p')
	line.className = 'note'
	const isMuch = [...counts.values()].reduce((sum, count) => sum + count, 0) > maxBoxes
	line.append(
		where && `${where}: `, 'Some characters cannot be seen, or change the direction of text. ', marks, ': ', named.join(', '),
		counts.size > maxNamed ? ` and ${counts.size - maxNamed} others.` : '.', isMuch ? ` Only the first ${maxBoxes} of a text have boxes.` : '')
	return line
}
