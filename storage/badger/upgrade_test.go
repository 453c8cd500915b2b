package badger

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
	"github.com/caddy-presets/caddy-presets/storage/records/recordstest"
)

// What version 1 of the format stored, all of it JSON, with the members in their
// order. The config of a version stands behind it.
const (
	workspace1 = `{"id":"%s","name":"%s","slug":"%s","description":"d","default_text_model":"a/b","default_image_model":null,` +
		`"default_provider_sort":"price","default_guardrail_id":"%s","io_logging_api_key_ids":%s,"io_logging_sampling_rate":0.25,` +
		`"is_data_discount_logging_enabled":true,"is_observability_broadcast_enabled":true,"is_observability_io_logging_enabled":true,` +
		`"created_at":"%s","created_by":"ann","updated_at":"2026-02-02T00:00:00.25Z"}`
	preset1 = `{"id":"%s","name":"%s","slug":"%s","description":"d \u003c","status":"%s","status_updated_at":"2026-01-02T00:00:00Z",` +
		`"creator_user_id":"ann","workspace_id":"%s","designated_version_id":"%s","designated_version":%d,"latest_version":%d,` +
		`"created_at":"2026-01-01T00:00:00.5Z","updated_at":"%s"}`
	version1 = `{"id":"%s","preset_id":"%s","version":%d,"dialect":"%s","system_prompt":%s,"creator_id":"bob",` +
		`"created_at":"2026-01-03T00:00:00Z","updated_at":"2026-01-04T00:00:00Z"}`
)

// old is what a store of format 1 holds.
type old struct {
	homes   []domain.Workspace // the oldest first
	presets []domain.Preset    // of the second workspace, the one changed last first
	others  []domain.Preset    // an archived one of it, and those of other workspaces
	// versions are those of the first presets and of the others, all of each.
	versions map[string][]domain.PresetVersion
}

// format1 makes a folder as version 1 of the format left it: workspaces and presets
// in no list.
func format1(t *testing.T, folder string) old {
	t.Helper()
	s, err := Open(folder, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	at := func(i int) time.Time { return time.Date(2026, 1, 1, 0, 0, i, 0, time.UTC) }
	stored := old{versions: map[string][]domain.PresetVersion{}}
	for i := range 300 {
		slug := fmt.Sprint("w-", i)
		w := domain.Workspace{
			ID: newID(), Name: "name of " + slug, Slug: slug, Description: new("d"), DefaultTextModel: new("a/b"),
			DefaultProviderSort: new("price"), DefaultGuardrailID: newID(), IOLoggingAPIKeyIDs: []byte(`["a",1e2]`),
			IOLoggingSamplingRate: 0.25, IsDataDiscountLoggingEnabled: true, IsObservabilityBroadcastEnabled: true,
			IsObservabilityIOLoggingEnabled: true, CreatedAt: at(i), CreatedBy: "ann",
			UpdatedAt: new(time.Date(2026, 2, 2, 0, 0, 0, 250e6, time.UTC)),
		}
		if i < 20 { // more than one transaction holds
			w.IOLoggingAPIKeyIDs = []byte(`["` + strings.Repeat("k", 200<<10) + `"]`)
		}
		stored.homes = append(stored.homes, w)
	}
	preset := func(home, i int, slug string, status domain.PresetStatus) domain.Preset {
		return domain.Preset{
			ID: newID(), Name: "name of " + slug, Slug: slug, Description: new("d <"), Status: status,
			StatusUpdatedAt: new(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)), CreatorUserID: "ann",
			WorkspaceID: stored.homes[home].ID, DesignatedVersionID: newID(), DesignatedVersion: 2 + i%2, LatestVersion: 4,
			CreatedAt: time.Date(2026, 1, 1, 0, 0, 0, 500e6, time.UTC), UpdatedAt: at(10_000 - i),
		}
	}
	for i := range 600 {
		slug := fmt.Sprint("p-", i*7919%1000) // not in the order of their slugs
		stored.presets = append(stored.presets, preset(1, i, slug, domain.PresetActive))
	}
	stored.others = []domain.Preset{
		preset(1, 601, "archived", domain.PresetArchived),
		preset(0, 602, "other", domain.PresetActive), preset(2, 603, "other", "disabled"),
	}
	for _, p := range slices.Concat(stored.presets[:9], stored.others) {
		for i, v := range []domain.PresetVersion{
			{Dialect: "responses", SystemPrompt: new("Be <brief>."), Config: []byte(`{"temperature":0.70,"model":"a\/b"}`)},
			{Dialect: "chat/completions", Config: []byte(" {\r\n\t\"a\" : 1.0e+02 ,\"a\":1E400, \"b\":\"<\\u00e9\" } ")},
			{Dialect: "messages", SystemPrompt: new(""), Config: []byte(`{}`)},
			{Dialect: "responses", SystemPrompt: new("x"), Config: []byte(`{"s":"` + strings.Repeat("ü", 5000) + `","config":{}}`)},
		} {
			v.ID, v.PresetID, v.Version, v.CreatorID = newID(), p.ID, i+1, "bob"
			v.CreatedAt, v.UpdatedAt = time.Date(2026, 1, 3, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 4, 0, 0, 0, 0, time.UTC)
			stored.versions[p.ID] = append(stored.versions[p.ID], v)
		}
	}
	stored.write(t, folder)
	setMarker(t, folder, `{"format":1,"id":"x","state":"ready"}`)
	return stored
}

