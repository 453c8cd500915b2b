package metrics

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/limiter"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/status"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/badger"
)

// TestStoreFailuresAreCounted checks that failures of the store are counted as failures.
func TestStoreFailuresAreCounted(t *testing.T) {
	store, err := badger.OpenInMemory()
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	m, err := New(registry)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Measure(store).View(t.Context(), func(domain.Reader) error { return nil }); !errors.Is(err, domain.ErrClosed) {
		t.Fatalf("got %v, want ErrClosed", err)
	}
	if got := testutil.ToFloat64(m.storeCalls.total.WithLabelValues("view", "error")); got != 1 {
		t.Errorf("got %v failed views, want 1", got)
	}
}

// TestFailures counts the refusals of the limiter, and no other 429, such as a gateway's.
func TestFailures(t *testing.T) {
	m, err := New(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	m.CountFailure(&status.Error{Status: http.StatusTooManyRequests})
	if n := testutil.ToFloat64(m.limited); n != 0 {
		t.Errorf("a gateway's 429 counts as %v failures, want none", n)
	}
	m.CountFailure(limiter.Refusal(time.Second))
	m.CountFailure(domain.ErrCredentials)
	if limited, refused := testutil.ToFloat64(m.limited), testutil.ToFloat64(m.refused); limited != 1 || refused != 1 {
		t.Errorf("got %v limited and %v refused, want one each", limited, refused)
	}
}
