package ownkeys

import (
	"net/http"
	"strings"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/secrets"
)

// CredentialHeaders are the headers in which clients send their key. Clients of
// OpenRouter and OpenAI use the first, with a bearer token. Anthropic's use the second.
var CredentialHeaders = [...]string{"Authorization", "X-Api-Key"}

// Credentials has the values of each of CredentialHeaders, as they were sent.
type Credentials [len(CredentialHeaders)][]string

// CredentialRoom is memory for one value of each.
type CredentialRoom [len(CredentialHeaders)]string

// Sent returns the credentials of a request.
func Sent(r *http.Request) (sent Credentials) {
	for i, name := range CredentialHeaders {
		sent[i] = SentValues(r, name)
	}
	return sent
}

// Candidates appends the values that may be the key of a request to given, which is empty.
// There is none, one, or one each of Authorization and X-Api-Key.
//
// A request may try one key, so that nobody can guess at keys beside a valid one. A header
// that is given twice is refused before any key is looked up. So are two different issued
// keys. A credential beside one issued key is not looked up.
func (sent Credentials) Candidates(given []string) ([]string, error) {
	for i, values := range sent {
		if len(values) > 1 {
			return nil, domain.InvalidAt(strings.ToLower(CredentialHeaders[i]), "given more than once")
		}
		given = append(given, values...)
	}
	if len(given) < 2 {
		return given, nil
	}
	switch first, second := secrets.AreIn(given[0]), secrets.AreIn(given[1]); {
	case SecretOf(given[0]) == SecretOf(given[1]):
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
