package caddymodule

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/heldbody"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

const (
	asClaudeCode   = "User-Agent: claude-code/2.1.332"
	asAnthropic    = "Anthropic-Version: 2023-06-01"
	claudeModels   = `{"data":[{"type":"model","id":"claude-opus-5","display_name":"Opus","created_at":"2026-01-01T00:00:00Z","max_input_tokens":200000}],"has_more":false,"first_id":"claude-opus-5","last_id":"claude-opus-5"}`
	noModels       = `{"data":[],"has_more":false,"first_id":null,"last_id":null}`
	noModelsOpenAI = `{"object":"list","data":[]}`
)

// pickerSite is a site with presets of Claude's and of another model, one disabled and one archived.
func pickerSite(t *testing.T, list string) *server {
	t.Helper()
	s := start(t, inferring("list_models "+list))
	s.preset("review", `{"model":"claude-opus-5"}`)
	s.preset("review", `{"model":"claude-haiku-5"}`)
	s.manage("PUT", "/v1/presets/review/labels/staging", `{"version":1}`).want(t, 200)
	s.manage("PATCH", "/v1/presets/review", `{"name":"Reviews code"}`).want(t, 200)
	s.preset("fast", `{"model":"gpt-5"}`)
	s.preset("off", `{"model":"claude-opus-5"}`)
	s.manage("PATCH", "/v1/presets/off", `{"status":"disabled"}`).want(t, 200)
	s.preset("gone", `{"model":"claude-opus-5"}`)
	s.manage("DELETE", "/v1/presets/gone", "").want(t, 200)
	return s
}

// models returns the ids of a list of models.
func (r reply) models(t *testing.T) (ids []string) {
	t.Helper()
	r.want(t, 200)
	var list struct{ Data []struct{ ID string } }
	if err := json.Unmarshal([]byte(r.body), &list); err != nil {
		t.Fatalf("%s: %v", r.body, err)
	}
	for _, model := range list.Data {
		ids = append(ids, model.ID)
	}
	return ids
}

