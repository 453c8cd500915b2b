package inference_test

import (
	"fmt"
	"slices"
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

// TestActivePresets checks that a single preset equals the listed one, and which labels are listed.
func TestActivePresets(t *testing.T) {
	r := newResolving(t)
	who := r.team(t, "team", "", "")
	var p domain.Preset
	for _, config := range []string{`{"model":"m"}`, `{"model":"n"}`, `{"model":"n","temperature":1}`} {
		p = r.put(t, who.WorkspaceID, "p", version{responses, config, ""})
	}
	r.change(t, p, func(p *domain.Preset) {
		p.DesignatedVersion = 1
		p.Name = "Name"
		p.Labels = map[string]domain.Target{
			"two":  {Version: 2},
			"same": {Split: []domain.Share{{Version: 2, Weight: 1}, {Version: 3, Weight: 1}}},
			"both": {Split: []domain.Share{{Version: 1, Weight: 1}, {Version: 2, Weight: 1}}},
		}
	})
	gone := r.put(t, who.WorkspaceID, "gone", version{responses, `{"model":"m"}`, ""})
	r.change(t, gone, func(p *domain.Preset) { p.Status = domain.PresetArchived })
	r.put(t, who.WorkspaceID, "out", version{responses, `{"model":"m"}`, ""})
	resolver := inference.NewResolver(r.store, inference.Config{})
	list := func(who domain.Principal, withLabels bool) (listed []string) {
		for p, err := range resolver.ActivePresets(t.Context(), who, withLabels) {
			if err != nil {
				t.Fatal(err)
			}
			single, err := resolver.ActivePreset(t.Context(), who, p.Ref())
			if err != nil || single.Model != p.Model || single.DisplayName() != p.DisplayName() {
				t.Errorf("%s: got %q of %q alone, %v, want %q of %q", p.Ref(), single.DisplayName(), single.Model, err, p.DisplayName(), p.Model)
			}
			listed = append(listed, fmt.Sprintf("%s %s: %s", p.Ref(), p.DisplayName(), p.Model))
		}
		return listed
	}
	all := []string{"@preset/out out: m", "@preset/p Name: m"}
	if got := list(who, false); !slices.Equal(got, all) {
		t.Errorf("got %q, want %q", got, all)
	}
	all = append(all, "@preset/p@both Name (both): ", "@preset/p@same Name (same): n", "@preset/p@two Name (two): n")
	if got := list(who, true); !slices.Equal(got, all) {
		t.Errorf("got %q, want %q", got, all)
	}
	limited := who
	limited.Scope = &domain.Scope{Presets: []string{"p", "gone"}}
	if got := list(limited, true); !slices.Equal(got, all[1:]) {
		t.Errorf("got %q, want %q", got, all[1:])
	}
	for ref, who := range map[reference.Ref]domain.Principal{
		{Slug: "gone"}: who, {Slug: "absent"}: who, {}: who, {Slug: "p", Pin: "1"}: who, {Slug: "p", Pin: "absent"}: who,
		{Slug: "p"}: {}, {Slug: "out"}: limited,
	} {
		if p, err := resolver.ActivePreset(t.Context(), who, ref); p.Slug != "" || domain.KindOf(err) != domain.NotFound || !strings.Contains(err.Error(), ref.String()) {
			t.Errorf("%s: got %q, %v, want that it is not found", ref, p.Slug, err)
		}
	}
}
