package caddymodule

import (
	"net/http"
	"slices"
	"strings"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/ownkeys"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/secrets"
)

// credentialHeaders are the headers in which clients send their key. Clients of
// OpenRouter and OpenAI use the first, with a bearer token. Anthropic's use the second.
var credentialHeaders = [...]string{"Authorization", "X-Api-Key"}

// credentials has the values of each of credentialHeaders, as they were sent.
type credentials [len(credentialHeaders)][]string

// credentialRoom is memory for one value of each.
type credentialRoom [len(credentialHeaders)]string

func sentCredentials(r *http.Request) (sent credentials) {
	for i, name := range credentialHeaders {
		sent[i] = ownkeys.SentValues(r, name)
	}
	return sent
}

// candidates appends the values that may be the key of a request to given, which is empty.
// There is none, one, or one each of Authorization and X-Api-Key.
//
// A request may try one key, so that nobody can guess at keys beside a valid one. A header
// that is given twice is refused before any key is looked up. So are two different issued
// keys. A credential beside one issued key is not looked up.
func (sent credentials) candidates(given []string) ([]string, error) {
	for i, values := range sent {
		if len(values) > 1 {
			return nil, domain.InvalidAt(strings.ToLower(credentialHeaders[i]), "given more than once")
		}
		given = append(given, values...)
	}
	if len(given) < 2 {
		return given, nil
	}
	switch first, second := secrets.AreIn(given[0]), secrets.AreIn(given[1]); {
	case ownkeys.SecretOf(given[0]) == ownkeys.SecretOf(given[1]):
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

// caller returns the principal whose key is among the credentials. Two configured keys
// may both be live: then the one in Authorization acts. Wrong keys count as failures
// only if none is live.
func (c *inferenceCall) caller(given []string) (domain.Principal, error) {
	switch {
	case len(given) == 0 && c.trial != nil:
		return domain.Principal{}, errNoTrialKey
	case len(given) == 0:
		return domain.Principal{}, errNoCredentials
	}
	secrets := make([]string, 0, len(credentialHeaders))
	for _, value := range given {
		secrets = append(secrets, ownkeys.SecretOf(value))
	}
	return c.identify(secrets...)
}

// authenticateInference identifies the caller and checks that it may use inference. A
// revoked or damaged key of ours is refused; it never counts as a foreign credential.
func (c *inferenceCall) authenticateInference() error {
	switch {
	case c.h.Inference.Keys == keysOff && !c.dryRun:
		return c.trial.check(c)
	case c.trial != nil && c.dryRun && c.credentials[0] == nil: // the management key permits it
		c.who.WorkspaceID = c.trial.workspaceID
		return nil
	}
	var room credentialRoom
	given, err := c.credentials.candidates(room[:0])
	if err != nil {
		return err
	}
	if c.h.Inference.Keys == keysOptional && !c.dryRun && c.trial == nil {
		if given = slices.DeleteFunc(given, c.h.isForeign); len(given) == 0 {
			return nil // the gateway judges foreign credentials
		}
	}
	who, err := c.caller(given)
	if err != nil {
		return err
	}
	if c.h.Inference.Keys != keysOff { // with keys off, the key only permits the dry run
		c.setPrincipal(who)
	}
	if err := who.CheckInference(); err != nil {
		return err
	}
	return c.trial.check(c)
}

// identifyCaller sets the principal of a request that passes without authentication,
// if it has a live inference key. It ignores all other credentials.
//
// A wrong key counts as a failure, because the route shows whether a key works. A key that
// is limited to models gets 403 where a stranger passes.
func (c *inferenceCall) identifyCaller() {
	var room credentialRoom
	given, err := c.credentials.candidates(room[:0])
	if err != nil {
		return
	}
	who, err := c.caller(slices.DeleteFunc(given, c.h.isForeign))
	c.h.metrics.CountFailure(err)
	if err == nil && who.CheckInference() == nil {
		c.setPrincipal(who)
	}
}

func (h *Handler) isForeign(value string) bool { return !h.finder.HoldsKey(value) }
