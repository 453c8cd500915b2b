package caddymodule

import (
	"cmp"
	"context"
	"fmt"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// placeholderNames are those of a request, without those of usage.
var placeholderNames = []string{"operation", "slug", "version", "workspace_id", "key_id", "session_id"}

// showing loads our site with the placeholders in its access log.
func (s *server) showing(subdirectives string) {
	s.t.Helper()
	var appends strings.Builder
	for _, name := range placeholderNames {
		fmt.Fprintf(&appends, "log_append p_%s {http.presets.%s}\n", name, name)
	}
	s.reloadBehind(appends.String(), subdirectives)
}

// wantPlaceholders checks the placeholders in the access log's entry of the one request that send
// makes, in the order of placeholderNames.
func (s *server) wantPlaceholders(what string, send func(), want ...any) {
	s.t.Helper()
	got := s.logged(send)
	for i, name := range placeholderNames {
		if value := got["p_"+name]; value != want[i] && (want[i] != nil || value != "") {
			s.t.Errorf("%s: got %s %v, want %v", what, name, value, want[i])
		}
	}
}

// TestEveryOperationIsNamed checks that metrics, access logs and traces name every operation and its
// object.
func TestEveryOperationIsNamed(t *testing.T) {
	tier.NoRace(t)
	const settings = standard + "\nkey_api"
	s := start(t, settings)
	s.showing(settings)
	home := s.manage("GET", "/v1/workspaces/default", "").field(t, "id")
	versions := map[string]any{
		"preset_get": "2", "preset_update": "2", "preset_restore": "2", "preset_create_responses": "3", "preset_create_chat": "3", "preset_create_messages": "3",
		"preset_designate": "1", "preset_diff": "1", "version_get": "1", "label_get": "1", "label_put": "2",
	}
	f := &fixtures{s: s}
	for route, op := range operations(t) {
		r := matrix[route]
		preset, workspace := f.preset(r.archived), f.workspace()
		f.hash = f.key()
		f.n++
		c := r.exists
		if c.status >= 300 {
			c = r.missing[0]
		}
		if c.status >= 300 {
			continue // usage is not measured
		}
		var slug, where any
		if strings.HasPrefix(op.path, "presets/{slug}") {
			slug = preset
		}
		switch {
		case regexp.MustCompile("_(list|history|usage|state)$").MatchString(op.name): // an operation with many objects
		case strings.HasPrefix(op.path, "presets"), strings.HasPrefix(op.path, "key"):
			where = home
		case strings.Contains(op.path, "{workspace}"):
			where = s.manage("GET", "/v1/workspaces/"+workspace, "").field(t, "id")
		}
		counter := fmt.Sprintf(`caddy_presets_requests_total{code="%d",operation="%s"}`, c.status, op.name)
		before, _ := strconv.Atoi(s.metric(counter))
		var response reply
		sent, body := "/v1/"+f.fill(c.path, preset, workspace), f.fill(c.body, preset, workspace)
		entry := s.logged(func() { response = s.manage(op.method, sent, body) })
		response.want(t, c.status)
		if op.name == "workspace_create" {
			where = response.field(t, "id")
		}
		for i, want := range []any{op.name, slug, versions[op.name], where, "config-management-1", nil} {
			if got := entry["p_"+placeholderNames[i]]; got != want {
				t.Errorf("%s: %s is %v, want %v", route, placeholderNames[i], got, want)
			}
		}
		s.awaitMetric(counter, strconv.Itoa(before+1))
	}
}

// TestSessionIDs checks whose session id counts, and what the log tells of refused requests.
func TestSessionIDs(t *testing.T) {
	s := start(t, standard)
	s.showing(standard)
	const path, key = "/v1/presets/p/responses", "config-management-1"
	long := strings.Repeat("é", 256)
	s.manage("POST", path, "{}", "X-Session-Id: "+long).want(t, 200)
	s.manage("POST", path, "{}", "X-Session-Id: "+long+"x").wantError(t, 400, "Invalid request parameters: x-session-id")
	s.manage("GET", "/v1/workspaces/default", "", "X-Session-Id: "+long+"x").wantError(t, 400, "Invalid request parameters: x-session-id")
	home := s.manage("GET", "/v1/workspaces/default", "").field(t, "id")
	for i, body := range []string{"{}", `{"session_id":"from-body"}`, `{"session_id":"caddypresets_inf_x"}`} {
		session := []string{"from-header", "from-body", "from-header"}[i]
		s.wantPlaceholders(body, func() { s.manage("POST", path, body, "X-Session-Id: from-header").want(t, 200) },
			"preset_create_responses", "p", strconv.Itoa(i+2), home, key, session)
	}
	s.wantPlaceholders("no JSON", func() { s.manage("POST", path, "no JSON").want(t, 400) }, "preset_create_responses", "p", nil, nil, key, nil)
	s.wantPlaceholders("a 405", func() { s.manage("PUT", "/v1/workspaces", "").want(t, 405) }, "unknown", nil, nil, nil, nil, nil)
}

// TestInferenceIsObservable checks the access log and the metrics of inference requests.
func TestInferenceIsObservable(t *testing.T) {
	s := start(t, inferring())
	s.preset("writer", writer)
	s.preset("writer", writer)
	home := s.manage("GET", "/v1/workspaces/default", "").field(t, "id")
	s.showing(inferring("keys required", "list_models on"))
	const key = "config-inference-1"
	for _, tc := range []struct {
		method, path, body, header string
		key                        string
		status                     int
		want                       []any
	}{
		{"POST", chatPath, `{"model":"@preset/writer"}`, "", inferenceSecret, 202, []any{"inference_chat", "writer", "2", home, key, nil}},
		{"POST", responsesPath, `{"preset":"writer@1","session_id":"s"}`, "", inferenceSecret, 202, []any{"inference_responses", "writer", "1", home, key, "s"}},
		{"POST", messagesPath, `{"model":"@preset/writer"}`, "X-Session-Id: h", inferenceSecret, 202, []any{"inference_messages", "writer", "2", home, key, "h"}},
		{"POST", chatPath, `{"model":"m","session_id":"s"}`, "", inferenceSecret, 202, []any{"inference_chat", nil, nil, home, key, "s"}},
		{"POST", chatPath, `{"model":"@preset/writer"}`, "X-Preset-Dry-Run: true", inferenceSecret, 200, []any{"inference_chat", "writer", "2", home, key, nil}},
		{"POST", messagesPath, `{"model":"@preset/nothing"}`, "", inferenceSecret, 404, []any{"inference_messages", nil, nil, home, key, nil}},
		{"POST", responsesPath, `{}`, "", "", 401, []any{"inference_responses", nil, nil, nil, nil, nil}},
		{"GET", "/v1/models", "", "", inferenceSecret, 202, []any{"models_list", nil, nil, home, key, nil}},
		{"POST", "/v1/embeddings", `{}`, "", inferenceSecret, 202, []any{nil, nil, nil, home, key, nil}},
		{"POST", chatPath, `{}`, "", managementSecret, 403, []any{"inference_chat", nil, nil, home, "config-management-1", nil}},
		{"POST", "/v1/embeddings", `{}`, "", "", 202, []any{nil, nil, nil, nil, nil, nil}},
	} {
		headers := []string{cmp.Or(tc.header, "X-None: 1")}
		if tc.key != "" {
			headers = append(headers, bearer(tc.key))
		}
		s.wantPlaceholders(tc.path+" "+tc.body, func() { s.do(tc.method, tc.path, tc.body, headers...).want(t, tc.status) }, tc.want...)
	}
	send(t, "GET", "http://"+s.admin+"/metrics", "").want(t, 200,
		`caddy_presets_resolutions_total{operation="inference_chat",result="passed"} 1`,
		`caddy_presets_resolutions_total{operation="inference_chat",result="resolved"} 2`,
		`caddy_presets_resolutions_total{operation="inference_responses",result="refused"} 1`,
		`caddy_presets_resolutions_total{operation="inference_messages",result="resolved"} 1`,
		`caddy_presets_resolutions_total{operation="inference_messages",result="refused"} 1`,
		`caddy_presets_resolution_duration_seconds_count{operation="inference_chat",result="resolved"} 2`,
	)
}

func TestMetrics(t *testing.T) {
	s := start(t, standard)
	for range 2 {
		s.manage("POST", "/v1/presets/p/responses", "{}").want(t, 200)
	}
	s.manage("PUT", "/v1/workspaces", "").want(t, 405)
	send(t, "GET", "http://"+s.admin+"/metrics", "").want(t, 200,
		`caddy_presets_requests_total{code="405",operation="unknown"} 1`,
		`caddy_presets_request_duration_seconds_count{code="200",operation="preset_create_responses"} 2`,
		`caddy_presets_versions_written_total 2`,
		`caddy_presets_build_info{go_version="`+runtime.Version()+`",version="(devel)"} 1`,
		`caddy_presets_store_operations_total{operation="update",result="ok"} 3`, // two versions and the default workspace
		`caddy_presets_store_operation_duration_seconds_count{operation="update",result="ok"} 3`,
		`caddy_presets_store_operations_total{operation="view",result="ok"}`,
	)
}

// TestPlaceholdersOfSeveralHandlers checks that all handlers of a request share one set of
// placeholders. Later values replace earlier ones. Those without a value are unknown until
// an inference request sets them to empty.
func TestPlaceholdersOfSeveralHandlers(t *testing.T) {
	repl := caddy.NewReplacer()
	r := httptest.NewRequest("GET", "/", nil)
	r = r.WithContext(context.WithValue(r.Context(), caddy.ReplacerCtxKey, repl))
	want := func(text, value string) {
		t.Helper()
		if got := repl.ReplaceKnown(text, ""); got != value {
			t.Errorf("%s gives %q, want %q", text, got, value)
		}
	}
	outer := new(Handler).newCall(nil, r)
	outer.setPlaceholder(slugPlaceholder, "a")
	outer.setPlaceholder(versionPlaceholder, "1")
	want("{http.presets.slug}@{http.presets.version}", "a@1")
	want("{http.presets.key_id}", "{http.presets.key_id}")
	inner := &inferenceCall{call: new(Handler).newCall(nil, r)}
	inner.mapPlaceholders()
	inner.setPlaceholder(slugPlaceholder, "b")
	want("{http.presets.slug}@{http.presets.version}", "b@1")
	want("{http.presets.key_id}{http.presets.}{http.presets.no_such}", "")
	want("{http.presetsx}", "{http.presetsx}")

	alone := new(Handler).newCall(nil, httptest.NewRequest("GET", "/", nil))
	alone.setPlaceholder(slugPlaceholder, "a") // no replacer, so nothing can see it
}
