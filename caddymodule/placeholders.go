package caddymodule

import (
	"strings"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/envelope"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/usagetap"
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

func (c *call) setPlaceholder(name, value string) {
	if c.repl != nil {
		c.repl.Set(name, value)
	}
}

// setOperation names the operation of a request, in metrics and in a placeholder, and sets the form of
// its errors.
func (c *call) setOperation(name string, errors func(envelope.Problem) any) {
	c.op.name, c.envelope = name, errors
	c.setPlaceholder(operationPlaceholder, name)
}

// mapPlaceholders gives the replacer the placeholders of usage, and the workspace of the key,
// which is looked up when it is asked for. It makes others of ours without a value empty.
// Otherwise header_up and the like send their names upstream.
func (c *inferenceCall) mapPlaceholders() {
	if c.repl == nil {
		return
	}
	c.repl.Map(func(name string) (any, bool) {
		if of, ok := strings.CutPrefix(name, usagePlaceholder); ok && of != "" {
			if value, _ := c.repl.Get(usagePlaceholder); value != "" {
				return usagetap.Text(value.(*usage.Request), of), true
			}
		}
		if name == workspacePlaceholder && c.who.KeyID != "" {
			return c.home(), true
		}
		return "", strings.HasPrefix(name, placeholderPrefix)
	})
}
