package caddymodule

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/bundle"
	"github.com/caddy-presets/caddy-presets/domain"
)

// inProcess sends requests to the handler's own API, as bundlePrincipal.
type inProcess struct{ h *Handler }

// RoundTrip implements http.RoundTripper.
func (t inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	path, err := url.Parse(t.h.BasePath + strings.TrimPrefix(r.URL.EscapedPath(), defaultBasePath))
	if err != nil {
		return nil, err
	}
	inside := r.Clone(context.WithValue(r.Context(), bundleRequest{}, bundlePrincipal))
	inside.URL.Path, inside.URL.RawPath = path.Path, path.RawPath
	c := t.h.newCall(nil, inside)
	c.header = make(http.Header)
	defer c.releasePage()
	status, body := c.complete(c.serve())
	t.h.metrics.CountRequest(c.op.name, status, time.Since(c.start))
	return &http.Response{
		Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), StatusCode: status, Header: c.header,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}, nil
}

// Interface guard
var _ http.RoundTripper = inProcess{}

// bundlePrincipal sends the requests of a bundle. It has all rights, as keys of the
// configuration do.
var bundlePrincipal = domain.Principal{KeyID: "bundle", UserID: bundle.Owner, Kind: domain.ManagementKey}

// bundleRequest is the context key of these requests. Nothing from outside can set it.
type bundleRequest struct{}

// provisionBundle reads the bundle, so that a mistake in a file refuses the configuration.
func (h *Handler) provisionBundle(ctx caddy.Context, repl *caddy.Replacer) error {
	if h.Bundle == "" {
		return nil
	}
	dir, err := repl.ReplaceOrErr(h.Bundle, true, true)
	if err != nil {
		return err // names the placeholder
	}
	set, err := files.Read(dir)
	if err != nil {
		return err
	}
	presets := 0
	for _, w := range set.Workspaces {
		presets += len(w.Presets)
	}
	if presets == 0 {
		return fmt.Errorf("there is no preset in %s", dir)
	}
	app, err := ctx.App("events")
	if err != nil {
		return fmt.Errorf("getting the events app: %w", err)
	}
	events := app.(*caddyevents.App)
	b := &bundle.Bundle{Dir: dir, Set: set, Context: ctx, Logger: h.logger, Config: events, IsActive: func() bool { return isActive(events) }, Waiting: h.metrics.BundlesWaiting}
	b.Client = &client.Client{Origin: "http://bundle", Transport: inProcess{h}, Tries: 1} // run repeats everything
	if err := events.On("started", b); err != nil {
		return fmt.Errorf("subscribing to Caddy's start: %w", err)
	}
	h.bundle = b
	return nil
}

// isActive reports whether the configuration that has these events is the active one.
func isActive(events *caddyevents.App) bool {
	app, err := caddy.ActiveContext().AppIfConfigured("events")
	return err == nil && app == any(events)
}
