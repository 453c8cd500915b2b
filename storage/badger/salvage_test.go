package badger

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// exported is the content of a store: the lines of its export, by what they are about.
type exported struct {
	lines map[string]string // by kind, and the names of the object
	about map[string]object
	kinds map[string]int
	trail []domain.AuditRecord
}

// object names an object of a store.
type object struct {
	Kind, Workspace, Preset, Label, WorkspaceID, PresetID, ID string
	First                                                     int
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
	e := exported{make(map[string]string), make(map[string]object), make(map[string]int), nil}
	add := func(of object, content any) {
		text, err := json.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		key := keyOf(of)
		e.lines[key], e.about[key] = string(text), of
		e.kinds[of.Kind]++
	}
	err := s.View(t.Context(), func(r domain.Reader) error {
		for a, err := range r.AuditTrail(0) {
			if err != nil {
				return err
			}
			e.trail = append(e.trail, a)
			add(object{Kind: "audit", First: a.Number}, a)
		}
		keys, err := r.Keys()
		for _, k := range keys {
			add(object{Kind: "key", ID: k.ID}, k.Live(time.Now()))
		}
		list, _, err2 := r.WorkspacePage(domain.Page{Limit: 1000})
		var workspaces []domain.Workspace
		if err := errors.Join(err, err2, json.Unmarshal(list, &workspaces)); err != nil {
			return err
		}
		for _, w := range workspaces {
			of := object{Kind: "workspace", Workspace: w.Slug, WorkspaceID: w.ID}
			add(of, w)
			for p, err := range r.Presets(w.ID) {
				if err != nil {
					return err
				}
				if err := addPreset(r, p, of, add); err != nil {
					return err
				}
			}
		}
		for _, day := range []bool{false, true} {
			for row, err := range r.UsageRows(domain.UsageRange{Day: day, To: time.Now().AddDate(100, 0, 0)}) {
				if err != nil {
					return err
				}
				add(object{Kind: "usage", WorkspaceID: row.WorkspaceID, ID: fmt.Sprint(row.UsageID, row.Node)}, row)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// addPreset adds a preset, and all that belongs to it. of is its workspace.
func addPreset(r domain.Reader, p domain.Preset, of object, add func(of object, content any)) error {
	of.Kind, of.Preset, of.PresetID = "preset", p.Slug, p.ID
	add(of, []any{p, p.Kept})
	for n := range p.State().Versions() {
		v, err := r.PresetVersion(p.State(), n)
		if err != nil {
			return err
		}
		of.Kind, of.First = "version", n
		add(of, v)
	}
	for _, label := range []string{"staging", "gone", "Gone", "l", "next"} { // those of wreckStores
		last, err := r.LabelChanges(p, label)
		if err != nil {
			return err
		}
		for n := range last {
			c, err := r.LabelChange(p, label, n+1)
			if err != nil {
				return err
			}
			of := of
			of.Kind, of.Label, of.First = "label", label, n+1
			add(of, c)
		}
	}
	served, err := r.Served(p.WorkspaceID, p.Slug)
	if len(served) > 0 {
		of.Kind, of.First = "served", 0
		add(of, served)
	}
	return err
}

// keyOf names an object by ids, which stay where slugs are lost.
func keyOf(of object) string {
	of.Workspace, of.Preset = "", ""
	return fmt.Sprint(of)
}

// isNamed reports whether a report tells of an audit record or a version that it is lost.
func isNamed(report storage.Salvage, of object) bool {
	return slices.ContainsFunc(report.Lost, func(l storage.Loss) bool {
		return l.Kind == of.Kind && l.ID == of.PresetID && l.First <= of.First && of.First <= l.Last ||
			l.Kind == "commits" && of.First > report.Copied["audit"]-1
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
	defer os.RemoveAll(to)     // hundreds of trials would fill the disk
	defer os.RemoveAll(folder) // it was copied for this trial
	report, err := Salvage(t.Context(), folder, to, w.o)
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
		preset := keyOf(object{Kind: "preset", WorkspaceID: of.WorkspaceID, PresetID: of.PresetID})
		mustBeNamed := of.Kind == "audit" || of.Kind == "version" && got.lines[preset] == w.truth.lines[preset]
		if mustBeNamed && !isNamed(report, of) {
			t.Errorf("%s: %v is not as it was and not named:\n%.300s\nwant %.300s%s", name, of, got.lines[key], line, text)
		}
	}
	for key, line := range got.lines {
		of := got.about[key]
		switch {
		case w.truth.lines[key] == line:
		case of.Kind == "version" || of.Kind == "label":
			t.Errorf("%s: %v is not what it was: %s", name, of, line)
		case of.Kind == "key" && line == "true":
			t.Errorf("%s: key %s is live", name, of.ID)
		}
	}
	switch {
	case !isWhole:
		w.counts["partly"]++
		if len(report.Lost) == 0 {
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
		fmt.Fprintf(&text, "%s %v %d %v %x\n", entry.Name(), info.Mode(), info.Size(), info.ModTime().UnixNano(), sha256.Sum256(readFile(t, filepath.Join(folder, entry.Name()))))
	}
	return text.String()
}

// wreckStores makes a store of several tables and logs, as a kill and as a stop leave it.
func wreckStores(t *testing.T, o Options) (killed, stopped string, truth exported) {
	t.Helper()
	folder := t.TempDir()
	killed, stopped = filepath.Join(t.TempDir(), "killed"), filepath.Join(t.TempDir(), "stopped")
	for round := range 3 {
		s, err := Open(folder, o)
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
		removed, _, err := f.IssueKey(t.Context(), f.By, domain.NewKey{Kind: domain.InferenceKey, Workspace: "team"})
		f.Must(removed, err)
		f.Must(f.RevokeKey(t.Context(), f.By, removed.ID))
		f.Must(f.RemoveKey(t.Context(), f.By, removed.ID))
		if round == 1 {
			f.Must(f.RevokeKey(t.Context(), f.By, k.ID))
			f.Must(f.ArchivePreset(t.Context(), f.By, "team", "preset-3"))
			f.Must(f.RestorePreset(t.Context(), f.By, "team", "preset-3"))
			f.Must(f.DesignateVersion(t.Context(), f.By, "team", "preset-4", domain.Designation{Version: 2}))
		}
		if round == 2 {
			truth = exportStore(t, s)
			for key, of := range truth.about {
				if of.Kind == "key" {
					truth.lines[key] = "false" // a salvage revokes all
				}
			}
			copyFolder(t, folder, killed)
			if !tier.EveryCase() {
				cutLogs(t, killed)
			}
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

// cutLogs cuts the part of the logs that was never written. To copy and hash its zeros takes
// most of a test's time.
func cutLogs(t *testing.T, folder string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(folder, "*.mem"))
	if err != nil {
		t.Fatal(err)
	}
	for _, log := range logs {
		used := len(bytes.TrimRight(readFile(t, log), "\x00"))
		truncate(t, log, int64(used+4<<10))
	}
}

// TestSalvageWhole salvages stores that are not damaged. Nothing is lost then.
func TestSalvageWhole(t *testing.T) {
	tier.NoRace(t)
	t.Parallel()
	for name, key := range map[string][]byte{"plain": nil, "encrypted": testKey} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Options{EncryptionKey: key}
			killed, stopped, truth := wreckStores(t, o)
			for _, folder := range []string{killed, stopped} {
				to := filepath.Join(t.TempDir(), "new")
				report, err := Salvage(t.Context(), folder, to, o)
				if err != nil {
					t.Fatal(err)
				}
				if len(report.Lost) > 0 {
					t.Errorf("got %+v, want nothing lost", report)
				}
				got := exportOf(t, to, o)
				delete(got.lines, keyOf(object{Kind: "audit", First: truth.kinds["audit"] + 1}))
				for key, line := range truth.lines {
					if got.lines[key] != line {
						t.Errorf("got %s, want %s", got.lines[key], line)
					}
					delete(got.lines, key)
				}
				for _, line := range got.lines {
					t.Errorf("got %s, which was not there", line)
				}
				m, err := readMarker(to, o)
				old, err2 := readMarker(folder, o)
				if err != nil || err2 != nil || m.ID != report.StoreID || m.ID == old.ID {
					t.Errorf("got the id %s of %+v, %+v, %v, %v", report.StoreID, m, old, err, err2)
				}
			}
		})
	}
}

// TestSalvageDamaged flips bits of each file of a store, clears parts of it, cuts it short
// and removes it.
func TestSalvageDamaged(t *testing.T) {
	tier.NoRace(t)
	t.Parallel()
	for name, key := range map[string][]byte{"plain": nil, "encrypted": testKey} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Options{EncryptionKey: key}
			killed, stopped, truth := wreckStores(t, o)
			for state, folder := range map[string]string{"killed": killed, "stopped": stopped} {
				trial := &wreckTrial{truth: truth, o: o, counts: make(map[string]int)}
				for _, p := range wreckPlaces(t, folder) {
					inflictOne(t, trial, state, folder, p.file, p.how)
				}
				t.Logf("%s: %v", state, trial.counts)
				if tier.EveryCase() && (trial.counts["whole"] == 0 || trial.counts["partly"] == 0) {
					t.Errorf("%s: got %v", state, trial.counts)
				}
			}
		})
	}
}

// wreckPlace is a file, and a way to damage it.
type wreckPlace struct {
	file string
	how  int
}

// wreckPlaces returns all files of a store with twelve ways to damage each, or a
// sample of them.
func wreckPlaces(t *testing.T, folder string) (all []wreckPlace) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		for how := range 12 {
			all = append(all, wreckPlace{entry.Name(), how})
		}
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:len(all)/tier.Sample(len(all)/3)]
}

// TestSalvageLostLabels clears the blocks that have the histories of labels, and those around.
func TestSalvageLostLabels(t *testing.T) {
	tier.Slow(t)
	t.Parallel()
	killed, _, truth := wreckStores(t, Options{})
	trial := &wreckTrial{truth: truth, counts: make(map[string]int)}
	tables, err := filepath.Glob(filepath.Join(killed, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("got tables %v, %v, want some", tables, err)
	}
	for _, table := range tables {
		content := readFile(t, table)
		first, last := bytes.Index(content, []byte(`"from":null`)), bytes.LastIndex(content, []byte(`"from":null`))
		if first < 0 {
			continue
		}
		const block = 16 << 10
		for begin := max(first-block, 0); begin < min(last+block, len(content)); begin += block / 2 * tier.Sample(2) {
			damaged := filepath.Join(t.TempDir(), "damaged")
			copyFolder(t, killed, damaged)
			changed := bytes.Clone(content)
			clear(changed[begin:min(begin+block, len(changed))])
			if err := os.WriteFile(filepath.Join(damaged, filepath.Base(table)), changed, 0o600); err != nil {
				t.Fatal(err)
			}
			trial.run(t, fmt.Sprintf("%s, cleared from %d", filepath.Base(table), begin), damaged)
		}
	}
	if trial.counts["partly"] == 0 {
		t.Errorf("got %v, want losses", trial.counts)
	}
}

// TestSalvageLostCommits clears parts of the log that have whole commits. No other record tells
// which preset the last commits changed, so the preset is as it was before them.
func TestSalvageLostCommits(t *testing.T) {
	tier.Slow(t)
	t.Parallel()
	killed, _, truth := wreckStores(t, Options{EncryptionKey: testKey})
	trial := &wreckTrial{truth: truth, o: Options{EncryptionKey: testKey}, counts: make(map[string]int)}
	log, used := usedLog(t, killed)
	const part = 6 << 10 // longer than a commit
	for begin := used - part; begin > used/2; begin -= part / 4 * tier.Sample(24) {
		damaged := filepath.Join(t.TempDir(), "damaged")
		copyFolder(t, killed, damaged)
		zero(t, filepath.Join(damaged, log), begin, begin+part)
		trial.run(t, fmt.Sprintf("%s, cleared from %d of %d", log, begin, used), damaged)
	}
	if trial.counts["partly"] == 0 {
		t.Errorf("got %v, want losses", trial.counts)
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
	var err error
	how, at := "removed", 0
	switch {
	case i == 0 || used == 0:
		err = os.Remove(path)
	case i%3 == 1:
		at, how = rand.IntN(used), "cut short"
		err = os.Truncate(path, int64(at))
	case i%3 == 2:
		at, how = rand.IntN(used), "cleared"
		clear(content[at:min(at+1+rand.IntN(4<<10), used)])
		err = os.WriteFile(path, content, 0o600)
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

// TestSalvageLargeObjects salvages more large objects than one transaction holds.
func TestSalvageLargeObjects(t *testing.T) {
	tier.NoRace(t)
	t.Parallel()
	folder := t.TempDir()
	s := mustOpen(t, folder)
	f := storagetest.Fill(t, s)
	large := strings.Repeat("x", domain.MaxStoredSize-2000)
	for n := range 3 {
		f.Must(f.CreateWorkspace(t.Context(), f.By, domain.WorkspacePatch{Name: new("n"), Slug: new(fmt.Sprint("large-", n)), DefaultTextModel: domain.Settable[string]{Given: true, Value: &large}}))
	}
	for range 6 {
		f.Must(f.ReleasePresetVersion(t.Context(), f.By, "large-0", "large", domain.Capture{Dialect: domain.Chat, Config: []byte("{}"), SystemPrompt: &large}, domain.Release{}))
	}
	truth := exportStore(t, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "new")
	report, err := Salvage(t.Context(), folder, to, testOptions)
	if err != nil || len(report.Lost) > 0 {
		t.Fatalf("got %v, %v, want nothing lost", err, report.Lost)
	}
	got := exportOf(t, to, testOptions)
	for key, line := range truth.lines {
		if got.lines[key] != line {
			t.Errorf("got %.100s, want %.100s", got.lines[key], line)
		}
	}
}

// TestSalvageInto salvages into a folder that exists, which may be a mount point. It is not
// replaced. After an error it is as it was, or missing as before.
func TestSalvageInto(t *testing.T) {
	tier.NoRace(t)
	t.Parallel()
	from := t.TempDir()
	seed(t, from)
	ended, end := context.WithCancel(t.Context())
	end()
	missing := filepath.Join(t.TempDir(), "missing")
	if _, err := Salvage(ended, from, missing, testOptions); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that the time is over", err)
	}
	if _, err := os.Stat(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after an error: got %v, want that the folder is missing", err)
	}
	for _, holds := range []string{"", "lost+found"} {
		parent := t.TempDir()
		to := filepath.Join(parent, "new")
		if err := os.MkdirAll(filepath.Join(to, holds), 0o755); err != nil {
			t.Fatal(err)
		}
		before, err := os.Stat(to)
		if err != nil {
			t.Fatal(err)
		}
		files := listFolder(parent)
		if _, err := Salvage(ended, from, to, testOptions); !errors.Is(err, context.Canceled) {
			t.Errorf("holding %q: got %v, want that the time is over", holds, err)
		}
		after, err := os.Stat(to)
		if err != nil || listFolder(parent) != files {
			t.Errorf("holding %q: after an error the folder has changed: %v, %s, %v", holds, after, listFolder(parent), err)
		}
		if _, err := Salvage(t.Context(), from, to, testOptions); err != nil {
			t.Errorf("holding %q: %v", holds, err)
			continue
		}
		if after, err := os.Stat(to); err != nil || !os.SameFile(before, after) {
			t.Errorf("holding %q: the folder was replaced: %v", holds, err)
		}
		if others, err := filepath.Glob(filepath.Join(parent, "*", "PROBE*")); err != nil || len(others) > 0 {
			t.Errorf("holding %q: got the leftovers %q, %v", holds, others, err)
		}
		if _, err := os.Stat(filepath.Join(to, holds)); err != nil {
			t.Error(err)
		}
		checkWhole(t, mustOpen(t, to))
		if _, err := Salvage(t.Context(), from, to, testOptions); err == nil || !strings.Contains(err.Error(), "not empty") {
			t.Errorf("holding %q, again: got %v, want that it is not empty", holds, err)
		}
	}
}

// change makes a change that concerns no key.
func change(t *testing.T, s *Store) {
	t.Helper()
	f := storagetest.Fill(t, s)
	f.Version("default", "after", `{"model":"m"}`)
}

// usedLog returns the log that has entries, and its used length.
func usedLog(t *testing.T, folder string) (name string, used int) {
	t.Helper()
	names, _ := filepath.Glob(filepath.Join(folder, "*.mem"))
	for _, file := range names {
		if n := len(bytes.TrimRight(readFile(t, file), "\x00")); n > used {
			name, used = filepath.Base(file), n
		}
	}
	if name == "" {
		t.Fatalf("none of the logs %v has entries", names)
	}
	return name, used
}

// zero overwrites a part of a file with zeros, as a disk does that lost a page.
func zero(t *testing.T, name string, from, to int) {
	t.Helper()
	content := readFile(t, name)
	clear(content[from:to])
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
