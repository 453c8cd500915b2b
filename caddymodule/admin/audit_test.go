package admin_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/admin"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

func (s *server) audit(query string) caddytest.Response {
	s.T.Helper()
	return s.Admin("GET", "/presets/audit"+query, "")
}

// trail returns a page of the audit trail.
func (s *server) trail(query string) (page admin.AuditPage) {
	s.T.Helper()
	r := s.audit(query)
	r.Want(s.T, 200)
	if err := json.Unmarshal([]byte(r.Body), &page); err != nil {
		s.T.Fatal(err)
	}
	return page
}

// appendAudit adds n records to the audit trail, directly through the store.
func (s *server) appendAudit(n int) {
	s.T.Helper()
	live := use()
	var wg sync.WaitGroup
	for writer := range 16 {
		wg.Go(func() {
			for i := writer; i < n; i += 16 {
				if _, _, err := live.Service.IssueKey(s.T.Context(), operator, domain.NewKey{Kind: domain.InferenceKey}); err != nil {
					s.T.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestAuditEndpoint(t *testing.T) {
	s := start(t, caddytest.Standard)
	workspace := s.Manage("POST", "/v1/workspaces", caddytest.Workspace)
	workspace.Want(t, 201)
	s.Manage("POST", "/v1/presets/writer/responses?workspace_id=team", `{"model":"m"}`).Want(t, 200)
	k := s.Issue(`{"kind":"inference","workspace":"team"}`)
	s.Admin("DELETE", "/presets/keys/"+k.ID, "").Want(t, 200)
	s.Admin("DELETE", "/presets/keys/"+k.ID, "").Want(t, 200) // changes nothing

	page := s.trail("")
	if len(page.Records) != 5 || page.Total != 5 || page.Head.Count != 5 {
		t.Fatalf("got %+v, want five records", page)
	}
	if head, err := domain.VerifyAudit(domain.AuditHead{}, page.Records); err != nil || head != page.Head {
		t.Errorf("the records lead to %+v, %v, want %+v", head, err, page.Head)
	}
	configured := page.Records[1].KeyID
	if configured == "" || page.Records[2].KeyID != configured {
		t.Errorf("got key ids %q and %q, want that of the one key", configured, page.Records[2].KeyID)
	}
	for i, want := range []struct{ operation, kind, id, user, key string }{
		{"workspace.create", "workspace", page.Records[0].Object.ID, "system", ""},
		{"workspace.create", "workspace", workspace.Field(t, "id"), "ann", configured},
		{"preset.create_version", "preset", page.Records[2].Object.ID, "ann", configured},
		{"key.create", "key", k.ID, "admin", ""},
		{"key.delete", "key", k.ID, "admin", ""},
	} {
		r := page.Records[i]
		if r.Operation != want.operation || r.Object.Kind != want.kind || r.Object.ID != want.id || r.UserID != want.user || r.KeyID != want.key {
			t.Errorf("record %d: got %+v, want %+v", i+1, r, want)
		}
		if of := want.key != ""; (r.RequestID != "") != of {
			t.Errorf("record %d: got request id %q, want one: %t", i+1, r.RequestID, of)
		}
	}

	for query, numbers := range map[string]string{
		"?after=0":                   "[1 2 3 4 5]",
		"?after=3":                   "[4 5]",
		"?after=5":                   "[]",
		"?after=99999999999":         "[]",
		"?limit=2":                   "[1 2]",
		"?after=1&limit=2":           "[2 3]",
		"?limit=1000":                "[1 2 3 4 5]",
		"?limit=1&store=" + s.Folder: "[1]",
	} {
		page := s.trail(query)
		got := []int{}
		for _, r := range page.Records {
			got = append(got, r.Number)
		}
		if fmt.Sprint(got) != numbers || page.Total != 5 || page.Head.Count != 5 {
			t.Errorf("%s: got records %v of %d, want %s of 5", query, got, page.Total, numbers)
		}
	}
	if r := s.audit("?after=5"); !strings.Contains(r.Body, `"records":[]`) {
		t.Errorf("got %s, want an empty list", r.Body)
	}
	for query, says := range map[string]string{
		"?limit=%":             "query: malformed",
		"?after=" + digits(30): "after",
		"?limit=0":             "limit: must be a number from 1 to 1000",
		"?limit=1001":          "limit: must be a number from 1 to 1000",
	} {
		if r := s.audit(query); r.Status != 400 || !strings.Contains(r.Body, says) {
			t.Errorf("%s: got %d %s, want 400 and %q", query, r.Status, r.Body, says)
		}
	}
	if got := s.trail(""); got.Head != page.Head {
		t.Error("reading the trail made it longer")
	}
}

func digits(n int) string { return strings.Repeat("9", n) }

// TestAuditLinesHashAsDocumented computes the hashes of the printed records as the help
// describes.
func TestAuditLinesHashAsDocumented(t *testing.T) {
	s := start(t, caddytest.Standard)
	s.Manage("POST", "/v1/workspaces", caddytest.Workspace).Want(t, 201)
	s.Manage("POST", "/v1/presets/a/responses", `{"model":"m"}`).Want(t, 200)
	s.Issue(`{"kind":"management","user_id":"ünï <&> \"code\"","name":"x"}`)
	out, _ := s.must("audit", "--json")
	last := regexp.MustCompile(`,"hash":"([0-9a-f]{64})"\}$`)
	previous := strings.Repeat("0", 64)
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	for i, line := range lines {
		found := last.FindStringSubmatch(line)
		if found == nil {
			t.Fatalf("line %d does not end with its hash: %s", i+1, line)
		}
		sum := sha256.Sum256([]byte(last.ReplaceAllString(line, "}")))
		if hex.EncodeToString(sum[:]) != found[1] {
			t.Errorf("line %d: got hash %s, its text gives %x", i+1, found[1], sum)
		}
		if !strings.Contains(line, `"previous":"`+previous+`"`) {
			t.Errorf("line %d does not name %s as its previous: %s", i+1, previous, line)
		}
		previous = found[1]
	}
	want := fmt.Sprintf("%d records, unbroken, head %s\n", len(lines), previous)
	if out, _, err := s.run("audit", "--verify"); err != nil || out != want {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
}

// numbersOf returns the numbers at the beginning of a table's lines.
func numbersOf(table string) (numbers []int) {
	for line := range strings.Lines(table) {
		if n, err := strconv.Atoi(strings.Fields(line)[0]); err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

func TestAuditCommand(t *testing.T) {
	tier.NoRace(t)
	s := start(t, caddytest.Standard)
	s.Manage("POST", "/v1/presets/writer/responses", `{"model":"m"}`).Want(t, 200)
	s.Manage("POST", "/v1/presets/writer/responses", `{"model":"m"}`).Want(t, 200)
	key := s.Issue(`{"kind":"inference"}`)
	out, _ := s.must("audit")
	for _, pattern := range []string{
		`^NUMBER +TIME +OPERATION +OBJECT +VERSION +USER +KEY +REQUEST\n`,
		`\n1 +\S+ +workspace\.create +default +- +system +- +-\n`,
		`\n2 +20\S+Z +preset\.create_version +writer +0 -> 1 +ann +\S+ +[0-9a-f-]{36}\n`,
		`\n3 +20\S+Z +preset\.create_version +writer +1 -> 2 +ann +\S+ +[0-9a-f-]{36}\n`,
		`\n4 +20\S+Z +key\.create +` + key.ID + ` +- +admin +- +-\n$`,
	} {
		if !regexp.MustCompile(pattern).MatchString(out) {
			t.Errorf("got\n%s\nwant it to match %s", out, pattern)
		}
	}

	const total = 2*domain.MaxAuditPage + 7
	s.appendAudit(total - 4)
	early := s.trail("?limit=3").Records[2].Hash
	for _, tc := range []struct {
		args        string
		first, last int
	}{
		{"", total - 49, total},
		{"--limit 1", total, total},
		{"--limit 1500", total - 1499, total},
		{"--limit 0", 1, total},
		{"--limit 99999", 1, total},
		{"--after 3", 4, 53},
		{"--after 3 --limit 2", 4, 5},
		{"--after 3 --limit 0", 4, total},
		{"--after 0 --limit 1", 1, 1},
		{"--json", 1, total},
		{"--json --limit 2", total - 1, total},
		{"--json --after 2000", 2001, total},
		{"--json --after 999 --limit 2", 1000, 1001},
	} {
		args := append(strings.Fields(tc.args), "--address", s.AdminAddress, "--store", s.Folder)
		out, _, err := run(append([]string{"audit"}, args...)...)
		var numbers []int
		if strings.Contains(tc.args, "--json") {
			for line := range strings.Lines(out) {
				var r domain.AuditRecord
				if err := json.Unmarshal([]byte(line), &r); err != nil {
					t.Fatal(err)
				}
				numbers = append(numbers, r.Number)
			}
		} else {
			numbers = numbersOf(out)
		}
		good := err == nil && len(numbers) == tc.last-tc.first+1
		for i, n := range numbers {
			good = good && n == tc.first+i
		}
		if !good {
			t.Errorf("%s: got %d records, %v, %v, want %d to %d", tc.args, len(numbers), numbers[:min(len(numbers), 3)], err, tc.first, tc.last)
		}
	}
	if out, _, err := run("audit", "--after", strconv.Itoa(total), "--address", s.AdminAddress); err != nil || strings.Count(out, "\n") != 1 {
		t.Errorf("behind the end: got %q, %v, want the table's head alone", out, err)
	}

	hash, _ := early.MarshalText()
	want := fmt.Sprintf("%d records, unbroken, head ", total)
	for _, args := range [][]string{{"--verify"}, {"--verify", "--head", string(hash)}, {"--head", string(hash)}, {"--head", strings.Repeat("0", 64)}} {
		if out, _, err := s.run(append([]string{"audit"}, args...)...); err != nil || !strings.HasPrefix(out, want) {
			t.Errorf("%v: got %q, %v, want %q", args, out, err, want)
		}
	}
	var head domain.AuditHead
	if out, _, err := run("audit", "--address", s.AdminAddress, "--verify", "--json"); err != nil || json.Unmarshal([]byte(out), &head) != nil || head.Count != total {
		t.Errorf("--verify --json: got %q, %v, want an object with the count %d", out, err, total)
	}
	s.refuses(map[string][]string{
		"no record has the hash":    {"--verify", "--head", strings.Repeat("1", 64)},
		"64 hexadecimal digits":     {"--head", "12"},
		"--head: encoding/hex":      {"--head", strings.Repeat("x", 64)},
		"[verify after]":            {"--verify", "--after", "1"},
		"[verify limit]":            {"--verify", "--limit", "1"},
		"[verify since]":            {"--verify", "--since", "1d"},
		"--since: must be":          {"--since", "yesterday"},
		"has no workspace absent":   {"--workspace", "absent"},
		"--preset takes no version": {"--preset", "mail@2"},
		"after: must be":            {"--after", "-1"},
		"unknown command":           {"all"},
	}, "audit")
}

// TestAuditWhileOthersWrite writes records during the command. The command shows the
// records that existed when it began.
func TestAuditWhileOthersWrite(t *testing.T) {
	s := start(t, caddytest.Standard)
	s.appendAudit(100)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				s.appendAudit(40)
			}
		}
	}()
	defer func() { close(stop); <-done }()
	least := 0
	for range 5 {
		before := s.trail("").Total
		out, _, err := s.run("audit", "--verify")
		n, _ := strconv.Atoi(strings.Fields(out + " -")[0])
		if err != nil || n < before || n < least {
			t.Fatalf("got %q, %v, want at least %d records", out, err, max(before, least))
		}
		least = n
		if out, _, err = s.run("audit"); err != nil || len(numbersOf(out)) != 50 {
			t.Fatalf("got %q, %v, want 50 records", out, err)
		}
	}
}

// startTampering starts a proxy of the admin endpoint that changes the audit trail.
func (s *server) startTampering(change func(*admin.AuditPage)) (address string) {
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: "127.0.0.1"})
			r.Out.Header.Del("Origin") // which Caddy would check
		},
		Transport: caddytest.Client(s.AdminAddress).Transport,
		ModifyResponse: func(response *http.Response) error {
			var page admin.AuditPage
			if err := json.NewDecoder(response.Body).Decode(&page); err != nil {
				return err
			}
			response.Body.Close()
			change(&page)
			body, err := json.Marshal(page)
			response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			response.Header.Set("Content-Length", strconv.Itoa(len(body)))
			return err
		},
	})
	s.T.Cleanup(proxy.Close)
	return proxy.Listener.Addr().String()
}

// TestAuditVerifyFindsTampering changes a record, and the ends of the trail. The domain's tests change
// each field of a record.
func TestAuditVerifyFindsTampering(t *testing.T) {
	s := start(t, caddytest.Standard)
	s.appendAudit(9)
	for _, tc := range []struct {
		name   string
		change func(*admin.AuditPage)
		says   string // empty: it verifies
	}{
		{"nothing", func(*admin.AuditPage) {}, ""},
		{"user", func(page *admin.AuditPage) { page.Records[len(page.Records)-1].UserID = "mallory" }, "audit record 10"},
		{"one left out", func(page *admin.AuditPage) {
			if len(page.Records) > 5 {
				page.Records = append(page.Records[:4], page.Records[5:]...)
			}
		}, "audit record 6 stands where number 5"},
		{"the end cut off", func(page *admin.AuditPage) { page.Records = page.Records[:min(len(page.Records), 7)] }, ""},
		{"no records", func(page *admin.AuditPage) { page.Records = nil }, "ends with record 0 and not with 10"},
		{"another head", func(page *admin.AuditPage) { page.Head.Hash[0]++ }, "the audit trail ends with a wrong record 10"},
		{"a longer head", func(page *admin.AuditPage) { page.Head.Count++ }, "ends with record 10 and not with 11"},
		{"a shorter head", func(page *admin.AuditPage) { page.Head.Count-- }, "the audit trail ends with a wrong record 9"},
	} {
		out, _, err := run("audit", "--verify", "--address", s.startTampering(tc.change))
		if tc.says == "" && (err != nil || !strings.HasPrefix(out, "10 records, unbroken")) {
			t.Errorf("%s: got %q, %v, want it to verify", tc.name, out, err)
		} else if tc.says != "" && (err == nil || out != "" || !strings.Contains(err.Error(), tc.says)) {
			t.Errorf("%s: got %q, %v, want an error with %q", tc.name, out, err, tc.says)
		}
	}
}

// TestAuditChoosesRecords filters the trail by workspace, preset and time.
func TestAuditChoosesRecords(t *testing.T) {
	s := start(t, caddytest.Standard)
	s.Manage("POST", "/v1/workspaces", caddytest.Workspace).Want(t, 201)
	for _, path := range []string{"mail", "chat", "mail?workspace_id=team", "mail"} {
		slug, query, _ := strings.Cut(path, "?")
		s.Manage("POST", "/v1/presets/"+slug+"/responses?"+query, `{"model":"m"}`).Want(t, 200)
	}
	s.Manage("PATCH", "/v1/workspaces/team", `{"slug":"crew"}`).Want(t, 200)
	rows := func(args ...string) string {
		t.Helper()
		out, _ := s.must(append([]string{"audit"}, args...)...)
		var all []string
		for line := range strings.Lines(out) {
			if fields := strings.Fields(line); fields[0] != "NUMBER" {
				all = append(all, fields[2]+" "+fields[3])
			}
		}
		return strings.Join(all, ", ")
	}
	const create, made = "workspace.create team", "preset.create_version mail"
	for _, tc := range []struct{ args, want string }{
		{"--preset mail", made + ", " + made + ", " + made},
		{"--preset @preset/mail --workspace team", made},
		{"--workspace team", create + ", " + made + ", workspace.update crew"},
		{"--workspace crew --since 1h", create + ", " + made + ", workspace.update crew"},
		{"--workspace crew --limit 2", made + ", workspace.update crew"},
		{"--workspace crew --limit 2 --after 0", create + ", " + made},
		{"--workspace default --preset chat --since 2026-01-01", "preset.create_version chat"},
		{"--preset mail --since 2100-01-01", ""},
		{"--preset mail --since 2100-01-01T00:00:00Z", ""},
	} {
		if got := rows(strings.Fields(tc.args)...); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.args, got, tc.want)
		}
	}
	if out, _ := s.must("audit", "--json", "--preset", "chat"); strings.Count(out, "\n") != 1 || !strings.HasPrefix(out, "{") {
		t.Errorf("got %q, want a line of JSON", out)
	}
}
