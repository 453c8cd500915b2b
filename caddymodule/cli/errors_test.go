package cli_test

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
)

// TestMistakes checks that errors tell what to do, and never show a key.
func TestMistakes(t *testing.T) {
	s := start(t, nil)
	s.fill()
	file := func(text string) string {
		t.Helper()
		name := filepath.Join(t.TempDir(), "a.key")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	wrong, reader := file("caddypresets_mgmt_wrong"), file(caddytest.InferenceSecret+"\n")
	for _, tc := range []struct{ command, want string }{
		{"list --key-file " + wrong, s.origin + " does not take the key in " + wrong + ": "},
		{"designate summary 1 --override files --key-file " + reader, "the key in " + reader + " may not do that: "},
		{"try summary --inference-key-file " + wrong, "does not take the key in " + wrong},
		{"list --key-file " + file(""), "there is no key in "},
		{"list --key-file absent.key", "reading the key: open absent.key"},
		{"show absent", "Preset not found (in the workspace of the key at " + s.origin + ")"},
		{"show summary --workspace team", "Preset not found (in workspace team at " + s.origin + ")"},
		{"list --workspace absent", "(in workspace absent at " + s.origin + ")"},
		{"list --server ftp://x", "the server must be an origin, such as https://gateway.example.com"},
		{"list --status broken", "status: must be active, disabled, archived or all"},
		{"list extra", `unknown command "extra"`},
		{"show ..", "slug: must be 1 to 128 characters"},
		{"show summary --version 9", "Preset version not found"},
		{"show summary --version 0", "0 is no version: versions are numbered from 1"},
		{"show summary --version absent", "preset summary has no label absent"},
		{"show summary --version @", `"@" is neither the number of a version nor a label`},
		{"show email-copywriter --version canary", "label canary is a split of 2:90,3:10: name a version"},
		{"diff summary 1 9", "not found"},
		{"diff summary 1 /", `"/" is neither`},
		{"designate email-copywriter canary", "stands for a split and not for one version"},
		{"designate old 9", "not found"},
		{"label summary live 1", "preset summary is managed by files: change it there, or pass --override files"},
		{"label summary live 1 --override other", "preset summary is managed by files: change it there, or pass --override files"},
		{"label summary live 1 --override A", "--override: must be 1 to 64 of a-z"},
		{"label email-copywriter latest 1", "label: is reserved"},
		{"label email-copywriter live 2:x", `"2:x" is neither the number of a version nor a split such as 2:90,3:10`},
		{"label email-copywriter live 2:90,", "nor a split"},
		{"label email-copywriter live 2:10001", "a weight is at most 10000"},
		{"label email-copywriter live stable", "nor a split"},
		{"label email-copywriter live 9", "not found"},
		{"label email-copywriter live", "accepts 3 arg(s)"},
		{"label email-copywriter live 1 --delete", "accepts 2 arg(s)"},
		{"label email-copywriter absent --history", "not found"},
		{"label email-copywriter canary 2 --history", "accepts 2 arg(s)"},
		{"show email-copywriter@", `"email-copywriter@" names no version after the @`},
		{"show email-copywriter@9", "Preset version not found"},
		{"show email-copywriter@2 --version 2", "the version is named twice"},
		{"designate email-copywriter@2 3", "accepts 2 arg(s)"},
		{"archive email-copywriter@2", "archive takes no version: name the preset alone, as email-copywriter"},
		{"copy summary@1 --to-workspace team", "copy takes no version"},
		{"archive old", "Preset is disabled: set its status to active first, with: caddy presets enable old"},
		{"archive absent", "Preset not found (in the workspace of the key at " + s.origin + ")"},
		{"rename summary Sum", "preset summary is managed by files: change it there, or pass --override files"},
		{"rename old", "accepts 2 arg(s)"},
		{"disable ..", "slug: must be 1 to 128 characters"},
		{"preset restore absent", "Preset not found"},
		{"preset restore ..", "slug: must be 1 to 128 characters"},
		{"preset restored", `unknown command "restored" for "caddy presets preset"; --help lists the commands`},
		{"workspace create team", "slug"},
		{"workspace create Team", "slug"},
		{"workspace create x --key-file " + reader, "the key in " + reader + " may not do that: "},
		{"workspace list --key-file " + reader, "the key in " + reader + " may not do that: "},
		{"try old", "Preset not found"},
		{"try email-copywriter --var city=Rome", "/prompt"},
		{"try tour-guide --var city", "--var city must be name=value, once for each name"},
		{"try tour-guide --var city=a --var city=b", "--var city must be"},
		{"try tour-guide --var city=a --var other=b", "other"},
		{"copy summary", "at least one of the flags in the group [to-workspace to-server] is required"},
		{"copy summary --to-server http://x", "[to-server to-key-file]"},
		{"copy absent --to-workspace team", "Preset not found (in the workspace of the key"},
		{"copy summary --to-workspace absent", "(in workspace absent at " + s.origin + ")"},
		{"copy summary --to-workspace team --new-version", "Preset not found (in workspace team"},
		{"copy summary --to-server " + s.origin + " --to-workspace team --to-key-file " + wrong, "does not take the key in " + wrong},
	} {
		wantError(t, tc.want, words(tc.command)...)
	}
	t.Setenv("PRESETS_KEY", "")
	wantError(t, "there is no key: set PRESETS_KEY, or name a file with --key-file", "list")
	t.Setenv("PRESETS_KEY", "two "+caddytest.ManagementSecret)
	wantError(t, "PRESETS_KEY must have one key and nothing else", "list")
	t.Setenv("PRESETS_INFERENCE_KEY", "")
	wantError(t, "set PRESETS_INFERENCE_KEY, or name a file with --inference-key-file", "try", "summary")
	t.Setenv("PRESETS_INFERENCE_KEY", caddytest.ManagementSecret)
	wantError(t, "the key in PRESETS_INFERENCE_KEY may not do that", "try", "summary")
}

// TestKeyFromStandardInput gives the key on standard input.
func TestKeyFromStandardInput(t *testing.T) {
	s := start(t, nil)
	s.fill()
	t.Setenv("PRESETS_KEY", "")
	var out strings.Builder
	err := runTo(&out, io.Discard, strings.NewReader(caddytest.ManagementSecret+"\n"), "presets", "list", "--key-file", "-")
	if err != nil || !strings.Contains(out.String(), "email-copywriter") {
		t.Errorf("got %q, %v, want the presets", out.String(), err)
	}
	wantError(t, "--key-file and --to-key-file cannot both be standard input",
		"copy", "summary", "--key-file", "-", "--to-server", s.origin, "--to-key-file", "-")
}

// TestNoServer checks the errors of a server that is not there, or that is another one.
func TestNoServer(t *testing.T) {
	t.Setenv("PRESETS_KEY", caddytest.ManagementSecret)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// Accepted connections end at once.
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	origin := "http://" + listener.Addr().String()
	t.Setenv("PRESETS_INFERENCE_KEY", caddytest.InferenceSecret)
	wantError(t, origin, "show", "summary", "--server", origin)
	listener.Close()
	wantError(t, origin+" cannot be reached, and --server names another server", "show", "summary", "--server", origin)

	s := start(t, nil)
	response := ""
	s.before(func(w http.ResponseWriter, _ *http.Request) bool {
		_, _ = io.WriteString(w, response)
		return true
	})
	for text, want := range map[string]string{
		"<html>":                   "is not JSON: is " + s.origin + " the origin of the presets handler?",
		`{"data":[]}`:              "the answer has another form than expected",
		`{"data":{"slug":1}}`:      "the answer has another form than expected",
		`{"data":{"labels":"no"}}`: "the answer has another form than expected",
	} {
		response = text
		wantError(t, want, "show", "summary")
	}
	response = `{"data":{}}`
	wantError(t, "is no page", "list")
}

// TestRepeatedKey checks that an error of a server that repeats the key does not show it.
func TestRepeatedKey(t *testing.T) {
	s := start(t, nil)
	status := http.StatusUnauthorized
	s.before(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet && status == http.StatusBadGateway { // try reads the preset first
			_, _ = io.WriteString(w, `{"data":{"slug":"summary","designated_version":{"version":1,"dialect":"chat","config":{}}}}`)
			return true
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"error":{"message":"Incorrect API key provided: `+r.Header.Get("Authorization")+`"}}`)
		return true
	})
	dir := t.TempDir()
	check := func(args ...string) {
		t.Helper()
		out, errOut, err := run(args...)
		if err == nil || !strings.Contains(err.Error(), "Incorrect API key provided: Bearer …") || strings.Contains(out+errOut+err.Error(), "secret-of-the-tests") {
			t.Errorf("%v: got %q, %q, %v", args, out, errOut, err)
		}
	}
	caddytest.WriteFiles(t, dir, map[string]string{"default/mail.yaml": "chat: {}\n"})
	check("plan", dir)
	check("dump", dir)
	check("show", "summary")
	status = http.StatusBadGateway
	check("try", "summary", "--send", "--input", "x")
}
