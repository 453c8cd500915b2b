package caddymodule

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/mediatype"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// TestOtherRoutes disables a tool. With the operator's setting, other routes are refused,
// except reads.
func TestOtherRoutes(t *testing.T) {
	tier.NoRace(t)
	s := start(t, inferring("keys everywhere", "other_routes refuse"))
	s.manage("POST", "/v1/workspaces", `{"name":"Team","slug":"team","disabled_server_tools":["openrouter:web_search"]}`).want(t, 201)
	strict, free := bearer(s.issue(`{"kind":"inference","workspace":"team"}`).secret), bearer(inferenceSecret)
	const use = `{"model":"openai/gpt-5:online"}`
	get := func(path string, headers ...string) string {
		return "GET " + path + " HTTP/1.1\r\nHost: gateway.test\r\n" + lines(headers) + "\r\n"
	}
	unread := map[string]func(key string) string{
		"another route":          func(key string) string { return post("/v1/completions", use, key) },
		"without a body":         func(key string) string { return post("/v1/completions", "", key) },
		"of Ollama":              func(key string) string { return post("/api/chat", use, key) },
		"another base path":      func(key string) string { return post("/openai/v1/chat/completions", use, key) },
		"in another letter case": func(key string) string { return post("/V1/chat/completions", use, key) },
		"a longer path":          func(key string) string { return post("/v1/responses/compact/x", use, key) },
		"another method":         func(key string) string { return strings.Replace(post(chatPath, use, key), "POST", "PUT", 1) },
		"no method of reads":     func(key string) string { return strings.Replace(get("/v1/responses/x", key), "GET", "DELETE", 1) },
		"a read with a body":     func(key string) string { return strings.Replace(post(chatPath, use, key), "POST", "GET", 1) },
		"a read with chunks": func(key string) string {
			return strings.Replace(postChunked(chatPath, use, nil, key), "POST", "GET", 1)
		},
		"a WebSocket": func(key string) string {
			return get("/v1/realtime?model=a:online", key, "Connection: Upgrade", "Upgrade: websocket")
		},
		"models with a body": func(key string) string { return strings.Replace(post("/v1/models", use, key), "POST", "GET", 1) },
		"a model with a body": func(key string) string {
			return strings.Replace(post("/v1/models/@preset/x", use, key), "POST", "GET", 1)
		},
		"a WebSocket to models": func(key string) string {
			return get("/v1/models", key, "Connection: Upgrade", "Upgrade: websocket")
		},
		"a WebSocket to a model": func(key string) string {
			return get("/v1/models/@preset%2Fx", key, "Connection: Upgrade", "Upgrade: websocket")
		},
	}
	read := map[string]func(key string) string{
		"models":          func(key string) string { return get("/v1/models", key) },
		"OPTIONS":         func(key string) string { return strings.Replace(get(chatPath, key), "GET", "OPTIONS", 1) },
		"a response":      func(key string) string { return get("/v1/responses/resp_1", key) },
		"an empty body":   func(key string) string { return get("/v1/models", key, "Content-Length: 0") },
		"what is decided": func(key string) string { return post(chatPath, `{"model":"openai/gpt-5"}`, key) },
	}
	const message = "This route cannot be used in a workspace where server tools are disabled"
	limited := bearer(s.issue(`{"kind":"inference","models":["openai/*"]}`).secret)
	for _, listing := range []string{"list_models off", "list_models on"} {
		s.reload(inferring("keys everywhere", "other_routes refuse", listing))
		for name, request := range unread {
			name = listing + ", " + name
			for _, key := range []string{strict, limited} {
				refused := exchange(t, s.address, request(key))
				if refused.status != http.StatusForbidden || refused.header.Get("X-Gateway") != "" {
					t.Errorf("%s: got %d %s, want 403 and not from the gateway", name, refused.status, refused.body)
				}
				if key == strict {
					refused.want(t, http.StatusForbidden, message)
				}
			}
			if got := s.upstream.all(); len(got) > 0 {
				t.Errorf("%s: the gateway got %v, want nothing", name, got)
			}
			if got := exchange(t, s.address, request(free)); got.status != http.StatusAccepted {
				t.Errorf("%s: got %d %s where nothing is disabled, want 202", name, got.status, got.body)
			}
			s.upstream.one(t)
		}
		for name, request := range read {
			for _, key := range []string{strict, free} {
				if got := exchange(t, s.address, request(key)); got.status != http.StatusAccepted {
					t.Errorf("%s, %s: got %d %s, want 202", listing, name, got.status, got.body)
				}
				s.upstream.one(t)
			}
		}
		s.do("HEAD", "/v1/models", "", strict).want(t, http.StatusAccepted)
		s.upstream.one(t)
		s.do("HEAD", "/v1/models", use, strict).want(t, http.StatusForbidden)
		s.upstream.none(t)
	}

	for _, settings := range [][]string{{"keys everywhere"}, {"keys everywhere", "other_routes pass"}, {"keys required"}, {"keys off", "other_routes refuse"}} {
		s.reload(inferring(settings...)) // with keys off, no tool is disabled
		for name, request := range unread {
			if got := exchange(t, s.address, request(strict)); got.status != http.StatusAccepted {
				t.Errorf("%s, %s: got %d %s, want 202", settings, name, got.status, got.body)
			}
			s.upstream.one(t)
		}
	}
	s.disable("default", `["openrouter:web_search"]`)
	for _, key := range []string{strict, free, "X-Nothing: x"} {
		exchange(t, s.address, unread["another route"](key)).wantError(t, http.StatusForbidden, message)
	}
	s.upstream.none(t)
}

