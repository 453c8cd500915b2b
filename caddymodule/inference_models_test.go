package caddymodule

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/heldbody"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// TestModelsVaryByKey checks that every answer forbids caches to give it to another key.
func TestModelsVaryByKey(t *testing.T) {
	s := start(t, inferring("list_models on"))
	ask := func(what string, status int, headers ...string) {
		t.Helper()
		for _, path := range []string{"/v1/models", "/v1/models/@preset%2Fabsent"} {
			r := s.do("GET", path, "", headers...)
			want := status
			if path != "/v1/models" && status == 200 {
				want = 404 // our handler answers such a list
			}
			if r.status != want || !slices.Contains(r.header["Vary"], "Authorization, X-Api-Key, Anthropic-Version, User-Agent") {
				t.Errorf("%s, %s: got status %d and Vary %q, want %d", path, what, r.status, r.header["Vary"], want)
			}
		}
	}
	ask("no key", 401)
	ask("a wrong key", 401, bearer("a-guess"))
	for status, body := range map[int]string{200: `{"object":"list","data":[]}`, 203: `{"object":"list","data":[]}`, 304: "", 403: "{}"} {
		s.upstream.answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Vary", "Origin")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		})
		ask("the gateway", status, bearer(inferenceSecret))
	}
	s.upstream.Close()
	ask("no gateway", 200, bearer(inferenceSecret))
}

// modelSite is a site that lists models, with a preset in the default workspace, an archived one, and one
// of a team. It returns the key of the team.
func modelSite(t *testing.T) (s *server, team string) {
	t.Helper()
	s = start(t, inferring("list_models on"))
	s.manage("POST", "/v1/workspaces", minimalWorkspace).want(t, 201)
	s.preset("writer", `{"model":"a/b"}`)
	s.preset("gone", `{"model":"a/b"}`)
	s.manage("DELETE", "/v1/presets/gone", "").want(t, 200)
	s.manage("POST", "/v1/presets/in-team/responses?workspace_id=team", writer).want(t, 200)
	return s, s.issue(`{"kind":"inference","workspace":"team"}`).secret
}

const modelsOfOpenAI = `{"object":"list","data":[{"id":"m","object":"model","created":1,"owned_by":"x"}]}`

// TestModelList checks which presets the list of models gets: those of the key's workspace. Which lists
// get some is the subject of internal/modellist.
func TestModelList(t *testing.T) {
	s, team := modelSite(t)
	get := func(path string, headers ...string) reply { return s.do("GET", path, "", headers...) }
	s.upstream.answers(replyWith(200, "application/json", modelsOfOpenAI))
	for secret, want := range map[string]string{inferenceSecret: "writer", team: "in-team"} {
		for _, header := range []string{bearer(secret), "X-Api-Key: " + secret} {
			for _, path := range []string{"/v1/models", "/v1/models?x=y", "/v1//models"} {
				r := get(path, header)
				r.want(t, 200, `{"id":"m",`, `"id":"@preset/`+want+`"`)
				if strings.Count(r.body, "@preset/") != 1 || !json.Valid([]byte(r.body)) || r.header.Get("Content-Length") != fmt.Sprint(len(r.body)) {
					t.Errorf("got length %s of %s", r.header.Get("Content-Length"), r.body)
				}
				if got := s.upstream.one(t); got.header.Get("Authorization")+got.header.Get("X-Api-Key") != "" || got.uri != path {
					t.Errorf("the gateway got %v", got)
				}
			}
		}
	}
	for _, path := range []string{"/v1/models/m", "/v1/models/user", "/models"} {
		get(path, bearer(inferenceSecret)).want(t, 200, modelsOfOpenAI)
	}
	s.do("POST", "/v1/models", "{}", bearer(inferenceSecret)).want(t, 200, modelsOfOpenAI)
	s.upstream.answers(replyWith(503, "application/json", modelsOfOpenAI))
	if r := get("/v1/models", bearer(inferenceSecret)); r.status != 503 || r.body != modelsOfOpenAI {
		t.Errorf("got %v, want the gateway's 503 unchanged", r)
	}
	s.upstream.answers(replyWith(200, "application/json", modelsOfOpenAI))
	s.upstream.all()
	get("/v1/models").wantError(t, 401, "Missing Authentication header")
	get("/v1/models", bearer(managementSecret)).wantError(t, 403, "")
	s.upstream.none(t)
	for _, mode := range []string{"optional", "off"} {
		s.reload(inferring("list_models on", "keys "+mode))
		get("/v1/models", "Authorization: Bearer sk-foreign").want(t, 200, "@preset/writer")
		if got := s.upstream.one(t).header.Get("Authorization"); got != "Bearer sk-foreign" {
			t.Errorf("keys %s: got Authorization %q", mode, got)
		}
	}
	s.reload(inferring("list_models off"))
	if r := get("/v1/models", bearer(inferenceSecret)); r.body != modelsOfOpenAI {
		t.Errorf("list_models off: got %s", r.body)
	}
}