// write stores all of it as version 1 of the format did.
func (o old) write(t *testing.T, folder string) {
	t.Helper()
	db, err := badgerdb.Open(settings(folder, Options{}))
	if err != nil {
		t.Fatal(err)
	}
	batch := db.NewWriteBatch()
	set := func(k records.Key, payload string) {
		err = cmp.Or(err, batch.Set(k, records.Seal(k, []byte(payload))))
	}
	for _, w := range o.homes {
		k, _ := records.WorkspaceKey(w.ID)
		index, _ := records.WorkspaceSlugKey(w.Slug)
		set(k, fmt.Sprintf(workspace1, w.ID, w.Name, w.Slug, w.DefaultGuardrailID, w.IOLoggingAPIKeyIDs, w.CreatedAt.Format(time.RFC3339)))
		set(index, w.ID)
	}
	for _, p := range slices.Concat(o.presets, o.others) {
		k, _ := records.PresetKey(p.WorkspaceID, p.Slug)
		set(k, fmt.Sprintf(preset1, p.ID, p.Name, p.Slug, p.Status, p.WorkspaceID, p.DesignatedVersionID,
			p.DesignatedVersion, p.LatestVersion, p.UpdatedAt.Format(time.RFC3339)))
		for _, v := range o.versions[p.ID] {
			prompt := "null"
			if v.SystemPrompt != nil {
				prompt = `"` + *v.SystemPrompt + `"`
			}
			text := fmt.Sprintf(version1, v.ID, v.PresetID, v.Version, v.Dialect, prompt)
			k, _ := records.VersionKey(p.ID, v.Version)
			set(k, string(binary.AppendUvarint(nil, uint64(len(text))))+text+string(v.Config))
		}
	}
	if err := errors.Join(err, batch.Flush(), db.Close()); err != nil {
		t.Fatal(err)
	}
}

