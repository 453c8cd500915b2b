package caddymodule

import (
	"encoding/base64"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"

	"github.com/caddy-presets/caddy-presets/domain"
)

// credentialHeaders are where clients put their key: those of OpenRouter and
// OpenAI in the first, as a bearer token, Anthropic's in the second as it is.
var credentialHeaders = [...]string{"Authorization", "X-Api-Key"}

// secretOf returns what is a key in the value of a credential header if anything
// is, whatever the scheme before it.
func secretOf(value string) string {
	return value[strings.LastIndexAny(value, " \t")+1:]
}

// around is what may stand around a key, and between it and something else.
const around = " \t,;\"'\\"

// parts returns what is between separators in a value.
func parts(value, separators string) iter.Seq[string] {
	return strings.FieldsFuncSeq(value, func(r rune) bool { return strings.ContainsRune(separators, r) })
}

// holdsKey reports whether a key of ours, live or not, is some part of the value
// of a credential header: with quotes around it, say, or as the user or password
// of Basic credentials, it opens nothing, and is still nobody else's business.
func (h *Handler) holdsKey(value string) bool {
	secret := secretOf(value)
	if domain.HoldsIssued(value) || h.isConfigured(secret) {
		return true
	}
	for part := range parts(value, around) {
		if part != secret && h.isConfigured(part) {
			return true
		}
	}
	before := ""
	for part := range parts(value, around+"=") { // base64 ends in one
		if part != secret && h.isConfigured(part) || strings.EqualFold(before, "Basic") && h.basicHoldsKey(part) {
			return true
		}
		before = part
	}
	return false
}

// standard64 turns the letters of base64url into those of base64.
var standard64 = strings.NewReplacer("-", "+", "_", "/")

// basicHoldsKey is holdsKey for the base64 of Basic credentials, without padding.
func (h *Handler) basicHoldsKey(encoded string) bool {
	decoded, err := base64.RawStdEncoding.DecodeString(standard64.Replace(encoded))
	if err != nil {
		return false
	}
	text := string(decoded)
	if domain.HoldsIssued(text) || h.isConfigured(text) {
		return true
	}
	for part := range parts(text, around+":=") {
		if h.isConfigured(part) {
			return true
		}
	}
	// A key may hold such characters itself. Not each of any number of colons is
	// looked at: that would cost the square of their number.
	const most = 16
	for i, n := 0, 0; i < len(text) && n < most; i++ {
		if text[i] != ':' {
			continue
		}
		n++
		for _, side := range [...]string{text[:i], text[i+1:]} {
			if h.isConfigured(side) {
				return true
			}
			if bare := strings.Trim(side, around); bare != side && h.isConfigured(bare) {
				return true
			}
		}
	}
	return false
}

// credentials returns what may be the key of a request: nothing, one value, or
// that of Authorization and that of X-Api-Key.
//
// A request is worth one guess and no more, least of all to who has a key. So a
// header that is given twice, and two keys with the form of issued ones, are
// refused by their looks alone, before any is judged; and what comes with one key
// of that form is another's, whatever it is worth.
func (c *inferenceCall) credentials() ([]string, error) {
	var given []string
	for _, name := range credentialHeaders {
		values := c.r.Header.Values(name)
		if len(values) > 1 {
			return nil, domain.InvalidAt(strings.ToLower(name), "given more than once")
		}
		given = append(given, values...)
	}
	if len(given) < 2 {
		return given, nil
	}
	switch first, second := domain.HoldsIssued(given[0]), domain.HoldsIssued(given[1]); {
	case secretOf(given[0]) == secretOf(given[1]):
		return given[:1], nil
	case first && second:
		return nil, domain.InvalidAt("x-api-key", "must be the same key as in authorization")
	case first:
		return given[:1], nil
	case second:
		return given[1:], nil
	}
	return given, nil
}

// caller returns whose key is among credentials. That which has worked from the
// client's address is looked at first, and nothing after one that is live: a client
// that sends another's credential before its key fails once, and not with each
// request, and who guesses beside a key learns nothing.
func (c *inferenceCall) caller(given []string) (who domain.Principal, err error) {
	if len(given) == 2 && !c.hasWorked(given[0]) && c.hasWorked(given[1]) {
		given[0], given[1] = given[1], given[0]
	}
	err = errNoCredentials
	for _, value := range given {
		if who, err = c.identify(secretOf(value)); err == nil {
			return who, nil
		}
	}
	return who, err
}

func (c *inferenceCall) hasWorked(value string) bool {
	f := c.h.failures
	return f != nil && f.hasWorked(originOf(c.r), domain.HashSecret(secretOf(value)))
}

// authenticateInference finds out who sent a request, removes keys of ours from it
// and decides whether it may go on. A key of ours that is no longer live, or
// damaged, is never a foreign credential.
func (c *inferenceCall) authenticateInference() error {
	if c.h.Inference.Keys == keysOff && !c.dryRun {
		return nil
	}
	given, err := c.credentials()
	if err != nil {
		return err
	}
	if c.h.Inference.Keys == keysOptional && !c.dryRun {
		if given = slices.DeleteFunc(given, c.h.isForeign); len(given) == 0 {
			return nil // no failure, but another's to judge
		}
	}
	who, err := c.caller(given)
	if err != nil {
		return err
	}
	c.h.withhold(c.r.Header)
	if c.h.Inference.Keys != keysOff { // else the key permits a dry run of what anyone may do
		c.become(who)
	}
	return who.MayInfer()
}

// withholdKeys removes every key of ours, live or not, from a request that goes
// to the gateway as it is, and notes whose it was. What would be refused elsewhere
// is nobody's.
func (c *inferenceCall) withholdKeys() {
	if given, err := c.credentials(); err == nil {
		if who, err := c.caller(slices.DeleteFunc(given, c.h.isForeign)); err == nil && who.MayInfer() == nil {
			c.become(who)
		}
	}
	c.h.withhold(c.r.Header)
}

// withholdTrailers has every key of ours removed from what comes with the end of a
// body before whoever reads that end sees it. Where no trailer is announced none goes
// on; where one is, all that are sent do, announced or not.
func (c *inferenceCall) withholdTrailers() {
	if len(c.r.Trailer) > 0 && c.h.Inference.Keys != keysOff {
		c.r.Body = &trailed{c.r.Body, c.h, c.r.Trailer}
	}
}

// trailed is a body with trailers, which are there once it has ended.
type trailed struct {
	io.ReadCloser
	h       *Handler
	trailer http.Header
}

func (t *trailed) Read(p []byte) (int, error) {
	n, err := t.ReadCloser.Read(p)
	if err == io.EOF {
		t.h.withhold(t.trailer)
	}
	return n, err
}

func (h *Handler) isForeign(value string) bool { return !h.holdsKey(value) }

// withhold removes the values of the credential headers that are ours. A header
// stays as it is where there are none.
func (h *Handler) withhold(header http.Header) {
	for _, name := range credentialHeaders {
		values := header.Values(name)
		if !slices.ContainsFunc(values, h.holdsKey) {
			continue
		}
		if foreign := slices.DeleteFunc(slices.Clone(values), h.holdsKey); len(foreign) > 0 {
			header[name] = foreign
		} else {
			header.Del(name)
		}
	}
}
