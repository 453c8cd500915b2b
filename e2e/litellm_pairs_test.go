package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/policy"
)

// liteLLMKinds are models of these tests, one for each form of a provider's API.
var liteLLMKinds = []string{"gpt-4o", "claude", "gemini"}

// liteLLMRoutes are the inference routes with the dialect and a request of each, whose %s stands for the
// model and further fields.
var liteLLMRoutes = map[string]struct {
	dialect domain.Dialect
	body    string
}{
	"chat/completions": {domain.Chat, `{"model": %s, "messages": [{"role": "user", "content": "Hello"}]}`},
	"responses":        {domain.Responses, `{"model": %s, "input": "Hello"}`},
	"messages":         {domain.Messages, `{"model": %s, "max_tokens": 3000, "messages": [{"role": "user", "content": "Hello"}]}`},
}

// liteLLMOwn are what LiteLLM makes for each answer.
var liteLLMOwn = regexp.MustCompile(`"(id|item_id|created|created_at|completed_at)": ?("[^"]*"|[0-9.]+)`)

// answerOf returns a response with its status, its type and what LiteLLM says of its cost.
func answerOf(t *testing.T, site, key, path, body string) (answer, cost string) {
	t.Helper()
	response := sendTo(t, http.MethodPost, site+"/v1/"+path, key, body)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	text = liteLLMOwn.ReplaceAll(text, []byte(`"$1": …`))
	return fmt.Sprintf("%d %s\n%s", response.StatusCode, response.Header.Get("Content-Type"), text), response.Header.Get("X-Litellm-Response-Cost")
}

// checkLiteLLMPairs compares the answers through this server, without a preset and with one, with
// LiteLLM's own: in all dialects, of all kinds of providers, whole and streamed, and each error.
func checkLiteLLMPairs(t *testing.T, behind *provider, liteLLM string, s *server) {
	for _, model := range liteLLMKinds {
		s.manage(t, http.MethodPost, "/v1/presets/as-"+model+"/chat/completions", fmt.Sprintf(`{"model": %q, "messages": [{"role": "user", "content": "Hello"}]}`, model))
	}
	pairs, failures := 0, 0
	compare := func(name, failure, route, model, body string) {
		var answers []string
		for _, of := range []struct{ site, key, model string }{
			{"http://" + liteLLM, masterKey, model}, {s.site, inferenceKey, model}, {s.site, inferenceKey, "@preset/as-" + model},
		} {
			behind.failNext(failure)
			answer, _ := answerOf(t, of.site, of.key, route, fmt.Sprintf(body, quote(of.model)))
			answers = append(answers, answer)
		}
		pairs++
		isError := !strings.HasPrefix(answers[0], "200 ") || strings.Contains(answers[0], "not now") // as an event
		if isError {
			failures++
		}
		if (failure != "") != isError && !strings.Contains(name, "mistake") {
			t.Errorf("%s: LiteLLM answers %s", name, answers[0])
		}
		for i, what := range []string{"", "without a preset", "with a preset"} {
			if answers[i] != answers[0] {
				t.Errorf("%s %s: got\n%s\nwant LiteLLM's\n%s", name, what, answers[i], answers[0])
			}
		}
	}
	for route, body := range map[string]string{
		"messages/count_tokens":  `{"model": %s, "messages": [{"role": "user", "content": "Hello"}]}`,
		"responses/input_tokens": `{"model": %s, "input": "Hello"}`,
	} {
		for _, model := range []string{"gpt-4o", "claude"} { // for Gemini it needs a package of Google's
			compare(route+" of "+model, "", route, model, body)
		}
	}
	for route, of := range liteLLMRoutes {
		streamed := strings.TrimSuffix(of.body, "}") + `, "stream": true}`
		for _, model := range liteLLMKinds {
			for _, failure := range []string{"", "400", "401", "403", "404", "408", "413", "422", "429", "500", "502", "503", "529"} {
				for _, body := range []string{of.body, streamed} {
					compare(fmt.Sprintf("%s of %s, %q, streamed: %t", route, model, failure, body == streamed), failure, route, model, body)
				}
			}
			for _, more := range []string{`, "temperature": "warm"}`, `, "tools": 5}`} {
				compare("a mistake at "+route+" of "+model, "", route, model, strings.TrimSuffix(of.body, "}")+more)
			}
		}
	}
	t.Logf("%d pairs of answers, %d of them errors", pairs, failures)
}

