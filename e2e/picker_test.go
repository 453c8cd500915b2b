package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
)

// catalog is a gateway with a list of two models, in pages where the client asks for them, in front of
// a provider.
type catalog struct {
	*provider

	mu     sync.Mutex
	listed []received // requests for the list
}

var catalogModels = []string{
	`{"type": "model", "id": "claude-sonnet-4-6", "display_name": "Sonnet", "created_at": "2026-02-04T00:00:00Z", "max_input_tokens": 200000}`,
	`{"type": "model", "id": "acme-local", "display_name": "Local", "created_at": "2026-02-04T00:00:00Z", "max_input_tokens": 32768}`,
}

func (c *catalog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet || r.URL.Path != "/v1/models" && !strings.HasPrefix(r.URL.Path, "/v1/models/") {
		c.provider.ServeHTTP(w, r)
		return
	}
	c.mu.Lock()
	c.listed = append(c.listed, received{r.Method, r.RequestURI, r.Header.Clone(), ""})
	c.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	query := r.URL.Query()
	id, single := strings.CutPrefix(r.URL.Path, "/v1/models/")
	switch isClaude := r.Header.Get("Anthropic-Version") != ""; {
	case single:
		at := slices.IndexFunc(catalogModels, func(model string) bool { return strings.Contains(model, `"`+id+`"`) })
		fmt.Fprint(w, catalogModels[max(0, at)])
	case !isClaude:
		fmt.Fprint(w, `{"object": "list", "data": [
			{"id": "claude-sonnet-4-6", "object": "model", "created": 1743465600, "owned_by": "acme", "context_window": 200000},
			{"id": "acme-local", "object": "model", "created": 1743465600, "owned_by": "acme", "max_model_len": 32768}]}`)
	case query.Get("limit") != "1":
		fmt.Fprintf(w, `{"data": [%s], "has_more": false, "first_id": "claude-sonnet-4-6", "last_id": "acme-local"}`, strings.Join(catalogModels, ", "))
	case query.Get("after_id") == "":
		fmt.Fprintf(w, `{"data": [%s], "has_more": true, "first_id": "claude-sonnet-4-6", "last_id": "claude-sonnet-4-6"}`, catalogModels[0])
	default:
		fmt.Fprintf(w, `{"data": [%s], "has_more": false, "first_id": "acme-local", "last_id": "acme-local"}`, catalogModels[1])
	}
}

// startCatalog runs Caddy in front of a catalog. It has the presets sonnet and local, and local has the
// label staging.
func startCatalog(t *testing.T) (*server, *catalog) {
	t.Helper()
	behind := &catalog{provider: newProvider(t)}
	gateway := httptest.NewServer(behind)
	t.Cleanup(gateway.Close)
	s := startWith(t, "inference {\n list_models labels\n}", "reverse_proxy "+gateway.Listener.Addr().String())
	for slug, model := range map[string]string{"sonnet": "claude-sonnet-4-6", "local": "acme-local"} {
		s.manage(t, "POST", "/v1/presets/"+slug+"/messages", fmt.Sprintf(`{"model": %q, "system": "Be brief.", "max_tokens": 8000,
			"messages": [{"role": "user", "content": "Hello"}]}`, model))
		s.manage(t, "PATCH", "/v1/presets/"+slug, fmt.Sprintf(`{"name": "The %s", "policy": {"lock": ["model"], "violation": "refuse"}}`, slug))
	}
	s.manage(t, "PUT", "/v1/presets/local/labels/staging", `{"version": 1}`)
	return s, behind
}

