package caddymodule

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

const firstKeyAdvice = "caddy presets key create --kind management"

// A start says how to make the first key, once, while there is none.
func TestFirstKeyIsAdvised(t *testing.T) {
	const limit = "auth_failure_limit 1000000"
	advised := func(s *server) int { return strings.Count(s.logs(), firstKeyAdvice) }
	s := start(t, limit)
	if got := advised(s); got != 1 || !strings.Contains(s.logs(), `"store":"`+s.canonicalFolder()+`"`) {
		t.Errorf("a new store is advised of %d times, want once, with its name", got)
	}
	s.reload(limit + "\nmax_body_size 1MiB")
	if got := advised(s); got != 1 {
		t.Errorf("a reload makes it %d times, want once", got)
	}
	s.stop()
	s.reload(limit)
	if got := advised(s); got != 2 {
		t.Errorf("another start makes it %d times, want twice", got)
	}
	s.issue(`{"kind":"management"}`)
	s.stop()
	s.reload(limit)
	if got := advised(s); got != 2 {
		t.Errorf("it is advised though there is a key: %d times, want twice", got)
	}
	s.stop()
	configured := start(t, standard)
	if got := advised(configured); got != 0 {
		t.Errorf("it is advised %d times though there are configured keys", got)
	}
}

// A store that is unavailable may have keys: nothing is said before it is known.
func TestFirstKeyIsAdvisedOnceTheStoreIsThere(t *testing.T) {
	s := start(t, standard)
	s.manage("POST", "/v1/presets/p/chat/completions", `{"model":"acme/large","messages":[]}`).want(t, 200)
	s.stop()
	undo := damage(t, s.folder)
	s.reload("auth_failure_limit 1000000")
	if !strings.Contains(s.logs(), "the store cannot be opened") {
		t.Fatal("the store is not damaged")
	}
	if strings.Contains(s.logs(), firstKeyAdvice) {
		t.Error("it is advised while nobody knows whether there are keys")
	}
	undo()
	if !s.eventually(func() bool { return strings.Contains(s.logs(), firstKeyAdvice) }) {
		t.Error("it is not advised once the store is there")
	}
}

// What a command prints of a refusal is its message.
func TestCommandErrorsAreMessages(t *testing.T) {
	s := start(t, standard)
	for want, args := range map[string][]string{
		"Invalid request parameters: /kind: must be ":                       {"key", "create", "--kind", "root"},
		"Workspace not found":                                               {"key", "create", "--kind", "inference", "--workspace", "absent"},
		"Key not found":                                                     {"key", "revoke", "absent"},
		"Invalid request parameters: keep: must be at least 1":              {"prune", "--keep", "0"},
		`no live store is named "absent"; there is: ` + s.canonicalFolder(): {"key", "list", "--store", "absent"},
		"expires_in: must be a positive duration":                           {"key", "create", "--kind", "inference", "--expires", "soon"},
	} {
		out, _, err := run(append(args, "--address", s.admin)...)
		if err == nil || out != "" || !strings.HasPrefix(err.Error(), want) || strings.ContainsAny(err.Error(), "{}\n") {
			t.Errorf("%v: got %q, %v, want an error that begins with %q", args, out, err, want)
		}
	}
	// What is not Caddy's form of a refusal stays as it is.
	for _, text := range []string{"performing request: refused", `caddy responded with error: HTTP 502: <html>`, `caddy responded with error: HTTP 400: {}`} {
		if got := plainAdminError(fmt.Errorf("%s", text)); got.Error() != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
}

// The admin endpoint may be given as the URL that it has in documents and logs.
func TestAddressThatIsAURL(t *testing.T) {
	s := start(t, standard)
	for _, address := range []string{s.admin, "http://" + s.admin, "http://" + s.admin + "/"} {
		if out, _, err := run("key", "list", "--json", "--address", address); err != nil || out != "[]" {
			t.Errorf("%s: got %q, %v, want no keys", address, out, err)
		}
	}
	for _, address := range []string{"https://" + s.admin, "http://localhost", "http://" + s.admin + "/presets/keys", "http://u@" + s.admin, "tcp://" + s.admin, "http://%zz", "http://" + s.admin + "?x"} {
		_, _, err := run("key", "list", "--address", address)
		if err == nil || !strings.HasPrefix(err.Error(), "--address wants the host and port of the admin endpoint, such as 127.0.0.1:2019") {
			t.Errorf("%s: got %v, want the form that it wants", address, err)
		}
	}
}

// JSON that names an engine that is not there gets the same pointers.
func TestUnknownEngineInJSON(t *testing.T) {
	for engine, want := range map[string]string{
		"mongo":      `storage: there is no engine "mongo"; this build has badger and etcd`,
		"/var/lib/x": "storage wants the name of an engine before its folder: storage badger /var/lib/x",
	} {
		raw, err := json.Marshal(map[string]any{
			"admin": map[string]any{"disabled": true, "config": map[string]any{"persist": false}},
			"apps": map[string]any{"http": map[string]any{"servers": map[string]any{"s": map[string]any{
				"listen": []string{"unix/" + filepath.Join(t.TempDir(), "s")},
				"routes": []any{map[string]any{"handle": []any{map[string]any{"handler": "presets", "storage": map[string]any{"engine": engine}}}}},
			}}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := caddy.Load(raw, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", engine, err, want)
		}
	}
}
