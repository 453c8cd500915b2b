package caddymodule

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/badger"
)

// The admin endpoint uses the store as the newest handler does. When that is
// withdrawn, as those of a rejected configuration are, it is the one before.
func TestNewestHandlerServesTheAdminEndpoint(t *testing.T) {
	const name = "a cluster"
	listed := func() string {
		t.Helper()
		w := httptest.NewRecorder()
		if err := serveAdmin(w, httptest.NewRequest("GET", "/presets/keys?store=a+cluster", nil)); err != nil {
			return err.Error()
		}
		return w.Body.String()
	}
	var handlers []*Handler
	for n := range 3 {
		store, err := badger.OpenInMemory()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		h := &Handler{keys: map[domain.KeyHash]domain.Principal{{byte(n)}: {KeyID: fmt.Sprint("config-", n)}}}
		h.goLive(name, store)
		handlers = append(handlers, h)
		if _, _, err := h.live.newest().service.IssueKey(t.Context(), operator, domain.NewKey{Kind: domain.InferenceKey, Name: fmt.Sprint("of store ", n)}); err != nil {
			t.Fatal(err)
		}
		if got := listed(); !strings.Contains(got, fmt.Sprint("of store ", n)) {
			t.Errorf("with %d handlers: got %s, want the keys of the last", n+1, got)
		}
	}
	live := handlers[0].live
	for _, step := range []struct {
		withdrawn, want int // handlers
	}{{2, 1}, {0, 1}} {
		if err := handlers[step.withdrawn].withdraw(); err != nil {
			t.Fatal(err)
		}
		if got := listed(); !strings.Contains(got, fmt.Sprint("of store ", step.want)) {
			t.Errorf("without handler %d: got %s, want the keys of handler %d", step.withdrawn, got, step.want)
		}
	}
	if keys := live.configured(); len(keys) != 1 || keys[0].KeyID != "config-1" {
		t.Errorf("got the configured keys %v, want those of the one handler that is left", keys)
	}
	if live.gone.Err() != nil {
		t.Error("the store is gone while a handler uses it")
	}
	if err := handlers[1].withdraw(); err != nil {
		t.Fatal(err)
	}
	if got := listed(); !strings.Contains(got, "no store is live") {
		t.Errorf("got %s, want that no store is live", got)
	}
	if live.gone.Err() == nil {
		t.Error("the store is not gone without handlers")
	}
}
