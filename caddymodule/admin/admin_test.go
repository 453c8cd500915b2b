package admin_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/admin"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

func sha256Of(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func TestAdminEndpoint(t *testing.T) {
	s := start(t, caddytest.Standard)
	const keys = "/presets/keys"
	team := s.Manage("POST", "/v1/workspaces", caddytest.Workspace).Field(t, "id")
	k := s.Issue(`{"kind":"inference","user_id":"ursula","workspace":"team","name":"ci","expires_in":"30d"}`)

	list := s.Admin("GET", keys, "")
	list.Want(t, 200, `"id":"`+k.ID+`"`, `"kind":"inference"`, `"user_id":"ursula"`, `"workspace_id":"`+team+`"`, `"name":"ci"`, `"live":true`, `"revoked_at":null`, `"workspace_slug":"team"`, `"last_used_at":null`)
	if strings.Contains(list.Body, k.Secret) || strings.Contains(list.Body, sha256Of(k.Secret)) {
		t.Error("the list holds the secret or its hash")
	}
	for _, tc := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"POST", "", `{"kind":"inference","workspace":"nowhere"}`, 404, "Workspace not found"},
		{"POST", "", `{"kind":"inference","name":"` + strings.Repeat("x", admin.MaxBody) + `"}`, 413, "the body must be at most 65536 bytes"},
		{"GET", "/" + k.ID, ``, 200, `"name":"ci"`},
		{"GET", "/nothing", ``, 404, "Key not found"},
		{"POST", "/" + k.ID + "/remove", ``, 409, "The key is live: revoke it first"},
		{"POST", "/nothing/remove", ``, 404, "Key not found"},
		{"POST", "/a/b/remove", ``, 404, "resource not found"},
		{"POST", "/" + k.ID + "/remove/", ``, 404, "resource not found"},
		{"DELETE", "/nothing", ``, 404, "Key not found"},
		{"DELETE", "/", ``, 404, "resource not found"},
		{"DELETE", "/a/b", ``, 404, "resource not found"},
		{"GET", "x", ``, 404, "resource not found"},
		{"GET", "?store=nothing", ``, 404, s.Folder},
	} {
		r := s.Admin(tc.method, keys+tc.path, tc.body)
		if r.Status != tc.status || !strings.Contains(r.Body, tc.says) {
			t.Errorf("%s %s %.80s: got %d %s, want %d %s", tc.method, tc.path, tc.body, r.Status, r.Body, tc.status, tc.says)
		}
	}
	s.Admin("DELETE", keys+"/"+k.ID+"?store="+s.Folder, "").Want(t, 200, `"live":false`, `"revoked_at":"`)
}

