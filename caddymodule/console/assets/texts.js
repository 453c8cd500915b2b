// What labels and versions are called, and tags.

/** Names a version with its state and its labels. @param {Version} version */
export function versionName({ version, designated, labels }) {
	return [`v${version}${designated ? ' ● live' : ''}`, ...labels].join(' · ')
}

/** Says what a label stands for. The weights of a split are shown as percent. @param {Target | null | undefined} target */
export function targetText(target) {
	const versions = target?.split ? percents(target.split).map(({ version, percent }) => `v${version} ${percent} %`).join(' · ')
		: target?.version ? `v${target.version}` : 'not set'
	return versions + (target?.protected ? ', protected' : '')
}

/** The shares in percent, with two decimals. They add up to 100: the largest takes the rest. @param {Share[]} split */
export function percents(split) {
	const sum = split.reduce((all, share) => all + share.weight, 0)
	const hundredths = split.map(({ weight }) => Math.round((weight / sum) * 10000))
	const largest = hundredths.indexOf(Math.max(...hundredths))
	if (largest >= 0) { // the list may be empty
		hundredths[largest] += 10000 - hundredths.reduce((all, one) => all + one, 0)
	}
	return split.map(({ version }, n) => ({ version, percent: hundredths[n] / 100 }))
}

/** Reads tags with commas between them. @param {string} text */
export const tagsOf = (text) => [...new Set(text.split(',').map((tag) => tag.trim()).filter(Boolean))]

/** The limits of a preset, as fields and texts name them. @type {Record<string, string>} */
export const presetLimits = { requests_per_minute: 'Requests a minute', tokens_per_day: 'Tokens a day', cost_per_day: 'US dollars a day' }

/** @param {Preset} preset */
export const limitsText = ({ limits }) => Object.entries(limits ?? {}).map(([name, value]) => `${value} ${presetLimits[name]?.replace(/^[RT]/, (first) => first.toLowerCase()) ?? name}`).join(', ')
