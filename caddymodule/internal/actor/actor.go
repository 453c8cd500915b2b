// Package actor reads the name of the person behind a request, which a proxy with a login adds in a
// header.
package actor

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/secrets"
)

// maxName bounds a name, in bytes. An email address has 254 at most.
const maxName = 256

// credentials are headers whose value is a secret, or several.
var credentials = []string{"Authorization", "Proxy-Authorization", "Cookie", "X-Api-Key", "Api-Key", "X-Goog-Api-Key"}

// CheckHeader returns an error if name cannot be the header of names. Its name has letters, digits and
// hyphens, because gateways take an underscore for a hyphen.
func CheckHeader(name string) error {
	other := func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}
	switch {
	case name == "" || strings.ContainsFunc(name, other):
		return fmt.Errorf("must be the name of a header, of letters, digits and hyphens, got %q", name)
	case slices.Contains(credentials, http.CanonicalHeaderKey(name)):
		return errors.New("must not be a header of credentials")
	}
	return nil
}

// Of returns the value of a header, or "" if the request has none. It is also "" unless the other end
// of the connection is in the server's trusted_proxies, because everyone else can write what they
// like. Two values of which one may be the client's, a long one, one with a character that is not
// printable and one with a key are errors that name the header.
func Of(r *http.Request, header string) (string, error) {
	if trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool); !trusted || header == "" {
		return "", nil
	}
	place := strings.ToLower(header)
	values := r.Header.Values(header)
	switch {
	case len(values) == 0 || len(values) == 1 && values[0] == "":
		return "", nil // a proxy may serve people without a login
	case len(values) > 1:
		return "", domain.InvalidAt(place, "given more than once")
	}
	name := values[0]
	switch {
	case len(name) > maxName:
		return "", domain.InvalidAt(place, fmt.Sprintf("must be at most %d bytes", maxName))
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "", domain.InvalidAt(place, "must be printable UTF-8")
	case secrets.AreIn(name):
		return "", domain.InvalidAt(place, "must not hold a key")
	}
	return name, nil
}
