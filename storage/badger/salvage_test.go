package badger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
	"github.com/caddy-presets/caddy-presets/storage/transfer"
)

// exported is the content of a store: the lines of its export, by what they are about.
type exported struct {
	lines map[string]string // by kind, and the names of the object
	about map[string]storage.Loss
	kinds map[string]int
}

// exportOf reads a whole store.
func exportOf(t *testing.T, folder string, o Options) exported {
	t.Helper()
	s, err := Open(folder, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return exportStore(t, s)
}

func exportStore(t *testing.T, s *Store) exported {
	t.Helper()
	var text bytes.Buffer
	if _, err := transfer.Export(t.Context(), s, &text); err != nil {
		t.Fatal(err)
	}
	e := exported{make(map[string]string), make(map[string]storage.Loss), make(map[string]int)}
	var workspace, preset string
	for line := range strings.Lines(text.String()) {
		var l struct {
			Audit     *domain.AuditRecord
			Workspace *domain.Workspace
			Preset    *domain.Preset
			Version   *struct{ Version int }
			Change    *struct {
				Label  string
				Number int
			} `json:"label_change"`
			Served *json.RawMessage
			Usage  *json.RawMessage
			Key    *domain.Key
			Answer *json.RawMessage
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatal(err)
		}
		var of storage.Loss
		switch {
		case l.Audit != nil:
			of = storage.Loss{Kind: "audit", First: l.Audit.Number}
		case l.Workspace != nil:
			workspace = l.Workspace.Slug
			of = storage.Loss{Kind: "workspace", Workspace: workspace}
		case l.Preset != nil:
			preset = l.Preset.Slug
			of = storage.Loss{Kind: "preset", Workspace: workspace, Preset: preset, ID: l.Preset.ID}
		case l.Version != nil:
			of = storage.Loss{Kind: "version", Workspace: workspace, Preset: preset, First: l.Version.Version}
		case l.Change != nil:
			of = storage.Loss{Kind: "label", Workspace: workspace, Preset: preset, Label: l.Change.Label, First: l.Change.Number}
		case l.Served != nil:
			of = storage.Loss{Kind: "served", Workspace: workspace, Preset: preset}
		case l.Usage != nil:
			of = storage.Loss{Kind: "usage", Workspace: workspace, ID: line}
		case l.Answer != nil:
			of = storage.Loss{Kind: "answer", ID: line}
		case l.Key != nil:
			of = storage.Loss{Kind: "key", ID: l.Key.ID}
		default:
			continue
		}
		key := fmt.Sprint(of)
		e.lines[key], e.about[key] = line, of
		e.kinds[of.Kind]++
	}
	return e
}

// isNamed reports whether a report tells of an object that it is lost or changed.
func isNamed(report storage.Salvage, of storage.Loss) bool {
	return slices.ContainsFunc(report.Lost, func(l storage.Loss) bool {
		inPreset := l.Workspace == of.Workspace && l.Preset == of.Preset
		switch {
		case l.Kind == "commits":
			return false // it names no object
		case of.Kind == "audit" || of.Kind == "version":
			if l.Kind == of.Kind && (of.Kind == "audit" || inPreset) && l.First <= of.First && of.First <= l.Last {
				return true
			}
		case of.Kind == "label" && l.Kind == "label":
			return inPreset && l.Label == of.Label
		case of.Kind == "key" && l.Kind == "key":
			return l.ID == of.ID
		}
		// A preset or workspace that is lost, or is an earlier one.
		return l.Kind == "preset" && (inPreset || l.Preset == of.ID && of.ID != "") && of.Kind != "audit" && of.Kind != "key" ||
			l.Kind == "workspace" && l.Workspace == of.Workspace && of.Kind != "audit" && of.Kind != "key"
	})
}

// wreckTrial salvages a damaged folder, and checks the result against the truth.
type wreckTrial struct {
	truth  exported
	o      Options
	counts map[string]int
}

func (w *wreckTrial) run(t *testing.T, name, folder string) {
	t.Helper()
	before := fingerprint(t, folder)
	to := filepath.Join(t.TempDir(), "new")
	report, err := Salvage(t.Context(), folder, to, w.o, false)
	if after := fingerprint(t, folder); after != before {
		t.Errorf("%s: the damaged folder was changed from\n%s to\n%s", name, before, after)
	}
	if err != nil {
		w.counts["nothing"]++
		if !errors.Is(err, ErrNothing) && !errors.Is(err, ErrMisused) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(to); err == nil {
			t.Errorf("%s: there is a new store", name)
		}
		return
	}
	if found, err := Verify(t.Context(), to, w.o); err != nil || found.Err() != nil {
		t.Errorf("%s: the new store is damaged: %v, %v", name, err, found.Problems)
		return
	}
	got := exportOf(t, to, w.o)
	text, _ := json.Marshal(report)
	isWhole := true
	for key, line := range w.truth.lines {
		of := w.truth.about[key]
		if got.lines[key] == line {
			continue
		}
		isWhole = false
		switch of.Kind {
		case "usage", "served", "answer": // nothing but themselves tells that they were there
			if len(report.Damaged) > 0 {
				continue
			}
		}
		if !isNamed(report, of) {
			t.Errorf("%s: %v is not as it was and not named:\n%s\nwant %s%s", name, of, got.lines[key], line, text)
		}
	}
	for key, line := range got.lines {
		of := got.about[key]
		switch {
		case w.truth.lines[key] == line:
		case of.Kind == "version":
			t.Errorf("%s: %v is not what it was: %s", name, of, line)
		case of.Kind == "audit" && strings.Contains(line, `"operation":"store.salvage"`):
		case !isNamed(report, of):
			t.Errorf("%s: %v is not what it was, and not named: %s\n%s", name, of, line, text)
		case of.Kind == "key" && strings.Contains(line, `"revoked_at":null`):
			t.Errorf("%s: a key came to life: %s", name, line)
		}
	}
	switch {
	case !isWhole:
		w.counts["partly"]++
		if len(report.Lost) == 0 && len(report.Damaged) == 0 {
			t.Errorf("%s: nothing is named", name)
		}
	default:
		w.counts["whole"]++
	}
	w.counts["versions"] += got.kinds["version"]
	w.counts["of"] += w.truth.kinds["version"]
}

// fingerprint describes all files in a folder, with their times and contents.
func fingerprint(t *testing.T, folder string) string {
	t.Helper()
	var text strings.Builder
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "%s %v %d %v %s\n", entry.Name(), info.Mode(), info.Size(), info.ModTime().UnixNano(), hashOf(readFile(t, filepath.Join(folder, entry.Name()))))
	}
	return text.String()
}

