package secrets

import (
	"bytes"
	"iter"
	"math/bits"
	"regexp"
	"strconv"
)

// form is how a key is written.
type form struct {
	mark  string
	folds bool               // the mark is in any letter case
	rest  string             // the characters that follow the mark
	least int                // how many of them, but for the beginning of a key at the end of a text
	most  int                // 0 for no bound
	name  string             // of a well-known key. Mask alone looks for the other forms.
	find  func(*text) []span // finds it behind a mark, instead of rest
}

// span is a part of a text.
type span struct{ start, end int }

// text is a text with a mark at a place.
type text struct {
	bytes       []byte
	at          int
	behind      int // the mark
	scanned     int // how far it was searched, if a mark of the same form up to there is no key either
	isKnownOnly bool
}

const (
	word   = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	hyphen = word + "_-"
)

var forms = append([]form{
	{mark: "caddypresets_", folds: true, find: findOwn, name: "a key of this server"},
	{mark: "-----BEGIN ", find: findPrivateKey, name: "a private key"},
	{mark: "sk-", rest: hyphen, least: 20, name: "an API key (sk-…)"},
	{mark: "AKIA", rest: word[:36], least: 16, most: 16, name: "an AWS access key (AKIA…)"},
	{mark: "ASIA", rest: word[:36], least: 16, most: 16, name: "an AWS access key (ASIA…)"},
	{mark: "ghp_", rest: word, least: 30, name: "a GitHub token (ghp_…)"},
	{mark: "gho_", rest: word, least: 30, name: "a GitHub token (gho_…)"},
	{mark: "ghu_", rest: word, least: 30, name: "a GitHub token (ghu_…)"},
	{mark: "ghs_", rest: word, least: 30, name: "a GitHub token (ghs_…)"},
	{mark: "ghr_", rest: word, least: 30, name: "a GitHub token (ghr_…)"},
	{mark: "github_pat_", rest: word + "_", least: 40, name: "a GitHub token (github_pat_…)"},
	{mark: "glpat-", rest: hyphen, least: 20, name: "a GitLab token (glpat-…)"},
	{mark: "AIza", rest: hyphen, least: 35, most: 35, name: "a Google API key (AIza…)"},
	{mark: "ya29.", rest: hyphen, least: 20, name: "a Google token (ya29.…)"},
	{mark: "gsk_", rest: word, least: 40, name: "a Groq API key (gsk_…)"},
	{mark: "xai-", rest: word, least: 40, name: "an xAI API key (xai-…)"},
	{mark: "hf_", rest: word, least: 30, name: "a Hugging Face token (hf_…)"},
	{mark: "r8_", rest: word, least: 30, name: "a Replicate token (r8_…)"},
	{mark: "pplx-", rest: word, least: 30, name: "a Perplexity API key (pplx-…)"},
	{mark: "nvapi-", rest: hyphen, least: 30, name: "an NVIDIA API key (nvapi-…)"},
	{mark: "npm_", rest: word, least: 30, name: "an npm token (npm_…)"},
	{mark: "SG.", rest: hyphen + ".", least: 60, name: "a SendGrid API key (SG.…)"},
	{mark: "xoxb-", rest: word + "-", least: 20, name: "a Slack token (xoxb-…)"},
	{mark: "xoxp-", rest: word + "-", least: 20, name: "a Slack token (xoxp-…)"},
	{mark: "xapp-", rest: word + "-", least: 20, name: "a Slack token (xapp-…)"},
	{mark: "sk_live_", rest: word, least: 20, name: "a Stripe API key (sk_live_…)"},
	{mark: "sk_test_", rest: word, least: 20, name: "a Stripe API key (sk_test_…)"},
	{mark: "rk_live_", rest: word, least: 20, name: "a Stripe API key (rk_live_…)"},
	{mark: "rk_test_", rest: word, least: 20, name: "a Stripe API key (rk_test_…)"},
	{mark: "eyJ", find: findJWT},
	{mark: "bearer", folds: true, find: findCredentials},
	{mark: "basic", folds: true, find: findCredentials},
	{mark: "://", find: findPassword},
	{mark: "headers", folds: true, find: findHeaders},
}, namedForms("authorization", "api_key", "api-key", "apikey", "access_key", "accesskey", "private_key", "secret_key", "secret", "token", "password", "passwd")...)

