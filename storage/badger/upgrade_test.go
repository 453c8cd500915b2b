package badger

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"

	"github.com/caddy-presets/caddy-presets/domain"
)

// format1 makes a folder as version 1 of the format left it: workspaces and presets
// as plain JSON, in no list. It returns the workspaces, the oldest first, and the
// presets of the second one, the one changed last first.
func format1(t *testing.T, folder string) (homes []domain.Workspace, presets []domain.Preset) {
	t.Helper()
	s, err := Open(folder, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	at := func(i int) time.Time { return time.Date(2026, 1, 1, 0, 0, i, 0, time.UTC) }
	for i := range 300 {
		w := newWorkspace(fmt.Sprint("w-", i))
		w.CreatedAt = at(i)
		if i < 20 { // more than one transaction holds
			w.IOLoggingAPIKeyIDs = []byte(`["` + strings.Repeat("k", 200<<10) + `"]`)
		}
		homes = append(homes, w)
	}
	for i := range 600 {
		p := newPreset(homes[1].ID, fmt.Sprint("p-", i*7919%1000)) // not in the order of their slugs
		p.UpdatedAt = at(10_000 - i)
		presets = append(presets, p)
	}
	archived := newPreset(homes[1].ID, "archived")
	archived.Status = domain.PresetArchived
	others := []domain.Preset{archived, newPreset(homes[0].ID, "other"), newPreset(homes[2].ID, "other")}
	db, err := badgerdb.Open(settings(folder, nil))
	if err != nil {
		t.Fatal(err)
	}
	batch := db.NewWriteBatch()
	set := func(k key, object any) error {
		record, err := encodeJSON(k, object)
		return cmp.Or(err, batch.Set(k, record))
	}
	for _, w := range homes {
		k, _ := workspaceKey(w.ID)
		index, _ := workspaceSlugKey(w.Slug)
		err = cmp.Or(err, set(k, w), batch.Set(index, encodeID(index, w.ID)))
	}
	for _, p := range slices.Concat(presets, others) {
		k, _ := presetKey(p.WorkspaceID, p.Slug)
		err = cmp.Or(err, set(k, p))
	}
	if err := errors.Join(err, batch.Flush(), db.Close()); err != nil {
		t.Fatal(err)
	}
	setMarker(t, folder, `{"format":1,"id":"x","state":"ready"}`)
	return homes, presets
}

func setMarker(t *testing.T, folder, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, markerName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// upgraded checks that a store of format1 has all of it in order.
func upgraded(t *testing.T, s *Store, homes []domain.Workspace, presets []domain.Preset) {
	t.Helper()
	err := s.View(t.Context(), func(r domain.Reader) error {
		for offset := 0; offset < 600; offset += 100 {
			page := domain.Page{Offset: offset, Limit: 100}
			gotPresets, total, err1 := presetPage(r, homes[1].ID, page)
			want := presets[offset : offset+100]
			if total != len(presets) || !slices.EqualFunc(gotPresets, want, func(a, b domain.Preset) bool { return a.ID == b.ID }) {
				t.Errorf("presets from %d on are wrong, of %d", offset, total)
			}
			gotHomes, total, err2 := workspacePage(r, page)
			wantHomes := homes[min(offset, 300):min(offset+100, 300)]
			if total != len(homes) || !slices.EqualFunc(gotHomes, wantHomes, func(a, b domain.Workspace) bool { return a.ID == b.ID }) {
				t.Errorf("workspaces from %d on are wrong, of %d", offset, total)
			}
			if err := cmp.Or(err1, err2); err != nil {
				return err
			}
		}
		archived, err := r.Preset(homes[1].ID, "archived")
		if archived.Status != domain.PresetArchived {
			t.Errorf("the archived preset is %q", archived.Status)
		}
		large, err1 := workspaceBySlug(r, "w-3")
		if len(large.IOLoggingAPIKeyIDs) < 200<<10 {
			t.Error("the large workspace has lost something")
		}
		return cmp.Or(err, err1)
	})
	if err != nil {
		t.Error(err)
	}
	checkPlaces(t, s)
}

func TestUpgrade(t *testing.T) {
	folder := t.TempDir()
	homes, presets := format1(t, folder)
	for range 2 {
		s, err := Open(folder, nil)
		if err != nil {
			t.Fatal(err)
		}
		upgraded(t, s, homes, presets)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		m, err := readMarker(folder)
		if err != nil || m != (marker{Format: 2, ID: "x", State: stateReady}) {
			t.Errorf("got marker %+v and error %v, want a ready one of format 2", m, err)
		}
	}
}

// TestUpgradeCutShort goes on where an earlier one ended, wherever that was.
func TestUpgradeCutShort(t *testing.T) {
	folder := t.TempDir()
	homes, presets := format1(t, folder)
	tries := 0
	for ; ; tries++ {
		commits := 0
		s, err := openFolder(folder, nil, func(string) (uint64, error) {
			if commits++; commits > 3 { // the first is for opening
				return 0, errDeliberate
			}
			return minFree, nil
		})
		if err == nil {
			upgraded(t, s, homes, presets)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			break
		}
		if !errors.Is(err, errDeliberate) || !strings.Contains(err.Error(), folder) {
			t.Fatalf("got error %v, want the cause and the folder", err)
		}
		// Versions of format 1 would undo what was done, so they are kept out.
		if m, err := readMarker(folder); err != nil || m != (marker{Format: 2, ID: "x", State: stateReady, Upgrading: true}) {
			t.Fatalf("got marker %+v and error %v, want one of format 2 that is being upgraded", m, err)
		}
		if tries > 50 {
			t.Fatal("it does not get anywhere")
		}
	}
	if tries < 2 {
		t.Errorf("it was cut short %d times, want several", tries)
	}
}

// TestUpgradeOfDamaged leaves a preset that cannot be read alone, and says so.
func TestUpgradeOfDamaged(t *testing.T) {
	folder := t.TempDir()
	homes, _ := format1(t, folder)
	k, _ := presetKey(homes[1].ID, "p-0")
	tamper(t, folder, func(txn *badgerdb.Txn) error { return txn.Set(k, []byte("nonsense")) })
	s, err := Open(folder, nil)
	if err == nil {
		_ = s.Close()
	}
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), folder) {
		t.Errorf("got error %v, want ErrDamaged and the folder", err)
	}
}

// workspaceBySlug returns the workspace that holds slug.
func workspaceBySlug(r domain.Reader, slug string) (domain.Workspace, error) {
	id, err := r.WorkspaceID(slug)
	if err != nil {
		return domain.Workspace{}, err
	}
	return r.Workspace(id)
}