// checkLiteLLMUsage compares the tokens and the cost of reports with what LiteLLM's answers say.
func checkLiteLLMUsage(t *testing.T, s *server) {
	type asked struct {
		slug, answer, cost string
		isStream           bool
	}
	var all []asked
	for route, of := range liteLLMRoutes {
		for _, model := range liteLLMKinds {
			for _, more := range []string{"", `, "stream": true`} {
				slug := strings.ReplaceAll(fmt.Sprintf("used-%s-%s-%t", route, model, more != ""), "/", "-")
				s.manage(t, http.MethodPost, "/v1/presets/"+slug+"/"+route, fmt.Sprintf(of.body, quote(model)))
				if more != "" && route == "chat/completions" {
					more += `, "stream_options": {"include_usage": true}`
				}
				answer, cost := answerOf(t, s.site, inferenceKey, route, fmt.Sprintf(of.body, quote("@preset/"+slug)+more))
				all = append(all, asked{slug, answer, cost, more != ""})
			}
		}
	}
	for _, a := range all {
		used := usageSaid(a.answer)
		models := modelSaid.FindAllStringSubmatch(a.answer, -1) // the last event of responses names another than the first
		total := s.usageOf(t, a.slug, models[len(models)-1][1])
		if used["input_tokens"] == 0 || total["input_tokens"] != used["input_tokens"] || total["output_tokens"] != used["output_tokens"] {
			t.Errorf("%s: the report has %v and %v tokens, LiteLLM's answer %v:\n%s", a.slug, total["input_tokens"], total["output_tokens"], used, a.answer)
		}
		// LiteLLM says the cost in a header, or in the usage of a stream. In streams of messages it says none.
		said := a.cost
		if found := costSaid.FindStringSubmatch(a.answer); said == "" && found != nil {
			said = found[1]
		}
		want, _ := strconv.ParseFloat(said, 64)
		got, _ := strconv.ParseFloat(fmt.Sprint(total["cost"]), 64)
		if math.Abs(got-want) > 1e-9 || (want == 0) != (total["cost"] == nil) || (want == 0) != (a.isStream && strings.HasPrefix(a.slug, "used-messages-")) {
			t.Errorf("%s: the report has the cost %v, LiteLLM's answer %q", a.slug, total["cost"], said)
		}
	}
}

var (
	costSaid   = regexp.MustCompile(`"cost": ?([0-9.e-]+)`)
	modelSaid  = regexp.MustCompile(`"model": ?"([^"]*)"`)
	usageParts = regexp.MustCompile(`"(prompt_tokens|input_tokens|cache_read_input_tokens|cache_creation_input_tokens|completion_tokens|output_tokens)": ?([0-9]+)`)
)

// usageSaid returns the tokens of an answer: the largest number that it says, because events repeat them.
func usageSaid(answer string) map[string]any {
	said := map[string]float64{}
	for _, found := range usageParts.FindAllStringSubmatch(answer, -1) {
		var number float64
		_ = json.Unmarshal([]byte(found[2]), &number)
		said[found[1]] = max(said[found[1]], number)
	}
	input := said["prompt_tokens"] + said["input_tokens"]
	if strings.Contains(answer, `"message_start"`) || strings.Contains(answer, `"type":"message","role"`) {
		input += said["cache_read_input_tokens"] + said["cache_creation_input_tokens"]
	}
	return map[string]any{"input_tokens": input, "output_tokens": said["completion_tokens"] + said["output_tokens"]}
}

// reservedNames are fields whose values a request chooses whatever its policy: the conversation, the
// preset, and whether the answer is a stream.
var reservedNames = []string{
	"model", "messages", "input", "preset", "prompt", "prompt_id", "prompt_version", "prompt_variables", "stream",
}

// namePlaces are where a name may stand in a request, as a form of further fields. batch is how many
// names a request takes there, and values are what each name gets.
var namePlaces = []struct {
	name, form string
	batch      int
	values     []string
}{
	{"top", `, %s`, 1000, []string{
		`"other"`, `"http://127.0.0.1:1"`, `7`, `true`, `["other"]`, `{"model": "other", "temperature": 0.123}`, `[{"model": "other"}]`,
	}},
	{"extra_body", `, "extra_body": {%s}`, 5000, []string{`"other"`, `7`}},
	{"metadata", `, "metadata": {%s}`, 16, []string{`"other"`}},
}

