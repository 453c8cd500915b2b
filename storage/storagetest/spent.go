package storagetest

import (
	"bytes"
	"errors"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
)

// spending stores and replaces what was spent under the id of a key, which goes with the key, and of a
// workspace.
func spending(t *testing.T, s *suite) {
	w, k := newWorkspace("spending"), newKey(2)
	read := func(id string) ([]byte, error) {
		return get(s, func(r domain.Reader) ([]byte, error) { return r.Spent(id) })
	}
	s.put(t, w)
	s.put(t, k)
	for _, id := range []string{w.ID, k.ID, "config-inference-1"} {
		wantNotFound(t, "spending that was never stored")(read(id))
	}
	failed := errors.New("failed")
	if err := s.update(func(tx domain.Tx) error { return errors.Join(tx.PutSpent(k.ID, []byte("no")), failed) }); !errors.Is(err, failed) {
		t.Errorf("a failed update: got error %v", err)
	}
	wantNotFound(t, "spending of a failed update")(read(k.ID))
	largest := bytes.Repeat([]byte{1}, domain.MaxSpentSize)
	for _, content := range [][]byte{[]byte("first"), largest} {
		s.mustUpdate(t, func(tx domain.Tx) error {
			err := errors.Join(tx.PutSpent(k.ID, content), tx.PutSpent(w.ID, []byte("w")))
			wantValue(t, content)(tx.Spent(k.ID))
			return err
		})
		s.checkAcrossReopen(t, func(r domain.Reader) {
			wantValue(t, content)(r.Spent(k.ID))
			wantValue(t, []byte("w"))(r.Spent(w.ID))
		})
	}
	if err := s.update(func(tx domain.Tx) error { return tx.PutSpent(k.ID, append(largest, 1)) }); !errors.Is(err, domain.ErrTooLarge) {
		t.Errorf("too much: got error %v, want ErrTooLarge", err)
	}
	if err := s.update(func(tx domain.Tx) error { return tx.PutSpent("config-inference-1", nil) }); err == nil {
		t.Error("an id that is no UUID: got no error")
	}
	s.mustUpdate(t, func(tx domain.Tx) error { return tx.DeleteKey(k) })
	wantNotFound(t, "spending of a key that is removed")(read(k.ID))
}
