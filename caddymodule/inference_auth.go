package caddymodule

import (
	"encoding/base64"
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

// holdsKey reports whether a key of ours, live or not, is some part of the value
// of a credential header: with quotes around it, say, or as the user or password
// of Basic credentials, it opens nothing, and is still nobody else's business.
func (h *Handler) holdsKey(value string) bool {
	secret := secretOf(value)
	if domain.HoldsIssued(value) || h.isConfigured(secret) {
		return true
	}
	if scheme, _, _ := strings.Cut(value, " "); strings.EqualFold(scheme, "Basic") {
		if text, err := base64.StdEncoding.DecodeString(secret); err == nil {
			user, password, _ := strings.Cut(string(text), ":")
			return h.holdsKey(user) || h.holdsKey(password)
		}
	}
	among := func(around string) bool {
		for part := range strings.FieldsFuncSeq(value, func(r rune) bool { return strings.ContainsRune(around, r) }) {
			if part != secret && h.isConfigured(part) {
				return true
			}
		}
		return false
	}
	const around = " \t,;\"'\\"
	return among(around) || strings.Contains(value, "=") && among(around+"=") // base64 ends in one
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

// withholdTrailers removes every key of ours from what came with the end of a
// body.
func (c *inferenceCall) withholdTrailers() {
	if c.h.Inference.Keys != keysOff {
		c.h.withhold(c.r.Trailer)
	}
}

// dropTrailers removes what would bring a key with the end of a body that we do not
// read: too late to look at.
func (c *inferenceCall) dropTrailers() {
	if c.h.Inference.Keys == keysOff {
		return
	}
	for _, name := range credentialHeaders {
		if _, announced := c.r.Trailer[name]; announced {
			c.r.Trailer = nil
		}
	}
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
