package cli

// These are exports for the tests, which are in another package because they run Caddy.
var (
	Escape     = escape
	EscapeText = escapeText
	EscapeJSON = escapeJSON
	IndentJSON = indentJSON
	IsUnsafe   = isUnsafe
)
