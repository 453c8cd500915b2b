package domain

// Dialect is an inference API: which field names a request uses.
type Dialect string

// The three dialects are the last part of their routes' paths.
const (
	// Responses is the dialect of POST /responses.
	Responses Dialect = "responses"
	// Chat is the dialect of POST /chat/completions.
	Chat Dialect = "chat/completions"
	// Messages is the dialect of POST /messages.
	Messages Dialect = "messages"
)

// Valid reports whether d is one of the three.
func (d Dialect) Valid() bool { return d == Responses || d == Chat || d == Messages }
