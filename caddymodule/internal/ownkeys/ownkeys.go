// Package ownkeys finds keys of ours in requests. It masks them for logs and for other handlers, and
// removes them from what goes upstream.
package ownkeys

import (
	"encoding/base64"
	"io"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/registry"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/secrets"
)

// Finder finds keys of ours, management and inference keys alike. It finds an issued
// key in any header by its prefix, live or not. A configured key has no prefix, so it is
// only found in the headers of isKeyHeader, as a whole token.
type Finder struct {
	Own    map[domain.KeyHash]domain.Principal // of one handler, also after a reload withdrew it
	Stores []*registry.Store
}

// TrialHeader has the inference key of a request whose Authorization has a management key.
const TrialHeader = "X-Inference-Key"

// isKeyHeader reports whether clients of AI gateways put their key in a header of
// this canonical name.
func isKeyHeader(name string) bool {
	switch name {
	case "Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", TrialHeader:
		return true
	}
	return false
}

// StripOwnKeys removes all headers and trailers that hold a key of ours or a mask, with all
// of their values. It masks such a host, since no request is without one. It does nothing to
// others.
//
// It searches what the guard has masked once more, which takes 0.4 µs for the headers of a client,
// because a handler before may have added a key that the guard did not see.
//
// Trailers come with the end of the body. They are removed before the reader sees that
// end. Go's transport sends trailers only if some were announced, and then all of them.
func (f Finder) StripOwnKeys(r *http.Request) {
	maps.DeleteFunc(r.Header, f.isOwn)
	maskHost(r)
	if len(r.Trailer) > 0 {
		maps.DeleteFunc(r.Trailer, f.isOwn) // announced names
		r.Body = &trailerBody{r.Body, f, r.Trailer}
	}
}

// trailerBody is a body with trailers. They are known once the body has ended.
type trailerBody struct {
	io.ReadCloser
	finder  Finder
	trailer http.Header
}

func (t *trailerBody) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if err == io.EOF {
		maps.DeleteFunc(t.trailer, t.finder.isOwn)
	}
	return n, err
}

// isOwn reports whether a header or trailer holds a key of ours, or a mask of one. A credential
// header may hold one if it has too many tokens.
func (f Finder) isOwn(name string, values []string) bool {
	if secrets.AreIn(name) {
		return true
	}
	search := keySearch{f, maxTokens}
	mayBeConfigured := isKeyHeader(name)
	for _, value := range values {
		if secrets.AreIn(value) || mayBeConfigured && search.holdsUnmarked(value) {
			return true
		}
	}
	return false
}

// HoldsKey is isOwn for one value of a credential header.
func (f Finder) HoldsKey(value string) bool {
	return secrets.AreIn(value) || (&keySearch{f, maxTokens}).holdsUnmarked(value)
}

// maxTokens is how many tokens of a header are compared with the configured keys. A header with
// more is taken for one of ours, since hashing all of them could take milliseconds.
const maxTokens = 128

// keySearch searches the values of one header.
type keySearch struct {
	Finder
	left int // of maxTokens
}

// holdsUnmarked reports whether the value of a credential header holds a key whose prefix
// is not visible. That is a configured key, or any key in Basic credentials.
func (s *keySearch) holdsUnmarked(value string) bool {
	if isPlain(value) {
		return s.isConfigured(SecretOf(value))
	}
	if s.holdsConfigured(value) {
		return true
	}
	before := ""
	for part := range parts(value, delimiters+"=") { // base64 ends in one
		if strings.EqualFold(before, "Basic") {
			if text, ok := decodeBasic(part); ok && (secrets.AreIn(text) || s.isConfigured(text) || s.holdsConfigured(text)) {
				return true
			}
		}
		before = part
	}
	return false
}

