package admin_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/caddymodule/admin"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/keyfile"
	"github.com/caddy-presets/caddy-presets/storage/badger"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
)

// TestCommandErrorsAreMessages checks that commands print only the message of a refusal.
func TestCommandErrorsAreMessages(t *testing.T) {
	s := start(t, caddytest.Standard)
	for want, args := range map[string][]string{
		"Invalid request parameters: /kind: must be ":                                     {"key", "create", "--kind", "root"},
		"Workspace not found":                                                             {"key", "create", "--kind", "inference", "--workspace", "absent"},
		"Key not found":                                                                   {"key", "revoke", "absent"},
		"Invalid request parameters: /keep: must be at least 1":                           {"prune", "--keep", "0"},
		`no live store is named "absent"; live stores: ` + s.CanonicalFolder():            {"key", "list", "--store", "absent"},
		"Invalid request parameters: /expires_in: must be a duration such as 720h or 30d": {"key", "create", "--kind", "inference", "--expires", "soon"},
	} {
		out, _, err := run(append(args, "--address", s.AdminAddress)...)
		if err == nil || out != "" || !strings.HasPrefix(err.Error(), want) || strings.ContainsAny(err.Error(), "{}\n") {
			t.Errorf("%v: got %q, %v, want an error that begins with %q", args, out, err, want)
		}
	}
	// Errors in another form are printed unchanged.
	for _, text := range []string{"performing request: refused", `caddy responded with error: HTTP 502: <html>`, `caddy responded with error: HTTP 400: {}`} {
		if got := admin.PlainError(fmt.Errorf("%s", text)); got.Error() != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
}

// TestAddressThatIsAURL passes the admin endpoint's address as a URL, as documents and logs
// show it.
func TestAddressThatIsAURL(t *testing.T) {
	s := start(t, caddytest.Standard)
	tcp := s.startCutting(func(w http.ResponseWriter, whole []byte) { _, _ = w.Write(whole) })
	for _, address := range []string{s.AdminAddress, tcp, "http://" + tcp, "http://" + tcp + "/"} {
		if out, _, err := run("key", "list", "--json", "--address", address); err != nil || out != "[]" {
			t.Errorf("%s: got %q, %v, want no keys", address, out, err)
		}
	}
	for _, address := range []string{"https://" + tcp, "http://localhost", "http://" + tcp + "/presets/keys", "http://u@" + tcp, "tcp://" + tcp, "http://%zz", "http://" + tcp + "?x"} {
		_, _, err := run("key", "list", "--address", address)
		if err == nil || !strings.HasPrefix(err.Error(), "--address wants the host and port of the admin endpoint, such as 127.0.0.1:2019") {
			t.Errorf("%s: got %v, want an error that describes the address", address, err)
		}
	}
}

func TestVerifyCommand(t *testing.T) {
	s := start(t, caddytest.Standard)
	whole := func(out, _ string) {
		t.Helper()
		if !strings.Contains(out, "Nothing is damaged") {
			t.Errorf("got %q", out)
		}
	}
	whole(s.must("verify"))
	if _, _, err := run("verify", "--quick", s.Folder); err == nil || !strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), "without the folder") {
		t.Errorf("a folder in use: got %v", err)
	}
	s.Stop()
	whole(must(t, "verify", s.Folder))
	caddytest.Damage(t, s.Folder)
	for _, args := range [][]string{{"verify", s.Folder}, {"verify", "--json", s.Folder}, {"verify", "--quick", s.Folder}} {
		if out, _, err := run(args...); err == nil || !strings.Contains(out, "damaged") {
			t.Errorf("%v of a damaged folder: got %q, %v", args, out, err)
		}
	}
	refuses(t, map[string][]string{"want a folder": {"--quick"}}, "verify")
}

func TestUnknownCommands(t *testing.T) {
	for _, args := range [][]string{{"bakcup", "x"}, {"nonsense"}, {"key", "a", "b"}} {
		if _, _, err := run(args...); err == nil || !strings.Contains(err.Error(), "unknown command") {
			t.Errorf("%v: got %v, want an error about an unknown command", args, err)
		}
	}
	if out, _, err := run("key"); err != nil || !strings.Contains(out, "create") {
		t.Errorf("key alone: got %q, %v, want help", out, err)
	}
}

// TestVerifyEncrypted verifies an encrypted folder. Only the key with which the folder was
// created is accepted.
func TestVerifyEncrypted(t *testing.T) {
	folder := caddytest.Folder(t)
	key, other := storagetest.KeyFile(t, storagetest.KeyDigits), storagetest.KeyFile(t, strings.Repeat("7", 64))
	secret, err := keyfile.Read(key, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	store, err := badger.Open(folder, badger.Options{EncryptionKey: secret})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	must(t, "verify", "--encryption-key-file", key, folder)
	for says, args := range map[string][]string{
		"the store in":                           {folder},
		"not the one that the store":             {"--quick", "--encryption-key-file", other, folder},
		"does not hold 64":                       {"--encryption-key-file", storagetest.KeyFile(t, "7"), folder},
		"want a folder or a file":                {"--encryption-key-file", key},
		"standard input does not hold 64 hexade": {"--encryption-key-file", "-", folder},
	} {
		if _, _, err := run(append([]string{"verify"}, args...)...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("verify %v: got error %v, want %q", args, err, says)
		}
	}
}

// TestHelp checks that the help has every command in a group.
func TestHelp(t *testing.T) {
	presets := &cobra.Command{Use: "presets"}
	admin.AddCommands(presets)
	for _, command := range presets.Commands() {
		if command.GroupID == "" {
			t.Errorf("%s is in no group", command.Name())
		}
	}
	out, _, err := run("--help")
	for _, want := range []string{"Presets, over the public API:\n", "\n  copy ", "Keys and store, over Caddy's admin endpoint:\n", "\n  audit "} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("got %s, %v, want %q in it", out, err, want)
		}
	}
}
