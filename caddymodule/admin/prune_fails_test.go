package admin

import (
	"context"
	"errors"
	"math"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/registry"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema"
	"github.com/caddy-presets/caddy-presets/storage/badger"
)

// TestPruneFailsInTheMiddle checks that the answer names the versions that were removed
// before an error.
func TestPruneFailsInTheMiddle(t *testing.T) {
	store, err := badger.OpenInMemory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	failing := &failingStore{Store: store, updates: math.MaxInt}
	service := domain.NewService(failing)
	if err := service.EnsureDefaultWorkspace(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, slug := range []string{"a", "b"} {
		for range 3 {
			if _, err := service.ReleasePresetVersion(t.Context(), operator, "", slug, domain.Capture{Config: []byte("{}")}, domain.Release{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	schemas, err := schema.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		updates int
		says    string
	}{
		{0, "the disk is on fire"},
		{1, "versions removed: 2, of presets: 1, and then: the disk is on fire"},
	} {
		failing.updates = tc.updates
		r := httptest.NewRequest("POST", "/presets/prune", strings.NewReader(`{"keep":1}`))
		_, err := pruneVersions(request{Request: r, Use: &registry.Use{Service: service}, w: httptest.NewRecorder(), schema: schemas.Pruning})
		if err == nil || err.Error() != tc.says {
			t.Errorf("got error %v, want %q", err, tc.says)
		}
	}
}

// failingStore is a store that fails after so many updates.
type failingStore struct {
	domain.Store
	updates int
}

func (s *failingStore) Update(ctx context.Context, fn func(domain.Tx) error) error {
	if s.updates == 0 {
		return errors.New("the disk is on fire")
	}
	s.updates--
	return s.Store.Update(ctx, fn)
}
