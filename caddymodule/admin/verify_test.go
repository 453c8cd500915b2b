package admin_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// TestVerifyFiles verifies the backups of a served store, and damaged ones.
func TestVerifyFiles(t *testing.T) {
	tier.NoRace(t)
	const canary = "CANARY of a prompt"
	s := start(t, caddytest.Standard)
	key, wrong := storagetest.KeyFile(t, storagetest.KeyDigits), storagetest.KeyFile(t, strings.Repeat("7", 64))
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	make := func(name string) []byte {
		t.Helper()
		s.Manage("POST", "/v1/presets/p/responses", `{"model":"m","instructions":"`+canary+`"}`).Want(t, 200)
		s.must("backup", file(name))
		content, err := os.ReadFile(file(name))
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	plain := make("plain")
	s.Folder = caddytest.Folder(t)
	s.load(s.Folder, key)
	encrypted := make("encrypted")
	s.Stop() // no server is needed

	flipped := func(content []byte, at int) []byte {
		content = bytes.Clone(content)
		content[at] ^= 1
		return content
	}
	for name, content := range map[string][]byte{
		"plain-flipped": flipped(plain, len(plain)-300), "plain-cut": plain[:len(plain)-1],
		"encrypted-flipped": flipped(encrypted, len(encrypted)-300), "encrypted-cut": encrypted[:len(encrypted)/2],
		"newer": bytes.Replace(plain, []byte("backup 1 "), []byte("backup 2 "), 1),
		"other": []byte("something else"), "empty": nil,
	} {
		if err := os.WriteFile(file(name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("-", plain, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args    []string
		damaged bool
		says    string // empty if nothing is wrong
	}{
		{[]string{file("plain")}, false, ""},
		{[]string{"-"}, false, ""}, // a file of this name
		{[]string{"--encryption-key-file", key, file("encrypted")}, false, ""},
		{[]string{file("plain-flipped")}, true, "the backup cannot be used: it was changed or damaged"},
		{[]string{file("plain-cut")}, true, "the backup cannot be used: it was cut short"},
		{[]string{"--encryption-key-file", key, file("encrypted-flipped")}, true, "the backup cannot be used: it was changed or damaged"},
		{[]string{"--encryption-key-file", key, file("encrypted-cut")}, true, "the backup cannot be used: it was cut short"},
		{[]string{file("empty")}, true, "it was cut short"},
		{[]string{file("newer")}, false, "needs a newer version of this module"},
		{[]string{file("other")}, false, "it is no backup of presets"},
		{[]string{file("encrypted")}, false, "it is encrypted, and needs the key"},
		{[]string{"--encryption-key-file", wrong, file("encrypted")}, false, "the key is not the one"},
		{[]string{"--encryption-key-file", key, file("plain")}, false, "it is not encrypted, but a key was named for it"},
	} {
		out, note, err := run(append([]string{"verify"}, tc.args...)...)
		text, _, jsonErr := run(append([]string{"verify", "--json"}, tc.args...)...)
		var v struct {
			Damaged  bool
			Error    string
			Problems []string
			Records  int
			Backup   *struct{ Digest string }
		}
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatalf("%v: %v: %q", tc.args, err, text)
		}
		if (err == nil) != (tc.says == "") || (jsonErr == nil) != (err == nil) || v.Damaged != tc.damaged || !strings.Contains(v.Error, tc.says) || (v.Records > 0) != (tc.says == "") {
			t.Errorf("%v: got error %v and %s, want %q", tc.args, err, text, tc.says)
		}
		if tc.damaged && err != nil && err.Error() != "the file is damaged: use another, or make a new one" {
			t.Errorf("%v: got error %v", tc.args, err)
		}
		if tc.says == "" && (!strings.HasPrefix(out, "A") || !strings.Contains(out, "sha256:") || !strings.Contains(out, "\nNothing is damaged: looked at ")) || !strings.Contains(out, tc.says) {
			t.Errorf("%v: got %q", tc.args, out)
		}
		if note != "" || strings.Contains(out+text, canary) {
			t.Errorf("%v: got %q and %q", tc.args, note, out)
		}
	}
	refuses(t, map[string][]string{
		"--quick is for a folder": {"--quick", file("plain")},
		"want a folder or a file": {"--quick"},
		"--encryption-key-file: ": {"--encryption-key-file", file("plain"), file("plain")},
	}, "verify")
	if left := len(filesOf(t, dir)); left != 9 {
		t.Errorf("%d files are there", left)
	}
}

func filesOf(t *testing.T, dir string) []os.DirEntry {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// TestBackupKeep makes backups of a running server with rotation.
func TestBackupKeep(t *testing.T) {
	for name, encrypted := range map[string]bool{"plain": false, "encrypted": true} {
		t.Run(name, func(t *testing.T) {
			s := start(t, caddytest.Standard)
			key, dir := "", t.TempDir()
			args := []string{"backup", "--address", s.AdminAddress, "--keep", "2"}
			if encrypted {
				key = storagetest.KeyFile(t, storagetest.KeyDigits)
				s.Folder = caddytest.Folder(t)
				s.load(s.Folder, key)
				if out, _, err := run(append(args, dir)...); err == nil || out != "" || !strings.Contains(err.Error(), "needs --encryption-key-file") || len(filesOf(t, dir)) > 0 {
					t.Errorf("without the key: got %q, %v and %v", out, err, filesOf(t, dir))
				}
				args = append(args, "--encryption-key-file", key)
			}
			var paths []string
			for range 4 {
				s.Manage("POST", "/v1/presets/p/responses", `{"model":"m"}`).Want(t, 200)
				out, note, err := run(append(args, dir)...)
				if err != nil || !strings.HasSuffix(out, ".backup\n") || !strings.Contains(note, "Made a backup of commit ") || !strings.Contains(note, "\nVerified it: nothing is damaged in ") {
					t.Fatalf("got %q and %q, %v", out, note, err)
				}
				paths = append(paths, strings.TrimSpace(out))
			}
			left := filesOf(t, dir)
			if len(left) != 2 || filepath.Join(dir, left[0].Name()) != paths[2] || filepath.Join(dir, left[1].Name()) != paths[3] {
				t.Errorf("got %v, want the last two of %v", left, paths)
			}
			restore := []string{"restore", "--folder", filepath.Join(t.TempDir(), "r"), paths[3]}
			if encrypted {
				restore = append(restore, "--encryption-key-file", key)
			}
			must(t, restore...)
			for says, more := range map[string][]string{
				"--keep: must be at least 1":  {"--keep", "0", dir},
				"is no folder":                {paths[3]},
				"no such file":                {filepath.Join(dir, "absent")},
				"performing request":          {"--address", caddytest.Address(t), dir},
				"accepts 1 arg(s), received ": {},
			} {
				if _, _, err := run(append(args, more...)...); err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("%v: got error %v, want %q", more, err, says)
				}
			}
		})
	}
}
