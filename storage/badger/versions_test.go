package badger

import (
	"errors"
	"fmt"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
)

// TestLongRead reads for longer than many commits and other reads take, as a backup does.
// No version in between is kept.
func TestLongRead(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	if err := s.Update(t.Context(), put(newWorkspace("before"))); err != nil {
		t.Fatal(err)
	}
	err := s.View(t.Context(), func(r domain.Reader) error {
		for i := range 100 {
			slug := fmt.Sprint("w", i)
			if err := s.Update(t.Context(), put(newWorkspace(slug))); err != nil {
				return err
			}
			if _, err := workspace(s, slug); err != nil {
				return err
			}
		}
		if kept := len(s.versions.kept); kept != 3 {
			t.Errorf("%d versions are kept, want that of the long read and the last two", kept)
		}
		if _, err := r.WorkspaceID("w0"); !errors.Is(err, domain.ErrNotFound) {
			t.Errorf("the long read: got error %v, want ErrNotFound", err)
		}
		_, err := r.WorkspaceID("before")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if kept := len(s.versions.kept); kept != 2 {
		t.Errorf("after it %d versions are kept, want the last two", kept)
	}
}
