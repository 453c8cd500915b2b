package badger

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
)

// TestReadersAgree reads a preset while versions of it are being committed. A later reader
// must see everything that an earlier one saw.
func TestReadersAgree(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	service := domain.NewService(s)
	who := domain.Principal{KeyID: "k", UserID: "ann", Kind: domain.ManagementKey}
	if err := service.EnsureDefaultWorkspace(t.Context()); err != nil {
		t.Fatal(err)
	}
	write := func() error {
		_, err := service.ReleasePresetVersion(t.Context(), domain.By(who), "", "p", domain.Capture{Dialect: domain.Responses, Config: json.RawMessage("{}")}, domain.Release{})
		return err
	}
	if err := write(); err != nil { // version 1
		t.Fatal(err)
	}
	if _, err := service.Preset(t.Context(), who, "", "p"); err != nil { // is kept in memory
		t.Fatal(err)
	}
	written := make(chan error, 1)
	go func() {
		var err error
		for range 200 {
			err = errors.Join(err, write())
		}
		written <- err
	}()
	for n := 0; n < 201; {
		isDone := len(written) > 0
		first, err := service.PresetVersions(t.Context(), who, "", "p", domain.Page{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		second, err := service.Preset(t.Context(), who, "", "p")
		if err != nil {
			t.Fatal(err)
		}
		if n = second.Number; first.Total > n {
			t.Errorf("first %d versions are seen, and then version %d is still the designated one", first.Total, n)
		}
		if isDone && n < 201 {
			t.Fatalf("got version %d after all writes: %v", n, <-written)
		}
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}
