package caddymodule

import (
	"errors"
	"net/http"
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
	secret := secretOf(value)
	if domain.HoldsIssued(value) || h.isConfigured(secret) {
		return true
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

// authenticateInference finds out who sent an inference request, removes keys
// of ours from it and decides whether it may go on. A key of ours that is no
// longer live, or damaged, is never a foreign credential.
func (c *inferenceCall) authenticateInference() error {
	if c.h.Inference.Keys == keysOff && !c.dryRun {
		return nil
	}
	var who domain.Principal
	var given, live, several, dead bool
	refusal := domain.ErrCredentials
	pass := c.h.Inference.Keys == keysOptional && !c.dryRun // foreign credentials, too
	for _, name := range credentialHeaders {
		err := withhold(c.r.Header, name, func(value string) (bool, error) {
			given = true
			if pass && !c.h.holdsKey(value) {
				return false, nil // no failure, but another's to judge
			}
			principal, err := c.identify(secretOf(value))
			if err == nil {
				several = several || live && principal != who
				who, live = principal, true
				return true, nil
			}
			if _, limited := errors.AsType[*limitError](err); limited {
				refusal = err
			} else if !errors.Is(err, domain.ErrCredentials) {
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
		return refusal
	case !live && pass:
		return nil
	case !live && given:
		return refusal
	case !live:
		return errNoCredentials
	}
	c.forgive() // what came with a key may be another's
	if several {
		return domain.InvalidAt("x-api-key", "must be the same key as in authorization")
	}
	if c.h.Inference.Keys != keysOff { // else the key permits a dry run of what anyone may do
		c.become(who)
	}
	return who.MayInfer()
}

// withholdKeys removes every key of ours, live or not, from a request that goes
// to the gateway as it is, and notes whose it was.
func (c *inferenceCall) withholdKeys() {
	for _, name := range credentialHeaders {
		_ = withhold(c.r.Header, name, func(value string) (bool, error) {
			if !c.h.holdsKey(value) {
				return false, nil
			}
			if who, err := c.identify(secretOf(value)); err == nil && who.MayInfer() == nil {
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
	var foreign []string
	for _, value := range values {
		is, err := ours(value)
		failure = errors.Join(failure, err)
		if !is {
			foreign = append(foreign, value)
		}
	}
	switch {
	case len(foreign) == 0:
		header.Del(name)
	case len(foreign) < len(values):
		header[http.CanonicalHeaderKey(name)] = foreign
	}
	return failure
}