// isPlain reports whether only the last word of value can be a key, as in nearly all
// requests.
func isPlain(value string) bool {
	scheme, _, hasScheme := strings.Cut(value, " ")
	if hasScheme && (len(scheme) >= MinSecret || strings.EqualFold(scheme, "Basic")) {
		return false
	}
	spaces := 0
	for i := range len(value) {
		if value[i] == ' ' {
			spaces++
		} else if isSeparator[value[i]] {
			return false
		}
	}
	return spaces < 2
}

// isSeparator has the bytes that may stand beside a key.
var isSeparator = func() (is [256]bool) {
	for i := range len(delimiters + assignments) {
		is[(delimiters + assignments)[i]] = true
	}
	return is
}()

// delimiters are the characters that may stand around a key, or between it and other text.
const delimiters = " \t,;\"'\\<>()[]{}"

// assignments are the characters that may stand between a key and its name.
const assignments = ":="

// holdsConfigured reports whether a configured key is a token of text. A token may stand
// alone, after a scheme, after a name (key:K, key=K), in quotes or in brackets. A key with
// letters or digits joined to it is another token, and not found.
func (s *keySearch) holdsConfigured(text string) bool {
	if !s.hasConfigured() {
		return false
	}
	secret := SecretOf(text)
	if s.isConfigured(secret) {
		return true
	}
	isOther := func(token string) bool {
		return len(token) >= MinSecret && token != secret && s.isConfigured(token)
	}
	for _, separators := range [...]string{delimiters, delimiters + assignments} {
		for token := range parts(text, separators) {
			if isOther(token) {
				return true
			}
		}
	}
	// A key may hold separators itself, so both sides of each separator are tried.
	// A few per word suffice; trying all would cost the square of their number.
	const most = 16
	for word := range parts(text, " \t") {
		if isOther(strings.Trim(word, delimiters)) {
			return true
		}
		for i, n := 0, 0; i < len(word) && n < most; i++ {
			if !strings.Contains(assignments+",;", word[i:i+1]) {
				continue
			}
			n++
			for _, side := range [...]string{word[:i], word[i+1:]} {
				if trimmed := strings.Trim(side, delimiters); isOther(side) || trimmed != side && isOther(trimmed) {
					return true
				}
			}
		}
	}
	return false
}

// hasConfigured reports whether there are configured keys.
func (f Finder) hasConfigured() bool {
	return len(f.Own) > 0 || slices.ContainsFunc(f.Stores, (*registry.Store).HasKeys)
}

// isConfigured reports whether a token is a configured key, or one too many.
func (s *keySearch) isConfigured(token string) bool {
	if token == "" || len(token) > MaxSecret || !s.hasConfigured() {
		return false
	}
	if s.left--; s.left < 0 {
		return true
	}
	key := domain.HashSecret(token)
	if _, ok := s.Own[key]; ok {
		return true
	}
	for _, store := range s.Stores {
		if store.HasKey(key) {
			return true
		}
	}
	return false
}

// SecretOf returns the credential in the value of a credential header: the last
// word, whatever scheme stands before it.
func SecretOf(value string) string {
	return value[strings.LastIndexAny(value, " \t")+1:]
}

// parts returns the parts of a value between separators.
func parts(value, separators string) iter.Seq[string] {
	return strings.FieldsFuncSeq(value, func(r rune) bool { return strings.ContainsRune(separators, r) })
}

// standard64 turns the letters of base64url into those of base64.
var standard64 = strings.NewReplacer("-", "+", "_", "/")

// decodeBasic decodes Basic credentials, which come without padding.
func decodeBasic(encoded string) (string, bool) {
	text, err := base64.RawStdEncoding.DecodeString(standard64.Replace(encoded))
	return string(text), err == nil
}

// Lengths of secrets.
const (
	// MinSecret is the length of the shortest secret, in bytes. A shorter one can be
	// guessed from its hash.
	MinSecret = 16
	// MaxSecret is the length of the longest secret, in bytes.
	MaxSecret = 4096
)
