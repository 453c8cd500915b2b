package badger

import (
	"encoding/json"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
)

// TestReadersAgree reads a preset while a version of it is being committed. A later reader
// must see everything that an earlier one saw.
func TestReadersAgree(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	service := domain.NewService(s)
	who := domain.Principal{KeyID: "k", UserID: "ann", Kind: domain.ManagementKey}
	if err := service.EnsureDefaultWorkspace(t.Context()); err != nil {
		t.Fatal(err)
	}
	write := func() error {
		_, err := service.CreatePresetVersion(t.Context(), domain.By(who), "", "p", domain.Capture{Dialect: domain.Responses, Config: json.RawMessage("{}")})
		return err
	}
	if err := write(); err != nil { // version 1
		t.Fatal(err)
	}
	if _, err := service.Preset(t.Context(), who, "", "p"); err != nil { // is kept in memory
		t.Fatal(err)
	}
	visible, goOn := make(chan struct{}), make(chan struct{})
	s.committer.commit = func(commit func() error) error {
		err := commit() // a normal commit, but the committer's goroutine is late
		close(visible)
		<-goOn
		return err
	}
	done := make(chan error)
	go func() { done <- write() }() // version 2
	<-visible
	first, err := service.PresetVersions(t.Context(), who, "", "p", domain.Page{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	second, err := service.Preset(t.Context(), who, "", "p")
	if err != nil {
		t.Fatal(err)
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if first.Total == 2 && second.Number == 1 {
		t.Errorf("first %d versions are seen, and then version %d is still the designated one", first.Total, second.Number)
	}
}