// namedForms returns the forms of values whose names end so.
func namedForms(names ...string) (list []form) {
	for _, name := range names {
		list = append(list, form{mark: name, folds: true, find: findNamed})
	}
	return list
}

// isIn tells of each byte whether it is one of some characters.
type isIn [256]bool

func setOf(chars string) (is isIn) {
	for _, char := range []byte(chars) {
		is[char] = true
	}
	return is
}

var (
	// starts has a bit of each form for the first three bytes of its mark.
	starts [3][256]uint64
	// rests has the characters that follow the marks of forms.
	rests        = make([]isIn, len(forms))
	isWord       = setOf(word)
	isHyphen     = setOf(hyphen)
	isCredential = setOf(word + "._~+/=-")
	isDigit      = setOf(word[:10])
)

func init() {
	for i, f := range forms {
		rests[i] = setOf(f.rest)
		for at := range starts {
			mark := []byte(f.mark[at : at+1])
			for _, char := range append(mark, bytes.ToUpper(mark)...) {
				if f.folds || char == f.mark[at] {
					starts[at][char] |= 1 << i
				}
			}
		}
	}
}

// keysIn finds the keys in a text, in their order. Those of well-known forms alone are searched where they cannot be
// a part of something else. Otherwise, too much is found rather than too little: a key within a word, if it has a
// digit, and the beginning of a key at the end of the text.
func keysIn(in []byte, isKnownOnly bool) iter.Seq2[span, *form] {
	return func(yield func(span, *form) bool) {
		scanned := make([]int, len(forms))
		for at := 0; at+2 < len(in); at++ {
			for found := starts[0][in[at]] & starts[1][in[at+1]] & starts[2][in[at+2]]; found != 0; found &= found - 1 {
				i := bits.TrailingZeros64(found)
				f := &forms[i]
				if isKnownOnly && f.name == "" || at < scanned[i] || !f.begins(in[at:]) {
					continue
				}
				t := text{bytes: in, at: at, behind: at + len(f.mark), isKnownOnly: isKnownOnly}
				spans := f.spans(&t, &rests[i])
				for _, s := range spans {
					if !yield(s, f) {
						return
					}
					at = s.end - 1
				}
				if spans != nil {
					break
				}
				scanned[i] = t.scanned
			}
		}
	}
}

// begins reports whether a text begins with the mark.
func (f *form) begins(text []byte) bool {
	if len(text) < len(f.mark) {
		return false
	}
	return string(text[:len(f.mark)]) == f.mark || f.folds && bytes.EqualFold(text[:len(f.mark)], []byte(f.mark))
}

// spans returns the keys behind a mark.
func (f *form) spans(t *text, rest *isIn) []span {
	if f.find != nil {
		return f.find(t)
	}
	end := t.behind
	if f.most == 0 {
		end = t.skip(end, rest)
		t.scanned = end
	}
	for end < min(t.behind+f.most, len(t.bytes)) && rest[t.bytes[end]] {
		end++
	}
	if f.most > 0 && t.isKnownOnly && t.isHere(end, &isWord) {
		return nil
	}
	more := &isHyphen
	if t.isKnownOnly && f.mark != "sk-" {
		more = &isWord
	}
	isWhole, hasDigit, isApart := end-t.behind >= f.least, t.has(&isDigit, t.behind, end), t.isApart(more)
	switch {
	case t.isKnownOnly && (!isWhole || !isApart || f.mark == "sk-" && !hasDigit): // words with hyphens
		return nil
	case !isApart && !hasDigit, !isWhole && (end < len(t.bytes) || end == t.behind):
		return nil
	}
	return []span{{t.at, end}}
}

// skip returns the place behind characters of a set, from a place on.
func (t *text) skip(from int, set *isIn) int {
	for from < len(t.bytes) && set[t.bytes[from]] {
		from++
	}
	return from
}

func (t *text) has(set *isIn, from, to int) bool {
	for _, char := range t.bytes[from:to] {
		if set[char] {
			return true
		}
	}
	return false
}

var escape = regexp.MustCompile(`\\(?:[bfnrt]|u[0-9A-Fa-f]{4})$`)

// isApart reports whether the mark does not continue a word of some characters. In JSON, the last letter of an escape is
// no part of a word.
func (t *text) isApart(more *isIn) bool {
	return t.at == 0 || !more[t.bytes[t.at-1]] || escape.Match(t.bytes[max(t.at-len(`\u0000`), 0):t.at])
}