// TestResolvedIsJSON sends bodies that are JSON and a form at once. The gateway is told to
// read the JSON that was resolved. A request without a preset keeps its type.
func TestResolvedIsJSON(t *testing.T) {
	s := start(t, inferring())
	s.preset("mail", `{"model":"m"}`)
	s.setPolicy("mail", `{"models":[]}`)
	const form = `,"metadata":{"x":"&model=n&input=x&y="}}`
	for _, path := range inferencePaths {
		for sent, want := range map[string]string{
			"Content-Type: application/x-www-form-urlencoded":       mediatype.JSON,
			"Content-Type: application/json; charset=utf-7":         mediatype.JSON,
			"Content-Type: application/json; charset=utf-8; form=x": mediatype.JSON,
			"Content-Type: application/json; charset=utf-8":         "application/json; charset=utf-8",
			"X-Nothing: x": "",
		} {
			s.ask(path, `{"preset":"mail"`+form, sent).want(t, http.StatusAccepted)
			got := s.upstream.one(t)
			if types := got.header.Values("Content-Type"); strings.Join(types, " and ") != want {
				t.Errorf("%s with %q: the gateway got the types %q, want %q", path, sent, types, want)
			}
			if !strings.Contains(got.body, form[1:len(form)-1]) {
				t.Errorf("%s: the gateway got %s", path, got.body)
			}
		}
		const formType = "application/x-www-form-urlencoded"
		s.ask(path, `{"model":"a"`+form, "Content-Type: "+formType).want(t, http.StatusAccepted)
		if got := s.upstream.one(t).header.Get("Content-Type"); got != formType {
			t.Errorf("%s without a preset: the gateway got the type %q, want %q", path, got, formType)
		}
		s.ask(path+"?beta=true", `{"preset":"mail"}`).want(t, http.StatusAccepted)
		if got := s.upstream.one(t).uri; got != path+"?beta=true" {
			t.Errorf("the gateway got %s, want the query", got)
		}
		s.ask(path+"?model=n", `{"preset":"mail"}`).want(t, http.StatusBadRequest, "query: model is not a parameter that passes where the preset has a policy")
		s.ask(path+"?model=n", `{"preset":"mail"}`, "X-Preset-Dry-Run: true").want(t, http.StatusBadRequest, "query: model is not a parameter that passes")
		s.upstream.none(t)
	}
}

