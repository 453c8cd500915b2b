package caddymodule

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/dump"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// restoring is a store that takes a whole backup, as one in etcd does, and forgets it.
type restoring struct{ domain.Store }

func (restoring) Restore(_ context.Context, from *dump.Reader) error {
	for from.Next() {
	}
	return from.Err
}

// whole returns a schema of the document without references, with all its rules for one
// object merged.
func (d document) whole(s map[string]any) map[string]any {
	whole := make(map[string]any)
	add := func(more map[string]any) {
		for keyword, value := range more {
			switch known := whole[keyword].(type) {
			case nil:
				whole[keyword] = value
			case map[string]any: // properties
				known = maps.Clone(known)
				maps.Copy(known, value.(map[string]any))
				whole[keyword] = known
			case []any: // required
				whole[keyword] = slices.Concat(known, value.([]any))
			}
		}
	}
	for keyword, value := range s {
		switch keyword {
		case "$ref":
			add(d.whole(d.at(value.(string)).(map[string]any)))
		case "allOf":
			for _, part := range value.([]any) {
				add(d.whole(part.(map[string]any)))
			}
		default:
			add(map[string]any{keyword: value})
		}
	}
	return whole
}

// closed returns a schema of the document that permits only its named members, at any
// depth. The document must describe our answers completely.
func (d document) closed(s map[string]any) map[string]any {
	s = maps.Clone(d.whole(s))
	for keyword, value := range s {
		switch value := value.(type) {
		case map[string]any:
			if keyword != "properties" {
				s[keyword] = d.closed(value)
				continue
			}
			properties := make(map[string]any)
			for name, property := range value {
				properties[name] = property
				if property, ok := property.(map[string]any); ok {
					properties[name] = d.closed(property)
				}
			}
			s[keyword] = properties
			if s["additionalProperties"] == nil {
				s["additionalProperties"] = false
			}
		case []any:
			if keyword != "anyOf" && keyword != "oneOf" {
				continue
			}
			var parts []any
			for _, part := range value {
				closed := d.closed(part.(map[string]any))
				if closed["additionalProperties"] != true { // otherwise it permits any answer of the gateway
					parts = append(parts, closed)
				}
			}
			s[keyword] = parts
		}
	}
	return s
}

// response returns an operation's response with a status, nil if the document has none.
func (d document) response(operation map[string]any, status int) map[string]any {
	reference, _ := operation["responses"].(map[string]any)[strconv.Itoa(status)].(map[string]any)
	if reference == nil {
		return nil
	}
	return d.object(reference["$ref"].(string))
}

// schemaOf returns the closed schema of an answer, nil if it is not JSON.
func (d document) schemaOf(response map[string]any) map[string]any {
	content, _ := response["content"].(map[string]any)
	media, ok := content["application/json"].(map[string]any)
	if !ok {
		return nil
	}
	return d.closed(media["schema"].(map[string]any))
}

// judge returns a function that validates JSON against a schema.
func judge(t *testing.T, s map[string]any) func(text string) error {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.Draft = jsonschema.Draft2020
	compiler.AssertFormat = true
	encoded, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := compiler.AddResource("answer.json", bytes.NewReader(encoded)); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("answer.json")
	if err != nil {
		t.Fatal(err)
	}
	return func(text string) error {
		decoder := json.NewDecoder(strings.NewReader(text))
		decoder.UseNumber()
		var value any
		if err := decoder.Decode(&value); err != nil {
			return err
		}
		return compiled.Validate(value)
	}
}

// operations returns the operations of the document by their id.
func (d document) operations() map[string]map[string]any {
	all := make(map[string]map[string]any)
	for _, item := range d["paths"].(map[string]any) {
		for _, operation := range item.(map[string]any) {
			operation := operation.(map[string]any)
			all[operation["operationId"].(string)] = operation
		}
	}
	return all
}

// workspaceInPath is the workspace that a path names.
var workspaceInPath = regexp.MustCompile(`^/v1/workspaces/[^/?]+`)

