package badger_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/badger"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// TestEncryptedStore opens an encrypted folder. Only the key with which it was created
// opens it.
func TestEncryptedStore(t *testing.T) {
	s := caddytest.Start(t, caddytest.Standard)
	folder, second := caddytest.Folder(t), caddytest.Address(t)
	key, same, other := storagetest.KeyFile(t, storagetest.KeyDigits), storagetest.KeyFile(t, strings.ToLower(storagetest.KeyDigits)+"\n"), storagetest.KeyFile(t, strings.Repeat("7", 64))
	t.Setenv("PRESETS_TEST_FOLDER", filepath.Dir(key))
	for _, step := range []struct{ name, sites, says string }{
		{"begun with a key", s.Encrypted(s.Address, folder, "{env.PRESETS_TEST_FOLDER}/presets.key"), ""},
		{"again, beside another", s.Encrypted(s.Address, folder, key) + s.Encrypted(second, folder, same), ""},
		{"with another key", s.Encrypted(s.Address, folder, other), "in use with another encryption key"},
		{"without", s.Encrypted(s.Address, folder, ""), "in use with another encryption key"},
		{"two keys", s.Encrypted(s.Address, caddytest.Folder(t), key) + s.Encrypted(second, folder, other), "in use with another encryption key"},
		{"no such file", s.Encrypted(s.Address, folder, key+"x"), "encryption_key_file: open"},
		{"no such placeholder", s.Encrypted(s.Address, folder, "{env.PRESETS_TEST_NOT_SET}"), "encryption_key_file: "},
		{"elsewhere", s.Site(caddytest.Standard), ""},
		{"later, with another key", s.Encrypted(s.Address, folder, other), "not the one that the store"},
		{"later, without", s.Encrypted(s.Address, folder, ""), "is encrypted: name the file"},
		{"one that began without", s.Encrypted(s.Address, s.Folder, key), "in use with another encryption key"},
		{"later, with the key", s.Encrypted(s.Address, folder, key), ""},
		{"later, one that began without", s.Encrypted(s.Address, s.Folder, key), "is not encrypted"},
	} {
		err := s.Load(step.sites)
		if (err != nil) != (step.says != "") || err != nil && !strings.Contains(err.Error(), step.says) {
			t.Errorf("%s: got error %v, want %q", step.name, err, step.says)
		}
		if err != nil && strings.Contains(err.Error(), storagetest.KeyDigits[:16]) {
			t.Errorf("%s: the error shows the key", step.name)
		}
	}
	s.Manage("POST", "/v1/workspaces", caddytest.Workspace).Want(t, 201)
	if logs := s.Logs(); strings.Contains(logs, storagetest.KeyDigits[:16]) || strings.Contains(logs, strings.ToLower(storagetest.KeyDigits)) {
		t.Error("the key was logged")
	}
	s.Stop()
	if !wait.Eventually(func() bool { return len(badger.Shares()) == 0 }) {
		t.Errorf("%d handles are left", len(badger.Shares()))
	}
}
