package caddymodule

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// limitedSite is a site with all routes, and the presets in, out and hidden. hidden is
// archived. All slugs of the test have one length.
func limitedSite(t *testing.T) *server {
	t.Helper()
	s := start(t, inferring("list_models on"))
	s.manage("POST", "/v1/workspaces", `{"name":"Elsewhere","slug":"elsewhere"}`).want(t, 201)
	for _, slug := range []string{"within", "beyond", "hidden"} {
		for n := range 2 {
			s.preset(slug, fmt.Sprintf(`{"model":"openai/%s","top_k":%d}`, slug, n+1))
		}
		s.manage("PUT", "/v1/presets/"+slug+"/labels/one", `{"version":1}`).want(t, 200)
	}
	s.manage("DELETE", "/v1/presets/hidden", "").want(t, 200)
	return s
}

// hide returns r with every slug replaced.
func hide(r reply, slug string) reply {
	r.body = strings.ReplaceAll(r.body, slug, "<slug>")
	return r
}

var conditions = []string{"X-None: ", "If-Match: *", "If-None-Match: *", `If-Match: "00000000000000000000000000000000"`}

// TestNothingTellsOfPresetsOutOfReach compares the answers about presets out of a key's reach, and
// about those of another workspace, with the answers about missing ones. It does so byte by byte, and
// on every route.
func TestNothingTellsOfPresetsOutOfReach(t *testing.T) {
	tier.NoRace(t)
	s := limitedSite(t)
	s.upstream.answers(replyWith(200, "application/json", `{"object":"list","data":[{"id":"openai/gpt-5","object":"model"}]}`))
	limited := bearer(s.issue(`{"kind":"inference","presets":["within","future"]}`).secret)
	outsider := bearer(s.issue(`{"kind":"inference","workspace":"elsewhere"}`).secret)
	same := func(t *testing.T, send func(slug string) reply, status int) {
		t.Helper()
		absent := hide(send("absent"), "absent")
		if absent.status != status {
			t.Errorf("got %d %s, want %d", absent.status, absent.body, status)
		}
		for _, slug := range []string{"beyond", "hidden", "future"} { // the last is in reach, and does not exist
			wantSame(t, slug, absent, hide(send(slug), slug))
		}
	}
	tag := s.manage("GET", "/v1/presets/beyond", "").header.Get("ETag")
	f := &fixtures{s: s}
	for route, r := range matrix {
		method, _, _ := strings.Cut(route, " ")
		status := map[string]int{"anyone": 404, "management": 403, "creators": 403}[r.may]
		for _, c := range append(r.missing, r.exists) {
			if !strings.Contains(c.path, "{p}") {
				continue
			}
			for _, condition := range append(conditions, "If-Match: "+tag, "If-None-Match: "+tag) {
				for _, key := range []string{limited, outsider} {
					t.Run(fmt.Sprintf("%s %s with %s", method, c.path, condition), func(t *testing.T) {
						same(t, func(slug string) reply {
							return s.do(method, "/v1/"+f.fill(c.path, slug, ""), f.fill(r.exists.body, slug, ""), key, condition)
						}, status)
					})
				}
				in := func(slug, workspace string) reply {
					path := withQuery("/v1/"+f.fill(c.path, slug, ""), "workspace_id="+workspace)
					return hide(s.do(method, path, f.fill(r.exists.body, slug, ""), outsider, condition), slug)
				}
				unknown := in("within", "01890000-0000-7000-8000-000000000000")
				wantSame(t, route+" in a workspace", unknown, in("within", "default"))
				wantSame(t, route+" in a workspace", unknown, in("absent", "default"))
			}
		}
	}
	for _, route := range inferenceRoutes {
		for _, reference := range []string{`"model":"@preset/%"`, `"preset":"%"`, `"preset":"%@one"`, `"preset":"%@none"`, `"preset":"%@2"`, `"model":"openai/a@preset/%"`} {
			for _, dryRun := range []string{"false", "true"} {
				for _, rest := range []string{``, `,"tools":3`, `,"session_id":"s"`} {
					t.Run(route.path+" "+reference+rest, func(t *testing.T) {
						same(t, func(slug string) reply {
							return s.do("POST", "/v1/"+route.path, "{"+strings.ReplaceAll(reference, "%", slug)+rest+"}", limited, "X-Preset-Dry-Run: "+dryRun)
						}, 404)
					})
				}
			}
		}
	}
	s.upstream.none(t)
	for _, path := range []string{"/v1/models/@preset/", "/v1/models/@preset%2F"} {
		same(t, func(slug string) reply { return s.do("GET", path+slug, "", limited) }, 404)
	}
	// The lists show what is in reach, and count nothing else.
	for _, query := range []string{"", "?status=all", "?status=archived", "?sort=name", "?sort=slug&order=asc", "?q=e", "?limit=1", "?offset=1"} {
		got := s.do("GET", "/v1/presets"+query, "", limited)
		got.want(t, 200)
		if strings.Contains(got.body, "beyond") || strings.Contains(got.body, "hidden") || strings.Contains(got.body, `"total_count":3`) || strings.Contains(got.body, `"total_count":2`) {
			t.Errorf("%s: got %s", query, got.body)
		}
	}
	s.do("GET", "/v1/presets/within", "", limited).want(t, 200)
	s.do("GET", "/v1/presets/beyond", "", bearer(inferenceSecret)).want(t, 200)

	// A slug that another workspace uses is free.
	s.reload(standard + "\npreset_creators any")
	for _, dialect := range []string{"responses", "chat/completions", "messages"} {
		mine := func(slug string) string {
			r := hide(s.do("POST", "/v1/presets/"+slug+"/"+dialect, "{}", outsider), slug)
			return fmt.Sprint(r.status, times.ReplaceAllString(uuids.ReplaceAllString(r.body, ""), ""))
		}
		if taken, free := mine("within"), mine("vacant"); taken != free {
			t.Errorf("%s: got\n%s\nfor a slug that is taken elsewhere and\n%s\nfor one that is not", dialect, taken, free)
		}
	}
	s.manage("GET", "/v1/presets/within/versions", "").want(t, 200, `"total_count":2`)
}

