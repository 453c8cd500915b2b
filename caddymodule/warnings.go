package caddymodule

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/sitecheck"
)

// warnOfSite warns of what the operator may not expect of the site around h.
func (h *Handler) warnOfSite(ctx caddy.Context) {
	h.warnOfSharedOrigin()
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok {
		return
	}
	own := []string{h.BasePath + "/presets", h.BasePath + "/workspaces"}
	if h.Console != nil {
		own = append(own, h.Console.Path)
	}
	if late := sitecheck.LateDirectives(ctx, server, own); late != nil {
		h.logger.Warn("these directives do not guard the API and the console, because presets runs before them: put them into a route { … } with presets, above it",
			zap.Strings("directives", late))
	}
	if headers, loggers := sitecheck.LoggedKeys(ctx, server); loggers != nil {
		h.logger.Warn("the log shows keys that clients send over HTTP/3 in these headers: delete them with a filter in the log's format, or serve no HTTP/3 (protocols h1 h2)",
			zap.Strings("headers", headers), zap.Strings("loggers", loggers))
	}
}

// warnOfSharedOrigin warns if pages of the gateway need no key beside the console. Their scripts
// can read its key, or answer in its place with a service worker. Its headers prevent neither.
func (h *Handler) warnOfSharedOrigin() {
	if h.Console == nil || h.Inference != nil && h.Inference.Keys == keysEverywhere {
		return
	}
	h.logger.Warn("pages of a gateway behind this site can steal the console's key: set keys everywhere, or serve the console on another host name",
		zap.String("console", h.Console.Path))
}