// TestPickerOfClaudeCode lets Claude Code fill its model picker, and then picks each preset that it keeps.
func TestPickerOfClaudeCode(t *testing.T) {
	t.Parallel()
	command := agent{name: "claude-code", program: claudeProgram}.find(t)
	s, behind := startCatalog(t)
	home := t.TempDir()
	ask := func(model string) {
		t.Helper()
		args, env := configureClaude(t, home, s.site, []string{model})
		env = append(env, "HOME="+home, "USERPROFILE="+home, "CLAUDE_CODE_ENABLE_GATEWAY_MODEL_DISCOVERY=1")
		out, errs, err := try(t, home, env, command[0], slices.Concat(command[1:], args, []string{"What is there to see in Rome?"})...)
		if err != nil || !strings.Contains(out, providerText) {
			t.Errorf("%s: Claude Code says %s%s, %v; want the provider's %q", model, out, errs, err, providerText)
		}
	}
	ask("@preset/sonnet")
	behind.take()
	if len(behind.listed) == 0 {
		t.Fatal("Claude Code asked for no list of models")
	}
	asked := behind.listed[0]
	if asked.URI != "/v1/models?limit=1000" || asked.Header.Get("Anthropic-Version") == "" || !strings.HasPrefix(asked.Header.Get("User-Agent"), "claude-code/") {
		t.Errorf("Claude Code asks for %s with %v: the handler tells it by these headers", asked.URI, asked.Header)
	}
	type model struct {
		ID          string `json:"id"`
		DisplayName string `json:"display_name"`
	}
	var kept struct {
		Models []model `json:"models"`
	}
	if err := json.Unmarshal([]byte(read(t, filepath.Join(home, "cache", "gateway-models.json"))), &kept); err != nil {
		t.Fatal(err)
	}
	want := []model{
		{"claude-sonnet-4-6", "Sonnet"},
		{"anthropic/@preset/local", "The local"},
		{"anthropic/@preset/local@staging", "The local (staging)"},
		{"claude-sonnet-4-6@preset/sonnet", "The sonnet"},
	}
	if !reflect.DeepEqual(kept.Models, want) {
		t.Errorf("the picker has %q, want %q", kept.Models, want)
	}
	for _, picked := range want[1:] {
		ask(picked.ID)
		requests := behind.take()
		if len(requests) == 0 {
			t.Errorf("%s: no request reached the provider", picked.ID)
		}
		for _, request := range requests {
			var body map[string]any
			if err := json.Unmarshal([]byte(request.body), &body); err != nil {
				t.Fatal(err)
			}
			runs := "acme-local"
			if strings.Contains(picked.ID, "sonnet") {
				runs = "claude-sonnet-4-6"
			}
			if body["model"] != runs || !strings.HasPrefix(firstPrompt(body), "Be brief.") || request.why != "" {
				t.Errorf("%s: the provider got model %v and prompt %.60q (%s), want those of the preset", picked.ID, body["model"], firstPrompt(body), request.why)
			}
		}
	}
}

// TestPickerOfPython lists models with the official clients of Python: Anthropic's in two pages.
func TestPickerOfPython(t *testing.T) {
	t.Parallel()
	interpreter := pythonWith(t, filepath.Join("python", "requirements.txt"))
	s, _ := startCatalog(t)
	out, errs, err := try(t, "python", []string{
		"OPENAI_BASE_URL=" + s.site + "/v1", "OPENAI_API_KEY=" + inferenceKey,
		"ANTHROPIC_BASE_URL=" + s.site, "ANTHROPIC_API_KEY=" + inferenceKey,
	}, interpreter, "models.py")
	if err != nil {
		t.Fatalf("models.py: %v\n%s", err, errs)
	}
	var lists map[string][]map[string]any
	if err := json.Unmarshal([]byte(out), &lists); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, presets := range map[string][]string{
		// The page with the presets lacks sonnet's model, so that entry has no limits, unless it is asked for alone.
		"anthropic": {"anthropic/@preset/local The local 32768", "anthropic/@preset/local@staging The local (staging) 32768", "claude-sonnet-4-6@preset/sonnet The sonnet <nil>"},
		"openai":    {"@preset/local <nil> 32768", "@preset/local@staging <nil> 32768", "@preset/sonnet <nil> 200000"},
	} {
		for _, kind := range []string{"", "_async", "_single"} {
			list := lists[name+kind]
			if len(list) != 5 || !reflect.DeepEqual(list, lists[name]) && kind != "_single" {
				t.Errorf("%s%s: got %v, want 2 models and 3 presets", name, kind, list)
				continue
			}
			var got []string
			for _, model := range list[2:] {
				size := model["max_input_tokens"]
				for _, other := range []string{"context_window", "max_model_len"} {
					if model[other] != nil {
						size = model[other]
					}
				}
				got = append(got, fmt.Sprint(model["id"], " ", model["display_name"], " ", size))
			}
			want := presets
			if name+kind == "anthropic_single" {
				want = append(slices.Clone(presets[:2]), "claude-sonnet-4-6@preset/sonnet The sonnet 200000")
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s%s: got %q, want %q", name, kind, got, want)
			}
		}
	}
}