// TestPresetsInPickers lists presets for Claude Code and for others, and then uses each listed id in
// a request on each route. Each acts as the preset, also under a policy and for a limited key.
func TestPresetsInPickers(t *testing.T) {
	for list, want := range map[string][]string{
		"on":     {"anthropic/@preset/fast", "claude-haiku-5@preset/review"},
		"labels": {"anthropic/@preset/fast", "claude-haiku-5@preset/review", "claude-opus-5@preset/review@staging"},
	} {
		s := pickerSite(t, list)
		limited := bearer(s.issue(`{"kind":"inference","models":["none"],"presets":["review","fast","off","gone"]}`).secret)
		only := bearer(s.issue(`{"kind":"inference","presets":["fast"],"preset_required":true}`).secret)
		s.setPolicy("review", `{"lock":["model"],"violation":"refuse"}`)
		for gateway, own := range map[string][]string{claudeModels: {"claude-opus-5"}, noModels: nil, modelsOfOpenAI: {"m"}, noModelsOpenAI: nil} {
			s.upstream.answersList(gateway)
			for _, client := range []string{asClaudeCode, asAnthropic, "User-Agent: openai"} {
				want := slices.Clone(want)
				if client == "User-Agent: openai" {
					for i, id := range want {
						_, ref, _ := strings.Cut(id, "@preset/")
						want[i] = "@preset/" + ref
					}
				}
				r := s.do("GET", "/v1/models?limit=1000", "", bearer(inferenceSecret), client)
				if got := r.models(t); !slices.Equal(got, slices.Concat(own, want)) {
					t.Errorf("%s for %s: got %q, want %q and %q", gateway, client, got, own, want)
				}
				if got := s.do("GET", "/v1/models", "", limited, client).models(t); !slices.Equal(got, want) {
					t.Errorf("%s for %s with limits: got %q, want %q", gateway, client, got, want)
				}
				if got := s.do("GET", "/v1/models", "", only, client).models(t); !slices.Equal(got, want[:1]) {
					t.Errorf("%s for %s with one preset: got %q, want %q", gateway, client, got, want[:1])
				}
				for _, id := range want {
					s.wantModel(r, id, client)
				}
			}
		}
		s.upstream.answers(replyWith(200, "application/json", "{}"))
		for _, id := range want {
			_, ref, _ := strings.Cut(id, "@preset/")
			for _, path := range []string{chatPath, responsesPath, messagesPath, countMessagesPath, countResponsesPath, compactPath} {
				for _, key := range []string{limited, bearer(inferenceSecret)} {
					got := map[string]string{}
					for _, model := range []string{"@preset/" + ref, id} {
						s.upstream.all()
						r := s.do("POST", path, fmt.Sprintf(`{"model":%q}`, model), key)
						r.want(t, 200)
						got[model] = fmt.Sprint(r.header.Get("X-Preset"), r.header.Get("X-Preset-Enforced"), s.upstream.one(t).body)
					}
					if got[id] != got["@preset/"+ref] {
						t.Errorf("%s: %s gave %s, want %s", path, id, got[id], got["@preset/"+ref])
					}
				}
			}
			s.do("POST", "/v1/embeddings", fmt.Sprintf(`{"model":%q}`, id), bearer(inferenceSecret)).want(t, 400, "must not refer to a preset")
		}
		s.do("POST", chatPath, `{"model":"claude-other@preset/review"}`, bearer(inferenceSecret)).want(t, 403)
		s.do("POST", chatPath, `{"model":"gpt-5@preset/review"}`, limited).want(t, 403)
		s.do("POST", chatPath, `{"model":"anthropic/@preset/off"}`, limited).wantError(t, 404, "Preset not found: @preset/off")
		s.upstream.answersList(claudeModels)
		if label := s.do("GET", "/v1/models/@preset/review@staging", "", bearer(inferenceSecret)); label.status != map[string]int{"on": 404, "labels": 200}[list] {
			t.Errorf("list_models %s: got %v for a label", list, label)
		}
		for _, id := range []string{"gpt-5@preset/review", "anthropic/@preset/off", "claude-opus-5@preset/gone", "anthropic/@preset/fast@none"} {
			s.do("GET", "/v1/models/"+url.PathEscape(id), "", bearer(inferenceSecret)).want(t, 404, "Preset not found: ")
		}
	}
}

// wantModel asks for a model of a list by each of its names, escaped and not. Each answer is its entry.
func (s *server) wantModel(list reply, id, client string) {
	s.t.Helper()
	_, ref, _ := strings.Cut(id, "@preset/")
	for _, name := range []string{id, "@preset/" + ref, "anthropic/@preset/" + ref, "openai/@preset/" + ref} {
		for _, path := range []string{name, url.PathEscape(name)} {
			r := s.do("GET", "/v1/models/"+path, "", bearer(inferenceSecret), client)
			r.want(s.t, 200)
			if !strings.Contains(list.body, r.body) || !strings.HasPrefix(r.body, "{") || !strings.Contains(r.body, fmt.Sprintf(`"id":%q`, id)) {
				s.t.Errorf("%s for %s: got %s, want the entry in %s", path, client, r.body, list.body)
			}
		}
	}
}

