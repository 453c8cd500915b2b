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

// publicChat is Chat as clients see it in versions.
const publicChat = "chat"

// MarshalText returns d as clients see it: responses, chat or messages.
func (d Dialect) MarshalText() ([]byte, error) {
	if d == Chat {
		return []byte(publicChat), nil
	}
	return []byte(d), nil
}

// UnmarshalText reads what MarshalText returns. It does not check that d is Valid.
func (d *Dialect) UnmarshalText(text []byte) error {
	if *d = Dialect(text); *d == publicChat {
		*d = Chat
	}
	return nil
}

// Valid reports whether d is one of the three.
func (d Dialect) Valid() bool { return d == Responses || d == Chat || d == Messages }