// findOwn finds a key of ours. Mask finds a damaged one, too.
func findOwn(t *text) []span {
	for _, kind := range []Prefix{Management, Inference} {
		end := t.at + len(kind)
		if end > len(t.bytes) || !bytes.EqualFold(t.bytes[t.at:end], []byte(kind)) {
			continue
		}
		from := end
		if end = t.skip(end, &isWord); t.isKnownOnly && (end < from+16 || string(t.bytes[t.at:from]) != string(kind)) {
			return nil
		}
		return []span{{t.at, end}}
	}
	return nil
}

var privateKey = regexp.MustCompile(`^(?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----`)

// findPrivateKey finds the first line of a private key, or all of the key before its last line, before the end of a
// JSON string, or before the end of the text.
func findPrivateKey(t *text) []span {
	first := privateKey.Find(t.bytes[t.behind:min(t.behind+100, len(t.bytes))])
	if first == nil {
		return nil
	}
	begin := t.behind + len(first)
	end := begin
	if !t.isKnownOnly {
		end = len(t.bytes)
		for _, mark := range []string{"-----END", `"`} {
			if at := bytes.Index(t.bytes[begin:end], []byte(mark)); at >= 0 {
				end = begin + at
			}
		}
		end = begin + len(bytes.TrimRight(t.bytes[begin:end], `\`)) // those of the quote
	}
	return []span{{t.at, end}}
}

// findJWT finds a token of JSON in base64: parts with points between them.
func findJWT(t *text) []span {
	parts, end := 0, t.at
	for {
		begin := end
		if end = t.skip(begin, &isHyphen); end-begin >= 8 {
			parts++
		}
		if end+1 >= len(t.bytes) || t.bytes[end] != '.' || !isHyphen[t.bytes[end+1]] {
			break
		}
		end++
	}
	t.scanned = end
	if parts > 1 || end == len(t.bytes) && t.isApart(&isHyphen) {
		return []span{{t.at, end}}
	}
	return nil
}

// findCredentials finds what follows the scheme of a header.
func findCredentials(t *text) []span {
	begin := t.skip(t.behind, &blanks)
	if begin == t.behind {
		return nil
	}
	end := t.skip(begin, &isCredential)
	if end < begin+16 && end < len(t.bytes) || !t.has(&isDigit, begin, end) {
		return nil
	}
	return []span{{begin, end}}
}

// findPassword finds a password in a URL.
func findPassword(t *text) []span {
	rest := t.bytes[t.behind:min(t.behind+1024, len(t.bytes))]
	end := bytes.IndexAny(rest, "/?#\"'\\<> \t\r\n@")
	isCut := end < 0 && len(rest) == len(t.bytes)-t.behind
	if isCut {
		end = len(rest)
	} else if end < 0 || rest[end] != '@' {
		return nil
	}
	user, password, _ := bytes.Cut(rest[:end], []byte(":"))
	begin, end := t.behind+len(user)+1, t.behind+end
	if len(password) == 0 || isCut && t.skip(begin, &isDigit) == end { // a port
		return nil
	}
	return []span{{begin, end}}
}

// findNamed finds the value that a name tells to be secret: in JSON, also escaped, in a header or in a variable.
func findNamed(t *text) []span {
	if value, ok := t.value(t.behind); ok {
		return []span{value}
	}
	return nil
}

// value returns the value of a name that ends at a place: a text in quotes, or else one without blanks that may be a
// key.
func (t *text) value(from int) (_ span, ok bool) {
	if t.isHere(from, &isHyphen) {
		return span{}, false
	}
	from = t.skip(from, &escapes)
	if t.isHere(from, &quotes) {
		from++
	}
	if from = t.skip(from, &blanks); !t.isHere(from, &separators) {
		return span{}, false
	}
	open := t.skip(from+1, &blanks)
	begin := t.skip(open, &escapes)
	if !t.isHere(begin, &quotes) {
		end := t.skip(open, &isPlain)
		t.scanned = end
		return span{open, end}, (end >= open+16 || end == len(t.bytes)) && t.has(&isDigit, open, end)
	}
	quote, level := t.bytes[begin], begin-open
	begin++
	for end := begin; end < min(len(t.bytes), begin+maxValue) && t.bytes[end] != '\n'; end++ {
		if t.bytes[end] != quote && t.bytes[end] != '"' {
			continue
		}
		before := len(t.bytes[begin:end]) - len(bytes.TrimRight(t.bytes[begin:end], `\`))
		if before%(2*level+2) == level || before < level || t.bytes[end] != quote { // else it is a part of the value
			end -= min(before, level)
			return span{begin, end}, end > begin
		}
	}
	return span{begin, len(t.bytes)}, begin < len(t.bytes) && len(t.bytes) < begin+maxValue && bytes.IndexByte(t.bytes[begin:], '\n') < 0
}

// maxValue bounds a value in quotes.
const maxValue = 4 << 10

var (
	escapes    = setOf(`\`)
	quotes     = setOf(`"'`)
	blanks     = setOf(" \t")
	separators = setOf(":=")
	isPlain    = setOf(hyphen + ".~+/=$%!*^")
)

func (t *text) isHere(at int, set *isIn) bool { return at < len(t.bytes) && set[t.bytes[at]] }

// findHeaders finds all values of an object of headers. An object with a type describes one.
func findHeaders(t *text) (list []span) {
	begin := t.skip(t.skip(t.behind, &escapes), &quotes)
	begin = t.skip(begin, &blanks)
	if !t.isHere(begin, &separators) {
		return nil
	}
	if begin = t.skip(begin+1, &blanks); !t.isHere(begin, &braces) {
		return nil
	}
	begin++
	end := bytes.IndexAny(t.bytes[begin:], "{}")
	if end < 0 {
		end = len(t.bytes) - begin
	}
	if end += begin; bytes.Contains(t.bytes[begin:end], []byte(`"type`)) {
		return nil
	}
	for at := begin; at < end; at++ {
		if !isHyphen[t.bytes[at]] {
			continue
		}
		at = t.skip(at, &isHyphen)
		if value, ok := t.value(at); ok {
			list, at = append(list, value), value.end
		}
	}
	return list
}

var braces = setOf("{")

// Known is a place in a text with the form of a well-known key.
type Known struct {
	Start, End int
	Name       string
}

// FindKnown returns the first texts with the form of a well-known key, most at most, in their order.
func FindKnown(text []byte, most int) (found []Known) {
	for at, form := range keysIn(text, true) {
		if found = append(found, Known{at.start, at.end, form.name}); len(found) == most {
			break
		}
	}
	return found
}

// Masked takes the place of a key in a text that Mask returns.
const Masked = "[key]"

// Mask returns text with Masked in the place of each key: those of ours, also damaged ones, those of well-known
// forms, tokens of JSON, the credentials of headers, the passwords of URLs, and values whose names tell that they are
// secret. It also tells whether there was any. It searches JSON as it is written, and other text. Of a private key it
// masks everything to its end, and at the end of text the beginning of a key. It never changes text, and returns it
// if there is nothing to mask. Where an escape hides a key, escapes of letters and digits become those.
func Mask(text []byte) (masked []byte, any bool) {
	masked, n := mask(text)
	if bytes.Contains(text, []byte(`\u00`)) {
		if shown, more := mask(unescaped(text)); more > n {
			return shown, true
		}
	}
	return masked, n > 0
}

// MaskText is Mask for a short text.
func MaskText(text string) string {
	masked, _ := Mask([]byte(text))
	return string(masked)
}

func mask(text []byte) (masked []byte, n int) {
	done := 0
	for at := range keysIn(text, false) {
		masked = append(append(masked, text[done:at.start]...), Masked...)
		done = at.end
		n++
	}
	if n == 0 {
		return text, 0
	}
	return append(masked, text[done:]...), n
}

// unescaped returns a text with its escaped letters and digits, however often they are escaped.
func unescaped(text []byte) (out []byte) {
	const mark, size = `\u00`, len(`\u0000`)
	for {
		at := bytes.Index(text, []byte(mark))
		if at < 0 || at+size > len(text) {
			return append(out, text...)
		}
		code, err := strconv.ParseUint(string(text[at+len(mark):at+size]), 16, 8)
		if err == nil && isHyphen[code] {
			out = append(append(out, bytes.TrimRight(text[:at], `\`)...), byte(code))
		} else {
			out = append(out, text[:at+size]...)
		}
		text = text[at+size:]
	}
}
