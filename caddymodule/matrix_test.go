package caddymodule

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// cell is a request of the matrix, with its status for a key that permits it. In path and
// body, {p} is the slug of a preset with two versions, the labels one and both, and an input {i}. {w} is
// the slug of a workspace, {k} the hash of a key, and {n} a number unique to the cell.
type cell struct {
	path, body string
	status     int
}

// row is the matrix's entry for one route.
type row struct {
	may    string // anyone, management, creators or issuers
	exists cell
	// missing names objects that do not exist, one each.
	missing []cell
	// archived reports that {p} is archived.
	archived bool
}

// matrix has a row for each route, by its method and path.
var matrix = map[string]row{
	"GET presets":                                      {"anyone", cell{"presets", "", 200}, []cell{{"presets?offset=1000", "", 200}}, false},
	"GET presets/-/state":                              {"management", cell{"presets/-/state", "", 200}, nil, false},
	"GET presets/{slug}":                               {"anyone", cell{"presets/{p}", "", 200}, []cell{{"presets/absent", "", 404}}, false},
	"PATCH presets/{slug}":                             {"management", cell{"presets/{p}", `{"name":"Name {n}"}`, 200}, []cell{{"presets/absent", `{"name":"n"}`, 404}, {"presets/absent", `{"policy":{"lock":["tools"]}}`, 404}, {"presets/{p}", `{"limits":{"tokens_per_day":1{n}}}`, 200}}, false},
	"DELETE presets/{slug}":                            {"management", cell{"presets/{p}", "", 200}, []cell{{"presets/absent", "", 404}}, false},
	"POST presets/{slug}/restore":                      {"management", cell{"presets/{p}/restore", "", 200}, []cell{{"presets/absent/restore", "", 404}}, true},
	"POST presets/{slug}/responses":                    {"creators", cell{"presets/{p}/responses", `{"top_k":{n}}`, 200}, []cell{{"presets/r-{n}/responses", `{}`, 200}, {"presets/absent/responses?designate=false", `{}`, 409}}, false},
	"POST presets/{slug}/chat/completions":             {"creators", cell{"presets/{p}/chat/completions", `{"top_k":{n}}`, 200}, []cell{{"presets/c-{n}/chat/completions", `{}`, 200}}, false},
	"POST presets/{slug}/messages":                     {"creators", cell{"presets/{p}/messages", `{"top_k":{n}}`, 200}, []cell{{"presets/m-{n}/messages", `{}`, 200}}, false},
	"POST presets/{slug}/try":                          {"management", cell{"presets/{p}/try", `{"dialect":"chat","version":{},"request":{}}`, 404}, []cell{{"presets/absent/try", `{"dialect":"chat","version":{},"request":{}}`, 404}}, false}, // there is no inference block
	"POST presets/{slug}/designate":                    {"management", cell{"presets/{p}/designate", `{"version":1}`, 200}, []cell{{"presets/absent/designate", `{"version":1}`, 404}, {"presets/{p}/designate", `{"version":9}`, 404}, {"presets/{p}/designate", `{"label":"absent"}`, 404}}, false},
	"GET presets/{slug}/diff":                          {"anyone", cell{"presets/{p}/diff?from=1&to=one", "", 200}, []cell{{"presets/absent/diff?from=1&to=1", "", 404}, {"presets/{p}/diff?from=1&to=9", "", 404}, {"presets/{p}/diff?from=absent&to=1", "", 404}}, false},
	"GET presets/{slug}/history":                       {"management", cell{"presets/{p}/history", "", 200}, []cell{{"presets/absent/history", "", 404}}, false},
	"GET presets/{slug}/usage":                         {"anyone", cell{"presets/{p}/usage", "", 200}, []cell{{"presets/absent/usage", "", 404}}, false},
	"POST presets/{slug}/feedback":                     {"anyone", cell{"presets/{p}/feedback", `{"session_id":"s","score":1}`, 409}, []cell{{"presets/absent/feedback", `{"session_id":"s","score":1}`, 404}}, false}, // usage is not measured
	"GET presets/{slug}/inputs":                        {"anyone", cell{"presets/{p}/inputs", "", 200}, []cell{{"presets/absent/inputs", "", 404}}, false},
	"POST presets/{slug}/inputs":                       {"management", cell{"presets/{p}/inputs", `{"name":"n{n}","dialect":"chat"}`, 201}, []cell{{"presets/absent/inputs", `{"name":"n","dialect":"chat"}`, 404}}, false},
	"GET presets/{slug}/inputs/{input}":                {"anyone", cell{"presets/{p}/inputs/{i}", "", 200}, []cell{{"presets/absent/inputs/{i}", "", 404}, {"presets/{p}/inputs/absent", "", 404}}, false},
	"PATCH presets/{slug}/inputs/{input}":              {"management", cell{"presets/{p}/inputs/{i}", `{"name":"m{n}"}`, 200}, []cell{{"presets/absent/inputs/{i}", `{"name":"m"}`, 404}, {"presets/{p}/inputs/absent", `{"name":"m"}`, 404}}, false},
	"DELETE presets/{slug}/inputs/{input}":             {"management", cell{"presets/{p}/inputs/{i}", "", 200}, []cell{{"presets/absent/inputs/{i}", "", 404}, {"presets/{p}/inputs/absent", "", 404}}, false},
	"GET presets/{slug}/versions":                      {"anyone", cell{"presets/{p}/versions", "", 200}, []cell{{"presets/absent/versions", "", 404}}, false},
	"GET presets/{slug}/versions/{version}":            {"anyone", cell{"presets/{p}/versions/1", "", 200}, []cell{{"presets/absent/versions/1", "", 404}, {"presets/{p}/versions/9", "", 404}}, false},
	"GET presets/{slug}/labels/{label}":                {"anyone", cell{"presets/{p}/labels/one", "", 200}, []cell{{"presets/absent/labels/one", "", 404}, {"presets/{p}/labels/absent", "", 404}}, false},
	"PUT presets/{slug}/labels/{label}":                {"management", cell{"presets/{p}/labels/one", `{"version":2}`, 200}, []cell{{"presets/absent/labels/one", `{"version":1}`, 404}, {"presets/{p}/labels/one", `{"version":9}`, 404}, {"presets/{p}/labels/new-{n}", `{"version":1}`, 200}}, false},
	"DELETE presets/{slug}/labels/{label}":             {"management", cell{"presets/{p}/labels/one", "", 200}, []cell{{"presets/absent/labels/one", "", 404}, {"presets/{p}/labels/absent", "", 404}}, false},
	"GET workspaces":                                   {"management", cell{"workspaces", "", 200}, []cell{{"workspaces?offset=1000", "", 200}}, false},
	"POST workspaces":                                  {"management", cell{"workspaces", `{"name":"taken","slug":"{w}"}`, 400}, []cell{{"workspaces", `{"name":"n","slug":"new-{n}"}`, 201}}, false},
	"GET workspaces/{workspace}":                       {"management", cell{"workspaces/{w}", "", 200}, []cell{{"workspaces/absent", "", 404}}, false},
	"PATCH workspaces/{workspace}":                     {"management", cell{"workspaces/{w}", `{"name":"Name {n}"}`, 200}, []cell{{"workspaces/absent", `{"name":"n"}`, 404}, {"workspaces/default", `{"limits":{"concurrent":1{n}}}`, 200}}, false},
	"GET workspaces/{workspace}/history":               {"management", cell{"workspaces/{w}/history", "", 200}, []cell{{"workspaces/absent/history", "", 404}}, false},
	"GET workspaces/{workspace}/usage":                 {"management", cell{"workspaces/{w}/usage", "", 200}, []cell{{"workspaces/absent/usage", "", 404}}, false},
	"GET workspaces/{workspace}/budgets":               {"management", cell{"workspaces/{w}/budgets", "", 200}, []cell{{"workspaces/absent/budgets", "", 404}}, false},
	"GET workspaces/{workspace}/budgets/{interval}":    {"management", cell{"workspaces/{w}/budgets/weekly", "", 200}, []cell{{"workspaces/absent/budgets/weekly", "", 404}}, false},
	"PUT workspaces/{workspace}/budgets/{interval}":    {"management", cell{"workspaces/{w}/budgets/weekly", `{"limit_usd":1{n}}`, 200}, []cell{{"workspaces/absent/budgets/weekly", `{"limit_usd":1}`, 404}, {"workspaces/default/budgets/weekly", `{"limit_usd":1{n}}`, 200}}, false},
	"DELETE workspaces/{workspace}/budgets/{interval}": {"management", cell{"workspaces/{w}/budgets/weekly", "", 200}, []cell{{"workspaces/absent/budgets/weekly", "", 404}, {"workspaces/default/budgets/daily", "", 200}}, false},
	"DELETE workspaces/{workspace}":                    {"management", cell{"workspaces/{w}", "", 200}, []cell{{"workspaces/absent", "", 404}}, false},
	"GET key":                                          {"anyone", cell{"key", "", 200}, nil, false},
	"GET keys":                                         {"issuers", cell{"keys", "", 200}, []cell{{"keys?workspace_id=absent", "", 404}, {"keys?workspace_id=default", "", 200}}, false},
	"POST keys":                                        {"issuers", cell{"keys", `{"name":"n"}`, 201}, []cell{{"keys", `{"name":"n","workspace_id":"absent"}`, 404}, {"keys", `{"name":"n","workspace_id":"default"}`, 201}}, false},
	"GET keys/{hash}":                                  {"issuers", cell{"keys/{k}", "", 200}, []cell{{"keys/absent", "", 404}, {"keys/{m}", "", 404}}, false},
	"PATCH keys/{hash}":                                {"issuers", cell{"keys/{k}", `{"name":"Name {n}"}`, 200}, []cell{{"keys/absent", `{"disabled":true}`, 404}, {"keys/{m}", `{"disabled":true}`, 404}}, false},
	"DELETE keys/{hash}":                               {"issuers", cell{"keys/{k}", "", 200}, []cell{{"keys/absent", "", 404}, {"keys/{m}", "", 404}}, false},
	"POST keys/{hash}/rotate":                          {"issuers", cell{"keys/{k}/rotate", "", 200}, []cell{{"keys/absent/rotate", `{"grace":"1h"}`, 404}, {"keys/{m}/rotate", "", 404}}, false},
}

