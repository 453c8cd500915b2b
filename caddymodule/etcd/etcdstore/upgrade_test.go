package etcdstore

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records/recordstest"
)

// TestUpgrade opens a store of format 1, in which archived and disabled presets are in no
// list of their own.
func TestUpgrade(t *testing.T) {
	s := open(t, Options{})
	w := domain.Workspace{ID: newID(), Name: "w", Slug: "w"}
	statuses := []domain.PresetStatus{domain.PresetActive, domain.PresetDisabled, domain.PresetArchived}
	err := s.Update(t.Context(), func(tx domain.Tx) error {
		err := tx.PutWorkspace(w)
		for i := range 30 {
			err = cmp.Or(err, tx.PutPreset(domain.Preset{
				ID: newID(), WorkspaceID: w.ID, Slug: fmt.Sprintf("p-%02d", i), Status: statuses[i%3], UpdatedAt: time.Unix(int64(i), 0).UTC(),
			}))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	shown := func(s *Store) *snapshot {
		last, at, err := s.ask(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return &snapshot{ctx: t.Context(), store: s, last: last, revision: at}
	}
	changes := recordstest.Unlisted(t, shown(s))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c := client(t)
	for k, record := range changes {
		if record == nil {
			_, err = c.Delete(t.Context(), prefix(t)+k)
		} else {
			_, err = c.Put(t.Context(), prefix(t)+k, string(record))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put := func(key, value string) {
		t.Helper()
		if _, err := c.Put(t.Context(), prefix(t)+key, value); err != nil {
			t.Fatal(err)
		}
	}
	put(formatKey, `{"store":"x","format":1}`)
	last, err := c.Get(t.Context(), prefix(t)+lastKey)
	if err != nil {
		t.Fatal(err)
	}
	put(lastKey, string(last.Kvs[0].Value)) // as if all of this were a commit

	for range 2 {
		s := open(t, Options{})
		recordstest.CheckPlaces(t, shown(s))
		err := s.View(t.Context(), func(r domain.Reader) error {
			for i, status := range statuses {
				text, total, err := r.PresetPage(w.ID, domain.PresetFilter(status), domain.Page{Limit: 100})
				if err != nil {
					return err
				}
				var presets []domain.Preset
				if err := json.Unmarshal(text, &presets); err != nil {
					return err
				}
				var got, want []string
				for n := 27 + i; n >= 0; n -= 3 {
					want = append(want, fmt.Sprintf("p-%02d", n))
				}
				for _, p := range presets {
					got = append(got, p.Slug)
				}
				if total != 10 || strings.Join(got, " ") != strings.Join(want, " ") {
					t.Errorf("%s: got %v of %d, want %v", status, got, total, want)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		response, err := c.Get(t.Context(), prefix(t)+formatKey)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(response.Kvs[0].Value); got != `{"store":"x","format":2}` {
			t.Errorf("got marker %s", got)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
