package inference_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/domain/inference/reference"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// TestFieldsThatARouteTakes checks a route with few fields. The preset and the workspace
// add only these. All fields of the caller stay.
func TestFieldsThatARouteTakes(t *testing.T) {
	r := newResolving(t)
	for i, tc := range []struct {
		name, config, prompt    string
		textModel, providerSort string
		dropFields              []string
		from                    domain.Dialect // messages if empty
		body, want              string
		dropped                 string
		refused                 string
	}{
		{
			name: "the rest of the preset stays behind, and is not lost", prompt: "Be brief.",
			config: `{"model":"m","max_tokens":9,"temperature":1,"thinking":{"type":"disabled"},"tools":[{"name":"a"}],"stop_sequences":["x"],"service_tier":"auto"}`,
			body:   `{"preset":"p","messages":[]}`,
			want:   `{"messages":[],"model":"m","thinking":{"type":"disabled"},"tools":[{"name":"a"}],"system":"Be brief."}`,
		},
		{
			name: "the caller's own fields stay", config: `{"model":"m","max_tokens":9,"temperature":1}`,
			body: `{"model":"@preset/p","max_tokens":5,"temperature":null,"betas":["x"]}`,
			want: `{"model":"m","max_tokens":5,"temperature":null,"betas":["x"]}`,
		},
		{
			name: "tools are united", config: `{"model":"m","tools":[{"name":"a"},{"name":"b"}]}`,
			body: `{"model":"@preset/p","tools":[{"name":"b","x":1},{"name":"c"}]}`,
			want: `{"model":"m","tools":[{"name":"a"},{"name":"b","x":1},{"name":"c"}]}`,
		},
		{
			name: "the first of models is the model", config: `{"models":["a","b"]}`,
			body: `{"model":"@preset/p"}`, want: `{"model":"a"}`,
		},
		{
			name: "the first of models that the gateway does not know, either", config: `{"models":["a","b"]}`, dropFields: []string{"models"},
			body: `{"model":"@preset/p"}`, want: `{"model":"a"}`, dropped: "models",
		},
		{
			name: "the model wins over models", config: `{"models":["a","b"],"model":"m"}`,
			body: `{"model":"@preset/p"}`, want: `{"model":"m"}`,
		},
		{
			name: "of the workspace the model alone", config: `{"temperature":1}`, textModel: "w", providerSort: "price",
			body: `{"model":"@preset/p"}`, want: `{"model":"w"}`,
		},
		{
			name: "no model", config: `{"temperature":1}`,
			body: `{"model":"@preset/p"}`, refused: "/model: required",
		},
		{
			name: "what has no counterpart is listed as on the route that is counted for", from: responses,
			config: `{"model":"m","reasoning":{"effort":"low"},"include":["x"],"temperature":1}`,
			body:   `{"model":"@preset/p"}`, want: `{"model":"m","output_config":{"effort":"low"}}`, dropped: "include",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.from == "" {
				tc.from = messages
			}
			resolver := r.resolver(t, inference.Config{DropFields: tc.dropFields})
			who := r.team(t, fmt.Sprint("taker", i), tc.textModel, tc.providerSort)
			r.put(t, who.WorkspaceID, "p", version{tc.from, tc.config, tc.prompt})
			request := inference.Request{Dialect: messages, Body: []byte(tc.body), Takes: []string{"tools", "thinking", "output_config"}}
			got, err := resolver.Resolve(t.Context(), who, request)
			if tc.refused != "" {
				wantKind(t, err, domain.Invalid, tc.refused)
				return
			}
			wantBody(t, got, err, tc.want)
			if dropped := strings.Join(got.Dropped, ","); dropped != tc.dropped {
				t.Errorf("got dropped %q, want %q", dropped, tc.dropped)
			}
			// The cached preset serves the other routes, too.
			request.Takes = nil
			all, err := resolver.Resolve(t.Context(), who, request)
			if err != nil || strings.Contains(tc.config, `"temperature"`) && !strings.Contains(all.Body.String(), `"temperature"`) {
				t.Errorf("where all fields are taken: got %s, %v", all.Body, err)
			}
		})
	}
}