// isOfKeys reports whether a path is one of keys, which have neither entity tags nor replays.
func isOfKeys(path string) bool { return strings.HasPrefix(path, "key") }

// methods are tested on every path.
var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"}

// caller is a way to authenticate, with its status for every route, or 0.
type caller struct {
	name    string
	headers []string
	status  int
	message string
	// management reports a management key, and issuing one that may issue keys. outside reports
	// a key of another workspace than the objects'.
	management, issuing, outside bool
	// limited reports an inference key with limits, blind one that does not reach the
	// objects. onlyWorkspace reports a management key of one workspace, which is that of
	// the objects unless it is blind.
	limited, blind, onlyWorkspace bool
}

// callers returns one caller of each kind. Keys that are limited to presets reach kept, or
// none that exists.
func (s *server) callers(kept string) []caller {
	management := s.issue(`{"kind":"management","user_id":"mia"}`)
	inference := s.issue(`{"kind":"inference"}`)
	outsider := s.issue(`{"kind":"inference","workspace":"elsewhere"}`)
	revoked := s.issue(`{"kind":"management"}`)
	send(s.t, "DELETE", "http://"+s.admin+"/presets/keys/"+revoked.id, "").want(s.t, 200, `"revoked_at":"`)
	expired := s.issue(`{"kind":"management","expires_in":"1ms"}`)
	if !s.eventually(func() bool { return s.do("GET", "/v1/workspaces", "", bearer(expired.secret)).status == 401 }) {
		s.t.Fatal("the key does not expire")
	}
	limited := func(name string, who caller, body string) caller {
		who.name, who.headers = name, []string{bearer(s.issue(body).secret)}
		return who
	}
	const missing, invalid = "Missing Authentication header", "Invalid credentials"
	return []caller{
		{name: "nothing", status: 401, message: missing},
		{name: "another header", headers: []string{"X-Api-Key: " + managementSecret}, status: 401, message: missing},
		{name: "malformed", headers: []string{"Authorization: " + managementSecret}, status: 401, message: invalid},
		{name: "another scheme", headers: []string{"Authorization: Basic " + managementSecret}, status: 401, message: invalid},
		{name: "unknown", headers: []string{bearer("another-secret-of-the-tests")}, status: 401, message: invalid},
		{name: "revoked", headers: []string{bearer(revoked.secret)}, status: 401, message: invalid},
		{name: "expired", headers: []string{bearer(expired.secret)}, status: 401, message: invalid},
		{name: "two headers", headers: []string{bearer(managementSecret), bearer(managementSecret)}, status: 400, message: "Invalid request parameters: authorization: given more than once"},
		{name: "configured inference", headers: []string{bearer(inferenceSecret)}},
		{name: "issued inference", headers: []string{bearer(inference.secret)}},
		{name: "inference of another workspace", headers: []string{bearer(outsider.secret)}, outside: true},
		{name: "configured management", headers: []string{bearer(managementSecret)}, management: true, issuing: true},
		{name: "issued management", headers: []string{bearer(management.secret)}, management: true},
		limited("inference of the presets", caller{limited: true}, `{"kind":"inference","presets":["`+kept+`"],"preset_required":true}`),
		limited("inference of other presets", caller{limited: true, blind: true}, `{"kind":"inference","presets":["others"]}`),
		limited("inference of some models", caller{limited: true}, `{"kind":"inference","models":["openai/*"]}`),
		limited("management of this workspace", caller{management: true, onlyWorkspace: true}, `{"kind":"management","only_workspace":true}`),
		limited("management of another workspace", caller{management: true, onlyWorkspace: true, blind: true}, `{"kind":"management","only_workspace":true,"workspace":"elsewhere"}`),
		limited("management with a right", caller{management: true}, `{"kind":"management","may":["protected-labels"]}`),
		limited("management that issues keys", caller{management: true, issuing: true}, `{"kind":"management","may":["issue-keys"]}`),
		limited("management that issues keys of this workspace", caller{management: true, issuing: true, onlyWorkspace: true}, `{"kind":"management","only_workspace":true,"may":["issue-keys"]}`),
		limited("management that issues keys of another workspace", caller{management: true, issuing: true, onlyWorkspace: true, blind: true}, `{"kind":"management","only_workspace":true,"workspace":"elsewhere","may":["issue-keys"]}`),
	}
}

