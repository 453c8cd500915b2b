package caddymodule

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
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
			if r.status != want || !slices.Contains(r.header["Vary"], "Authorization, X-Api-Key") {
				t.Errorf("%s, %s: got status %d and Vary %q, want %d", path, what, r.status, r.header["Vary"], want)
			}
		}
	}
	ask("no key", 401)
	ask("a wrong key", 401, bearer("a-guess"))
	for status, body := range map[int]string{200: `{"object":"list","data":[]}`, 203: `{"object":"list","data":[]}`, 304: "", 404: "{}"} {
		s.upstream.answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Vary", "Origin")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		})
		ask("the gateway", status, bearer(inferenceSecret))
	}
	s.upstream.Close()
	ask("no gateway", 502, bearer(inferenceSecret))
}

// TestModelsOfAWorkspace checks that a workspace's list has its own active presets. Their
// models are those of their designated versions.
func TestModelsOfAWorkspace(t *testing.T) {
	store := openInMemory(t)
	service := domain.NewService(store)
	if err := service.EnsureDefaultWorkspace(t.Context()); err != nil {
		t.Fatal(err)
	}
	ann := domain.Principal{UserID: "ann", Kind: domain.ManagementKey}
	if _, err := service.CreateWorkspace(t.Context(), domain.By(ann), domain.NewWorkspace{Name: "team", Slug: "team"}); err != nil {
		t.Fatal(err)
	}
	for _, p := range []struct{ workspace, slug, config string }{
		{"team", "b", `{"temperature":1,"model":"old"}`},
		{"team", "b", `{"temperature":1,"m\u006fdel":"n\u0065w","tools":[{"model":"x"}]}`},
		{"team", "B", `{"models":["x"]}`},
		{"team", "gone", `{"model":"x"}`},
		{"default", "a", `{"model":"x"}`},
	} {
		if _, err := service.CreatePresetVersion(t.Context(), domain.By(ann), p.workspace, p.slug, domain.Capture{
			Dialect: domain.Responses, Config: json.RawMessage(p.config),
		}); err != nil {
			t.Fatal(err)
		}
	}
	err := store.Update(t.Context(), func(tx domain.Tx) error {
		home, err := tx.WorkspaceID("team")
		if err != nil {
			return err
		}
		p, err := tx.Preset(home, "gone")
		if err != nil {
			return err
		}
		p.Status = "archived"
		return tx.PutPreset(p)
	})
	if err != nil {
		t.Fatal(err)
	}

	list := func(who domain.Principal, most int) (got []string, err error) {
		for p, err := range inference.NewResolver(store, inference.Config{}).ActivePresets(t.Context(), who, true) {
			if err != nil {
				return got, err
			}
			if got = append(got, p.Slug+" runs "+p.Model); len(got) == most {
				break
			}
		}
		return got, nil
	}
	bob := domain.Principal{UserID: "bob", Kind: domain.InferenceKey, WorkspaceSlug: "team"}
	for most, want := range map[int][]string{9: {"B runs ", "b runs new"}, 1: {"B runs "}} {
		if got, err := list(bob, most); err != nil || !slices.Equal(got, want) {
			t.Errorf("at most %d: got %q and %v, want %q", most, got, err, want)
		}
	}
	bob.WorkspaceSlug = "nowhere"
	if _, err := list(bob, 9); domain.KindOf(err) != domain.NotFound {
		t.Errorf("got error %v, want NotFound", err)
	}
}
