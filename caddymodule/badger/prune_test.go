package badger_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/badger"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// TestPruneGivesDiskSpaceBack removes a tenth of a store's records. The store frees the
// disk space without a request.
func TestPruneGivesDiskSpaceBack(t *testing.T) {
	tier.Slow(t)
	s := caddytest.Start(t, caddytest.Standard)
	config := `{"model":"` + strings.Repeat("m", 100<<10) + `%d"}`
	for n := range 100 {
		s.Manage("POST", "/v1/presets/p/responses", fmt.Sprintf(config, n)).Want(t, 200)
	}
	stopIntoTable(t, s)
	if err := s.Load(s.Site(caddytest.Standard)); err != nil {
		t.Fatal(err)
	}
	tables := func() (size int64) {
		names, err := filepath.Glob(filepath.Join(s.Folder, "*.sst"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if info, err := os.Stat(name); err == nil {
				size += info.Size()
			}
		}
		return size
	}
	before := tables()
	s.Admin("POST", "/presets/prune", `{"keep":85}`).Want(t, 200, `"disk":"the folder shrinks within the hour`)
	badger.Maintain(t.Context(), 0)
	if got := tables(); got < before {
		t.Errorf("the tables have %d of %d bytes already", got, before)
	}
	badger.Maintain(t.Context(), time.Hour)
	if got := tables(); got > before*9/10 {
		t.Errorf("after a prune of 15 %% the tables have %d of %d bytes", got, before)
	}
	s.Manage("GET", "/v1/presets/p/versions", "").Want(t, 200, `"total_count":85`)
}