func TestKeyCommand(t *testing.T) {
	s := start(t, caddytest.Standard)
	team := s.Manage("POST", "/v1/workspaces", caddytest.Workspace).Field(t, "id")
	secret, note := s.must("key", "create", "--kind", "management", "--user", "ann", "--workspace", "team", "--name", "for the tests", "--expires", "1h")
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
		out, _, err := s.run("key", "list")
		lines := strings.Split(out, "\n")
		if err != nil || len(lines) != 3 || strings.Join(strings.Fields(lines[0]), " ") != "ID KIND STATE ENDS IN USER WORKSPACE CREATED EXPIRES LAST USED NAME LIMIT TODAY MONTH MAY" {
			t.Fatalf("list gives %q, %v", out, err)
		}
		_, row, _ := strings.Cut(strings.Join(strings.Fields(times.ReplaceAllString(lines[1], "<time>")), " "), " ")
		return row
	}
	const all = "manages all workspaces; cannot change what is protected"
	hint := secret[len(secret)-4:]
	if got, want := row(), "management live "+hint+" ann team <time> <time> never for the tests - - - "+all; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	s.Do("GET", "/v1/workspaces/team", "", caddytest.Bearer(secret)).Want(t, 200)
	if want := "management live " + hint + " ann team <time> <time> <time> for the tests - - - " + all; !wait.Eventually(func() bool { return row() == want }) {
		t.Errorf("got %q, want %q", row(), want)
	}

	out, _, err := s.run("key", "list", "--json")
	var keys []admin.IssuedKey
	if err != nil || json.Unmarshal([]byte(out), &keys) != nil || len(keys) != 1 || keys[0].Name != "for the tests" || keys[0].WorkspaceID != team || keys[0].LastUsedAt == nil || keys[0].Secret != "" {
		t.Fatalf("list --json gives %q, %v", out, err)
	}
	if out, _, err := s.run("key", "list"); err != nil || !strings.Contains(out, keys[0].ID) || strings.Contains(out, secret) {
		t.Errorf("list gives %q, %v", out, err)
	}
	for _, command := range []string{"show", "rotate", "revoke", "remove"} { // a key that leaked is at hand, and its id is not
		out, note, err := s.run("key", command, secret)
		if err == nil || !strings.Contains(err.Error(), "not the id of one") || strings.Contains(out+note+err.Error()+s.Logs(), secret) {
			t.Errorf("%s of a key gives %q, %q, %v, or shows it", command, out, note, err)
		}
	}
	out, note, err = s.run("key", "revoke", keys[0].ID)
	if err != nil || out != "" || !strings.Contains(note, "Revoked management key "+keys[0].ID) {
		t.Errorf("revoke gives %q and %q, %v", out, note, err)
	}
	s.Do("GET", "/v1/workspaces/team", "", caddytest.Bearer(secret)).WantError(t, 401, "Invalid credentials")
	if got, want := row(), "management revoked "+hint+" ann team <time> <time> <time> for the tests - - - "+all; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	s.Manage("DELETE", "/v1/workspaces/team", "").Want(t, 200)
	if got, want := row(), "management revoked "+hint+" ann "+team+" <time> <time> <time> for the tests - - - "+all; got != want {
		t.Errorf("got %q, want the id of the workspace that is gone: %q", got, want)
	}
	if secret, _, err := s.run("key", "create", "--kind", "inference"); err != nil {
		t.Error(err)
	} else if out, _, err := s.run("key", "list"); err != nil || !strings.Contains(out, secret[len(secret)-5:len(secret)-1]+"     -     default") {
		t.Errorf("list gives %q, %v, want a key without a user in the default workspace", out, err)
	}
	refuses(t, map[string][]string{
		"--kind or --like is needed":   {"create", "--address", s.AdminAddress},
		"accepts 1 arg":                {"revoke", "--address", s.AdminAddress},
		"cannot be reached; --address": {"list", "--address", caddytest.Address(t)},
	}, "key")
}

// TestLimitedKeyCommand issues keys with all limits, and lists them.
func TestLimitedKeyCommand(t *testing.T) {
	s := start(t, caddytest.Standard)
	s.Manage("POST", "/v1/workspaces", caddytest.Workspace).Want(t, 201)
	create := func(args ...string) string {
		t.Helper()
		secret, _ := s.must(append([]string{"key", "create"}, args...)...)
		return caddytest.Bearer(strings.TrimSpace(secret))
	}
	presets := create("--kind", "inference", "--preset", "a", "--preset", "@preset/b", "--preset-required", "--model", "openai/*", "--model", "x/y:free")
	team := create("--kind", "management", "--workspace", "team", "--only-workspace", "--may", "protected-labels")
	s.Do("GET", "/v1/workspaces/team", "", team).Want(t, 200)
	s.Do("GET", "/v1/workspaces/default", "", team).WantError(t, 404, "Workspace not found")
	s.Manage("POST", "/v1/presets/c/responses", `{}`).Want(t, 200)
	s.Do("GET", "/v1/presets/c", "", presets).WantError(t, 404, "Preset not found")
	out, _, err := s.run("key", "list")
	if err != nil || !strings.Contains(out, "  reads presets, runs models; presets a, b only; every request names a preset; names models openai/*, x/y:free only") || !strings.Contains(out, "  manages workspace team only; changes what is protected") {
		t.Errorf("list gives %q, %v", out, err)
	}
	out, _, err = s.run("key", "list", "--json")
	if err != nil || !strings.Contains(out, `"presets":["a","b"],"preset_required":true,"models":["openai/*","x/y:free"]`) || !strings.Contains(out, `"only_workspace":true,"may":["protected-labels"]`) {
		t.Errorf("list --json gives %q, %v", out, err)
	}
	s.refuses(map[string][]string{
		"/preset_required: is for inference keys only":  {"--kind", "management", "--preset-required"},
		"/only_workspace: is for management keys only":  {"--kind", "inference", "--only-workspace"},
		"/may/0: must be one of protected-labels":       {"--kind", "management", "--may", "everything"},
		"--preset takes no version: name the preset":    {"--kind", "inference", "--preset", "a@2"},
		"/presets/1: is in the list already":            {"--kind", "inference", "--preset", "a", "--preset", "a"},
		"/models/0: must have 1 to 256 printable ASCII": {"--kind", "inference", "--model", "a b"},
	}, "key", "create")
}

