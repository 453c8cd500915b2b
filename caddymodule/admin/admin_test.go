package caddymodule

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

type issued struct{ id, secret string }

// issue creates a key through the admin endpoint.
func (s *server) issue(body string) issued {
	s.t.Helper()
	r := send(s.t, "POST", "http://"+s.admin+"/presets/keys", body)
	r.want(s.t, 201)
	var k issuedKey
	if err := json.Unmarshal([]byte(r.body), &k); err != nil {
		s.t.Fatal(err)
	}
	return issued{k.ID, k.Secret}
}

func sha256Of(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func TestAdminEndpoint(t *testing.T) {
	s := start(t, standard)
	keys := "http://" + s.admin + "/presets/keys"
	team := s.manage("POST", "/v1/workspaces", minimalWorkspace).field(t, "id")
	k := s.issue(`{"kind":"inference","user_id":"ursula","workspace":"team","name":"ci","expires_in":"30d"}`)

	list := send(t, "GET", keys, "")
	list.want(t, 200, `"id":"`+k.id+`"`, `"kind":"inference"`, `"user_id":"ursula"`, `"workspace_id":"`+team+`"`, `"name":"ci"`, `"live":true`, `"revoked_at":null`, `"workspace_slug":"team"`, `"last_used_at":null`)
	if strings.Contains(list.body, k.secret) || strings.Contains(list.body, sha256Of(k.secret)) {
		t.Error("the list holds the secret or its hash")
	}
	for _, tc := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"POST", "", `{}`, 400, "/kind"},
		{"POST", "", `{"kind":"root"}`, 400, "/kind"},
		{"POST", "", `{"kind":"inference","workspace":"nowhere"}`, 404, "Workspace not found"},
		{"POST", "", `{"kind":"inference","expires_in":"-1h"}`, 400, "expires_in"},
		{"POST", "", `{"kind":"inference","expires_in":"0s"}`, 400, "expires_in"},
		{"POST", "", `{"kind":"inference","expires_in":"soon"}`, 400, "expires_in"},
		{"POST", "", `{"kind":"inference","owner":"x"}`, 400, "owner"},
		{"POST", "", `{"kind":"inference","name":"` + strings.Repeat("x", maxAdminBody) + `"}`, 400, "too large"},
		{"POST", "", ``, 400, "body"},
		{"PUT", "", ``, 405, "method not allowed"},
		{"GET", "/" + k.id, ``, 405, "method not allowed"},
		{"DELETE", "/nothing", ``, 404, "Key not found"},
		{"DELETE", "/", ``, 404, "resource not found"},
		{"DELETE", "/a/b", ``, 404, "resource not found"},
		{"GET", "x", ``, 404, "resource not found"},
		{"GET", "?store=nothing", ``, 404, s.folder},
	} {
		r := send(t, tc.method, keys+tc.path, tc.body)
		if r.status != tc.status || !strings.Contains(r.body, tc.says) {
			t.Errorf("%s %s %.80s: got %d %s, want %d %s", tc.method, tc.path, tc.body, r.status, r.body, tc.status, tc.says)
		}
	}
	for path, allow := range map[string]string{"": "GET, POST", "/" + k.id: "DELETE"} {
		if got := send(t, "PUT", keys+path, "").header.Get("Allow"); got != allow {
			t.Errorf("PUT %s: got Allow %q, want %q", path, got, allow)
		}
	}
	send(t, "DELETE", keys+"/"+k.id+"?store="+s.folder, "").want(t, 200, `"live":false`, `"revoked_at":"`)
}

// run runs the command as the shell would and returns what it prints.
func run(args ...string) (out, errOut string, err error) {
	var stdout, stderr bytes.Buffer
	cmd := &cobra.Command{SilenceUsage: true} // as Caddy's own
	addCommands(cmd)
	cmd.SetArgs(args)
	cmd.SetOut(&stdout)
	cmd.SetErr(&stderr)
	err = cmd.Execute()
	return stdout.String(), stderr.String(), err
}