// TestModelOfAPreset requests a preset as a model. The answer is its entry in the list.
func TestModelOfAPreset(t *testing.T) {
	s, team := modelSite(t)
	get := func(path string, headers ...string) reply {
		t.Helper()
		return s.do("GET", path, "", append(headers, "If-None-Match: *", "Accept-Encoding: gzip")...)
	}
	key := bearer(inferenceSecret)
	const openRouter = `{"id": "a/b","canonical_slug":"a/b-2026","name":"A: B","created":1741818122,"context_length":131072.0,"pricing":{"prompt":"1E-6"}}`
	for _, list := range []string{modelsOfOpenAI, `{"data":[` + openRouter + `]}`, `{"data":[` + openRouter + `],"links":{"next":"/2"}}`} {
		s.upstream.answersList(list, `ETag: "the-lists"`)
		shown := get("/v1/models?x=y", key).body
		s.upstream.all()
		for _, path := range []string{
			"/v1/models/@preset%2Fwriter?x=y", "/v1/models/@preset/writer?x=y", "/v1/models/%40preset%2fwriter?x=y", "/v1//models/@preset/writer/?x=y", "/v1/models/@preset%252Fwriter?x=y",
		} {
			r := get(path, key)
			r.want(t, 200, `{"id":"@preset/writer",`)
			if !strings.Contains(list, "next") && !strings.Contains(shown, r.body) {
				t.Errorf("%s: got %s, want what is in %s", path, r.body, shown)
			}
			head := s.do("HEAD", path, "", key)
			for _, h := range []http.Header{r.header, head.header} {
				if h.Get("Content-Type") != "application/json" || h.Get("Content-Length") != fmt.Sprint(len(r.body)) || h.Get("ETag") != "" || h.Get("Vary") != "Authorization, X-Api-Key, Anthropic-Version, User-Agent" {
					t.Errorf("%s: got headers %v", path, h)
				}
			}
			for _, got := range s.upstream.all() {
				if got.method != "GET" || got.uri != "/v1/models?x=y" || got.header.Get("Authorization") != "" || got.header.Get("If-None-Match") != "" {
					t.Errorf("%s: the gateway got %v", path, got)
				}
			}
		}
		for _, slug := range []string{"in-team", "gone", "absent", "writer@1", "Writer"} {
			get("/v1/models/@preset%2F"+slug, key).wantError(t, 404, "Preset not found: @preset/"+slug)
		}
		get("/v1/models/@preset%2Fin-team", "X-Api-Key: "+team).want(t, 200, `{"id":"@preset/in-team",`)
		get("/v1/models/@preset%2Fwriter", "X-Api-Key: "+team).wantError(t, 404, "Preset not found: @preset/writer")
	}
	// If the gateway has a model of that name, the list shows the gateway's.
	own := `{"id":"@preset/writer" , "object":"model"}`
	s.upstream.answersList(`{"object":"list","data":[ ` + own + ` ]}`)
	if r := get("/v1/models/@preset%2Fwriter", key); r.status != 200 || r.body != own {
		t.Errorf("got %v, want %s", r, own)
	}
	s.upstream.answersList(`{"models":["m"]}`)
	get("/v1/models/@preset%2Fwriter", key).wantError(t, 404, "Model not found: @preset/writer. The gateway's list of models has a form to which no presets are added")
	for status, media := range map[int]string{503: "application/json", 401: "application/json", 200: "text/html"} {
		s.upstream.answers(replyWith(status, media, "the gateway's"))
		if r := get("/v1/models/@preset%2Fwriter", key); r.status != status || r.body != "the gateway's" {
			t.Errorf("got %v, want %d and the gateway's", r, status)
		}
	}
	s.upstream.all()
	get("/v1/models/@preset%2Fwriter").wantError(t, 401, "Missing Authentication header")
	get("/v1/models/@preset%2Fwriter", bearer(managementSecret)).wantError(t, 403, "")
	s.upstream.none(t)
	s.upstream.answersList(modelsOfOpenAI)
	passes := func(path string) {
		t.Helper()
		get(path, key).want(t, 200, modelsOfOpenAI)
		if got := s.upstream.one(t).uri; got != path {
			t.Errorf("the gateway got %s, want %s", got, path)
		}
	}
	for _, path := range []string{"/v1/models/m", "/v1/models/@preset", "/v1/models/@preset/writer/endpoints", "/models/@preset%2Fwriter"} {
		passes(path)
	}
	s.reload(inferring("list_models on", "keys off"))
	get("/v1/models/@preset%2Fwriter").want(t, 200, `{"id":"@preset/writer",`)
	s.upstream.all()
	s.reload(inferring("list_models off"))
	passes("/v1/models/@preset%2Fwriter")
	s.reload(standard)
	passes("/v1/models/@preset/writer")
}

