package admin

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/badger"
)

// rotated is a rotation for tests. Its backups are texts.
func rotated(in string, keep int, at time.Time, messages io.Writer) folderRotation {
	return folderRotation{
		rotation: rotation{place: folder(in), keep: keep, messages: messages, commit: func(place, string) (uint64, error) { return 7, nil }},
		folder:   folder(in), now: func() time.Time { return at },
		write: func(to io.Writer) error { _, err := io.WriteString(to, "whole"); return err },
		verify: func(name string) error {
			if content, err := os.ReadFile(name); err != nil || string(content) != "whole" {
				return fmt.Errorf("got %q, %w", content, err)
			}
			return nil
		},
	}
}

// filesIn returns the names of the files in a folder.
func filesIn(t *testing.T, folder string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

var noon = time.Date(2026, 11, 25, 12, 0, 0, 5e6, time.UTC)

// TestRotation makes backups while the clock goes on, stands still and goes back.
func TestRotation(t *testing.T) {
	folder := t.TempDir()
	// None of these is the rotation's.
	others := []string{
		"presets-20200101T000000.000Z.backup.old", "x-presets-20200101T000000.000Z.backup", "presets-20200101T000000Z.backup", "presets-20201301T000000.000Z.backup",
		"presets-20200101T000000.000z.backup", "presets-.backup", "monday.backup", "presets-20200101T000000.000Z.backup.partial.partial",
	}
	for _, name := range others {
		if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const subfolder = "presets-20200102T000000.000Z.backup"
	if err := os.Mkdir(filepath.Join(folder, subfolder), 0o700); err != nil {
		t.Fatal(err)
	}
	others = append(others, subfolder)
	var kept []string
	for _, step := range []struct {
		at   time.Time
		name string
	}{
		{noon, "presets-20261125T120000.005Z.backup"},
		{noon.In(time.FixedZone("", 3600)), "presets-20261125T120000.006Z.backup"},
		{noon.Add(time.Hour), "presets-20261125T130000.005Z.backup"},
		{noon.AddDate(1, 0, 0), "presets-20271125T120000.005Z.backup"},
		{noon.AddDate(-20, 0, 0), "presets-20271125T120000.006Z.backup"},
		{noon.AddDate(1, 0, 1), "presets-20271126T120000.005Z.backup"},
	} {
		var messages bytes.Buffer
		path, err := rotated(folder, 3, step.at, &messages).run()
		if err != nil || path != filepath.Join(folder, step.name) {
			t.Fatalf("%v: got %s, %v and %q, want %s", step.at, path, err, messages.String(), step.name)
		}
		kept = append(kept, step.name)
		if len(kept) > 3 {
			if !strings.Contains(messages.String(), "Removed "+filepath.Join(folder, kept[0])+".\n") {
				t.Errorf("%v: it does not say what it removed: %q", step.at, messages.String())
			}
			kept = kept[1:]
		}
		want := slices.Sorted(slices.Values(slices.Concat(others, kept)))
		if got := filesIn(t, folder); !slices.Equal(got, want) {
			t.Fatalf("%v: got %q, want %q", step.at, got, want)
		}
	}
	info, err := os.Stat(filepath.Join(folder, kept[0]))
	if err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("others can read it: %v, %v", info.Mode(), err)
	}
}

// TestRotationFails fails at every step. No earlier backup is removed, and none is made.
func TestRotationFails(t *testing.T) {
	folder := t.TempDir()
	for n := range 3 {
		if _, err := rotated(folder, 3, noon.Add(time.Duration(n)*time.Hour), io.Discard).run(); err != nil {
			t.Fatal(err)
		}
	}
	before := filesIn(t, folder)
	fails := errors.New("deliberate")
	for what, change := range map[string]func(*folderRotation){
		"written": func(r *folderRotation) {
			r.write = func(to io.Writer) error { _, _ = io.WriteString(to, "who"); return fails }
		},
		"verified": func(r *folderRotation) { r.verify = func(string) error { return fails } },
		"renamed": func(r *folderRotation) {
			r.verify = func(name string) error { return errors.Join(os.Remove(name)) }
		},
	} {
		r := rotated(folder, 1, noon.Add(9*time.Hour), io.Discard)
		change(&r)
		if path, err := r.run(); err == nil || path != "" {
			t.Errorf("not %s: got %q, %v", what, path, err)
		}
		if got := filesIn(t, folder); !slices.Equal(got, before) {
			t.Errorf("not %s: got %q, want %q", what, got, before)
		}
	}
	if _, err := rotated(filepath.Join(folder, "absent"), 1, noon, io.Discard).run(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the folder: got error %v", err)
	}
}

// TestRotationOrder makes backups beside some with other commits, and with one that cannot be
// read. Then none is removed.
func TestRotationOrder(t *testing.T) {
	damaged := errors.New("deliberate")
	for what, tc := range map[string]struct {
		commits []uint64 // of the backups, the new one last; 0 cannot be read
		says    string   // empty if old ones are removed
	}{
		"rising":                             {[]uint64{7, 8, 9}, ""},
		"equal":                              {[]uint64{7, 7, 7}, ""},
		"the new is lower":                   {[]uint64{7, 8, 2}, "ends at commit 2, and the older presets-20261125T130000.005Z.backup at commit 8."},
		"lower than the one before the last": {[]uint64{9, 2, 3}, "ends at commit 2, and the older presets-20261125T120000.005Z.backup at commit 9."},
		"lower before":                       {[]uint64{7, 2, 8}, "ends at commit 2, and the older"},
		"not readable":                       {[]uint64{0, 8, 9}, "presets-20261125T120000.005Z.backup cannot be compared with the others; move it away: deliberate"},
	} {
		t.Run(what, func(t *testing.T) {
			folder := t.TempDir()
			commits := make(map[string]uint64)
			for n, commit := range tc.commits {
				commits[nextName(noon.Add(time.Duration(n)*time.Hour), nil)] = commit
			}
			var err error
			for n := range tc.commits {
				r := rotated(folder, 3, noon.Add(time.Duration(n)*time.Hour), io.Discard)
				if n == len(tc.commits)-1 {
					r.keep = 1
					r.commit = func(_ place, name string) (uint64, error) {
						if commits[name] == 0 {
							return 0, damaged
						}
						return commits[name], nil
					}
				}
				var path string
				if path, err = r.run(); path == "" {
					t.Fatal(err)
				}
			}
			if tc.says == "" {
				if got := filesIn(t, folder); err != nil || len(got) != 1 {
					t.Errorf("got %v and %q, want the new one alone", err, got)
				}
				return
			}
			if got := filesIn(t, folder); err == nil || !strings.Contains(err.Error(), tc.says) || !strings.Contains(err.Error(), "no backup was removed") || len(got) != 3 {
				t.Errorf("got %v and %q, want %q and all", err, got, tc.says)
			}
		})
	}
}

// TestRotationCutOff runs while another run has the folder, and after one was cut off, whose incomplete
// file is removed.
func TestRotationCutOff(t *testing.T) {
	folder := t.TempDir()
	left := filepath.Join(folder, nextName(noon.Add(-time.Hour), nil)+partialSuffix)
	if err := os.WriteFile(left, []byte("who"), 0o600); err != nil {
		t.Fatal(err)
	}
	release, err := badger.LockFolder(folder)
	if err != nil {
		t.Fatal(err)
	}
	var messages bytes.Buffer
	if path, err := rotated(folder, 1, noon, &messages).run(); path != "" || !errors.Is(err, badger.ErrInUse) {
		t.Errorf("beside another run: got %q, %v", path, err)
	}
	release()
	path, err := rotated(folder, 1, noon, &messages).run()
	if says := "Removed " + left + ", which a run left that was cut off.\n"; err != nil || messages.String() != says {
		t.Errorf("after it: got %v and %q, want %q", err, messages.String(), says)
	}
	if got := filesIn(t, folder); !slices.Equal(got, []string{filepath.Base(path)}) {
		t.Errorf("got %q, want %q alone", got, path)
	}
}

// TestRememberedCommits asks once for the commit of a copy, and again after an error.
func TestRememberedCommits(t *testing.T) {
	asked, fails := 0, errors.New("deliberate")
	commit := remembered(func(place, string) (uint64, error) {
		if asked++; asked == 1 {
			return 0, fails
		}
		return 7, nil
	})
	if _, err := commit(nil, "a"); !errors.Is(err, fails) {
		t.Errorf("got error %v", err)
	}
	for range 3 {
		if got, err := commit(nil, "a"); got != 7 || err != nil || asked != 2 {
			t.Errorf("got %d, %v, asked %d times", got, err, asked)
		}
	}
}
