package caddymodule

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// TestOpenAPIExamples checks that each body has an example, and that its schema permits it. An
// example of a response has no member that its schema does not name.
func TestOpenAPIExamples(t *testing.T) {
	tier.NoRace(t)
	requests, _, err := readExamples()
	if err != nil {
		t.Fatal(err)
	}
	unused := make(map[string]bool)
	for name := range members(requests) {
		unused[name] = true
	}
	inBoth(t, func(t *testing.T, doc document) {
		check := func(place string, content map[string]any, isClosed bool) {
			t.Helper()
			n := 0
			for media, body := range content {
				body := body.(map[string]any)
				example, ok := body["example"]
				if ok {
					n++
				}
				if media != "application/json" {
					if _, isText := example.(string); !isText {
						t.Errorf("%s: %s has the example %v, want a text", place, media, example)
					}
					continue
				}
				schema := maps.Clone(body["schema"].(map[string]any))
				schema["components"] = doc["components"]
				if isClosed {
					schema = doc.closed(body["schema"].(map[string]any))
				}
				if err := judge(t, schema)(asJSON(t, example)); err != nil {
					t.Errorf("%s: the example is refused: %v", place, err)
				}
			}
			if n != len(content) {
				t.Errorf("%s: %d of %d media types have an example", place, n, len(content))
			}
		}
		for id, operation := range doc.operations() {
			if body, ok := operation["requestBody"].(map[string]any); ok {
				check(id, body["content"].(map[string]any), false)
				delete(unused, id)
			}
		}
		for name, response := range doc.object("#/components/responses") {
			if content, ok := response.(map[string]any)["content"].(map[string]any); ok {
				check(name, content, name != "Models" && name != "Model" && name != "Inference")
			}
		}
	})
	for _, name := range slices.Sorted(maps.Keys(unused)) {
		t.Errorf("%s has an example and no body", name)
	}
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
