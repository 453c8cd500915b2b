package caddymodule

import (
	"net/http"
	"slices"
	"strings"

	"github.com/caddy-presets/caddy-presets/domain"
)

// credentialHeaders are where clients put their key: those of OpenRouter and
// OpenAI in the first, as a bearer token, Anthropic's in the second as it is.
var credentialHeaders = [...]string{"Authorization", "X-Api-Key"}

// credentials has the values of each of credentialHeaders, as they were sent.
type credentials [len(credentialHeaders)][]string

func sentCredentials(r *http.Request) (sent credentials) {
	for i, name := range credentialHeaders {
		sent[i] = sentValues(r, name)
	}
	return sent
}

// candidates returns what may be the key of a request: nothing, one value, or
// that of Authorization and that of X-Api-Key.
//
// A request is worth one guess and no more, least of all to who has a key. So a
// header that is given twice, and two keys with the form of issued ones, are
// refused by their looks alone, before any is judged; and what comes with one key
// of that form is another's, whatever it is worth.
func (sent credentials) candidates() ([]string, error) {
	var given []string
	for i, values := range sent {
		if len(values) > 1 {
			return nil, domain.InvalidAt(strings.ToLower(credentialHeaders[i]), "given more than once")
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

// caller returns whose key is among credentials. Where two are live, which neither has
// the form of issued ones, that in Authorization acts. Wrong ones count as failures only
// if none is live.
func (c *inferenceCall) caller(given []string) (domain.Principal, error) {
	if len(given) == 0 {
		return domain.Principal{}, errNoCredentials
	}
	secrets := make([]string, 0, len(credentialHeaders))
	for _, value := range given {
		secrets = append(secrets, secretOf(value))
	}
	return c.identify(secrets...)
}

// authenticateInference finds out who sent a request and decides whether it may go
// on. A key of ours that is no longer live, or damaged, is never a foreign
// credential.
func (c *inferenceCall) authenticateInference() error {
	if c.h.Inference.Keys == keysOff && !c.dryRun {
		return nil
	}
	given, err := c.credentials.candidates()
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
	if c.h.Inference.Keys != keysOff { // else the key permits a dry run of what anyone may do
		c.setPrincipal(who)
	}
	return who.MayInfer()
}

// identifyCaller notes who sent a request that passes without authentication. A
// credential that would be refused elsewhere is nobody's.
func (c *inferenceCall) identifyCaller() {
	if given, err := c.credentials.candidates(); err == nil {
		if who, err := c.caller(slices.DeleteFunc(given, c.h.isForeign)); err == nil && who.MayInfer() == nil {
			c.setPrincipal(who)
		}
	}
}

func (h *Handler) isForeign(value string) bool { return !h.finder.holdsKey(value) }