// TestNothingTellsOfWorkspacesOutOfReach does so for a management key of one workspace.
func TestNothingTellsOfWorkspacesOutOfReach(t *testing.T) {
	tier.NoRace(t)
	s := limitedSite(t)
	s.manage("POST", "/v1/workspaces", `{"name":"Own","slug":"own"}`).want(t, 201)
	s.manage("POST", "/v1/presets/within/responses?workspace_id=own", `{}`).want(t, 200)
	s.manage("PUT", "/v1/presets/within/labels/one?workspace_id=own", `{"version":1}`).want(t, 200)
	key := bearer(s.issue(`{"kind":"management","workspace":"own","only_workspace":true,"may":["protected-labels"]}`).secret)
	id := func(slug string) string { return s.manage("GET", "/v1/workspaces/"+slug, "").field(t, "id") }
	pairs := [][2]string{ // one that does not exist, and one out of reach
		{"abscond", "default"},
		{"absentees", "elsewhere"},
		{"01890000-0000-7000-8000-000000000000", id("default")},
		{"01890000-0000-7000-8000-000000000000", id("elsewhere")},
	}
	// Everyone's answers are in memory.
	for _, pair := range pairs {
		s.manage("GET", "/v1/workspaces/"+pair[1], "").want(t, 200)
	}
	for route, r := range matrix {
		method, path, _ := strings.Cut(route, " ")
		if !strings.Contains(path, "{") && path != "presets" || isOfKeys(path) {
			continue
		}
		for i, pair := range pairs {
			for j, condition := range conditions {
				if (i+j)%tier.Sample(4) != 0 {
					continue
				}
				for _, slug := range []string{"within", "beyond", "absent"} {
					ask := func(workspace string) reply {
						f := &fixtures{s: s}
						sent := "/v1/" + f.fill(r.exists.path, slug, workspace)
						if !strings.Contains(r.exists.path, "{w}") {
							sent = withQuery(sent, "workspace_id="+workspace)
						}
						return s.do(method, sent, f.fill(r.exists.body, slug, workspace), key, condition)
					}
					missing := ask(pair[0])
					if missing.status != 404 {
						t.Errorf("%s: got %d %s, want 404", route, missing.status, missing.body)
					}
					wantSame(t, fmt.Sprintf("%s of %s with %s", route, pair[1], condition), missing, ask(pair[1]))
				}
			}
		}
	}
	// A slug that is taken elsewhere is not told from a free one.
	patch := func(slug string) reply {
		return s.do("PATCH", "/v1/workspaces/own", `{"slug":"`+slug+`"}`, key)
	}
	free := patch("free")
	free.wantError(t, 403, "The key manages one workspace only, and cannot perform this operation")
	wantSame(t, "a slug", free, patch("elsewhere"))
	wantSame(t, "a new workspace", s.do("POST", "/v1/workspaces", `{"name":"n","slug":"free"}`, key), s.do("POST", "/v1/workspaces", `{"name":"n","slug":"elsewhere"}`, key))
	// Its own workspace is there in every way.
	for _, workspace := range []string{"own", id("own")} {
		s.do("GET", "/v1/workspaces/"+workspace, "", key).want(t, 200, `"slug":"own"`)
		s.do("GET", "/v1/workspaces/"+workspace+"/history", "", key).want(t, 200)
		s.do("PATCH", "/v1/workspaces/"+workspace, `{"slug":"own","name":"Ours"}`, key).want(t, 200, `"Ours"`)
		s.do("DELETE", "/v1/workspaces/"+workspace, "", key).wantError(t, 403, "The key manages one workspace only, and cannot perform this operation")
		s.do("GET", "/v1/presets/within?workspace_id="+workspace, "", key).want(t, 200)
	}
	s.do("GET", "/v1/presets/within", "", key).want(t, 200)
	s.do("GET", "/v1/presets", "", key).want(t, 200, `"total_count":1`)
	list := s.do("GET", "/v1/workspaces", "", key)
	list.want(t, 200, `"slug":"own"`, `"total_count":1`)
	if strings.Contains(list.body, "elsewhere") || strings.Contains(list.body, "default\"") {
		t.Errorf("got %s", list.body)
	}
	s.do("GET", "/v1/workspaces?offset=1", "", key).want(t, 200, `"data":[]`, `"total_count":1`)
}

