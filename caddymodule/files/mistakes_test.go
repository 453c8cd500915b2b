//go:build unix

package files_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/files"
)

// prepare makes a folder with the files that cases name.
func prepare(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	folder := filepath.Join(dir, "default")
	for name, text := range map[string]string{
		"p.md": "You are kind.\n", "sub/p.md": "You are brief.\n", "../p.md": "Outside.\n", "latin1.md": "caf\xe9\n",
		"large.md": strings.Repeat("a", files.MaxFileSize+1), "half.md": strings.Repeat("a", 140<<10),
		"secret.md": "Line one.\nThe key: sk-abcdefghij0123456789\n", "README.md": "# Presets\n",
	} {
		put(t, filepath.Join(folder, name), []byte(text))
	}
	for name, target := range map[string]string{"out.md": "../p.md", "up": ".."} {
		if err := os.Symlink(target, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := syscall.Mkfifo(filepath.Join(folder, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestMistakes reads files with mistakes. It compares all mistakes with their places.
func TestMistakes(t *testing.T) {
	golden := filepath.Join("testdata", "mistakes.txt")
	content, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	dir := prepare(t)
	head, rest, _ := strings.Cut(string(content), "=== ")
	updated := head
	count := 0
	for one := range strings.SplitSeq(rest, "\n=== ") {
		name, body, _ := strings.Cut(strings.TrimSuffix(one, "\n"), "\n")
		body += "\n"
		text, want, ok := strings.Cut(body, "--- mistakes\n")
		if !ok {
			t.Fatalf("%s: has no line of mistakes", name)
		}
		put(t, filepath.Join(dir, "default", "case.yaml"), []byte(text))
		count++
		got := ""
		if set, err := files.Read(dir); err == nil {
			t.Errorf("%s: is no mistake: %s", name, show(set))
		} else {
			if _, ok := errors.AsType[files.Errors](err); !ok {
				t.Errorf("%s: got %v, want Errors", name, err)
			}
			got = err.Error() + "\n"
		}
		updated += "=== " + name + "\n" + text + "--- mistakes\n" + got
		if strings.Contains(got, "abcdefghij") || strings.Contains(got, "0123456789") {
			t.Errorf("%s: shows a secret: %s", name, got)
		}
		if got != want && !*update {
			t.Errorf("%s: got\n%swant\n%s", name, got, want)
		}
	}
	if count < 60 {
		t.Errorf("found %d cases", count)
	}
	if *update {
		if err := os.WriteFile(golden, []byte(updated), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
