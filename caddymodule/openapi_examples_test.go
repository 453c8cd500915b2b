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

// TestOpenAPIExamplesWork sends the examples of requests to a server, which does what they ask for.
func TestOpenAPIExamplesWork(t *testing.T) {
	tier.Slow(t)
	s := start(t, standard+"\ninference {\nusage\n}")
	s.upstream.answers(replyWith(200, "application/json", `{}`))
	examples := make(map[string]string)
	for _, name := range openAPIDocuments {
		for id, operation := range readDocument(t, name).operations() {
			if body, ok := operation["requestBody"].(map[string]any); ok {
				if media, ok := body["content"].(map[string]any)["application/json"].(map[string]any); ok {
					examples[id] = asJSON(t, media["example"])
				}
			}
		}
	}
	take := func(id string) string {
		t.Helper()
		body, ok := examples[id]
		if !ok {
			t.Errorf("%s has no example, or was sent already", id)
		}
		delete(examples, id)
		return body
	}
	request := func(id, method, path string, want int, headers ...string) {
		t.Helper()
		if r := s.do(method, path, take(id), headers...); r.status != want {
			t.Errorf("%s: got %d %s, want %d", id, r.status, r.body, want)
		}
	}
	manager := bearer(managementSecret)
	const there, preset = "?workspace_id=support", "/v1/presets/email-copywriter"
	request("workspace_create", "POST", "/v1/workspaces", 201, manager)
	request("workspace_update", "PATCH", "/v1/workspaces/support", 200, manager)
	request("preset_create_responses", "POST", preset+"/responses"+there, 200, manager)
	request("preset_create_chat", "POST", preset+"/chat/completions"+there+"&label=canary", 200, manager)
	request("preset_create_messages", "POST", preset+"/messages"+there, 200, manager)
	request("preset_update", "PATCH", preset+there, 200, manager)
	request("preset_designate", "POST", preset+"/designate"+there, 200, manager)

	key := s.issue(`{"kind":"inference","workspace":"support"}`)
	for _, route := range inferenceRoutes {
		request(route.name, "POST", "/v1/"+route.path, 200, bearer(key.secret))
	}
	s.do("POST", "/v1/chat/completions", `{"model":"@preset/email-copywriter","messages":[]}`, bearer(key.secret), "X-Session-Id: chat-8124").want(t, 200)
	score := take("preset_feedback")
	if !s.eventually(func() bool { return s.do("POST", preset+"/feedback", score, bearer(key.secret)).status == 202 }) {
		t.Errorf("feedback %s is not taken", score)
	}

	request("label_put", "PUT", preset+"/labels/canary"+there, 200, manager)
	request("label_delete", "DELETE", preset+"/labels/canary", 200, manager)
	request("preset_archive", "DELETE", preset, 200, manager)
	request("preset_restore", "POST", preset+"/restore", 200, manager)

	for id, path := range map[string]string{"key_create": "keys", "key_prune": "keys/prune", "version_prune": "prune"} {
		if r := send(t, "POST", "http://"+s.admin+"/presets/"+path, take(id)); r.status/100 != 2 {
			t.Errorf("%s: got %d %s", id, r.status, r.body)
		}
	}
	for id := range examples {
		t.Errorf("the example of %s was not sent", id)
	}
}