func TestIsOtherType(t *testing.T) {
	for _, tc := range []struct {
		values []string
		want   bool
	}{
		{nil, false},
		{[]string{""}, false},
		{[]string{"application/json"}, false},
		{[]string{"Application/JSON"}, false},
		{[]string{"application/json; charset=utf-8"}, false},
		{[]string{`application/json;charset="UTF-8"`}, false},
		{[]string{"application/json; charset=us-ascii"}, false},
		{[]string{"application/json", "application/json"}, true},
		{[]string{"application/json", "text/plain"}, true},
		{[]string{"text/plain"}, true},
		{[]string{"application/x-www-form-urlencoded"}, true},
		{[]string{"multipart/form-data; boundary=x"}, true},
		{[]string{"application/vnd.form+json"}, true},
		{[]string{"application/json; profile=form"}, true},
		{[]string{"application/json; charset=utf-8; profile=form"}, true},
		{[]string{"application/json; Charset=utf-7"}, true},
		{[]string{"application/json; charset*=us-ascii'en'utf-7"}, true},
		{[]string{"application/json; charset=utf-8; charset=utf-7"}, true},
		{[]string{"application/json; charset*=form''x"}, true},
		{[]string{"application/json; x*1=form"}, true},
		{[]string{"application/json; charset="}, true},
		{[]string{"application/json; charset"}, true},
		{[]string{"application/json; charset=utf-8", "application/json; charset=utf-7"}, true},
		{[]string{"application/json", "application/json; charset=utf-7"}, true},
		{[]string{"; charset=utf-7"}, true},
	} {
		header := http.Header{"Content-Type": tc.values}
		if tc.values == nil {
			header = http.Header{}
		}
		if got := mediatype.IsOther(header); got != tc.want {
			t.Errorf("%q: got %t, want %t", tc.values, got, tc.want)
		}
	}
}

// TestFieldsThatNoListHas sends fields of LiteLLM's own on each route, also on those that count tokens.
// They are refused with and without a preset, where anything is limited, unless allow_fields has them.
func TestFieldsThatNoListHas(t *testing.T) {
	s := start(t, inferring("allow_fields opened"))
	s.preset("mail", `{"model":"m"}`)
	s.preset("ruled", `{"model":"m","temperature":1}`)
	s.setPolicy("ruled", `{"lock":["temperature"],"allow_fields":["ours"]}`)
	limited := bearer(s.issue(`{"kind":"inference","models":["m"]}`).secret)
	for _, route := range inferenceRoutes {
		path := "/v1/" + route.path
		for _, body := range []string{`{"model":"m",%s}`, `{"preset":"mail",%s}`} {
			s.do("POST", path, fmt.Sprintf(body, `"kwargs":{"instructions":"x"}`), limited).want(t, http.StatusBadRequest, "/kwargs: ", "for a key of some presets or models")
			s.do("POST", path, fmt.Sprintf(body, `"opened":[1]`), limited).want(t, http.StatusAccepted)
			if got := s.upstream.one(t).body; !strings.Contains(got, `"opened":[1]`) {
				t.Errorf("%s: %s goes up as %s", path, body, got)
			}
		}
		r := s.ask(path, `{"preset":"ruled","ours":1,"tags":["a"]}`)
		r.want(t, http.StatusAccepted)
		if got := s.upstream.one(t).body; strings.Contains(got, "tags") || !strings.Contains(got, `"ours":1`) || r.header.Get("X-Preset-Enforced") != "tags" {
			t.Errorf("%s: the gateway got %s, enforced %q", path, got, r.header.Get("X-Preset-Enforced"))
		}
	}
	s.disable("default", `["openrouter:web_search"]`)
	for _, route := range inferenceRoutes {
		s.ask("/v1/"+route.path, `{"model":"m","custom_llm_provider":"llamafile"}`).want(t, http.StatusBadRequest, "where server tools are disabled")
		s.ask("/v1/"+route.path, `{"model":"m","opened":1}`).want(t, http.StatusAccepted)
	}
}
