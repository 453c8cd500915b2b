package caddymodule

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-presets/caddy-presets/caddymodule/engine"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/serverstate"
)

// checkHealthPath refuses a path that normalization would change.
func checkHealthPath(path string) error {
	if !consolePath.MatchString(path) || strings.HasSuffix(path, "/") {
		return fmt.Errorf("must be a path such as /healthz, of A-Z a-z 0-9 . _ ~ -, got %q", path)
	}
	return nil
}

// provisionHealth checks the path of Health. It must not hide anything else that the
// handler serves.
func (h *Handler) provisionHealth(repl *caddy.Replacer) error {
	if h.Health == "" {
		return nil
	}
	path, err := repl.ReplaceOrErr(h.Health, true, true)
	if err != nil {
		return err
	}
	if err := checkHealthPath(path); err != nil {
		return err
	}
	if err := checkNothingHidden(path, h.BasePath); err != nil {
		return err
	}
	if h.Console != nil && (isAtOrBelow(path, h.Console.Path) || isAtOrBelow(h.Console.Path, path)) {
		return fmt.Errorf("must not be that of the console, above it or below it, got %q", path)
	}
	h.Health = path
	return nil
}

// serveHealth tells a load balancer whether the store can be read. It says nothing else,
// since it needs no key.
func (h *Handler) serveHealth(w http.ResponseWriter, r *http.Request) {
	status, text := http.StatusOK, "ok"
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		status, text = http.StatusMethodNotAllowed, "method not allowed"
	case !engine.HealthOf(r.Context(), h.use.Store).Available:
		status, text = http.StatusServiceUnavailable, "unavailable"
	}
	h.deadlines.LeaveBody(w, r)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = io.WriteString(w, text) // fails if the client left
	}
}

// getState tells how the stores, the webhooks and the measurement of usage are doing.
func getState(c *call) (response, error) {
	measured := serverstate.UsageOf(&c.h.shared.usage.Ledger, c.h.Inference != nil && c.h.Inference.Usage != nil)
	text, err := serverstate.Of(c.r.Context(), c.h.live, c.h.shared.webhooks.State(), measured)
	c.header.Set("Cache-Control", "no-store")
	return object(http.StatusOK, text, ""), err // no tag, since it changes by itself
}
