package caddymodule

import (
	"slices"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/ownkeys"
	"github.com/caddy-presets/caddy-presets/domain"
)

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
	secrets := make([]string, 0, len(ownkeys.CredentialHeaders))
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
	var room ownkeys.CredentialRoom
	given, err := c.credentials.Candidates(room[:0])
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
	var room ownkeys.CredentialRoom
	given, err := c.credentials.Candidates(room[:0])
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
