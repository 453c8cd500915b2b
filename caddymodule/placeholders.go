package caddymodule

import "strings"

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
	usagePlaceholder     = placeholderPrefix + "usage."
)

// setPlaceholder sets the value of one of our placeholders.
func (c *call) setPlaceholder(name, value string) {
	if c.repl != nil {
		c.repl.Set(name, value)
	}
}

// emptyPlaceholder makes our placeholders without a value empty. Otherwise header_up and
// the like send their names upstream.
func emptyPlaceholder(name string) (any, bool) {
	return "", strings.HasPrefix(name, placeholderPrefix)
}