// TestLimitedModelLists compares the ids of lists of models, in both shapes.
func TestLimitedModelLists(t *testing.T) {
	for _, listed := range []bool{true, false} {
		s := limitedSite(t)
		if !listed {
			s.reload(inferring())
		}
		lists := map[string]string{
			"OpenAI's":     `{"object":"list", "data": [ {"id":"openai/a","object":"model"} ,{"id":"openai/a:online","object":"model"}, {"object":"model"},{"id":"other/b","object":"model"}, {"id":"@preset/beyond","object":"model"} ], "x":1}`,
			"OpenRouter's": `{"data":[{"id":"openai/a","canonical_slug":"a"},{"id":"openai/a:online","canonical_slug":"b"},{"canonical_slug":"c"},{"id":"other/b","canonical_slug":"b"},{"id":"@preset/beyond","canonical_slug":"c"}]}`,
			"a page":       `{"object":"list","has_more":true,"data":[{"id":"openai/a"},{"id":"openai/a:online"},{},{"id":"other/b"},{"id":"@preset/beyond"}]}`,
		}
		for name, list := range lists {
			s.upstream.answers(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("ETag", `"x"`)
				io.WriteString(w, list)
			})
			ids := func(body string) (ids []string) {
				ids = s.do("GET", "/v1/models", "", bearer(s.issue(body).secret)).models(t)
				slices.Sort(ids)
				return ids
			}
			within := []string{"@preset/within"}
			if !listed || name == "a page" {
				within = nil
			}
			for body, want := range map[string][]string{
				`{"kind":"inference","models":["openai/*"]}`:                                             slices.Concat([]string{"@preset/beyond"}, within, []string{"openai/a"}),
				`{"kind":"inference","models":["*:online"],"presets":["within"]}`:                        slices.Concat(within, []string{"openai/a:online"}),
				`{"kind":"inference","preset_required":true,"presets":["within"]}`:                       within,
				`{"kind":"inference","preset_required":true,"models":["openai/*"],"presets":["absent"]}`: nil,
				`{"kind":"inference","preset_required":true}`:                                            slices.Concat([]string{"@preset/beyond"}, within),
			} {
				if got := ids(body); !slices.Equal(got, want) {
					t.Errorf("list_models %t, %s with %s: got %q, want %q", listed, name, body, got, want)
				}
			}
		}
		if !listed {
			continue
		}
		// A gateway that lists the preset itself shows it to keys that reach it.
		s.do("GET", "/v1/models/@preset/beyond", "", bearer(s.issue(`{"kind":"inference","presets":["within"]}`).secret)).want(t, 404)
		s.do("GET", "/v1/models/@preset/within", "", bearer(s.issue(`{"kind":"inference","presets":["within"]}`).secret)).want(t, 200)
	}
}

// ofSize returns a model list of size bytes.
func ofSize(size int) string {
	return `{"object":"list","data":[{"id":"m"}]` + strings.Repeat(" ", size-len(`{"object":"list","data":[{"id":"m"}]}`)) + "}"
}

// answersList makes the gateway answer with a model list. It returns how often it did.
func (u *upstream) answersList(list string, headers ...string) *atomic.Int64 {
	answered := new(atomic.Int64)
	u.answers(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(list)))
		for _, h := range headers {
			name, value, _ := strings.Cut(h, ": ")
			w.Header().Set(name, value)
		}
		_, _ = io.WriteString(w, list)
		answered.Add(1)
	})
	return answered
}

// askWithoutReading sends a GET of a path, and reads nothing until the end of the test.
func (s *server) askWithoutReading(path, key string) net.Conn {
	s.t.Helper()
	conn := s.dial()
	s.t.Cleanup(func() { _ = conn.Close() })
	_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	if _, err := io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: gateway.test\r\n"+key+"\r\n\r\n"); err != nil {
		s.t.Fatal(err)
	}
	return conn
}

const bodiesRefused = "caddy_presets_inference_bodies_refused_total"

