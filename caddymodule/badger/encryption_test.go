package caddymodule

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

const keyDigits = "000102030405060708090a0b0c0d0e0f101112131415161718191A1B1C1D1E1F"

// keyFile returns a file with text.
func keyFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "presets.key")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestReadKeyFile(t *testing.T) {
	for _, test := range []struct {
		name, text, says string
	}{
		{"digits", keyDigits, ""},
		{"a line", keyDigits + "\n", ""},
		{"white space", " \r\n\t" + keyDigits + "\r\n \n", ""},
		{"nothing", "", "does not hold 64 hexadecimal digits"},
		{"too few", keyDigits[2:], "does not hold 64 hexadecimal digits"},
		{"too many", keyDigits + "00", "does not hold 64 hexadecimal digits"},
		{"two lines", keyDigits[:32] + "\n" + keyDigits[32:], "does not hold 64 hexadecimal digits"},
		{"no digits", keyDigits[:63] + "g", "something other than hexadecimal digits"},
		{"endless", keyDigits + strings.Repeat(" ", 1<<20) + "x", ""},
	} {
		core, logs := observer.New(zapcore.DebugLevel)
		name := keyFile(t, test.text)
		key, err := readKeyFile(name, zap.New(core))
		switch {
		case test.says == "" && (err != nil || len(key) != 32 || key[31] != 0x1f):
			t.Errorf("%s: got %x, %v", test.name, key, err)
		case test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "0304")):
			t.Errorf("%s: got error %v, want one with %q and no digits of the key", test.name, err, test.says)
		}
		if logs.Len() > 0 {
			t.Errorf("%s: got %v, want nothing logged", test.name, logs.All())
		}
	}
	core, logs := observer.New(zapcore.DebugLevel)
	name := keyFile(t, keyDigits)
	if err := os.Chmod(name, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := readKeyFile(name, zap.New(core)); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(name); err == nil && info.Mode().Perm() == 0o640 && (logs.Len() != 1 || logs.All()[0].Level != zapcore.WarnLevel) {
		t.Errorf("a file that others read: got %v, want one warning", logs.All())
	}
}

// Whoever opens a folder needs the key that it began with.
func TestEncryptedStore(t *testing.T) {
	s := start(t, standard)
	folder, second := storeFolder(t), freeAddress(t)
	key, same, other := keyFile(t, keyDigits), keyFile(t, strings.ToLower(keyDigits)+"\n"), keyFile(t, strings.Repeat("7", 64))
	t.Setenv("PRESETS_TEST_FOLDER", filepath.Dir(key))
	for _, step := range []struct{ name, sites, says string }{
		{"begun with a key", s.encrypted(s.address, folder, "{env.PRESETS_TEST_FOLDER}/presets.key"), ""},
		{"again, beside another", s.encrypted(s.address, folder, key) + s.encrypted(second, folder, same), ""},
		{"with another key", s.encrypted(s.address, folder, other), "in use with another encryption key"},
		{"without", s.encrypted(s.address, folder, ""), "in use with another encryption key"},
		{"two keys", s.encrypted(s.address, storeFolder(t), key) + s.encrypted(second, folder, other), "in use with another encryption key"},
		{"no such file", s.encrypted(s.address, folder, key+"x"), "encryption_key_file: open"},
		{"no such placeholder", s.encrypted(s.address, folder, "{env.PRESETS_TEST_NOT_SET}"), "encryption_key_file: "},
		{"elsewhere", s.site(standard), ""},
		{"later, with another key", s.encrypted(s.address, folder, other), "not the one that the store"},
		{"later, without", s.encrypted(s.address, folder, ""), "is encrypted: name the file"},
		{"one that began without", s.encrypted(s.address, s.folder, key), "in use with another encryption key"},
		{"later, with the key", s.encrypted(s.address, folder, key), ""},
		{"later, one that began without", s.encrypted(s.address, s.folder, key), "is not encrypted"},
	} {
		err := s.load(step.sites)
		if (err != nil) != (step.says != "") || err != nil && !strings.Contains(err.Error(), step.says) {
			t.Errorf("%s: got error %v, want %q", step.name, err, step.says)
		}
		if err != nil && strings.Contains(err.Error(), keyDigits[:16]) {
			t.Errorf("%s: the error shows the key", step.name)
		}
	}
	s.manage("POST", "/v1/workspaces", minimalWorkspace).want(t, 201)
	if logs := s.logs(); strings.Contains(logs, keyDigits[:16]) || strings.Contains(logs, strings.ToLower(keyDigits)) {
		t.Error("the key was logged")
	}
	s.stop()
	if !s.eventually(func() bool { return handles() == 0 }) {
		t.Errorf("%d handles are left", handles())
	}
	for says, args := range map[string][]string{
		"":                                       {"--encryption-key-file", key, folder},
		"the store in":                           {folder},
		"not the one that the store":             {"--quick", "--encryption-key-file", other, folder},
		"does not hold 64":                       {"--encryption-key-file", keyFile(t, "7"), folder},
		"--encryption-key-file want a folder":    {"--encryption-key-file", key},
		"standard input does not hold 64 hexade": {"--encryption-key-file", "-", folder},
	} {
		cmd := verifyCommand()
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		cmd.SetIn(strings.NewReader(""))
		cmd.SetOut(io.Discard)
		cmd.SetArgs(args)
		if err := cmd.ExecuteContext(t.Context()); (err != nil) != (says != "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("verify %v: got error %v, want %q", args, err, says)
		}
	}
}

// encrypted is a site whose store is in a folder, with a key if a file is named.
func (s *server) encrypted(address, folder, keyFile string) string {
	option := ""
	if keyFile != "" {
		option = "encryption_key_file " + keyFile
	}
	return s.siteAt(address, fmt.Sprintf("presets {\nstorage badger %s {\n%s\n}\n%s\n}", folder, option, standard))
}