// wants returns the status of a cell by the rules, independently of the code.
func wants(who caller, creators string, r row, c cell) int {
	path, query, _ := strings.Cut(c.path, "?")
	switch {
	case who.status != 0:
		return who.status
	case r.may == "management" && !who.management, r.may == "issuers" && !who.issuing, r.may == "creators" && (creators == "management" || who.limited) && !who.management:
		return http.StatusForbidden
	case who.blind && (strings.Contains(path, "{k}") || r.may == "issuers" && strings.Contains(query+c.body, "default")):
		return http.StatusNotFound
	case who.onlyWorkspace && (r.exists.path == "workspaces" && r.exists.body != "" || r.exists.path == "presets/-/state"):
		return http.StatusForbidden // a new workspace
	case who.onlyWorkspace && !who.blind && strings.HasPrefix(path, "workspaces/default") && (strings.Contains(c.body, "limits") || strings.Contains(path, "/budgets/")):
		return http.StatusForbidden // what bounds its own team
	case who.onlyWorkspace && !who.blind && !who.issuing && strings.Contains(c.body, "limits"):
		return http.StatusForbidden // what bounds keys
	case who.onlyWorkspace && (strings.Contains(path, "{w}") || who.blind && strings.HasPrefix(path, "workspaces/default")):
		return http.StatusNotFound
	case who.onlyWorkspace && who.blind && strings.Contains(query, "workspace_id=default"):
		return http.StatusNotFound
	case who.onlyWorkspace && who.blind && r.may == "creators" && strings.HasPrefix(path, "presets/{p}") && !strings.Contains(query, "workspace_id"):
		return c.status // makes a preset of its own
	case who.blind && r.may != "creators" && strings.Contains(path, "{p}") && !strings.Contains(query, "workspace_id=absent"):
		return http.StatusNotFound
	case strings.Contains(query, "workspace_id=absent") && !who.management, strings.Contains(query, "workspace_id=default") && who.outside:
		return http.StatusForbidden // whether or not it exists
	case strings.Contains(query, "workspace_id=absent"):
		return http.StatusNotFound
	case who.outside && r.may == "anyone" && strings.Contains(c.path, "{p}"):
		return http.StatusNotFound
	default:
		return c.status
	}
}