// checkLiteLLMNames sends each name of LiteLLM's source as a field of requests, under a policy that
// locks every setting and drops what belongs to one call. What the provider gets must not change.
// metadata takes few names a request, so it gets a sample unless PRESETS_NAMES is all.
func checkLiteLLMNames(t *testing.T, behind *provider, liteLLM string, s *server) {
	names := strings.Fields(run(t, "litellm", nil, pythonWith(t, filepath.Join("litellm", "requirements.txt")), "names.py", "litellm"))
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(reservedNames, name) })
	if len(names) < 10_000 {
		t.Fatalf("found %d names", len(names))
	}
	sample := names
	if os.Getenv("PRESETS_NAMES") != "all" {
		sample = nil
		for i := 0; i < len(names); i += 40 {
			sample = append(sample, names[i])
		}
	}
	requests, refused := 0, map[string]bool{} // by LiteLLM, or by this server
	for route := range liteLLMRoutes {
		for _, model := range liteLLMKinds {
			for _, place := range namePlaces {
				tried := names
				if place.name == "metadata" {
					if model != map[string]string{"chat/completions": "gpt-4o", "responses": "gemini", "messages": "claude"}[route] {
						continue // LiteLLM reads it before it chooses a provider
					}
					tried = sample
				}
				reach := s.startLocked(t, behind, route, model, place.name)
				want := reach("")
				if want == nil || want.status != "200" {
					t.Fatalf("%s of %s: the provider gets %+v", route, model, want)
				}
				var search func(names []string, value string)
				search = func(names []string, value string) {
					var fields strings.Builder
					for i, name := range names {
						fmt.Fprintf(&fields, "%s%q: %s", strings.Repeat(", ", min(i, 1)), name, value)
					}
					requests++
					switch got := reach(fmt.Sprintf(place.form, fields.String())); {
					case reflect.DeepEqual(got, want):
					case len(names) > 1:
						search(names[:len(names)/2], value)
						search(names[len(names)/2:], value)
					case got == nil:
						refused[names[0]] = true
					default:
						t.Errorf("%s with %s at %s of %s, %s: the provider gets %+v, want %+v", names[0], value, place.name, route, model, got, want)
					}
				}
				for _, value := range place.values {
					alone := slices.Sorted(maps.Keys(refused)) // so that they hide no others
					for batch := range slices.Chunk(slices.DeleteFunc(slices.Clone(tried), func(name string) bool { return refused[name] }), place.batch) {
						search(batch, value)
					}
					for _, name := range alone {
						search([]string{name}, value)
					}
				}
			}
		}
	}
	t.Logf("%d names, %d of them in metadata, in %d requests; refused are %d: %v", len(names), len(sample), requests, len(refused), slices.Sorted(maps.Keys(refused)))

	// LiteLLM itself does read them.
	for _, name := range []string{"temperature", "seed", "of_nobody"} {
		behind.take()
		answer, _ := answerOf(t, "http://"+liteLLM, masterKey, "chat/completions", fmt.Sprintf(liteLLMRoutes["chat/completions"].body, fmt.Sprintf(`"gpt-4o", %q: 0.25`, name)))
		if sent := behind.take(); len(sent) != 1 || !strings.Contains(sent[0].body, "0.25") {
			t.Errorf("LiteLLM ignores %s: %s, %v", name, answer, sent)
		}
	}
}

// reachedRequest is what a provider gets of a request, and the status of the response.
type reachedRequest struct {
	uri, key, status string
	body             map[string]any
}

// startLocked stores a preset whose policy locks every setting and drops each other field but one. The
// function that it returns sends a request with further fields. It returns nil if that is refused.
func (s *server) startLocked(t *testing.T, behind *provider, route, model, kept string) (reach func(more string) *reachedRequest) {
	t.Helper()
	of, locks := liteLLMRoutes[route], lockNames(t)
	drops := slices.DeleteFunc(policy.KnownFields(of.dialect), func(name string) bool {
		return slices.Contains(locks, name) || slices.Contains(reservedNames, name) || name == kept
	})
	rules, err := json.Marshal(map[string]any{"policy": map[string]any{"lock": locks, "models": []string{}, "drop": drops}})
	if err != nil {
		t.Fatal(err)
	}
	slug := strings.ReplaceAll("names-"+route+"-"+model+"-"+kept, "/", "-")
	s.manage(t, http.MethodPost, "/v1/presets/"+slug+"/"+route, fmt.Sprintf(of.body, quote(model)+`, "temperature": 0.5`))
	s.manage(t, http.MethodPatch, "/v1/presets/"+slug, string(rules))
	return func(more string) *reachedRequest {
		behind.take()
		answer, _ := answerOf(t, s.site, inferenceKey, route, fmt.Sprintf(of.body, quote("@preset/"+slug)+more))
		sent := behind.take()
		if len(sent) == 0 && answer[0] != '2' {
			return nil
		}
		got := &reachedRequest{status: answer[:3]}
		for _, r := range sent {
			got.uri, got.key = got.uri+r.uri, got.key+r.header.Get("Authorization")+r.header.Get("X-Api-Key")+r.header.Get("X-Goog-Api-Key")
			if err := json.Unmarshal([]byte(r.body), &got.body); err != nil {
				t.Fatal(err)
			}
		}
		delete(got.body, kept)
		return got
	}
}
