package secrets

import (
	"bytes"
	"regexp"
)

// form is how a well-known key is written. mark is in every text of the form.
type form struct {
	mark    string
	pattern *regexp.Regexp // its last group, or all of it, is the key
	name    string
}

// after stands before a key that must not be the end of a longer word, of letters, digits and more. In JSON
// the last letter of an escape is no part of a word.
func after(more string) string {
	return `(?:^|[^0-9A-Za-z` + more + `]|\\[bfnrt]|\\u[0-9A-Fa-f]{4})`
}

var forms = []form{
	{"caddypresets_", regexp.MustCompile(`caddypresets_(?:mgmt|inf)_[0-9A-Za-z]{16,}`), "a key of this server"},
	{"sk-", regexp.MustCompile(after("_-") + `(sk-[0-9A-Za-z_-]{20,})`), "an API key (sk-…)"},
	{"AKIA", regexp.MustCompile(after("") + `(AKIA[0-9A-Z]{16})(?:\b|_)`), "an AWS access key (AKIA…)"},
	{"ghp_", regexp.MustCompile(after("_") + `(ghp_[0-9A-Za-z]{30,})`), "a GitHub token (ghp_…)"},
	{privateKey, regexp.MustCompile(`-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY-----`), "a private key"},
	formOf("ASIA", `[0-9A-Z]{16}(?:\b|_)`, "an AWS access key"),
	formOf("gho_", `[0-9A-Za-z]{30,}`, "a GitHub token"),
	formOf("ghu_", `[0-9A-Za-z]{30,}`, "a GitHub token"),
	formOf("ghs_", `[0-9A-Za-z]{30,}`, "a GitHub token"),
	formOf("github_pat_", `[0-9A-Za-z_]{40,}`, "a GitHub token"),
	formOf("glpat-", `[0-9A-Za-z_-]{20,}`, "a GitLab token"),
	formOf("AIza", `[0-9A-Za-z_-]{35}`, "a Google API key"),
	formOf("gsk_", `[0-9A-Za-z]{40,}`, "a Groq API key"),
	formOf("xai-", `[0-9A-Za-z]{40,}`, "an xAI API key"),
	formOf("hf_", `[0-9A-Za-z]{30,}`, "a Hugging Face token"),
	formOf("xoxb-", `[0-9A-Za-z-]{20,}`, "a Slack token"),
	formOf("xoxp-", `[0-9A-Za-z-]{20,}`, "a Slack token"),
	formOf("sk_live_", `[0-9A-Za-z]{20,}`, "a Stripe API key"),
}

// formOf returns the form of keys that begin with mark, which is no part of a word.
func formOf(mark, rest, name string) form {
	return form{mark, regexp.MustCompile(after("_-") + "(" + mark + rest + ")"), name + " (" + mark + "…)"}
}

const privateKey = "PRIVATE KEY-----"

// Known is a place in a text with the form of a well-known key.
type Known struct {
	Start, End int
	Name       string
}

// FindKnown returns the first texts with the form of a well-known key, most at most. They are sorted by
// their form, and those of one form by their place.
func FindKnown(text []byte, most int) (found []Known) {
	for _, f := range forms {
		if !bytes.Contains(text, []byte(f.mark)) {
			continue
		}
		for _, m := range f.pattern.FindAllSubmatchIndex(text, -1) {
			start, end := m[len(m)-2], m[len(m)-1]
			if f.mark == "sk-" && !bytes.ContainsAny(text[start:end], "0123456789") { // words with hyphens
				continue
			}
			if found = append(found, Known{start, end, f.name}); len(found) == most {
				return found
			}
		}
	}
	return found
}

// Masked takes the place of a key in a text that Mask returns.
const Masked = "[key]"

// own matches a key of ours in any letter case, also a damaged one.
var own = regexp.MustCompile(`(?i)caddypresets_(?:mgmt|inf)_[0-9a-z]*`)

// Mask returns text with Masked in the place of each key of ours and of each text with the form of a
// well-known key, and whether there was any. It searches JSON as it is written, and other text. Of a private
// key it masks everything to its end. It never changes text, and returns it if there is nothing to mask.
func Mask(text []byte) (masked []byte, any bool) {
	if AreIn(string(text)) {
		if replaced := own.ReplaceAll(text, []byte(Masked)); !bytes.Equal(replaced, text) {
			text, any = replaced, true
		}
	}
	for _, f := range forms[1:] {
		if !bytes.Contains(text, []byte(f.mark)) {
			continue
		}
		var out []byte
		done := 0
		for _, m := range f.pattern.FindAllSubmatchIndex(text, -1) {
			start, end := m[len(m)-2], m[len(m)-1]
			if start < done {
				continue
			}
			if f.mark == privateKey {
				end += endOfPrivateKey(text[end:])
			}
			out = append(append(out, text[done:start]...), Masked...)
			done, any = end, true
		}
		if done > 0 {
			text = append(out, text[done:]...)
		}
	}
	return text, any
}

// endOfPrivateKey returns how many bytes of text, which follows a private key's first line, are of it: those
// before its last line, before the end of a JSON string, or all.
func endOfPrivateKey(text []byte) int {
	end := len(text)
	for _, mark := range []string{"-----END", `"`} {
		if at := bytes.Index(text[:end], []byte(mark)); at >= 0 {
			end = at
		}
	}
	return end
}