// TestModelOfAnthropic asks for one model of a gateway whose first page is short. Anthropic's clients get
// the entry of the whole list, and errors in their form.
func TestModelOfAnthropic(t *testing.T) {
	s := pickerSite(t, "on")
	s.preset("deep", `{"model":"claude-opus-5"}`)
	s.upstream.answers(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.RawQuery == "limit=1000" {
			_, _ = io.WriteString(w, claudeModels)
			return
		}
		_, _ = io.WriteString(w, noModels)
	})
	for client, limit := range map[string]string{asAnthropic: "200000", asClaudeCode: "200000", "Accept: */*": ""} {
		r := s.do("GET", "/v1/models/@preset%2Fdeep", "", bearer(inferenceSecret), client)
		r.want(t, 200)
		if isLimited := strings.Contains(r.body, `"max_input_tokens":200000`); isLimited != (limit != "") {
			t.Errorf("%s: got %s, want a limit of %q tokens", client, r.body, limit)
		}
	}
	for key, status := range map[string]int{inferenceSecret: 404, "sk-of-nobody": 401} {
		for client, want := range map[string]string{asAnthropic: `{"type":"error","error":{`, "Accept: */*": `{"error":{`} {
			r := s.do("GET", "/v1/models/@preset%2Fnowhere", "", bearer(key), client)
			if r.status != status || !strings.HasPrefix(r.body, want) {
				t.Errorf("%s: got %d %s, want %d %s", client, r.status, r.body, status, want)
			}
		}
	}
}

// TestPickerPages checks the pages of a gateway that has two, for Anthropic's clients.
func TestPickerPages(t *testing.T) {
	s := pickerSite(t, "on")
	entry := func(id string) string { return fmt.Sprintf(`{"type":"model","id":%q}`, id) }
	list := func(more bool, first, last string) string {
		return fmt.Sprintf(`{"data":[%s,%s],"has_more":%t,"first_id":%q,"last_id":%q}`, entry(first), entry(last), more, first, last)
	}
	s.upstream.answers(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		query := r.URL.Query()
		switch {
		case query.Get("before_id") == "c":
			_, _ = io.WriteString(w, list(false, "a", "b"))
		case query.Get("after_id") == "b":
			_, _ = io.WriteString(w, list(false, "c", "d"))
		default:
			_, _ = io.WriteString(w, list(true, "a", "b"))
		}
	})
	get := func(query, key string) string {
		t.Helper()
		r := s.do("GET", "/v1/models?limit=2"+query, "", key, asAnthropic)
		var page struct {
			HasMore bool    `json:"has_more"`
			FirstID *string `json:"first_id"`
			LastID  *string `json:"last_id"`
		}
		if err := json.Unmarshal([]byte(r.body), &page); err != nil {
			t.Fatal(err)
		}
		show := func(id *string) string {
			if id == nil {
				return "null"
			}
			return *id
		}
		return fmt.Sprint(r.models(t), page.HasMore, " ", show(page.FirstID), " ", show(page.LastID))
	}
	fast := "anthropic/@preset/fast"
	const review = "claude-haiku-5@preset/review"
	all, only := bearer(inferenceSecret), bearer(s.issue(`{"kind":"inference","models":["b","c"],"presets":["fast"]}`).secret)
	for _, tc := range []struct{ query, key, want string }{
		{"", all, "[a b] true a b"},
		{"&after_id=b", all, fmt.Sprintf("[c d %s %s] false c %[2]s", fast, review)},
		{"&before_id=c", all, "[a b] false a b"},
		{"", only, "[b] true a b"},
		{"&after_id=b", only, fmt.Sprintf("[c %s] false c %[1]s", fast)},
		{"&before_id=c", only, "[b] false b b"},
	} {
		if got := get(tc.query, tc.key); got != tc.want {
			t.Errorf("%q: got %s, want %s", tc.query, got, tc.want)
		}
	}
	s.upstream.all()
	for _, query := range []string{"&after_id=" + url.QueryEscape(fast), "&before_id=" + url.QueryEscape(fast)} {
		if got := get(query, all); got != "[] false null null" {
			t.Errorf("%q: got %s, want an empty page", query, got)
		}
	}
	s.upstream.none(t)
}

