package admin_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/admin"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/storage/dump"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
)

// The engine etcd has the tests of a restore into a running server.

// TestRestoreIntoBadger says how to restore into a server whose engine cannot do it.
func TestRestoreIntoBadger(t *testing.T) {
	s := start(t, caddytest.Standard)
	file := filepath.Join(t.TempDir(), "b")
	s.must("backup", file)
	if _, _, err := s.run("restore", file); err == nil || !strings.Contains(err.Error(), "restore it into a new folder with --folder") {
		t.Errorf("got error %v", err)
	}
}

// TestEncryptedCopy encrypts the backup of a store that is not encrypted.
func TestEncryptedCopy(t *testing.T) {
	s := start(t, caddytest.Standard)
	s.Manage("POST", "/v1/presets/p/responses", `{"model":"m"}`).Want(t, 200)
	key, dir := storagetest.KeyFile(t, storagetest.KeyDigits), t.TempDir()
	var digest string
	for _, args := range [][]string{
		{"backup", "--address", s.AdminAddress, "--encryption-key-file", key, filepath.Join(dir, "b")},
		{"verify", "--encryption-key-file", key, filepath.Join(dir, "b")},
		{"restore", "--backup-key-file", key, "--folder", filepath.Join(dir, "new"), filepath.Join(dir, "b")},
		{"backup", "--address", s.AdminAddress, "--encryption-key-file", key, "--keep", "1", dir},
	} {
		out, note, err := run(args...)
		if found := digests.FindString(out + note); err != nil || strings.Contains(out+note, "not encrypted") || digest != "" && found != digest {
			t.Errorf("%v: got %q and %q, %v", args, out, note, err)
		} else {
			digest = found
		}
	}
	if _, _, err := run("verify", filepath.Join(dir, "b")); err == nil || !strings.Contains(err.Error(), "it is encrypted") {
		t.Errorf("without the key: got error %v", err)
	}
}

// TestRestoreIsChecked checks that a file which cannot be used is not sent, that a backup is sent
// without encryption, and that the errors are those of the one who knows.
func TestRestoreIsChecked(t *testing.T) {
	s := start(t, caddytest.Standard)
	s.fillStore(3 << 20) // larger than the connection's buffers
	key, dir := storagetest.KeyFile(t, storagetest.KeyDigits), t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	for _, args := range [][]string{{file("plain")}, {"--encryption-key-file", key, file("sealed")}} {
		s.must(append([]string{"backup"}, args...)...)
	}
	plain, err := os.ReadFile(file("plain"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file("cut"), plain[:len(plain)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	var asked, got int
	whole := func(w http.ResponseWriter, r *http.Request) {
		_, end, err := dump.Follow(r.Body, func(int, int) {})
		if got = end.Entries; err != nil {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":"the server's: `+err.Error()+`"}`)
		}
	}
	refused := func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"error":"not new"}`)
	}
	lost := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = r.Body.Read(make([]byte, 1000))
		panic(http.ErrAbortHandler)
	}
	for _, tc := range []struct {
		name   string
		stdin  []byte
		args   []string
		answer func(w http.ResponseWriter, r *http.Request)
		asked  int
		says   string // empty if it is restored
	}{
		{"plain", nil, []string{file("plain")}, whole, 1, ""},
		{"sealed", nil, []string{"--backup-key-file", key, file("sealed")}, whole, 1, ""},
		{"standard input", plain, []string{"-"}, whole, 1, ""},
		{"cut", nil, []string{file("cut")}, whole, 0, "cut: the backup cannot be used: it was cut short"},
		{"cut in a pipe", plain[:len(plain)-1], []string{"-"}, whole, 1, "-: the backup cannot be used: it was cut short"},
		{"no key", nil, []string{file("sealed")}, whole, 0, "sealed: the backup cannot be used: it is encrypted"},
		{"not new", nil, []string{file("plain")}, refused, 1, "not new"},
		{"connection lost", nil, []string{file("plain")}, lost, 1, "performing request"},
	} {
		asked, got = 0, 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked++
			tc.answer(w, r)
		}))
		_, note, err := admin.RunWith(bytes.NewReader(tc.stdin), append([]string{"restore", "--address", server.Listener.Addr().String()}, tc.args...)...)
		server.Close() // waits for the handler
		if asked != tc.asked || (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: got %d requests and error %v, want %d and %q", tc.name, asked, err, tc.asked, tc.says)
		}
		if tc.says == "" && (got < 20 || !strings.HasPrefix(note, "Restored commit ") || !strings.Contains(note, " into the server's store in ")) {
			t.Errorf("%s: got %d records and %q", tc.name, got, note)
		}
	}
}
