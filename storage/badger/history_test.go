package badger

import (
	"errors"
	"testing"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

// TestReplayExpires checks when Badger drops kept answers. It must not be before clients
// with a slow clock have stopped asking, but must happen eventually.
func TestReplayExpires(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	now := time.Now()
	for name, test := range map[string]struct{ expires, from, until time.Time }{
		"in a day":               {now.Add(24 * time.Hour), now.Add(25 * time.Hour), now.Add(25*time.Hour + time.Minute)},
		"by a clock long behind": {time.Unix(1, 0), now.Add(time.Hour), now.Add(2 * time.Hour)},
		"never":                  {time.Time{}, now.Add(time.Hour), now.Add(2 * time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			want := domain.Replay{ID: domain.ReplayID(domain.HashSecret(name)), Answer: []byte(name), ExpiresAt: test.expires}
			err := s.Update(t.Context(), func(tx domain.Tx) error {
				// The last write wins.
				return errors.Join(tx.PutReplay(domain.Replay{ID: want.ID, ExpiresAt: now.Add(99 * time.Hour)}), tx.PutReplay(want))
			})
			if err != nil {
				t.Fatal(err)
			}
			err = s.View(t.Context(), func(r domain.Reader) error {
				got, err := r.Replay(want.ID)
				if string(got.Answer) != name {
					t.Errorf("got answer %q, want %q", got.Answer, name)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
			err = viewLanded(s, func(txn *badgerdb.Txn) error {
				item, err := txn.Get(records.ReplayKey(want.ID))
				if err != nil {
					return err
				}
				at := time.Unix(int64(item.ExpiresAt()), 0)
				if at.Before(test.from.Add(-time.Second)) || at.After(test.until) {
					t.Errorf("it goes at %v, want between %v and %v", at, test.from, test.until)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	// Nothing else goes by itself.
	if err := s.Update(t.Context(), put(newWorkspace("w"))); err != nil {
		t.Fatal(err)
	}
	err := viewLanded(s, func(txn *badgerdb.Txn) error {
		it := txn.NewIterator(badgerdb.DefaultIteratorOptions)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if k := records.Key(it.Item().Key()); k.Kind() != records.KindReplay && it.Item().ExpiresAt() != 0 {
				t.Errorf("a %v record expires", k.Kind())
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// replayRecord returns the record of a kept answer.
func replayRecord(r domain.Replay) ([]byte, error) {
	var stage records.Stage
	stage.Reset()
	err := records.NewTx(nil, &stage).Run(func(tx *records.Tx) error { return tx.PutReplay(r) })
	return stage.Writes[string(records.ReplayKey(r.ID))].Record, err
}

// TestReplayGone checks a kept answer whose time is over.
func TestReplayGone(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	k := records.ReplayKey(domain.ReplayID{1})
	record, err := replayRecord(domain.Replay{ID: domain.ReplayID{1}, Answer: []byte("{}")})
	if err != nil {
		t.Fatal(err)
	}
	err = s.write(func(txn *badgerdb.Txn) error {
		return txn.SetEntry(&badgerdb.Entry{Key: k, Value: record, ExpiresAt: uint64(time.Now().Unix()) - 1})
	})
	if err != nil {
		t.Fatal(err)
	}
	err = s.View(t.Context(), func(r domain.Reader) error { _, err := r.Replay(domain.ReplayID{1}); return err })
	if !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("got error %v, want ErrNotFound", err)
	}
}
