package files_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/files"
)

// FuzzRead reads any bytes as a preset's file with a prompt beside it. A preset that it
// finds is written to another folder, which must have the same preset then. Then another
// preset is written over the first file.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"responses: {model: m, temperature: 0.70}\n",
		"# first\nname: N\ndescription: d # why\nstatus: disabled\nlabels: {a: 1, b: latest, c: {split: [{version: 1, weight: 2}, {version: latest, weight: 0}]}}\npolicy:\n  lock: [tools]\n\n# last\nchat:\n  messages:\n  - role: system\n    content: !file p.md\n  - role: user\n    content: |\n      # a\n\n       b\n# end\n",
		"template: true\r\nmessages:\r\n  system:\r\n    - {type: text, text: !file p.md}\r\n    - {type: text, text: \"\\u00e9\"}\r\n  messages: []\r\n",
		"earlier:\n- message: one\n  responses: &r {model: m}\n- template: true\n  chat: {}\nresponses: {}\n",
		"a: &a [&b [*a, *b], *b]\nresponses: {tools: *a, <<: {}, ? [a] : 1, 1: 2, model: 0x10, models: [+1, .5, 1_0, 2024-01-01, yes]}\n",
		"\ufeffresponses:\n  instructions: >-\n    a\n    b\n  model: 'a''b'\n---\nb\n", "responses:\n\tmodel: a\n", "responses: \"a\n", "%YAML 1.1\n---\nresponses: !!map {}\n...\n",
	} {
		f.Add([]byte(seed), []byte("You are {{name}}.\n# sk-\n"), uint64(len(seed)))
	}
	dir, err := os.MkdirTemp(f.TempDir(), "")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text, prompt []byte, seed uint64) {
		began := time.Now()
		for _, name := range []string{"a", "b"} {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		first, second := filepath.Join(dir, "a"), filepath.Join(dir, "b")
		put(t, filepath.Join(first, "default", "p.yaml"), text)
		put(t, filepath.Join(first, "default", "p.md"), prompt)
		set, err := files.Read(first)
		if took := time.Since(began); took > 30*time.Second {
			t.Fatalf("took %s", took)
		}
		if err != nil {
			return
		}
		if written, err := files.Write(first, set); err != nil || len(written) > 0 {
			t.Fatalf("wrote %v, %v", written, err)
		}
		if _, err := files.Write(second, set); err != nil {
			t.Fatalf("%v of %s", err, show(set))
		}
		sameSet(t, read(t, second), set)
		if written, err := files.Write(second, set); err != nil || len(written) > 0 {
			t.Fatalf("wrote %v, %v", written, err)
		}
		other := setOf(newGenerator(seed).preset(t, "p"))
		if _, err := files.Write(first, other); err == nil {
			other.Workspaces[0].Presets[0].Earlier = set.Workspaces[0].Presets[0].Earlier // which stay
			sameSet(t, read(t, first), other)
		} else {
			sameSet(t, read(t, first), set) // the file stayed as it was
		}
	})
}

// put writes a file and makes its folder.
func put(t testing.TB, path string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
}
