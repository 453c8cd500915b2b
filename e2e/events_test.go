package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/policy"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
)

// eventsFile says what domain/usage/answer reads from the events of streams. Its TestEvents
// proves that.
var eventsFile = filepath.Join(root, "domain", "usage", "answer", "testdata", "events.json")

// TestEventTypes compares the types of official clients with what is read. It fails if a
// new version of a client knows a new event, or a new place with usage.
func TestEventTypes(t *testing.T) {
	t.Parallel()
	node := nodeWithClients(t)
	var listed map[string]map[string]map[string][]string // by dialect, event and place, the clients
	if err := json.Unmarshal([]byte(run(t, "events", nil, node, "list.mjs")), &listed); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(eventsFile)
	if err != nil {
		t.Fatal(err)
	}
	var known map[string]map[string]struct {
		Read    map[string]string
		Skipped []string
	}
	if err := json.Unmarshal(text, &known); err != nil {
		t.Fatal(err)
	}
	if got, want := slices.Sorted(maps.Keys(listed)), slices.Sorted(maps.Keys(known)); !slices.Equal(got, want) {
		t.Fatalf("the clients have types of %q, want %q", got, want)
	}
	for dialect, events := range listed {
		for name, places := range events {
			what := strings.TrimSpace(dialect + " " + name)
			event, ok := known[dialect][name]
			if !ok {
				t.Errorf("%s is a new event. Add it to %s, and read it if it has usage", what, eventsFile)
			}
			found := map[string]bool{}
			for place, clients := range places {
				in := place
				if event.Read[place] == "" {
					i := slices.IndexFunc(event.Skipped, func(skipped string) bool { return isBelow(place, skipped) })
					if i < 0 {
						t.Errorf("%s speaks of usage at %s, says %s. Add it to %s, and read it if it counts",
							what, place, strings.Join(clients, " and "), eventsFile)
						continue
					}
					in = event.Skipped[i]
				}
				found[in] = true
			}
			for _, place := range slices.Concat(slices.Sorted(maps.Keys(event.Read)), event.Skipped) {
				if !found[place] {
					t.Errorf("%s: no client knows %s of %s", what, place, eventsFile)
				}
			}
		}
		for name := range known[dialect] {
			if events[name] == nil {
				t.Errorf("no client knows the event %s %s of %s", dialect, name, eventsFile)
			}
		}
	}
}

// nodeWithClients returns Node, or skips the test without it and without the clients whose types are read.
func nodeWithClients(t *testing.T) string {
	t.Helper()
	return servertest.Node(t, "events", "@anthropic-ai/sdk", "events", "typescript", "openai", "openai", "openrouter", "@openrouter/sdk")
}

// TestKnownFields compares the fields of official clients with those that pass where a policy, the limits of
// a key or disabled tools apply. It fails if a new version of a client has a new field, or a new kind of
// tool.
func TestKnownFields(t *testing.T) {
	t.Parallel()
	var listed map[string]map[string][]string // by dialect and field, the clients
	if err := json.Unmarshal([]byte(run(t, "events", nil, nodeWithClients(t), "fields.mjs")), &listed); err != nil {
		t.Fatal(err)
	}
	// Those that no client has: the seed of the API, LiteLLM's fallbacks, what names a preset, what
	// Codex sends, and older ones of OpenRouter that others still send.
	extra := map[string]string{
		"chat/completions": "fallbacks include_reasoning preset prompt prompt_id prompt_variables prompt_version route structured_outputs transforms usage",
		"responses":        "client_metadata fallbacks preset prompt_id prompt_variables prompt_version route",
		"messages":         "preset prompt prompt_id prompt_variables prompt_version route",
		"images":           "preset",
	}
	for _, dialect := range []domain.Dialect{domain.Chat, domain.Responses, domain.Messages, domain.Images} {
		known := policy.KnownFields(dialect)
		for name, clients := range listed[string(dialect)] {
			if !slices.Contains(known, name) {
				t.Errorf("%s: %s has the field %s. Add it to fields.json or images.json of domain/inference/dialects with its form, and say what locks it", dialect, strings.Join(clients, " and "), name)
			}
		}
		for _, name := range known {
			if listed[string(dialect)][name] == nil && !slices.Contains(strings.Fields(extra[string(dialect)]), name) {
				t.Errorf("%s: no client has the field %s", dialect, name)
			}
		}
	}
	s := startWith(t, "inference", "respond 200")
	s.manage(t, http.MethodPatch, "/v1/workspaces/default", `{"disabled_server_tools": ["openrouter:nothing"]}`)
	for kind, clients := range listed["tools"] {
		body := fmt.Sprintf(`{"model": "m", "tools": [{"type": %q, "name": "x"}]}`, kind)
		if status, answer := s.post(t, "/v1/responses", inferenceKey, body); status != http.StatusOK {
			t.Errorf("%s has the kind of tool %s, which does not pass: %s", strings.Join(clients, " and "), kind, answer)
		}
	}
}

// isBelow reports whether a place is another one, or inside of it.
func isBelow(place, outer string) bool {
	rest, ok := strings.CutPrefix(place, outer)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