// tour is requests for each operation, in an order that creates the objects they need.
var tour = []struct{ op, method, path, body string }{
	{"preset_create_responses", "POST", "/v1/presets/p/responses", `{"model":"m","instructions":"Be brief."}`},
	{"preset_create_chat", "POST", "/v1/presets/p/chat/completions", `{"model":"m","messages":[{"role":"system","content":"Be long."}]}`},
	{"preset_create_messages", "POST", "/v1/presets/p/messages", `{"model":"m","max_tokens":5}`},
	{"preset_create_responses", "POST", "/v1/presets/p/responses?designate=false&label=b&message=m", `{}`},
	{"preset_create_chat", "POST", "/v1/presets/p/chat/completions?template=true&designate=false", `{"messages":[{"role":"user","content":"{{x}}"}]}`},
	{"preset_list", "GET", "/v1/presets", ""},
	{"preset_list", "GET", "/v1/presets?status=all", ""},
	{"preset_list", "GET", "/v1/presets?q=P&sort=name&order=asc", ""},
	{"preset_list", "GET", "/v1/presets?include=model&in=prompt", ""},
	{"preset_get", "GET", "/v1/presets/p", ""},
	{"preset_history", "GET", "/v1/presets/p/history", ""},
	{"preset_usage", "GET", "/v1/presets/p/usage", ""},
	{"preset_usage", "GET", "/v1/presets/p/usage?step=day&by=model", ""},
	{"version_list", "GET", "/v1/presets/p/versions", ""},
	{"version_list", "GET", "/v1/presets/p/versions?fields=summary", ""},
	{"version_get", "GET", "/v1/presets/p/versions/1", ""},
	{"preset_diff", "GET", "/v1/presets/p/diff?from=1&to=3", ""},
	{"preset_update", "PATCH", "/v1/presets/p", `{"description":"d","tags":["a"]}`},
	{"preset_designate", "POST", "/v1/presets/p/designate", `{"version":1}`},
	{"label_put", "PUT", "/v1/presets/p/labels/a", `{"version":1}`},
	{"label_put", "PUT", "/v1/presets/p/labels/a", `{"split":[{"version":1,"weight":1},{"version":2,"weight":0}]}`},
	{"preset_get", "GET", "/v1/presets/p", ""},
	{"label_get", "GET", "/v1/presets/p/labels/a", ""},
	{"label_delete", "DELETE", "/v1/presets/p/labels/a", ""},
	{"label_get", "GET", "/v1/presets/p/labels/a", ""},
	{"input_create", "POST", "/v1/presets/p/inputs", `{"name":"a","dialect":"chat","messages":[{"role":"user","content":"hi"}],"variables":{"x":"y","z":{"type":"input_text","text":"t"}},"notes":"n"}`},
	{"input_list", "GET", "/v1/presets/p/inputs", ""},
	{"input_get", "GET", "/v1/presets/p/inputs/{i}", ""},
	{"input_update", "PATCH", "/v1/presets/p/inputs/{i}", `{"dialect":"responses","messages":null,"input":"hi","notes":null}`},
	{"preset_history", "GET", "/v1/presets/p/history", ""},
	{"input_delete", "DELETE", "/v1/presets/p/inputs/{i}", ""},
	{"preset_archive", "DELETE", "/v1/presets/p", ""},
	{"preset_restore", "POST", "/v1/presets/p/restore", ""},
	{"workspace_create", "POST", "/v1/workspaces", `{"name":"n","slug":"new","io_logging_api_key_ids":["a",5],"disabled_server_tools":["openrouter:bash"]}`},
	{"workspace_list", "GET", "/v1/workspaces", ""},
	{"workspace_get", "GET", "/v1/workspaces/new", ""},
	{"budget_put", "PUT", "/v1/workspaces/new/budgets/monthly", `{"limit_usd":100}`},
	{"budget_put", "PUT", "/v1/workspaces/new/budgets/lifetime", `{"limit_usd":1000.5,"include_byok_in_budgets":true}`},
	{"budget_list", "GET", "/v1/workspaces/new/budgets", ""},
	{"budget_get", "GET", "/v1/workspaces/new/budgets/lifetime", ""},
	{"workspace_get", "GET", "/v1/workspaces/new", ""},
	{"budget_delete", "DELETE", "/v1/workspaces/new/budgets/monthly", ""},
	{"workspace_history", "GET", "/v1/workspaces/new/history", ""},
	{"workspace_usage", "GET", "/v1/workspaces/new/usage?by=preset", ""},
	{"workspace_update", "PATCH", "/v1/workspaces/new", `{"description":"d","limits":{"requests_per_day":5},"budgets":{"daily":{"limit_usd":1}}}`},
	{"workspace_delete", "DELETE", "/v1/workspaces/new", ""},
}

