package ownkeys

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strings"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/registry"
	"github.com/caddy-presets/caddy-presets/domain/secrets"
)

// guard masks keys of ours in the headers of each request before Caddy sees it.
//
// Caddy copies the headers for its access and error logs before any handler runs. So no
// handler can keep a key out of them, and the guard stands before Caddy's server. Our
// handlers get the keys from the request's context (see SentValues). All others, on every
// site of the server, see masks.
type guard struct {
	next   http.Handler
	finder Finder
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.next.ServeHTTP(w, g.finder.maskOwnKeys(r))
}

// Guard puts a guard before the server, unless it has one, and adds the keys of a store to those that
// it masks.
func Guard(server *http.Server, store *registry.Store) {
	g, ok := server.Handler.(*guard)
	if !ok {
		g = &guard{next: server.Handler}
		server.Handler = g
	}
	if !slices.Contains(g.finder.Stores, store) {
		g.finder.Stores = append(g.finder.Stores, store)
	}
}

// hiddenKey is a credential that was masked in a request.
type hiddenKey struct{ mask, credential string }

// hiddenKeysCtxKey is the context key of a request's []hiddenKey.
type hiddenKeysCtxKey struct{}

// maskOwnKeys masks the headers of r that hold a key of ours, and such a host. The context of
// the returned request has the keys of headers. A header whose name holds a key is removed.
// Without such headers it returns r and does not allocate.
func (f Finder) maskOwnKeys(r *http.Request) *http.Request {
	maskHost(r)
	var hidden []hiddenKey
	for name, values := range r.Header {
		if !f.isOwn(name, values) {
			continue
		}
		if secrets.AreIn(name) {
			delete(r.Header, name)
			continue
		}
		for i, value := range values {
			scheme, credential := cutScheme(value)
			mask := maskOf(credential)
			values[i] = scheme + mask
			if len(values) == 1 { // a credential that is given twice is refused anyway
				hidden = append(hidden, hiddenKey{mask, credential})
			}
		}
	}
	if hidden == nil {
		return r
	}
	return r.WithContext(context.WithValue(r.Context(), hiddenKeysCtxKey{}, hidden))
}

// maskHost masks a host that holds an issued key. Clients send the host as a header.
func maskHost(r *http.Request) {
	if secrets.AreIn(r.Host) {
		r.Host = maskOf(r.Host)
	}
}

// cutScheme cuts value behind a Bearer or Basic scheme, for which matchers look.
func cutScheme(value string) (scheme, rest string) {
	const length = len("Bearer ")
	for _, known := range [...]string{"Bearer ", "Basic "} {
		if len(value) > length && strings.EqualFold(value[:len(known)], known) {
			return value[:len(known)], value[len(known):]
		}
	}
	return "", value
}

// maskSecret makes masks worthless for guessing at the credentials behind them.
var maskSecret = func() (secret [sha256.Size]byte) {
	_, _ = rand.Read(secret[:]) // never fails
	return secret
}()

// maskOf returns the mask of a credential. It does not change while the process lives, so
// that logs and rate limits can tell keys apart.
func maskOf(credential string) string {
	var text [256]byte // most credentials fit, and need no memory then
	sum := sha256.Sum256(append(append(text[:0], maskSecret[:]...), credential...))
	return string(secrets.Hidden) + hex.EncodeToString(sum[:8])
}

// SentValues returns the values of a header of this canonical name, with the credential that the client sent
// in place of its mask. An earlier handler may have copied the mask from another header.
// Several values stay masked, because callers refuse them.
//
// It replaces one mask, and does not search the credential for others. So its time is linear
// in the size of the headers.
func SentValues(r *http.Request, name string) []string {
	values := r.Header[name]
	if len(values) != 1 {
		return values
	}
	value := values[0]
	at := strings.Index(value, string(secrets.Hidden))
	if at < 0 {
		return values
	}
	hidden, _ := r.Context().Value(hiddenKeysCtxKey{}).([]hiddenKey)
	for _, h := range hidden {
		if after, ok := strings.CutPrefix(value[at:], h.mask); ok {
			return []string{value[:at] + h.credential + after}
		}
	}
	return values
}
