package caddymodule

import (
	"errors"
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/directive"
)

// unmarshalRequire reads the require subdirective.
func (h *Handler) unmarshalRequire(d *caddyfile.Dispenser) error {
	h.Require = d.RemainingArgs()
	if len(h.Require) == 0 {
		return d.Err("require wants placeholders" + directive.MaybeUnset)
	}
	for _, placeholder := range h.Require {
		if !isPlaceholder(placeholder) {
			return d.Err("require: " + notAPlaceholder)
		}
	}
	return nil
}

// notAPlaceholder does not name the value, which may be that of a {$NAME}, and a secret.
const notAPlaceholder = "the value must be a placeholder, such as {env.GATEWAY_KEY}"

// provisionRequire returns an error if a placeholder of h.Require has no value. Other directives
// would put an empty text in its place, and their requests would fail.
func (h *Handler) provisionRequire(repl *caddy.Replacer) error {
	for _, placeholder := range h.Require {
		if !isPlaceholder(placeholder) {
			return errors.New(notAPlaceholder)
		}
		value, err := repl.ReplaceOrErr(placeholder, true, true)
		if err == nil && strings.TrimSpace(value) == "" {
			err = fmt.Errorf("%s has no value but space", placeholder)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