// keyTour is requests for each operation on keys. {} stands for the id of a key.
var keyTour = []struct{ op, method, path, body string }{
	{"own_key_get", "GET", "/v1/key", ""},
	{"keys_list", "GET", "/v1/keys", ""},
	{"keys_create", "POST", "/v1/keys", `{"name":"n","limit":5,"limit_reset":"daily","limits":{"concurrent":1},"presets":["p"],"models":["m"]}`},
	{"keys_list", "GET", "/v1/keys?include_disabled=true", ""},
	{"keys_get", "GET", "/v1/keys/{}", ""},
	{"keys_update", "PATCH", "/v1/keys/{}", `{"limit":null,"limits":null}`},
	{"keys_rotate", "POST", "/v1/keys/{}/rotate", `{"grace":"1h"}`},
	{"keys_get", "GET", "/v1/keys/{}", ""},
	{"keys_delete", "DELETE", "/v1/keys/{}", ""},
}

// TestOpenAPIAnswers compares the server's answers with the documents, for each operation
// and each status that a client can cause.
func TestOpenAPIAnswers(t *testing.T) {
	tier.Slow(t)
	const rest = "\nkey_api\nmax_body_size 64KiB\ninference {\nlist_models on\ndrop_fields user\nmax_body_size 64KiB\nusage\n}"
	s := start(t, standard+rest)
	s.upstream.answers(replyWith(200, "application/json", `{"object":"list","data":[]}`))
	operations := make(map[string]map[string]any)
	documents := make(map[string]document) // by operation
	isAdmin := make(map[string]bool)
	for _, name := range openAPIDocuments {
		doc := readDocument(t, name)
		for id, operation := range doc.operations() {
			operations[id], documents[id], isAdmin[id] = operation, doc, name == adminDocument
		}
	}
	seen := make(map[string]map[int]bool)
	judges := make(map[string]func(string) error)
	check := func(op string, r reply, want int) {
		t.Helper()
		if seen[op] == nil {
			seen[op] = make(map[int]bool)
		}
		seen[op][r.status] = true
		doc := documents[op]
		response := doc.response(operations[op], r.status)
		if response == nil || r.status != want {
			t.Errorf("%s: got %d %s, want %d and that it is described", op, r.status, r.body, want)
			return
		}
		if s := doc.schemaOf(response); s != nil {
			name := fmt.Sprint(op, r.status)
			if judges[name] == nil {
				judges[name] = judge(t, s)
			}
			if err := judges[name](r.body); err != nil || r.header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: got %d %s %s, which is not as described: %v", op, r.status, r.header.Get("Content-Type"), r.body, err)
			}
		}
		headers, _ := response["headers"].(map[string]any)
		sometimes := append([]string{"Idempotency-Replayed", "X-Preset-Ignored", requestIDHeader, "Vary"}, rateHeaders...)
		for name := range headers {
			if r.header.Get(name) == "" && !slices.Contains(sometimes, name) {
				t.Errorf("%s: the answer %d has no %s", op, r.status, name)
			}
		}
		for _, name := range append(sometimes, "ETag", "X-Request-Id", "Allow", "WWW-Authenticate", "Retry-After") {
			if headers[name] == nil && r.header.Get(name) != "" {
				t.Errorf("%s: the answer %d has %s, which is not described", op, r.status, name)
			}
		}
	}

	for i, step := range tour {
		if before, after, ok := strings.Cut(step.path, "{i}"); ok {
			step.path = before + s.inputOf("p") + after
		}
		is := func(prefix string) bool { return strings.HasPrefix(step.path, prefix) }
		ask := func(path, body string, headers ...string) reply {
			return s.manage(step.method, path, body, headers...)
		}
		with := func(parameter string) string {
			if strings.Contains(step.path, "?") {
				return step.path + "&" + parameter
			}
			return step.path + "?" + parameter
		}
		check(step.op, s.do(step.method, step.path, step.body), 401)
		check(step.op, s.manage("PROPFIND", step.path, ""), 405)
		check(step.op, ask(step.path, step.body, "If-None-Match: none"), 400)
		check(step.op, ask(step.path, step.body, `If-Match: "0123456789abcdef0123456789abcdef"`), 412)
		forbidden := step.path
		if is("/v1/presets") {
			forbidden = with("workspace_id=new")
		}
		check(step.op, s.do(step.method, forbidden, step.body, bearer(inferenceSecret)), 403)
		switch {
		case is("/v1/presets"):
			check(step.op, ask(with("workspace_id=nowhere"), step.body), 404)
		case is("/v1/workspaces/"):
			check(step.op, ask(workspaceInPath.ReplaceAllString(step.path, "/v1/workspaces/absent"), step.body), 404)
		}
		if operations[step.op]["requestBody"] != nil {
			check(step.op, ask(step.path, strings.Repeat(" ", 64<<10)+"{}"), 413)
			check(step.op, ask(step.path, "{}", "Content-Type: text/plain"), 415)
			check(step.op, ask(step.path, "[]"), 400)
		}
		success := 200
		if step.op == "workspace_create" || step.op == "input_create" {
			success = 201
		}
		if step.method == "GET" {
			r := ask(step.path, "")
			check(step.op, r, success)
			check(step.op, ask(step.path, "", "If-None-Match: "+r.header.Get("ETag")), 304)
			continue
		}
		key := "Idempotency-Key: " + strconv.Itoa(i)
		r := ask(step.path, step.body, key)
		check(step.op, r, success)
		again := ask(step.path, step.body, key)
		check(step.op, again, success)
		if again.body != r.body || again.header.Get("Idempotency-Replayed") != "true" {
			t.Errorf("%s: got %s, want the same again, marked as a replay: %s", step.op, again.body, r.body)
		}
		check(step.op, ask(step.path, step.body, key, "X-Preset-Owner: another"), 422)
	}
	tooLarge := s.manage("GET", "/v1/presets", "", "X-Large: "+strings.Repeat("a", 2<<20))
	check("preset_list", tooLarge, 431)
	if media := tooLarge.header.Get("Content-Type"); !strings.HasPrefix(media, "text/plain") {
		t.Errorf("headers that are too large get a body of the media type %s", media)
	}
	s.manage("DELETE", "/v1/presets/p", "").want(t, 200)
	for _, step := range tour[:3] {
		check(step.op, s.manage(step.method, step.path, step.body), 409)
	}
	s.manage("POST", "/v1/presets/p/restore", "").want(t, 200)
	s.manage("PATCH", "/v1/presets/p", `{"status":"disabled"}`).want(t, 200)
	check("preset_get", s.manage("GET", "/v1/presets/p", ""), 200)
	check("preset_archive", s.manage("DELETE", "/v1/presets/p", ""), 409)
	check("preset_restore", s.manage("POST", "/v1/presets/p/restore", ""), 409)
	s.manage("PATCH", "/v1/presets/p", `{"status":"active"}`).want(t, 200)

	check("preset_update", s.manage("PATCH", "/v1/presets/p", `{"policy":{"lock":["seed"],"bounds":{"top_p":{"min":0,"max":1,"in":[1]}},"models":["a"],"drop":["stop"]}}`), 200)
	const dryRun = "X-Preset-Dry-Run: true"
	for _, route := range inferenceRoutes {
		path, body := "/v1/"+route.path, `{"model":"@preset/p","user":"u","seed":5}`
		r := s.do("POST", path, body, bearer(inferenceSecret), dryRun)
		check(route.name, r, 200)
		if got := r.header.Get("X-Preset"); got != "p@1" {
			t.Errorf("%s: got X-Preset %q, want p@1", route.name, got)
		}
		check(route.name, s.do("POST", path, body, bearer(inferenceSecret), "X-Preset-Dry-Run: maybe"), 400)
		check(route.name, s.do("POST", path, body), 401)
		check(route.name, s.manage("POST", path, body), 403)
		check(route.name, s.do("POST", path, `{"model":"@preset/absent"}`, bearer(inferenceSecret)), 404)
		check(route.name, s.do("POST", path, strings.Repeat(" ", 64<<10)+body, bearer(inferenceSecret)), 413)
		check(route.name, s.do("POST", path, body, bearer(inferenceSecret), "Content-Encoding: compress"), 415)
	}
	spent, once := s.limitedKey(domain.KeyLimits{Limit: new(0.0)}, ""), s.limitedKey(domain.KeyLimits{Limits: &domain.Limits{RequestsPerDay: 1, TokensPerDay: 100}}, "")
	s.as(once, "/v1/responses", `{"model":"a"}`).want(t, 200)
	for _, route := range inferenceRoutes {
		check(route.name, s.as(spent, "/v1/"+route.path, `{"model":"a"}`), 403)
		check(route.name, s.as(once, "/v1/"+route.path, `{"model":"a"}`), 429)
	}
	const feedback = "/v1/presets/p/feedback"
	s.do("POST", "/v1/responses", `{"model":"@preset/p","seed":5,"session_id":"s"}`, bearer(inferenceSecret)).want(t, 200)
	score := `{"session_id":"s","score":true}`
	if !s.eventually(func() bool { return s.manage("POST", feedback, score).status == 202 }) {
		t.Error("the session gets no feedback")
	}
	check("preset_feedback", s.do("POST", feedback, score, bearer(inferenceSecret)), 202)
	check("preset_feedback", s.manage("POST", feedback, `{"request_id":"r","score":0.5}`), 404)
	check("preset_feedback", s.do("POST", feedback, score), 401)
	check("preset_feedback", s.manage("PUT", feedback, score), 405)
	check("preset_feedback", s.do("POST", feedback+"?workspace_id=new", score, bearer(inferenceSecret)), 403)
	check("preset_feedback", s.manage("POST", feedback, "[]"), 400)
	check("preset_feedback", s.manage("POST", feedback, strings.Repeat(" ", 64<<10)+score), 413)
	check("preset_feedback", s.manage("POST", feedback, score, "Content-Type: text/plain"), 415)
	const try, trial = "/v1/presets/p/try", `{"dialect":"chat","version":{"model":"m"},"request":{"user":"u","seed":5}}`
	check("preset_try", s.manage("POST", try, trial, dryRun), 200)
	check("preset_try", s.manage("POST", try, trial), 401)
	check("preset_try", s.manage("PUT", try, trial), 405)
	check("preset_try", s.do("POST", try, trial, bearer(inferenceSecret)), 403)
	check("preset_try", s.manage("POST", try+"?workspace_id=nowhere", trial), 404)
	check("preset_try", s.manage("POST", try, "[]"), 400)
	check("preset_try", s.manage("POST", try, strings.Repeat(" ", 64<<10)+trial), 413)
	check("preset_try", s.manage("POST", try, trial, "Content-Type: text/plain"), 415)
	const state = "/v1/presets/-/state"
	check("server_state", s.manage("GET", state, ""), 200)
	check("server_state", s.do("GET", state, ""), 401)
	check("server_state", s.manage("PUT", state, ""), 405)
	check("server_state", s.do("GET", state, "", bearer(inferenceSecret)), 403)
	check("server_state", s.manage("GET", state, "", "If-None-Match: none"), 400)
	check("server_state", s.manage("GET", state, "", `If-Match: "0123456789abcdef0123456789abcdef"`), 412)
	for _, step := range keyTour {
		key := s.createKey(managementSecret, `{"name":"n"}`)
		path := strings.ReplaceAll(step.path, "{}", key.ID)
		ask := func(headers ...string) reply { return s.manage(step.method, path, step.body, headers...) }
		check(step.op, s.do(step.method, path, step.body), 401)
		check(step.op, s.manage("PUT", path, ""), 405)
		check(step.op, ask("If-None-Match: none"), 400)
		check(step.op, ask(`If-Match: "0123456789abcdef0123456789abcdef"`), 412)
		if operations[step.op]["requestBody"] != nil {
			check(step.op, s.manage(step.method, path, strings.Repeat(" ", 64<<10)+"{}"), 413)
			check(step.op, s.manage(step.method, path, "{}", "Content-Type: text/plain"), 415)
		}
		if path != "/v1/key" {
			check(step.op, s.do(step.method, path, step.body, bearer(inferenceSecret)), 403)
		}
		if path != step.path {
			check(step.op, s.manage(step.method, strings.ReplaceAll(step.path, "{}", "absent"), step.body), 404)
		}
		check(step.op, ask(), map[bool]int{true: 201, false: 200}[step.op == "keys_create"])
	}
	check("keys_list", s.manage("GET", "/v1/keys?workspace_id=absent", ""), 404)
	check("keys_create", s.manage("POST", "/v1/keys", `{"name":"n","workspace_id":"absent"}`), 404)
	soon := s.keyIn(s.manage("POST", "/v1/keys", fmt.Sprintf(`{"name":"n","expires_at":%q}`, time.Now().UTC().Add(time.Second).Format(time.RFC3339Nano))), 201)
	if !s.eventually(func() bool { return s.manage("PATCH", "/v1/keys/"+soon.ID, `{"name":"m"}`).status == 409 }) {
		t.Error("the key does not expire")
	}
	check("keys_update", s.manage("PATCH", "/v1/keys/"+soon.ID, `{"name":"m"}`), 409)
	check("keys_rotate", s.manage("POST", "/v1/keys/"+soon.ID+"/rotate", ""), 409)
	check("own_key_get", s.do("GET", "/v1/key", "", bearer(inferenceSecret)), 200)
	other := s.issue(`{"kind":"inference"}`)
	check("models_list", s.do("GET", "/v1/models", "", bearer(inferenceSecret)), 200)
	check("models_list", s.do("GET", "/v1/models", "", "X-Api-Key: "+inferenceSecret, "X-Api-Key: "+other.secret), 400)
	check("models_list", s.do("GET", "/v1/models", ""), 401)
	check("models_list", s.manage("GET", "/v1/models", ""), 403)
	check("model_get", s.do("GET", "/v1/models/@preset%2Fp", "", bearer(inferenceSecret)), 200)
	check("model_get", s.do("GET", "/v1/models/@preset%2Fp", "", "X-Api-Key: "+inferenceSecret, "X-Api-Key: "+other.secret), 400)
	check("model_get", s.do("GET", "/v1/models/@preset%2Fp", ""), 401)
	check("model_get", s.manage("GET", "/v1/models/@preset%2Fp", ""), 403)
	check("model_get", s.do("GET", "/v1/models/@preset%2Fabsent", "", bearer(inferenceSecret)), 404)

	operate := func(method, path, body string) reply {
		return send(t, method, "http://"+s.admin+"/presets/"+path, body)
	}
	check("key_create", operate("POST", "keys", `{"kind":"management","user_id":"u","workspace":"default","name":"n","expires_in":"1h"}`), 201)
	check("key_create", operate("POST", "keys", `{"kind":"root"}`), 400)
	check("key_create", operate("POST", "keys", `{"kind":"inference","workspace":"absent"}`), 404)
	check("key_create", operate("POST", "keys", strings.Repeat(" ", 64<<10)+"{}"), 413)
	check("key_list", operate("GET", "keys", ""), 200)
	check("key_list", operate("PUT", "keys", ""), 405)
	check("key_revoke", operate("DELETE", "keys/"+other.id, ""), 200)
	check("key_revoke", operate("DELETE", "keys/absent", ""), 404)
	check("key_get", operate("GET", "keys/"+other.id, ""), 200)
	check("key_get", operate("GET", "keys/absent", ""), 404)
	rotated := s.issue(`{"kind":"inference","limit":5,"limit_reset":"daily","limits":{"concurrent":1}}`)
	check("key_rotate", operate("POST", "keys/"+rotated.id+"/rotate", `{"grace":"1h"}`), 200)
	check("key_rotate", operate("POST", "keys/"+rotated.id+"/rotate", `{"grace":"a day"}`), 400)
	check("key_rotate", operate("POST", "keys/absent/rotate", `{}`), 404)
	check("key_rotate", operate("POST", "keys/"+other.id+"/rotate", `{}`), 409)
	check("key_rotate", operate("POST", "keys/"+other.id+"/rotate", strings.Repeat(" ", 64<<10)+"{}"), 413)
	check("key_list", operate("GET", "keys", ""), 200)
	check("key_prune", operate("POST", "keys/prune", `{"older_than":"30d","dry_run":true}`), 200)
	check("key_prune", operate("POST", "keys/prune", `{"older_than":"soon"}`), 400)
	check("key_remove", operate("POST", "keys/"+other.id+"/remove", ""), 200)
	check("key_remove", operate("POST", "keys/"+other.id+"/remove", ""), 404)
	s.manage("POST", "/v1/presets/pruned/responses", "{}").want(t, 200)
	s.manage("POST", "/v1/presets/pruned/responses", "{}").want(t, 200)
	check("version_prune", operate("POST", "prune", `{"keep":1,"workspace":"default","dry_run":true}`), 200)
	check("version_prune", operate("POST", "prune", `{"keep":1}`), 200)
	check("version_prune", operate("POST", "prune", `{}`), 400)
	check("version_prune", operate("POST", "prune", `{"keep":1,"workspace":"absent"}`), 404)
	check("audit_list", operate("GET", "audit", ""), 200)
	check("audit_list", operate("GET", "audit?limit=0", ""), 400)
	check("audit_list", operate("GET", "audit?store=absent", ""), 404)
	check("store_verify", operate("POST", "verify", ""), 200)
	check("backup_get", operate("GET", "backup", ""), 200)
	check("backup_get", operate("GET", "backup?store=absent", ""), 404)
	check("backup_copied", operate("POST", "backup/copied?age=3", ""), 200)
	check("backup_copied", operate("POST", "backup/copied?age=-1", ""), 400)
	check("backup_copied", operate("POST", "backup/copied?store=absent", ""), 404)
	check("health_get", operate("GET", "health", ""), 200)
	check("health_get", operate("GET", "health?store=absent", ""), 404)
	check("openapi_get", operate("GET", "openapi.yaml", ""), 200)
	check("openapi_admin_get", operate("GET", "openapi-admin.yaml", ""), 200)
	backup := operate("GET", "backup", "")
	check("store_restore", operate("POST", "restore", backup.body), 400)
	use := liveUse(s.canonicalFolder())
	opened := use.Store
	use.Store = restoring{opened}
	check("store_restore", operate("POST", "restore", backup.body), 200)
	use.Store = opened
	check("store_restore", operate("POST", "restore?store=absent", ""), 404)

	for status, proxy := range map[int]string{
		502: "reverse_proxy " + freeAddress(t),
		504: "reverse_proxy " + gateway(t, func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // then the server sees that Caddy leaves
			<-r.Context().Done()
		}) + " {\ntransport http {\nresponse_header_timeout 50ms\n}\n}",
	} {
		if err := s.load(s.proxying(standard+rest, proxy)); err != nil {
			t.Fatal(err)
		}
		for _, route := range inferenceRoutes {
			check(route.name, s.do("POST", "/v1/"+route.path, `{"model":"m"}`, bearer(inferenceSecret)), status)
		}
		check("preset_try", s.manage("POST", try, trial, withInferenceKey), status)
	}
	s.reload(strings.Replace(standard, "auth_failure_limit 1000000", "auth_failure_limit 1 24h", 1) + rest)
	s.do("GET", "/v1/presets", "", bearer("a-guess")).want(t, 401)
	for _, step := range slices.Concat(tour, keyTour) {
		check(step.op, s.do(step.method, step.path, step.body, bearer("a-guess")), 429)
	}
	for _, route := range inferenceRoutes {
		check(route.name, s.do("POST", "/v1/"+route.path, "{}", bearer("a-guess")), 429)
	}
	check("preset_feedback", s.do("POST", feedback, score, bearer("a-guess")), 429)
	check("preset_try", s.do("POST", try, trial, bearer("a-guess")), 429)
	check("server_state", s.do("GET", state, "", bearer("a-guess")), 429)
	check("models_list", s.do("GET", "/v1/models", "", bearer("a-guess")), 429)
	check("model_get", s.do("GET", "/v1/models/@preset%2Fp", "", bearer("a-guess")), 429)

	for op, operation := range operations {
		for status := range operation["responses"].(map[string]any) {
			status, _ := strconv.Atoi(status)
			switch {
			case seen[op][status]:
			case status == 500, status == 503, status == 408, status == 409, status == 431, isAdmin[op] && status >= 400:
				// no single request causes these statuses at once
			default:
				t.Errorf("%s: no request got the answer %d", op, status)
			}
		}
	}
}