// TestModelsWithoutList checks what a client gets of a gateway that has no list.
func TestModelsWithoutList(t *testing.T) {
	s := pickerSite(t, "on")
	alone := func(name string) {
		t.Helper()
		for _, path := range []string{"/v1/models", "/v1/models/@preset/fast"} {
			for client, form := range map[string]string{asAnthropic: `"type":"model","id":"anthropic/@preset/fast","display_name":"fast"`, "X-Api-Key: ": `"id":"@preset/fast","object":"model"`} {
				r := s.do("GET", path, "", bearer(inferenceSecret), client)
				r.want(t, 200, form)
				if r.header.Get("X-Gateway")+r.header.Get("ETag") != "" || r.header.Get("Content-Type") != "application/json" || len(r.header.Values("Vary")) != 1 {
					t.Errorf("%s, %s: got headers %v", name, path, r.header)
				}
			}
		}
		s.do("GET", "/v1/models/@preset/off", "", bearer(inferenceSecret)).wantError(t, 404, "Preset not found: @preset/off")
		s.wantNothingHeld()
	}
	for _, status := range []int{404, 405, 501} {
		s.upstream.answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", `"x"`)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, strings.Repeat("no such route", 10_000))
		})
		alone(fmt.Sprint("status ", status))
	}
	s.upstream.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000000")
		_, _ = io.WriteString(w, `{"object":"list","data":[`)
		_ = http.NewResponseController(w).Flush() // else it would be a gateway that does not answer
		panic(http.ErrAbortHandler)
	})
	alone("it breaks off")
	for _, status := range []int{401, 403, 429, 500, 503} {
		s.upstream.answers(replyWith(status, "application/json", "the gateway's"))
		r := s.do("GET", "/v1/models", "", bearer(inferenceSecret), asAnthropic)
		if r.status != status || r.body != "the gateway's" {
			t.Errorf("got %v, want the gateway's %d", r, status)
		}
	}
	// Without memory for the empty list there is an error.
	s.upstream.answers(replyWith(404, "text/plain", ""))
	others := &heldbody.Reservation{Limit: 1 << 40}
	_ = others.Add(s.handler().Inference.MaxMemory)
	s.do("GET", "/v1/models", "", bearer(inferenceSecret)).wantError(t, 503, heldbody.ErrNoMemory.Message)
	others.ReleaseAll()
	s.upstream.Close()
	alone("it cannot be reached")
	if logs := s.logs(); !strings.Contains(logs, "presets alone") {
		t.Error("nothing is logged")
	}
}

// TestModelsInTime checks that a list which takes too long is given up after 2 s: its request ends at
// the gateway. An answer that is no list takes its time.
func TestModelsInTime(t *testing.T) {
	tier.Slow(t)
	s := pickerSite(t, "on")
	ended := make(chan struct{}, 2)
	for path, gateway := range map[string]struct{ begins, want string }{
		"/v1/models":              {"", `{"data":[{"type":"model","id":"anthropic/@preset/fast"`},
		"/v1/models/@preset/fast": {`{"object":"list","data":[`, `{"type":"model","id":"anthropic/@preset/fast"`},
	} {
		s.upstream.answers(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if gateway.begins != "" {
				_, _ = io.WriteString(w, gateway.begins)
				_ = http.NewResponseController(w).Flush()
			}
			<-r.Context().Done()
			ended <- struct{}{}
		})
		began := time.Now()
		s.do("GET", path, "", bearer(inferenceSecret), asAnthropic).want(t, 200, gateway.want)
		if took := time.Since(began); took < 1900*time.Millisecond || took > 10*time.Second {
			t.Errorf("%s: took %s, want 2 s", path, took)
		}
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: the request to the gateway goes on", path)
		}
	}
	s.wantNothingHeld()
	const page = "<html>"
	s.upstream.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		for range 3 {
			_, _ = io.WriteString(w, page)
			_ = http.NewResponseController(w).Flush()
			time.Sleep(800 * time.Millisecond)
		}
	})
	if r := s.do("GET", "/v1/models", "", bearer(inferenceSecret)); r.status != 200 || r.body != page+page+page {
		t.Errorf("got %v, want the page", r)
	}
}
