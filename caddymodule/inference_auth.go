package caddymodule

import (
	"errors"
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
// of a credential header: with quotes around it, say, it opens nothing, and is
// still nobody else's business.
func (h *Handler) holdsKey(value string) bool {
	if domain.HoldsIssued(value) {
		return true
	}
	for part := range strings.FieldsFuncSeq(value, func(r rune) bool { return strings.ContainsRune(" \t,;=\"'\\", r) }) {
		if _, ok := h.configured(part); ok {
			return true
		}
	}
	return false
}

// authenticateInference finds out who sent an inference request, removes keys
// of ours from it and decides whether it may go on. A key of ours that is no
// longer live, or damaged, is never a foreign credential.
func (c *inferenceCall) authenticateInference() error {
	if c.h.Inference.Keys == keysOff && !c.dryRun {
		return nil
	}
	var who []domain.Principal
	given, dead := false, false
	for _, name := range credentialHeaders {
		err := withhold(c.r.Header, name, func(value string) (bool, error) {
			given = true
			principal, err := c.h.principal(c.r.Context(), secretOf(value))
			if err == nil {
				who = append(who, principal)
				return true, nil
			}
			if !errors.Is(err, domain.ErrCredentials) {
				return true, err
			}
			ours := c.h.holdsKey(value)
			dead = dead || ours
			return ours, nil
		})
		if err != nil {
			return err
		}
	}
	switch {
	case dead:
		return domain.ErrCredentials
	case len(who) == 0 && c.h.Inference.Keys == keysOptional && !c.dryRun:
		return nil
	case len(who) == 0 && given:
		return domain.ErrCredentials
	case len(who) == 0:
		return errNoCredentials
	case slices.ContainsFunc(who, func(p domain.Principal) bool { return p != who[0] }):
		return domain.InvalidAt("x-api-key", "must be the same key as in authorization")
	}
	if c.h.Inference.Keys != keysOff { // else the key permits a dry run of what anyone may do
		c.become(who[0])
	}
	return who[0].MayInfer()
}

// withholdKeys removes every key of ours, live or not, from a request that goes
// to the gateway as it is, and notes whose it was.
func (c *inferenceCall) withholdKeys() {
	for _, name := range credentialHeaders {
		_ = withhold(c.r.Header, name, func(value string) (bool, error) {
			if !c.h.holdsKey(value) {
				return false, nil
			}
			if who, err := c.h.principal(c.r.Context(), secretOf(value)); err == nil && who.MayInfer() == nil {
				c.become(who)
			}
			return true, nil
		})
		if _, announced := c.r.Trailer[name]; announced {
			c.r.Trailer = nil // they come with the end of the body, too late to look at
		}
	}
}

// withholdTrailers removes every key of ours from what came with the end of a
// body.
func (c *inferenceCall) withholdTrailers() {
	if c.h.Inference.Keys == keysOff {
		return
	}
	for _, name := range credentialHeaders {
		_ = withhold(c.r.Trailer, name, func(value string) (bool, error) { return c.h.holdsKey(value), nil })
	}
}

// withhold removes the values of a header that are ours. The header stays as it
// is when there are none.
func withhold(header http.Header, name string, ours func(value string) (bool, error)) error {
	values := header.Values(name)
	if len(values) == 0 {
		return nil
	}
	var failure error
	foreign := slices.DeleteFunc(slices.Clone(values), func(value string) bool {
		is, err := ours(value)
		failure = errors.Join(failure, err)
		return is
	})
	switch {
	case len(foreign) == 0:
		header.Del(name)
	case len(foreign) < len(values):
		header[http.CanonicalHeaderKey(name)] = foreign
	}
	return failure
}