func TestKeyCommand(t *testing.T) {
	s := start(t, standard)
	team := s.manage("POST", "/v1/workspaces", minimalWorkspace).field(t, "id")
	secret, note, err := run("key", "create", "--kind", "management", "--user", "ann", "--workspace", "team", "--name", "for the tests", "--expires", "1h", "--address", s.admin)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(secret, "\n") || strings.Count(secret, "\n") != 1 || !strings.HasPrefix(secret, "caddypresets_mgmt_") {
		t.Error("standard output is not the key alone on a line")
	}
	secret = strings.TrimSpace(secret)
	if strings.Contains(note, secret) || !strings.Contains(note, "Issued management key") || !strings.Contains(note, "expires 2") {
		t.Errorf("standard error says %q", note)
	}
	// row returns the one key's row of the table, without the id.
	row := func() string {
		t.Helper()
		out, _, err := run("key", "list", "--address", s.admin)
		lines := strings.Split(out, "\n")
		if err != nil || len(lines) != 3 || strings.Join(strings.Fields(lines[0]), " ") != "ID KIND STATE ENDS IN USER WORKSPACE CREATED EXPIRES LAST USED NAME" {
			t.Fatalf("list gives %q, %v", out, err)
		}
		_, row, _ := strings.Cut(strings.Join(strings.Fields(times.ReplaceAllString(lines[1], "<time>")), " "), " ")
		return row
	}
	hint := secret[len(secret)-4:]
	if got, want := row(), "management live "+hint+" ann team <time> <time> never for the tests"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	s.do("GET", "/v1/workspaces/team", "", bearer(secret)).want(t, 200)
	if want := "management live " + hint + " ann team <time> <time> <time> for the tests"; !s.eventually(func() bool { return row() == want }) {
		t.Errorf("got %q, want %q", row(), want)
	}

	out, _, err := run("key", "list", "--json", "--address", s.admin)
	var keys []issuedKey
	if err != nil || json.Unmarshal([]byte(out), &keys) != nil || len(keys) != 1 || keys[0].Name != "for the tests" || keys[0].WorkspaceID != team || keys[0].LastUsedAt == nil || keys[0].Secret != "" {
		t.Fatalf("list --json gives %q, %v", out, err)
	}
	if out, _, err := run("key", "list", "--address", s.admin); err != nil || !strings.Contains(out, keys[0].ID) || strings.Contains(out, secret) {
		t.Errorf("list gives %q, %v", out, err)
	}
	out, note, err = run("key", "revoke", keys[0].ID, "--address", s.admin)
	if err != nil || out != "" || !strings.Contains(note, "Revoked management key "+keys[0].ID) {
		t.Errorf("revoke gives %q and %q, %v", out, note, err)
	}
	s.do("GET", "/v1/workspaces/team", "", bearer(secret)).wantError(t, 401, "Invalid credentials")
	if got, want := row(), "management revoked "+hint+" ann team <time> <time> <time> for the tests"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	s.manage("DELETE", "/v1/workspaces/team", "").want(t, 200)
	if got, want := row(), "management revoked "+hint+" ann "+team+" <time> <time> <time> for the tests"; got != want {
		t.Errorf("got %q, want the id of the workspace that is gone: %q", got, want)
	}
	if secret, _, err := run("key", "create", "--kind", "inference", "--address", s.admin); err != nil {
		t.Error(err)
	} else if out, _, err := run("key", "list", "--address", s.admin); err != nil || !strings.Contains(out, secret[len(secret)-5:len(secret)-1]+"     -     default") {
		t.Errorf("list gives %q, %v, want a key of nobody in the default workspace", out, err)
	}
	for says, args := range map[string][]string{
		`required flag(s) "kind" not set`: {"create", "--address", s.admin},
		"/kind":                           {"create", "--kind", "root", "--address", s.admin},
		"Workspace not found":             {"create", "--kind", "inference", "--workspace", "nowhere", "--address", s.admin},
		"Key not found":                   {"revoke", "nothing", "--address", s.admin},
		"accepts 1 arg":                   {"revoke", "--address", s.admin},
		"performing request":              {"list", "--address", freeAddress(t)},
		"no live store":                   {"list", "--address", s.admin, "--store", "other"},
	} {
		if out, _, err := run(append([]string{"key"}, args...)...); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: got %q, %v, want an error with %q", args, out, err, says)
		}
	}
}

func TestSeveralStores(t *testing.T) {
	s := start(t, standard)
	second := freeAddress(t)
	folder := storeFolder(t)
	both := s.site(standard) + s.siteAt(second, fmt.Sprintf("presets {\nstorage badger %s\n%s\n}", folder, standard))
	if err := s.load(both); err != nil {
		t.Fatal(err)
	}
	if _, _, err := run("key", "list", "--address", s.admin); err == nil || !strings.Contains(err.Error(), folder) || !strings.Contains(err.Error(), s.folder) {
		t.Errorf("got %v, want an error that names both stores", err)
	}
	secret, _, err := run("key", "create", "--kind", "management", "--address", s.admin, "--store", folder)
	if err != nil {
		t.Fatal(err)
	}
	secret = strings.TrimSpace(secret)
	send(t, "GET", "http://"+second+"/v1/workspaces/default", "", bearer(secret)).want(t, 200)
	s.do("GET", "/v1/workspaces/default", "", bearer(secret)).want(t, 401)
	if err := s.load("http://127.0.0.1:" + strings.Split(second, ":")[1] + " {\nbind 127.0.0.1\nrespond ok\n}"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := run("key", "list", "--address", s.admin); err == nil || !strings.Contains(err.Error(), "no store is live") {
		t.Errorf("got %v, want an error that no store is live", err)
	}
}