// TestKeyUsage checks what lists say of limits and spending. The upstream does not tell its usage, so requests count as
// their estimate.
func TestKeyUsage(t *testing.T) {
	s := start(t, caddytest.Standard+"\ninference {\nusage {\nprice acme/small {\ninput 0\noutput 10\n}\n}\n}")
	s.must("key", "create", "--kind", "management")
	s.must("key", "create", "--limit", "0.0001234", "--rpm", "60", "--name", "unused")
	secret, _ := s.must("key", "create", "--limit", "2.5", "--reset", "weekly", "--name", "used")
	s.Do("POST", "/v1/chat/completions", `{"model":"acme/small","max_tokens":123456,"messages":[]}`, caddytest.Bearer(strings.TrimSpace(secret))).Want(t, 202)
	list := func() (rows []string) {
		out, _ := s.must("key", "list")
		for line := range strings.Lines(out) {
			_, shown, _ := strings.Cut(times.ReplaceAllString(line, "<time>"), "default  ")
			rows = append(rows, strings.Join(strings.Fields(shown), " "))
		}
		return rows
	}
	want := []string{
		"",
		"<time> never never - - - - manages all workspaces; cannot change what is protected",
		"<time> never never unused $0.0001234, $0.0001234 left $0 $0 reads presets, runs models; 60 requests a minute at most",
		"<time> never <time> used $2.5 weekly, $1.27 left $1.23 $1.23 reads presets, runs models",
	}
	if !wait.Eventually(func() bool { return slices.Equal(list(), want) }) { // the last use is stored in the background
		t.Errorf("got %q, want %q", list(), want)
	}
}

// TestKeyLikeAnother issues a key with limits in what it spends, and others like it.
func TestKeyLikeAnother(t *testing.T) {
	s := start(t, caddytest.Standard)
	s.Manage("POST", "/v1/workspaces", caddytest.Workspace).Want(t, 201)
	list := func() (keys []admin.IssuedKey) {
		t.Helper()
		out, _ := s.must("key", "list", "--json")
		if err := json.Unmarshal([]byte(out), &keys); err != nil {
			t.Fatal(err)
		}
		return keys
	}
	s.must("key", "create", "--kind", "inference", "--user", "ann", "--name", "first", "--workspace", "team", "--preset", "p", "--limit", "50.5", "--reset", "monthly",
		"--rpm", "60", "--tpm", "1000", "--rpd", "2", "--tpd", "3", "--concurrent", "4")
	first := list()[0]
	s.must("key", "create", "--like", first.ID)
	if s.must("key", "create", "--limit", "50", "--reset", "monthly", "--rpm", "60"); list()[2].Kind != domain.InferenceKey {
		t.Error("a limit does not make an inference key")
	}
	s.must("key", "revoke", list()[2].ID)
	s.must("key", "remove", list()[2].ID)
	s.must("key", "create", "--like", first.ID, "--name", "other", "--limit", "0", "--rpm", "1", "--preset", "q")
	keys := list()
	want := first
	want.ID, want.Name, want.UserID, want.Hint, want.CreatedAt = keys[1].ID, "", "", keys[1].Hint, keys[1].CreatedAt
	if !reflect.DeepEqual(keys[1], want) {
		t.Errorf("got %+v, want %+v", keys[1], want)
	}
	limits := domain.Limits{RequestsPerMinute: 1, TokensPerMinute: 1000, RequestsPerDay: 2, TokensPerDay: 3, Concurrent: 4}
	if k := keys[2]; k.Name != "other" || *k.Limit != 0 || k.LimitReset != domain.Monthly || *k.Limits != limits || !slices.Equal(k.Presets, []string{"q"}) {
		t.Errorf("got %+v, want the options before the other key's", k)
	}
	out, _ := s.must("key", "show", first.ID)
	for _, part := range []string{"$50.5 monthly", "60 requests a minute at most", "1000 tokens a minute at most", "2 requests a day at most", "3 tokens a day at most", "4 requests at once at most"} {
		if !strings.Contains(out, part) {
			t.Errorf("show gives %s, want %q in it", out, part)
		}
	}
	s.refuses(map[string][]string{
		"/limit: is for inference keys only":     {"--kind", "management", "--limit", "1"},
		"/limit_reset: must be":                  {"--kind", "inference", "--reset", "hourly"},
		"--rpm must be an integer from 1 to":     {"--kind", "inference", "--rpm", "-1"},
		"--tpd must be an integer from 1 to":     {"--kind", "inference", "--tpd", "0"},
		"/limit: must be at least 0":             {"--limit", "-1"},
		"Key not found":                          {"--like", "absent"},
		"not the id of one":                      {"--like", "caddypresets_inf_x"},
		"/presets: is for inference keys only; ": {"--like", first.ID, "--kind", "management"},
	}, "key", "create")
}

