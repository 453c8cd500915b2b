package caddytest

import (
	"os"
	"path/filepath"
	"testing"
)

// WriteFiles writes files below a folder, by their names with slashes. An empty text removes
// one.
func WriteFiles(t *testing.T, dir string, texts map[string]string) {
	t.Helper()
	for name, text := range texts {
		file := filepath.Join(dir, filepath.FromSlash(name))
		err := os.MkdirAll(filepath.Dir(file), 0o700)
		switch {
		case err != nil:
		case text == "":
			err = os.Remove(file)
		default:
			err = os.WriteFile(file, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Golden compares text with a golden file, or writes the file if it is to be updated.
func Golden(t *testing.T, file, text string, update bool) {
	t.Helper()
	if update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s:\ngot  %s\nwant %s", file, text, want)
	}
}
