package storagetest

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
)

// savedInputs stores, replaces and removes saved inputs of two presets.
func savedInputs(t *testing.T, s *suite) {
	w := newWorkspace("inputs")
	p, other := newPreset(w.ID, "p"), newPreset(w.ID, "other")
	s.put(t, w)
	s.mustUpdate(t, func(tx domain.Tx) error {
		return errors.Join(tx.PutPresetVersion(p, newVersion(p, 1, "{}")), tx.PutPreset(p), tx.PutPresetVersion(other, newVersion(other, 1, "{}")), tx.PutPreset(other))
	})
	ids := []string{newWorkspace("").ID, newWorkspace("").ID}
	slices.Sort(ids)
	wantNotFound(t, "an input that was never stored")(get(s, func(r domain.Reader) ([]byte, error) { return r.Input(p.ID, ids[0]) }))
	wantNotFound(t, "an input of no UUID")(get(s, func(r domain.Reader) ([]byte, error) { return r.Input(p.ID, "absent") }))
	check := func(r domain.Reader, want ...string) {
		t.Helper()
		var got []string
		for text, err := range r.Inputs(p.ID) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(text[:min(len(text), 20)]))
		}
		if !slices.Equal(got, want) {
			t.Errorf("got the inputs %q, want %q", got, want)
		}
	}
	largest := bytes.Repeat([]byte{' '}, domain.MaxStoredSize)
	largest[0], largest[len(largest)-1] = '{', '}'
	s.mustUpdate(t, func(tx domain.Tx) error {
		err := errors.Join(tx.PutInput(p.ID, ids[1], []byte(`{"n":2}`)), tx.PutInput(p.ID, ids[0], []byte(`{"n":1}`)), tx.PutInput(other.ID, ids[0], largest))
		check(tx, `{"n":1}`, `{"n":2}`)
		return err
	})
	failed := errors.New("failed")
	if err := s.update(func(tx domain.Tx) error { return errors.Join(tx.RemoveInput(p.ID, ids[0]), failed) }); !errors.Is(err, failed) {
		t.Errorf("a failed update: got error %v", err)
	}
	s.checkAcrossReopen(t, func(r domain.Reader) {
		check(r, `{"n":1}`, `{"n":2}`)
		wantValue(t, largest)(r.Input(other.ID, ids[0]))
	})
	s.mustUpdate(t, func(tx domain.Tx) error {
		return errors.Join(tx.PutInput(p.ID, ids[0], []byte(`{"n":3}`)), tx.RemoveInput(p.ID, ids[1]), tx.RemoveInput(p.ID, ids[1]), tx.RemoveInput(p.ID, "absent"))
	})
	s.checkAcrossReopen(t, func(r domain.Reader) { check(r, `{"n":3}`) })
	for what, content := range map[string][]byte{"too much": append(largest, ' '), "no object": []byte("[]")} {
		if err := s.update(func(tx domain.Tx) error { return tx.PutInput(p.ID, ids[0], content) }); err == nil {
			t.Errorf("%s: got no error", what)
		}
	}
	if err := s.update(func(tx domain.Tx) error { return tx.PutInput(p.ID, "absent", []byte("{}")) }); err == nil {
		t.Error("an id that is no UUID: got no error")
	}
}
