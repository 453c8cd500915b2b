// Package clientip tells the address of a request's client behind trusted proxies.
package clientip

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Of returns the address of the client. Behind trusted proxies it is the
// right-most untrusted address of the server's client_ip_headers. Clients can choose
// Caddy's own client_ip: without trusted_proxies_strict it is the left-most address. With
// it, it may be left of a malformed address.
func Of(r *http.Request) (netip.Addr, bool) {
	ctx := r.Context()
	server, _ := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	trusted, _ := caddyhttp.GetVar(ctx, caddyhttp.TrustedProxyVarKey).(bool)
	if trusted && server != nil {
		if address, ok := rightmostUntrusted(r, server); ok {
			return address, true
		}
		return parseAddress(r.RemoteAddr)
	}
	if text, _ := caddyhttp.GetVar(ctx, caddyhttp.ClientIPVarKey).(string); text != "" {
		return parseAddress(text)
	}
	return parseAddress(r.RemoteAddr)
}

// MaxHops bounds the proxies that are checked for one request.
const MaxHops = 32

// rightmostUntrusted returns the right-most address of the client IP headers that is not a
// trusted proxy's, as trusted_proxies_strict does. After MaxHops it returns the next
// address. Anyone may have written the text to the left of a malformed address. There it
// returns the proxy to the right, if there is one.
func rightmostUntrusted(r *http.Request, server *caddyhttp.Server) (netip.Addr, bool) {
	hops, last := 0, netip.Addr{}
	for _, name := range server.ClientIPHeaders {
		for _, part := range slices.Backward(strings.Split(strings.Join(r.Header.Values(name), ","), ",")) {
			address, ok := parseAddress(part)
			switch {
			case strings.TrimSpace(part) == "":
				continue
			case !ok:
				return last, last.IsValid()
			}
			if hops++; hops > MaxHops || !trusts(server, r, address) {
				return address, true
			}
			last = address
		}
	}
	return netip.Addr{}, false
}

// trusts reports whether a server trusts the proxy of an address. Caddy tells that only of
// requests, so trusts prepares a request from that address. It has no headers, because Caddy
// would read all addresses in them once more.
func trusts(server *caddyhttp.Server, r *http.Request, address netip.Addr) bool {
	probe := r.WithContext(r.Context()) // a shallow copy
	probe.Header = nil
	probe.RemoteAddr = netip.AddrPortFrom(address, 0).String()
	probe = caddyhttp.PrepareRequest(probe, caddy.NewEmptyReplacer(), nil, server)
	trusted, _ := caddyhttp.GetVar(probe.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	return trusted
}

// parseAddress parses an address with or without a port and a zone.
func parseAddress(text string) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	text, _, _ = strings.Cut(text, "%")
	address, err := netip.ParseAddr(text)
	return address, err == nil
}