// TestRotateKeyCommand gives a key other secrets.
func TestRotateKeyCommand(t *testing.T) {
	s := start(t, caddytest.Standard)
	secret, note := s.must("key", "create", "--kind", "management")
	secret = strings.TrimSpace(secret)
	id := strings.Fields(note)[3]
	id = strings.TrimSuffix(id, ",")
	status := func(secret string) int {
		return s.Do("GET", "/v1/workspaces", "", caddytest.Bearer(secret)).Status
	}
	next, note := s.must("key", "rotate", id, "--grace", "1h")
	if next = strings.TrimSpace(next); !strings.HasPrefix(next, "caddypresets_mgmt_") || !strings.Contains(note, "whose former secret works until 20") || strings.Contains(note, next) {
		t.Errorf("got a note %q", note)
	}
	if got := []int{status(secret), status(next)}; !slices.Equal(got, []int{200, 200}) {
		t.Errorf("got %v within the grace, want 200", got)
	}
	last, note := s.must("key", "rotate", id)
	if got := []int{status(secret), status(next), status(strings.TrimSpace(last))}; !slices.Equal(got, []int{401, 401, 200}) || !strings.Contains(note, "whose former secret ended") {
		t.Errorf("got %v and %q, want the last secret alone to work", got, note)
	}
	s.refuses(map[string][]string{
		"grace: must be a duration": {id, "--grace", "999999999d"},
		"grace: must be from 0":     {id, "--grace", "721h"},
		"Key not found":             {"absent"},
	}, "key", "rotate")
}

func TestSeveralStores(t *testing.T) {
	s := start(t, caddytest.Standard)
	second := caddytest.Address(t)
	folder := caddytest.Folder(t)
	both := s.Site(caddytest.Standard) + s.SiteAt(second, fmt.Sprintf("presets {\nstorage badger %s\n%s\n}", folder, caddytest.Standard))
	if err := s.Load(both); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.run("key", "list"); err == nil || !strings.Contains(err.Error(), folder) || !strings.Contains(err.Error(), s.Folder) {
		t.Errorf("got %v, want an error that names both stores", err)
	}
	secret, _ := s.must("key", "create", "--kind", "management", "--store", folder)
	secret = strings.TrimSpace(secret)
	caddytest.Send(t, second, "GET", "/v1/workspaces/default", "", caddytest.Bearer(secret)).Want(t, 200)
	s.Do("GET", "/v1/workspaces/default", "", caddytest.Bearer(secret)).Want(t, 401)
	if err := s.Load(s.SiteAt(second, "")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.run("key", "list"); err == nil || !strings.Contains(err.Error(), "no store is live") {
		t.Errorf("got %v, want an error that no store is live", err)
	}
}
