package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
)

// eventsFile says what domain/usage/answer reads from the events of streams. Its TestEvents
// proves that.
var eventsFile = filepath.Join(root, "domain", "usage", "answer", "testdata", "events.json")

// TestEventTypes compares the types of official clients with what is read. It fails if a
// new version of a client knows a new event, or a new place with usage.
func TestEventTypes(t *testing.T) {
	t.Parallel()
	node := servertest.Node(t, "events", "@anthropic-ai/sdk", "events", "typescript", "openai", "openai", "openrouter", "@openrouter/sdk")
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

// isBelow reports whether a place is another one, or inside of it.
func isBelow(place, outer string) bool {
	rest, ok := strings.CutPrefix(place, outer)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}
