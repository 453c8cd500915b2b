package caddymodule

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/registry"
	"github.com/caddy-presets/caddy-presets/domain"
)

// keyGuard masks keys of ours in the headers of each request before Caddy sees it.
//
// Caddy copies the headers for its access and error logs before any handler runs. So no
// handler can keep a key out of them, and the guard stands before Caddy's server. Our
// handlers get the keys from the request's context (see sentValues). All others, on every
// site of the server, see masks.
type keyGuard struct {
	next   http.Handler
	finder keyFinder
}

func (g *keyGuard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.next.ServeHTTP(w, g.finder.maskOwnKeys(r))
}

// guardServer puts a keyGuard before the server that h is provisioned for. It has
// no effect on HTTP/3, whose server Caddy does not let modules reach.
//
// Caddy makes its http.Server after all modules are provisioned. The first that a
// module can get hold of it is when the first connection comes in. Its ConnContext
// functions then run before any goroutine reads the server's handler.
func (h *Handler) guardServer(ctx caddy.Context) {
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok {
		return
	}
	var once sync.Once
	server.RegisterConnContext(func(ctx context.Context, _ net.Conn) context.Context {
		once.Do(func() {
			if server, ok := ctx.Value(http.ServerContextKey).(*http.Server); ok {
				guardStore(server, h.live)
			}
		})
		return ctx
	})
}

// guardStore adds the keys of a store to those that a server's guard masks.
func guardStore(server *http.Server, store *registry.Store) {
	guard, ok := server.Handler.(*keyGuard)
	if !ok {
		guard = &keyGuard{next: server.Handler}
		server.Handler = guard
	}
	if !slices.Contains(guard.finder.stores, store) {
		guard.finder.stores = append(guard.finder.stores, store)
	}
}

// hiddenKey is a credential that was masked in a request.
type hiddenKey struct{ mask, credential string }

// hiddenKeysCtxKey is the context key of a request's []hiddenKey.
type hiddenKeysCtxKey struct{}

// maskOwnKeys masks the headers of r that hold a key of ours, and such a host. The context of
// the returned request has the keys of headers. A header whose name holds a key is removed.
// Without such headers it returns r and does not allocate.
func (f keyFinder) maskOwnKeys(r *http.Request) *http.Request {
	maskHost(r)
	var hidden []hiddenKey
	for name, values := range r.Header {
		if !f.isOwn(name, values) {
			continue
		}
		if domain.HoldsIssued(name) {
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
	if domain.HoldsIssued(r.Host) {
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
	return domain.HiddenPrefix + hex.EncodeToString(sum[:8])
}

// sentValues returns the values of a header, with the credential that the client sent
// in place of its mask. An earlier handler may have copied the mask from another header.
// Several values stay masked, because callers refuse them.
//
// It replaces one mask, and does not search the credential for others. So its time is linear
// in the size of the headers.
func sentValues(r *http.Request, name string) []string {
	values := r.Header.Values(name)
	if len(values) != 1 {
		return values
	}
	value := values[0]
	at := strings.Index(value, domain.HiddenPrefix)
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