// TestLimitedInference sends requests that a key's limits refuse and permit.
func TestLimitedInference(t *testing.T) {
	s := limitedSite(t)
	required := bearer(s.issue(`{"kind":"inference","presets":["within"],"preset_required":true}`).secret)
	models := bearer(s.issue(`{"kind":"inference","models":["openai/*"]}`).secret)
	for _, route := range inferenceRoutes {
		path := "/v1/" + route.path
		s.do("POST", path, `{"model":"openai/a"}`, required).want(t, 400, "/preset", "must name a preset")
		s.do("POST", path, `{"model":"openai/a"}`, required, "X-Preset-Dry-Run: true").want(t, 400, "must name a preset")
		s.do("POST", path, `{"model":"other/a"}`, models).want(t, 403, "/model", "is not a model that the key may name")
		if route.dialect == domain.Images { // which has no such field
			s.do("POST", path, `{"preset":"within","models":["openai/a"]}`, models).want(t, 400, "/models: is not a field")
		} else {
			s.do("POST", path, `{"preset":"within","models":["other/a"]}`, models).want(t, 403, "/models/0")
		}
		s.do("POST", path, caddytest.Gzip(`{"model":"other/a"}`), models, "Content-Encoding: gzip").want(t, 403, "/model")
		s.do("POST", path, `{"model":"openai/a"}`, models, "Content-Encoding: zstd").want(t, 415, "the body is not valid zstd")
		s.upstream.none(t)
		for _, sent := range [][2]string{{required, `{"preset":"within"}`}, {required, `{"model":"other/a@preset/within"}`}, {models, `{"model":"openai/a"}`}, {models, `{"preset":"beyond"}`}} {
			s.do("POST", path, sent[1], sent[0]).want(t, 202)
			s.upstream.one(t)
		}
	}
	// Other routes would lead around the limits.
	const refused = "This route cannot be used with a key that is limited to presets or models"
	for _, key := range []string{required, models} {
		for _, path := range []string{"/v1/completions", "/v1/messages/batches", "/api/chat"} {
			s.do("POST", path, `{"model":"other/a"}`, key).want(t, 403, refused)
			s.upstream.none(t)
			s.do("POST", path, `{"model":"other/a"}`, bearer(inferenceSecret)).want(t, 202)
			s.upstream.one(t)
		}
	}
	wantError := s.do("POST", responsesPath, `{"model":"other/a"}`, models)
	wantError.want(t, 403, `"type":"model_not_allowed"`)
}

