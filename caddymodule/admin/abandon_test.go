package admin

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/registry"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/badger"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/transfer"
)

// TestAbandonWithoutDefaultWorkspace gives an import up whose default workspace is missing, and
// cannot be made. The answer still tells what is missing: no other answer will.
func TestAbandonWithoutDefaultWorkspace(t *testing.T) {
	tier.Slow(t)
	open := func() (domain.Store, *domain.Service) {
		store, err := badger.OpenInMemory()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		return store, domain.NewService(store)
	}
	from, service := open()
	if err := service.EnsureDefaultWorkspace(t.Context()); err != nil {
		t.Fatal(err)
	}
	for n := range 3000 {
		if _, err := service.CreatePresetVersion(t.Context(), operator, "", fmt.Sprint("p", n), domain.Capture{Config: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
	}
	var exported bytes.Buffer
	if _, err := transfer.Export(t.Context(), from, &exported); err != nil {
		t.Fatal(err)
	}
	to, _ := open()
	trail := bytes.Index(exported.Bytes(), []byte("\n{\"workspace\":"))
	if _, err := transfer.Import(t.Context(), to, bytes.NewReader(exported.Bytes()[:trail])); err == nil {
		t.Fatal("the import was not cut")
	}
	failing := &failingStore{Store: to, updates: 1}
	w := httptest.NewRecorder()
	use := &registry.Use{Store: failing, Service: domain.NewService(failing)}
	if err := abandonImport(request{Request: httptest.NewRequest("DELETE", "/presets/import", nil), Use: use, w: w}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"missing":{"workspaces":1,"workspace_slugs":["default"],"presets":`, `"default_workspace_error":"the disk is on fire"`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("the answer does not have %s: %s", want, w.Body)
		}
	}
}