// fixtures creates the objects that cells name.
type fixtures struct {
	s       *server
	n       int
	changes int    // of all cells so far
	manager string // the hash of a management key
	hash    string // of the key of the next cells
}

// fill replaces the names in text by objects.
func (f *fixtures) fill(text, preset, workspace string) string {
	if strings.Contains(text, "{i}") {
		text = strings.ReplaceAll(text, "{i}", f.s.inputOf(preset))
	}
	return strings.NewReplacer("{p}", preset, "{w}", workspace, "{k}", f.hash, "{m}", f.manager, "{n}", fmt.Sprint(f.n)).Replace(text)
}

// key makes an inference key and returns its hash.
func (f *fixtures) key() string {
	f.s.t.Helper()
	f.changes++
	hash, _ := f.s.createKey(managementSecret, `{"name":"kept"}`).Hash.MarshalText()
	return string(hash)
}

// preset makes a preset of two versions and two labels and returns its slug.
func (f *fixtures) preset(archived bool) string {
	f.s.t.Helper()
	f.n++
	slug := fmt.Sprintf("preset-%d", f.n)
	path := "/v1/presets/" + slug
	f.s.manage("POST", path+"/responses", `{"instructions":"a"}`).want(f.s.t, 200)
	f.s.manage("POST", path+"/responses", `{"top_k":1}`).want(f.s.t, 200)
	f.s.manage("PUT", path+"/labels/one", `{"version":1}`).want(f.s.t, 200)
	f.s.manage("PUT", path+"/labels/both", `{"split":[{"version":1,"weight":1},{"version":2,"weight":3}]}`).want(f.s.t, 200)
	f.s.manage("POST", path+"/inputs", `{"name":"i","dialect":"chat"}`).want(f.s.t, 201)
	f.changes += 5
	if archived {
		f.s.manage("DELETE", path, "").want(f.s.t, 200)
		f.changes++
	}
	return slug
}

