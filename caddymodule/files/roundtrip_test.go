package files_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/files"
)

// TestNewVersion checks that the request of a version captures to the version again.
func TestNewVersion(t *testing.T) {
	for seed := range uint64(3000) {
		g := newGenerator(seed)
		dialect := pick(g, everyDialect)
		template := g.IntN(2) == 0
		want := capture(t, dialect, []byte(g.request(dialect)), template)
		v := files.NewVersion(dialect, want.Config, want.SystemPrompt, want.Template)
		got := capture(t, dialect, v.Request, template)
		if !bytes.Equal(got.Config, want.Config) || !bytes.Equal(got.Template.JSON(), want.Template.JSON()) || show(got.SystemPrompt) != show(want.SystemPrompt) {
			t.Fatalf("%d: %s\ngives %s\nwant  %s", seed, v.Request, show(got), show(want))
		}
		if !files.SameCapture(v.Capture, got) {
			t.Fatalf("%d: the captures differ", seed)
		}
	}
}

// tree returns the files of a folder, by their names with slashes.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if info, err := os.Stat(path); err != nil || info.IsDir() { // maybe through a link
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// sameSet compares what two sets say.
func sameSet(t testing.TB, got, want *files.Set) {
	t.Helper()
	if len(got.Workspaces) != len(want.Workspaces) {
		t.Fatalf("got %d workspaces, want %d", len(got.Workspaces), len(want.Workspaces))
	}
	for i, w := range want.Workspaces {
		g := got.Workspaces[i]
		if g.Slug != w.Slug || len(g.Presets) != len(w.Presets) {
			t.Fatalf("got workspace %s of %d presets, want %s of %d", g.Slug, len(g.Presets), w.Slug, len(w.Presets))
		}
		for j, p := range w.Presets {
			samePreset(t, g.Presets[j], p)
		}
	}
}

func samePreset(t testing.TB, got, want files.Preset) {
	t.Helper()
	got, want = plainPreset(got), plainPreset(want)
	if !files.SameCapture(got.Version.Capture, want.Version.Capture) {
		t.Fatalf("%s: got %s\nwant %s", want.Slug, show(got.Version), show(want.Version))
	}
	got.Version, want.Version = files.Version{}, files.Version{}
	if show(got) != show(want) {
		t.Fatalf("got %s\nwant %s", show(got), show(want))
	}
}

// plainPreset returns p without what a file does not say.
func plainPreset(p files.Preset) files.Preset {
	if p.Name == nil {
		p.Name = &p.Slug
	}
	labels := make(map[string]files.Label)
	for name, label := range p.Labels {
		number := func(n files.Number) files.Number {
			if n == files.Latest {
				return files.Number(p.Designated)
			}
			return n
		}
		label.Version = number(label.Version)
		label.Split = slices.Clone(label.Split)
		for i := range label.Split {
			label.Split[i].Version = number(label.Split[i].Version)
		}
		labels[name] = label
	}
	p.Labels, p.Designated, p.Workspace, p.File = labels, 0, "", ""
	return p
}

func write(t testing.TB, dir string, set *files.Set) []string {
	t.Helper()
	written, err := files.Write(dir, set)
	if err != nil {
		for name, text := range tree(t, dir) {
			t.Logf("%s:\n%s", name, text)
		}
		t.Fatalf("%v\n%s", err, show(set))
	}
	return written
}

func read(t testing.TB, dir string) *files.Set {
	t.Helper()
	set, err := files.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func setOf(p files.Preset) *files.Set {
	return &files.Set{Workspaces: []files.Workspace{{Slug: "default", Presets: []files.Preset{p}}}}
}

// TestRoundTrip writes presets, reads them, and writes them again. Then it writes others
// over them.
func TestRoundTrip(t *testing.T) {
	for seed := range uint64(60) {
		g := newGenerator(seed)
		dir := t.TempDir()
		first := setOf(g.preset(t, "p"))
		write(t, dir, first)
		got := read(t, dir)
		sameSet(t, got, first)
		before := tree(t, dir)
		for _, again := range []*files.Set{first, got} {
			if written := write(t, dir, again); len(written) > 0 {
				t.Fatalf("%d: wrote %v again", seed, written)
			}
		}
		other := t.TempDir()
		write(t, other, got)
		sameSet(t, read(t, other), got)
		second := setOf(g.preset(t, "p"))
		write(t, dir, second)
		sameSet(t, read(t, dir), second)
		if written := write(t, dir, second); len(written) > 0 {
			t.Fatalf("%d: wrote %v again\n%v\nafter %v", seed, written, tree(t, dir), before)
		}
	}
}