func setMarker(t *testing.T, folder, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(folder, MarkerName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// upgraded checks that a store of format1 has all of it in order.
func upgraded(t *testing.T, s *Store, want old) {
	t.Helper()
	err := s.View(t.Context(), func(r domain.Reader) error {
		for offset := 0; offset < 600; offset += 100 {
			page := domain.Page{Offset: offset, Limit: 100}
			text, total, err1 := r.PresetPage(want.homes[1].ID, domain.ListedPresets, page)
			if total != len(want.presets) || string(text) != arrayOf(t, want.presets[offset:offset+100]) {
				t.Errorf("presets from %d on are wrong, of %d", offset, total)
			}
			text, total, err2 := r.WorkspacePage(page)
			if total != len(want.homes) || string(text) != arrayOf(t, want.homes[min(offset, 300):min(offset+100, 300)]) {
				t.Errorf("workspaces from %d on are wrong, of %d", offset, total)
			}
			if err := cmp.Or(err1, err2); err != nil {
				return err
			}
		}
		for _, w := range want.homes {
			got, err1 := workspaceBySlug(r, w.Slug)
			text, err2 := r.WorkspaceJSON(w.ID)
			if err := cmp.Or(err1, err2); err != nil {
				return err
			}
			if !reflect.DeepEqual(got, w) {
				t.Errorf("got %.999v, want %.999v", got, w)
			}
			shows(t, text, w)
			if !strings.Contains(string(text), `"disabled_server_tools":null`) || strings.Contains(string(text), `"place"`) {
				t.Errorf("got %.999s, want no disabled tools and no place", text)
			}
		}
		for _, p := range slices.Concat(want.presets, want.others) {
			got, err1 := r.Preset(p.WorkspaceID, p.Slug)
			state, text, err2 := r.PresetJSON(p.WorkspaceID, p.Slug)
			if err := cmp.Or(err1, err2); err != nil {
				return err
			}
			if !reflect.DeepEqual(got, p) || !reflect.DeepEqual(state, p.State()) {
				t.Errorf("got %+v in state %+v, want %+v", got, state, p)
			}
			shows(t, text, p)
			for _, v := range want.versions[p.ID] {
				got, err1 := r.PresetVersion(state, v.Version)
				text, err2 := r.PresetVersionJSON(state, v.Version)
				if err := cmp.Or(err1, err2); err != nil {
					return err
				}
				if !reflect.DeepEqual(got, v) {
					t.Errorf("got %.999v, want %.999v", got, v)
				}
				shows(t, text, v)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	checkPlaces(t, s)
}

// shows compares JSON with that of an object.
func shows(t *testing.T, got []byte, object interface{ JSON() ([]byte, error) }) {
	t.Helper()
	want, err := object.JSON()
	if err != nil || string(got) != string(want) {
		t.Errorf("got  %.999s\nwant %.999s (error %v)", got, want, err)
	}
}

// arrayOf returns the JSON of objects.
func arrayOf[T interface{ JSON() ([]byte, error) }](t *testing.T, objects []T) string {
	t.Helper()
	var all []string
	for _, object := range objects {
		text, err := object.JSON()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(text))
	}
	return "[" + strings.Join(all, ",") + "]"
}

func TestUpgrade(t *testing.T) {
	folder := t.TempDir()
	want := format1(t, folder)
	for range 2 {
		s, err := Open(folder, Options{})
		if err != nil {
			t.Fatal(err)
		}
		upgraded(t, s, want)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		m, err := readMarker(folder, testOptions)
		if err != nil || m != (marker{Format: storeFormat, ID: "x", State: stateReady}) {
			t.Errorf("got marker %+v and error %v, want a ready one of format %d", m, err, storeFormat)
		}
	}
}

// TestUpgradeFrom3 changes the marker and nothing else. Where an upgrade from format
// 1 was cut short, it is finished.
func TestUpgradeFrom3(t *testing.T) {
	folder := t.TempDir()
	seed(t, folder)
	s := mustOpen(t, folder)
	commits := s.committer.sequence
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	setMarker(t, folder, `{"format":3,"id":"x","state":"ready"}`)
	s = mustOpen(t, folder)
	if m, err := readMarker(folder, testOptions); err != nil || m != (marker{Format: storeFormat, ID: "x", State: stateReady}) {
		t.Errorf("got marker %+v and error %v, want a ready one of format %d", m, err, storeFormat)
	}
	if n := s.committer.sequence; n != commits || commits == 0 {
		t.Errorf("there were %d commits, want the %d of before", n, commits)
	}

	folder = t.TempDir()
	want := format1(t, folder)
	setMarker(t, folder, `{"format":3,"id":"x","state":"ready","upgrading":true}`)
	upgraded(t, mustOpen(t, folder), want)
	if m, err := readMarker(folder, testOptions); err != nil || m != (marker{Format: storeFormat, ID: "x", State: stateReady}) {
		t.Errorf("got marker %+v and error %v, want a ready one of format %d", m, err, storeFormat)
	}
}

// TestUpgradeFrom4 lists the presets that are archived or disabled, and changes the
// order of no other list. An upgrade that was cut short is made again.
func TestUpgradeFrom4(t *testing.T) {
	folder := t.TempDir()
	w := domain.Workspace{ID: newID(), Name: "w", Slug: "w"}
	var want []domain.Preset // that which is listed first comes first
	statuses := []domain.PresetStatus{domain.PresetActive, domain.PresetDisabled, domain.PresetArchived}
	s := mustOpen(t, folder)
	err := s.Update(t.Context(), func(tx domain.Tx) error {
		err := tx.PutWorkspace(w)
		for i := range 600 {
			p := newPreset(w.ID, fmt.Sprint("p-", i*7919%1000))
			p.LatestVersion, p.Status, p.UpdatedAt = 0, statuses[i*i%7%3], time.Unix(int64(i), 0).UTC()
			want = append([]domain.Preset{p}, want...)
			err = cmp.Or(err, tx.PutPreset(p))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var changes map[string][]byte
	showing(s, func(shown records.Snapshot) { changes = recordstest.Unlisted(t, shown) })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	tamper(t, folder, func(txn *badgerdb.Txn) (err error) {
		for k, record := range changes {
			if record == nil {
				err = cmp.Or(err, txn.Delete([]byte(k)))
			} else {
				err = cmp.Or(err, txn.Set([]byte(k), record))
			}
		}
		return err
	})
	for _, m := range []marker{{Format: 4, ID: "x", State: stateReady}, {Format: storeFormat, ID: "x", State: stateReady, Upgrading: true}} {
		if err := m.write(folder); err != nil {
			t.Fatal(err)
		}
		s := mustOpen(t, folder)
		checkPlaces(t, s)
		err := s.View(t.Context(), func(r domain.Reader) error {
			for _, filter := range []domain.PresetFilter{domain.ListedPresets, domain.ActivePresets, domain.DisabledPresets, domain.ArchivedPresets} {
				got := []string{}
				for offset := 0; offset < len(want); offset += domain.MaxPage {
					page, _, err := filteredPage(r, w.ID, filter, domain.Page{Offset: offset, Limit: domain.MaxPage})
					if err != nil {
						return err
					}
					for _, p := range page {
						got = append(got, p.Slug)
					}
				}
				all := []string{}
				for _, p := range want {
					if string(filter) == string(p.Status) || filter == domain.ListedPresets && p.Status != domain.PresetArchived {
						all = append(all, p.Slug)
					}
				}
				if !slices.Equal(got, all) {
					t.Errorf("%q: got %v, want %v", filter, got, all)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if m, err := readMarker(folder, testOptions); err != nil || m != (marker{Format: storeFormat, ID: "x", State: stateReady}) {
			t.Errorf("got marker %+v and error %v, want a ready one of format %d", m, err, storeFormat)
		}
	}
}

// TestUpgradeCutShort goes on where an earlier one ended, wherever that was.
func TestUpgradeCutShort(t *testing.T) {
	folder := t.TempDir()
	want := format1(t, folder)
	tries := 0
	for ; ; tries++ {
		var commits atomic.Int64
		s, err := openFolder(folder, Options{}, func(string) (uint64, error) {
			if commits.Add(1) > 3 { // the first is for opening
				return 0, errDeliberate
			}
			return minFree, nil
		})
		if err == nil {
			upgraded(t, s, want)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			break
		}
		if !errors.Is(err, errDeliberate) || !strings.Contains(err.Error(), folder) {
			t.Fatalf("got error %v, want the cause and the folder", err)
		}
		// Versions of format 1 would undo what was done, so they are kept out.
		if m, err := readMarker(folder, testOptions); err != nil || m != (marker{Format: storeFormat, ID: "x", State: stateReady, Upgrading: true}) {
			t.Fatalf("got marker %+v and error %v, want one of format %d that is being upgraded", m, err, storeFormat)
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
	want := format1(t, folder)
	k, _ := records.PresetKey(want.homes[1].ID, "p-0")
	tamper(t, folder, func(txn *badgerdb.Txn) error { return txn.Set(k, []byte("nonsense")) })
	s, err := Open(folder, Options{})
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
