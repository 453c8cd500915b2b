package storagetest

import (
	"os"
	"path/filepath"
	"testing"
)

// KeyDigits is an encryption key in hexadecimal.
const KeyDigits = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F"

// KeyFile returns a file with text, such as KeyDigits.
func KeyFile(t testing.TB, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "presets.key")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