// TestLimitedRoutes sends requests to the gateway that no limit can judge. Reads run models, too:
// LiteLLM does so for GET /health?model=x.
func TestLimitedRoutes(t *testing.T) {
	tier.NoRace(t)
	s := limitedSite(t)
	const refused = "This route cannot be used with a key that is limited to presets or models"
	keys := map[string]string{
		"presets":  bearer(s.issue(`{"kind":"inference","presets":["within"]}`).secret),
		"required": bearer(s.issue(`{"kind":"inference","preset_required":true}`).secret),
		"models":   bearer(s.issue(`{"kind":"inference","models":["openai/*"]}`).secret),
	}
	ask := func(where string, status int, method, path, body string, headers ...string) {
		t.Helper()
		got := s.do(method, path, body, headers...)
		reached := len(s.upstream.all()) > 0
		if got.status != status || reached != (status == 202) || status == 403 && method != "HEAD" && !strings.Contains(got.body, refused) {
			t.Errorf("%s, %s %s: got %d %s, and it reached the gateway: %t. Want %d", where, method, path, got.status, got.body, reached, status)
		}
	}
	webSocket := []string{"Connection: Upgrade", "Upgrade: websocket"}
	for _, listing := range []string{"list_models off", "list_models on"} {
		for _, mode := range []string{"everywhere", "required"} {
			s.reload(inferring(listing, "websockets pass", "keys "+mode, "limited_paths /health/liveliness /files/* /v1/responses /v1/chat/*"))
			for name, key := range keys {
				where := fmt.Sprintf("%s, keys %s, %s", listing, mode, name)
				for _, path := range []string{
					"/health?model=other/a", "/health", "/", "/models", "/v1/model/info", "/v1/responses/resp_1", "/v1/responses", "/v1/chat/completions",
					"/v1/realtime?model=other/a", "/health/liveliness/x", "/Health/Liveliness", "/files", "/filesystem", "/health%2Fliveliness%2Fx",
					"/health/liveliness%3Fmodel=other/a", "/health/liveliness%2523/x", "/files/a%3Fb", "/v1/models%3F/x", "/v1/models/openai%2Fa%23b",
				} {
					for _, method := range []string{"GET", "HEAD", "OPTIONS", "DELETE"} {
						ask(where, 403, method, path, "", key)
					}
				}
				for _, method := range []string{"GET", "HEAD"} {
					ask(where, 202, method, "/v1/models?limit=1000", "", key)
				}
				ask(where, 403, "DELETE", "/v1/models/openai/a", "", key)
				ask(where, 403, "GET", "/v1/models", "x", key)
				ask(where, 403, "GET", "/v1/models", "", append(webSocket, key)...)
				ask(where, 403, "GET", "/v1/responses", "", append(webSocket, key)...)
				ask(where, map[bool]int{true: 403, false: 202}[name == "required"], "GET", "/v1/models/openai%2Fa", "", key)
				ask(where, map[bool]int{true: 202, false: 403}[name == "presets"], "GET", "/v1/models/other/a", "", key)
				for _, path := range []string{"/health/liveliness", "/health/liveliness/", "//health//liveliness?model=x", "/health%2Fliveliness", "/files/a/b"} {
					ask(where, 202, "GET", path, "", key)
					ask(where, 202, "DELETE", path, "", key)
				}
				ask(where, 202, "POST", "/v1/chat/completions/cmpl_1", "", key)
				ask(where, 400, "POST", "/v1/chat/../../health", "", key)
			}
			for _, path := range []string{"/health?model=other/a", "/v1/models/other/a", "/v1/responses/resp_1"} {
				ask("without limits", 202, "GET", path, "", bearer(inferenceSecret))
			}
		}
	}
	s.reload(inferring("limited_paths /*"))
	for _, key := range keys {
		ask("all", 202, "GET", "/health?model=other/a", "", key)
		ask("all", 403, "GET", "/v1/responses", "", key)
	}
	s.reload(inferring("keys off"))
	ask("keys off", 202, "GET", "/health?model=other/a", "", keys["models"])
}