// TestModelsOfClientsThatNeverRead has many clients that ask for a long list, and read nothing.
// Their lists take at most half of max_memory. Others get 503, and small requests pass.
func TestModelsOfClientsThatNeverRead(t *testing.T) {
	tier.Race(t)
	const size, fit = 6 << 20, 4
	s := start(t, inferring("list_models on", "max_body_size 8MiB", "max_memory 50MiB"))
	s.preset("p", `{"model":"m"}`)
	limited := bearer(s.issue(`{"kind":"inference","models":["m"]}`).secret)
	s.wantNothingHeld()
	for name, tc := range map[string]struct {
		setting, key string
		clients      int
	}{
		"presets are added":  {"list_models on", bearer(inferenceSecret), 60},
		"models are limited": {"list_models off", limited, 12},
	} {
		t.Run(name, func(t *testing.T) {
			s.reload(inferring(tc.setting, "max_body_size 8MiB", "max_memory 50MiB"))
			answered := s.upstream.answersList(ofSize(size))
			refused, _ := strconv.Atoi(s.metric(bodiesRefused))
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			var conns []net.Conn
			for range tc.clients {
				conns = append(conns, s.askWithoutReading("/v1/models", tc.key))
			}
			most := int64(0)
			settled := s.eventually(func() bool {
				most = max(most, held())
				now, _ := strconv.Atoi(s.metric(bodiesRefused))
				late := strings.Count(s.logs(), "the list of models has presets alone") // on a slow machine
				return int(answered.Load()) == tc.clients && now-refused+late > 0
			})
			if !settled || most > 25<<20 || held() > fit*(size+4<<10) {
				t.Errorf("%d lists were sent, %s were refused, and %d bytes are held, %d at most", answered.Load(), s.metric(bodiesRefused), held(), most)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 50<<20 {
				t.Errorf("the heap grew by %d bytes", grown)
			}
			s.upstream.answers(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") })
			s.ask(chatPath, `{"model":"m"}`).want(t, 200, "{}")
			for _, conn := range conns {
				_ = conn.Close()
			}
			s.wantNothingHeld()
		})
	}
}

// TestModelsWriteDeadline checks that a client that does not read is cut off: its memory is free
// while its connection is open.
func TestModelsWriteDeadline(t *testing.T) {
	tier.Race(t)
	s := start(t, inferring("list_models on"))
	s.preset("p", `{"model":"m"}`)
	required := bearer(s.issue(`{"kind":"inference","preset_required":true}`).secret)
	s.handler().deadlines.Body = 200 * time.Millisecond
	for name, list := range map[string]string{"edited": ofSize(8 << 20), "unchanged": strings.Repeat("x", 8<<20)} {
		answered := s.upstream.answersList(list)
		for _, key := range []string{bearer(inferenceSecret), required} {
			s.askWithoutReading("/v1/models", key)
		}
		if !s.eventually(func() bool { return answered.Load() == 2 && held() == 0 }) {
			t.Fatalf("%s: clients that do not read hold %d bytes", name, held())
		}
	}
}

// TestModelsWithoutMemory takes the memory before the gateway answers. Refusals have none of the
// gateway's headers.
func TestModelsWithoutMemory(t *testing.T) {
	s := start(t, inferring("list_models on", "max_body_size 1MiB", "max_memory 8MiB"))
	s.preset("p", `{"model":"m"}`)
	limited := bearer(s.issue(`{"kind":"inference","models":["m"]}`).secret)
	s.wantNothingHeld()
	s.upstream.answersList(ofSize(1<<20), "Cache-Control: public, max-age=600", `ETag: "x"`, "Set-Cookie: a=b")
	for _, path := range []string{"/v1/models", "/v1/models/@preset%2Fp"} {
		for _, key := range []string{bearer(inferenceSecret), limited} {
			// No room for the list, for its entries, and for a copy.
			for _, free := range []int64{100, 1 << 20, 1<<20 + 300} {
				if free > 1<<20 && (key != limited || path != "/v1/models") {
					continue
				}
				taken := 4<<20 - free
				others := &heldbody.Reservation{Limit: 1 << 40}
				_ = others.Add(taken)
				r := s.do("GET", path, "", key)
				others.ReleaseAll()
				r.wantError(t, 503, heldbody.ErrNoMemory.Message)
				if r.header.Get("Retry-After") != "5" || r.header.Get("Cache-Control")+r.header.Get("ETag")+r.header.Get("Set-Cookie") != "" {
					t.Errorf("%s with %d bytes: got headers %v", path, free, r.header)
				}
				if vary := r.header.Values("Vary"); len(vary) != 1 || vary[0] != "Authorization, X-Api-Key, Anthropic-Version, User-Agent" {
					t.Errorf("%s with %d bytes: got Vary %q", path, free, vary)
				}
			}
			s.do("GET", path, "", key).want(t, 200)
			s.wantNothingHeld()
		}
	}
	// A list that never fits passes as it is.
	huge := ofSize(5 << 20)
	s.upstream.answersList(huge)
	if r := s.do("GET", "/v1/models", "", limited); r.status != 200 || r.body != huge {
		t.Errorf("got %d with %d bytes, want the list of %d", r.status, len(r.body), len(huge))
	}
	s.wantNothingHeld()
}