// wreckStores makes a store of several tables and logs, as a kill and as a stop leave it.
func wreckStores(t *testing.T) (killed, stopped string, truth exported) {
	t.Helper()
	folder := t.TempDir()
	killed, stopped = filepath.Join(t.TempDir(), "killed"), filepath.Join(t.TempDir(), "stopped")
	for round := range 3 {
		s, err := Open(folder, testOptions)
		if err != nil {
			t.Fatal(err)
		}
		f := storagetest.Fill(t, s)
		if round == 0 {
			f.Some()
		}
		for n := range 80 {
			slug := fmt.Sprintf("preset-%d", n%7)
			f.Version("team", slug, fmt.Sprintf(`{"model":"round %d number %d","x":%q}`, round, n, strings.Repeat(fmt.Sprint(n, " "), 60+n)))
			if n%9 == 0 {
				f.Label("team", slug, "staging", domain.Target{Version: 1 + round})
			}
		}
		k, _, err := f.IssueKey(t.Context(), f.By, domain.NewKey{Kind: domain.InferenceKey, Workspace: "team"})
		f.Must(k, err)
		if round == 1 {
			f.Must(f.RevokeKey(t.Context(), f.By, k.ID))
			f.Must(f.ArchivePreset(t.Context(), f.By, "team", "preset-3"))
			f.Must(f.RestorePreset(t.Context(), f.By, "team", "preset-3"))
			f.Must(f.DesignateVersion(t.Context(), f.By, "team", "preset-4", domain.Designation{Version: 2}))
		}
		if round == 2 {
			truth = exportStore(t, s)
			copyFolder(t, folder, killed)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if round == 1 { // the next start after a kill leaves a table in level 0
			continue
		}
	}
	copyFolder(t, folder, stopped)
	return killed, stopped, truth
}

// TestSalvageWhole salvages stores that are not damaged. Nothing is lost then.
func TestSalvageWhole(t *testing.T) {
	for name, key := range map[string][]byte{"plain": nil, "encrypted": testKey} {
		t.Run(name, func(t *testing.T) {
			withKey(t, key)
			killed, stopped, truth := wreckStores(t)
			for _, folder := range []string{killed, stopped} {
				to := filepath.Join(t.TempDir(), "new")
				report, err := Salvage(t.Context(), folder, to, testOptions, false)
				if err != nil {
					t.Fatal(err)
				}
				if len(report.Lost) > 0 || len(report.Damaged) > 0 {
					t.Errorf("got %+v, want nothing lost", report)
				}
				got := exportOf(t, to, testOptions)
				delete(got.lines, fmt.Sprint(storage.Loss{Kind: "audit", First: truth.kinds["audit"] + 1}))
				for key, line := range truth.lines {
					if got.lines[key] != line {
						t.Errorf("got %s, want %s", got.lines[key], line)
					}
					delete(got.lines, key)
				}
				for _, line := range got.lines {
					t.Errorf("got %s, which was not there", line)
				}
				m, err := readMarker(to, testOptions)
				old, err2 := readMarker(folder, testOptions)
				if err != nil || err2 != nil || m.ID != report.StoreID || m.ID == old.ID {
					t.Errorf("got the id %s of %+v, %+v, %v, %v", report.StoreID, m, old, err, err2)
				}
			}
		})
	}
}

// TestSalvageDamaged flips bits of each file of a store, cuts it short and removes it.
func TestSalvageDamaged(t *testing.T) {
	for name, key := range map[string][]byte{"plain": nil, "encrypted": testKey} {
		t.Run(name, func(t *testing.T) {
			withKey(t, key)
			killed, stopped, truth := wreckStores(t)
			for state, folder := range map[string]string{"killed": killed, "stopped": stopped} {
				trial := &wreckTrial{truth: truth, o: testOptions, counts: make(map[string]int)}
				entries, err := os.ReadDir(folder)
				if err != nil {
					t.Fatal(err)
				}
				for _, entry := range entries {
					for i := range 12 / storagetest.Sample(3) {
						inflictOne(t, trial, state, folder, entry.Name(), i)
					}
				}
				t.Logf("%s: %v", state, trial.counts)
				if trial.counts["whole"] == 0 || trial.counts["partly"] == 0 {
					t.Errorf("%s: got %v", state, trial.counts)
				}
			}
		})
	}
}

// inflictOne damages a copy of a store in one of several ways, and salvages it.
func inflictOne(t *testing.T, trial *wreckTrial, state, folder, file string, i int) {
	t.Helper()
	damaged := filepath.Join(t.TempDir(), "damaged")
	copyFolder(t, folder, damaged)
	path := filepath.Join(damaged, file)
	content := readFile(t, path)
	used := len(bytes.TrimRight(content, "\x00"))
	how, err := "removed", error(nil)
	at := 0
	switch {
	case i == 0 || used == 0:
		err = os.Remove(path)
	case i%3 == 1:
		at, how = rand.IntN(used), "cut short"
		err = os.Truncate(path, int64(at))
	default:
		at, how = rand.IntN(used), "flipped"
		content[at] ^= 1 << rand.IntN(8)
		err = os.WriteFile(path, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	trial.run(t, fmt.Sprintf("%s of the store that was %s, %s at %d of %d", file, state, how, at, used), damaged)
}
