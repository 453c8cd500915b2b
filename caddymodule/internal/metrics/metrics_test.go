package metrics

import (
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

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
