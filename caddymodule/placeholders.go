package caddymodule

import (
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-presets/caddy-presets/domain/usage"
)

// placeholderPrefix is the prefix of our placeholders.
const placeholderPrefix = "http.presets."

// Our placeholders, which access logs can use. All our handlers on the way of a request
// share them.
const (
	operationPlaceholder = placeholderPrefix + "operation"
	slugPlaceholder      = placeholderPrefix + "slug"
	versionPlaceholder   = placeholderPrefix + "version"
	workspacePlaceholder = placeholderPrefix + "workspace_id"
	keyPlaceholder       = placeholderPrefix + "key_id"
	sessionPlaceholder   = placeholderPrefix + "session_id"
	// usagePlaceholder itself has the *usage.Request. Texts are made when they are asked for.
	usagePlaceholder = placeholderPrefix + "usage."
)

// setPlaceholder sets the value of one of our placeholders.
func (c *call) setPlaceholder(name, value string) {
	if c.repl != nil {
		c.repl.Set(name, value)
	}
}

// mapPlaceholders gives repl the placeholders of usage. It makes others of ours without a value
// empty. Otherwise header_up and the like send their names upstream.
func mapPlaceholders(repl *caddy.Replacer) {
	repl.Map(func(name string) (any, bool) {
		if of, ok := strings.CutPrefix(name, usagePlaceholder); ok && of != "" {
			if value, _ := repl.Get(usagePlaceholder); value != "" {
				return usageText(value.(*usage.Request), of), true
			}
		}
		return "", strings.HasPrefix(name, placeholderPrefix)
	})
}