func TestFindReference(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"@preset/p"}`:                                                    "/model",
		`{"input":["x"],"model":"openai/gpt-5@preset/p@3"}`:                        "/model",
		`{"m\u006fdel":"\u0040pr\u0065set\/p"}`:                                    "/model",
		`{"model":"m","model":"@preset/p"}`:                                        "/model",
		`{"model":"@preset/p","input":`:                                            "/model",
		"\n {\"x\":{},\"model\":\"@preset/\"} trailing":                            "/model",
		`{"models":["a","@preset/p"]}`:                                             "/models/1",
		`{"fallbacks":[{"model":"a"},{"x":1,"model":"@preset/p"}]}`:                "/fallbacks/1/model",
		`{"fallbacks":["a","@preset/p"]}`:                                          "/fallbacks/1",
		`{"requests":[{"params":{"model":"a"}},{"params":{"model":"@preset/p"}}]}`: "/requests/1/params/model",
	} {
		if got := reference.FindReference([]byte(body)); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
	for _, body := range []string{
		``,
		`null`,
		`[{"model":"@preset/p"}]`,
		`{"preset":"p","model":"m"}`,
		`{"model":"preset/p"}`,
		`{"Model":"@preset/p"}`,
		`{"model":["@preset/p"]}`,
		`{"x":{"model":"@preset/p"}}`,
		`{"input":"use @preset/p"}`,
		`{"models":"@preset/p"}`,
		`{"models":[["@preset/p"]]}`,
		`{"requests":[{"model":"@preset"}]}`,
		`{"requests":{"params":{"model":"@preset/p"}}}`,
		"\x00@preset/",
	} {
		if got := reference.FindReference([]byte(body)); got != "" {
			t.Errorf("%s: got %q, want none", body, got)
		}
	}
}

// TestFindReferenceInManyModels checks that the search takes no memory for each model. A
// client may send millions of them in a few kilobytes of gzip.
func TestFindReferenceInManyModels(t *testing.T) {
	tier.NoRace(t)
	const many = 10_000
	for _, tc := range [...]struct{ begin, model, end, want string }{
		{`{"models":[`, `"openai/gpt-5",`, `"@preset/p"]}`, "/models/10000"},
		{`{"models":[`, `1,`, `"@preset/p"]}`, "/models/10000"},
		{`{"fallbacks":[`, `{"model":"openai/gpt-5"},`, `"@preset/p"]}`, "/fallbacks/10000"},
		{`{"requests":[`, `{"params":{"model":"openai/gpt-5"}},`, `{"params":{"model":"@preset/p"}}]}`, "/requests/10000/params/model"},
	} {
		body := []byte(tc.begin + strings.Repeat(tc.model, many) + tc.end)
		if got := reference.FindReference(body); got != tc.want {
			t.Errorf("%s: got %q, want %q", tc.model, got, tc.want)
		}
		storagetest.CheckAllocations(t, 20, func() float64 {
			return testing.AllocsPerRun(3, func() { reference.FindReference(body) })
		})
	}
}

// The single preset equals the listed one.
func TestActivePreset(t *testing.T) {
	r := newResolving(t)
	who := r.team(t, "team", "", "")
	r.put(t, who.WorkspaceID, "p", version{responses, `{"model":"m"}`, ""})
	gone := r.put(t, who.WorkspaceID, "gone", version{responses, `{"model":"m"}`, ""})
	r.change(t, gone, func(p *domain.Preset) { p.Status = domain.PresetArchived })
	resolver := inference.NewResolver(r.store, inference.Config{})
	get := func(who domain.Principal, slug string) (string, error) {
		p, err := resolver.ActivePreset(t.Context(), who, slug, true)
		if err != nil {
			return p.Slug, err
		}
		return p.Slug + " runs " + p.Model, nil
	}
	if got, err := get(who, "p"); got != "p runs m" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if p, err := resolver.ActivePreset(t.Context(), who, "p", false); p.Slug != "p" || p.Model != "" || err != nil {
		t.Errorf("without its model: got %+v, %v", p, err)
	}
	for _, slug := range []string{"gone", "absent", "p@1", ""} {
		if got, err := get(who, slug); got != "" || domain.KindOf(err) != domain.NotFound || !strings.Contains(err.Error(), "@preset/"+slug) {
			t.Errorf("%q: got %q, %v, want that it is not found", slug, got, err)
		}
	}
	if got, err := get(domain.Principal{}, "p"); got != "" || domain.KindOf(err) != domain.NotFound {
		t.Errorf("from another workspace: got %q, %v", got, err)
	}
	r.put(t, who.WorkspaceID, "out", version{responses, `{"model":"m"}`, ""})
	who.Scope = &domain.Scope{Presets: []string{"p", "gone"}}
	if got, err := get(who, "out"); got != "" || domain.KindOf(err) != domain.NotFound {
		t.Errorf("out of reach: got %q, %v", got, err)
	}
	for p, err := range resolver.ActivePresets(t.Context(), who, false) {
		if err != nil || p.Slug != "p" {
			t.Errorf("listed within reach: got %q, %v", p.Slug, err)
		}
	}
}