// inputOf returns the id of the first saved input of a preset, and a word without one.
func (s *server) inputOf(slug string) string {
	s.t.Helper()
	var list struct{ Data []struct{ ID string } }
	r := s.manage("GET", "/v1/presets/"+slug+"/inputs", "")
	if err := json.Unmarshal([]byte(r.body), &list); err != nil {
		s.t.Fatalf("%s: got %d %s", slug, r.status, r.body)
	}
	if len(list.Data) == 0 {
		return "absent"
	}
	return list.Data[0].ID
}

func (f *fixtures) workspace() string {
	f.s.t.Helper()
	f.n++
	slug := fmt.Sprintf("workspace-%d", f.n)
	f.s.manage("POST", "/v1/workspaces", fmt.Sprintf(`{"name":"n","slug":%q}`, slug)).want(f.s.t, 201)
	f.s.manage("PUT", "/v1/workspaces/"+slug+"/budgets/weekly", `{"limit_usd":1000000}`).want(f.s.t, 200)
	f.changes += 2
	return slug
}

// changesRecorded returns how many records the audit trail has.
func (s *server) changesRecorded() int {
	s.t.Helper()
	var page struct {
		Total int `json:"total_count"`
	}
	r := send(s.t, "GET", "http://"+s.admin+"/presets/audit?limit=1", "")
	if err := json.Unmarshal([]byte(r.body), &page); err != nil {
		s.t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
	return page.Total
}

// TestAuthorisationMatrix sends every kind of key to every route and method, with objects
// that exist and that do not.
func TestAuthorisationMatrix(t *testing.T) {
	tier.NoRace(t)
	if rows, routes := slices.Sorted(maps.Keys(matrix)), slices.Sorted(maps.Keys(operations(t))); !slices.Equal(routes, rows) {
		t.Errorf("got rows for\n%s\nwant\n%s", strings.Join(rows, "\n"), strings.Join(routes, "\n"))
	}
	for _, creators := range []string{"management", "any"} {
		t.Run("creators "+creators, func(t *testing.T) { testMatrix(t, creators, tier.Sample(3)) })
	}
}

func testMatrix(t *testing.T, creators string, sample int) {
	s := start(t, standard+"\nkey_api\npreset_creators "+creators)
	s.manage("POST", "/v1/workspaces", `{"name":"Elsewhere","slug":"elsewhere"}`).want(t, 201)
	f := &fixtures{s: s, manager: sha256Of(s.issue(`{"kind":"management"}`).secret)}
	// Refused requests change nothing.
	kept, keptArchived, keptWorkspace, keptKey := f.preset(false), f.preset(true), f.workspace(), f.key()
	callers := s.callers(kept)
	keptState := func() string {
		return s.manage("GET", "/v1/presets/"+kept, "").body + s.manage("GET", "/v1/presets/"+kept+"/labels/one", "").body + s.manage("GET", "/v1/workspaces/"+keptWorkspace, "").body + s.manage("GET", "/v1/keys/"+keptKey, "").body
	}
	before, first := keptState(), s.changesRecorded()
	f.changes = 0

	offered := map[string][]string{} // methods by path
	for _, route := range slices.Sorted(maps.Keys(matrix)) {
		method, path, _ := strings.Cut(route, " ")
		offered[path] = append(offered[path], method)
	}
	try := func(t *testing.T, method string, who caller, r row, c cell) {
		want := wants(who, creators, r, c)
		f.n++
		preset, workspace := kept, keptWorkspace
		f.hash = keptKey
		if r.archived {
			preset = keptArchived
		}
		if want < 300 && method != "GET" && method != "HEAD" {
			f.changes++
			if strings.Contains(c.path, "{p}") {
				preset = f.preset(r.archived)
			}
			if strings.Contains(c.path, "{w}") {
				workspace = f.workspace()
			}
			if strings.Contains(c.path, "{k}") {
				f.hash = f.key()
			}
		}
		if c.path == "workspaces/default/budgets/daily" {
			s.manage("PUT", "/v1/"+c.path, fmt.Sprintf(`{"limit_usd":0.%06d}`, f.n)).want(t, 200)
			f.changes++
		}
		sent, body := "/v1/"+f.fill(c.path, preset, workspace), f.fill(c.body, preset, workspace)
		got := s.do(method, sent, body, who.headers...)
		switch {
		case got.status != want:
			t.Errorf("%s %s %s: got status %d, want %d: %s", method, sent, body, got.status, want, got.body)
		case method == "HEAD":
			if got.body != "" {
				t.Errorf("HEAD %s: got body %s", sent, got.body)
			}
		case want < 300:
			if !strings.HasPrefix(got.body, `{"data":`) && got.body != `{"deleted":true}` || !json.Valid([]byte(got.body)) {
				t.Errorf("%s %s: got body %s, want data", method, sent, got.body)
			}
		case want == 403:
			message := "Only management keys can perform this operation"
			switch {
			case r.may == "issuers" && who.management:
				message = "Keys cannot be managed: this needs a key with the right issue-keys"
			case who.onlyWorkspace:
				message = "The key manages one workspace only, and cannot perform this operation"
			}
			got.wantError(t, 403, message)
		default:
			got.wantError(t, want, who.message)
		}
		if challenged := got.header.Get("WWW-Authenticate") != ""; challenged != (want == http.StatusUnauthorized) {
			t.Errorf("%s %s: got status %d with WWW-Authenticate %q", method, sent, got.status, got.header.Get("WWW-Authenticate"))
		}
		if got.status >= 300 && got.header.Get("ETag") != "" {
			t.Errorf("%s %s: got status %d with ETag %s", method, sent, got.status, got.header.Get("ETag"))
		}
	}
	for route, r := range matrix {
		method, path, _ := strings.Cut(route, " ")
		cells := append([]cell{r.exists}, r.missing...)
		if strings.HasPrefix(path, "presets") && path != "presets/-/state" {
			mark := "?"
			if strings.Contains(r.exists.path, "?") {
				mark = "&"
			}
			cells = append(cells,
				cell{r.exists.path + mark + "workspace_id=absent", r.exists.body, 404},
				cell{r.exists.path + mark + "workspace_id=default", r.exists.body, r.exists.status})
		}
		for _, who := range callers {
			t.Run(who.name+"/"+route, func(t *testing.T) {
				for _, c := range cells {
					try(t, method, who, r, c)
					if method == "GET" {
						try(t, "HEAD", who, r, c)
					}
				}
			})
		}
	}
	// Methods that are not offered get 405 from us, and do not reach the gateway.
	n := 0
	for _, path := range slices.Sorted(maps.Keys(offered)) {
		can := offered[path]
		if slices.Contains(can, "GET") {
			can = append(can, "HEAD")
		}
		slices.Sort(can)
		for _, who := range callers {
			for _, method := range methods {
				if slices.Contains(can, method) {
					continue
				}
				for _, object := range []string{kept, "absent"} {
					if n++; n%sample != 0 {
						continue
					}
					sent := "/v1/" + strings.ReplaceAll(path, "{}", object)
					got := s.do(method, sent, "{}", who.headers...)
					if got.status != 405 || got.header.Get("Allow") != strings.Join(can, ", ") {
						t.Errorf("%s: %s %s: got status %d and Allow %q, want 405 and %q", who.name, method, sent, got.status, got.header.Get("Allow"), can)
					}
					if method != "HEAD" {
						got.wantError(t, 405, "Method not allowed")
					}
				}
			}
		}
	}
	if after := keptState(); after != before {
		t.Errorf("refused requests changed something:\nbefore %s\nafter  %s", before, after)
	}
	if got := s.changesRecorded() - first; got != f.changes {
		t.Errorf("the audit trail has %d records of the matrix, want %d", got, f.changes)
	}
	if got := s.upstream.taken(); got != nil {
		t.Errorf("the gateway got %q", got)
	}
	// A revoked key and a wrong key get the same answer.
	var refused []reply
	for _, who := range callers {
		if who.message == "Invalid credentials" {
			refused = append(refused, s.do("GET", "/v1/presets/"+kept, "", who.headers...))
		}
	}
	for _, r := range refused {
		wantSame(t, "a refused key", refused[0], r)
	}
}

// wantSame checks that two answers are equal byte by byte, except for their dates.
func wantSame(t *testing.T, what string, a, b reply) {
	t.Helper()
	header := func(r reply) string {
		h := r.header.Clone()
		for _, name := range []string{"Date", "X-Request-Id", "Request-Id", "Idempotency-Replayed"} { // of this request
			h.Del(name)
		}
		return fmt.Sprint(h)
	}
	if a.status != b.status || a.body != b.body || header(a) != header(b) {
		t.Errorf("%s: got\n%d %s\n%s\nand\n%d %s\n%s\nwant one answer", what, a.status, header(a), a.body, b.status, header(b), b.body)
	}
}
