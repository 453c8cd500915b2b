package caddymodule

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// setPolicy gives a preset a policy, in JSON.
func (s *server) setPolicy(slug, policy string) {
	s.t.Helper()
	s.manage("PATCH", "/v1/presets/"+slug, `{"policy":`+policy+`}`).want(s.t, 200)
}

// policyOf returns the policy in an answer with a preset.
func policyOf(t *testing.T, r reply) string {
	t.Helper()
	r.want(t, 200)
	var got struct {
		Data struct{ Policy json.RawMessage }
	}
	if err := json.Unmarshal([]byte(r.body), &got); err != nil {
		t.Fatal(err)
	}
	return string(got.Data.Policy)
}

const wholePolicy = `{"lock":["provider","system"],"bounds":{"max_output_tokens":{"max":4096},"reasoning.effort":{"in":["low","medium"]},"temperature":{"min":0.10,"max":1}},` +
	`"models":["openai/gpt-5-mini","anthropic/*"],"drop":["logit_bias"],"violation":"refuse"}`

// TestPolicyOfAPreset sets, shows and removes a policy. Each change has its own record and entity tag.
func TestPolicyOfAPreset(t *testing.T) {
	s := start(t, standard)
	const path = "/v1/presets/p"
	s.manage("POST", path+"/chat/completions", `{"model":"m"}`).want(t, 200)
	before := s.manage("GET", path, "")
	tag := "If-Match: " + before.tag(t)
	s.manage("PATCH", path, `{"policy":`+wholePolicy+`}`, "If-Match: "+otherTag).want(t, 412)
	set := s.manage("PATCH", path, `{"policy":`+wholePolicy+`}`, tag, once("k"))
	got := s.manage("GET", path, "")
	if policyOf(t, before) != "null" || policyOf(t, set) != wholePolicy || set.tag(t) == before.tag(t) || got.body != set.body || got.tag(t) != set.tag(t) {
		t.Errorf("got %s\nand then %s\nwant the policy %s and a new tag", set.body, got.body, wholePolicy)
	}
	wantReplay(t, "a policy", set, s.manage("PATCH", path, `{"policy":`+wholePolicy+`}`, tag, once("k")))
	s.manage("GET", "/v1/presets", "").want(t, 200, `"policy":`+wholePolicy)
	// The same policy changes nothing, in whatever order.
	same := strings.Replace(wholePolicy, `"max_output_tokens":{"max":4096},`, "", 1)
	same = strings.Replace(same, `"temperature":`, ` "max_output_tokens" : {"max":4096}, "temperature":`, 1)
	if r := s.manage("PATCH", path, `{"policy":`+same+`}`); r.tag(t) != set.tag(t) {
		t.Errorf("the same policy gives %s", r.body)
	}
	// A new version and a label leave it alone.
	s.manage("POST", path+"/messages?label=live", `{"model":"n"}`).want(t, 200)
	if got := policyOf(t, s.manage("GET", path, "")); got != wholePolicy {
		t.Errorf("got policy %s, want it unchanged", got)
	}
	if got := policyOf(t, s.manage("PATCH", path, `{"policy":{},"name":"Both"}`)); got != `{"violation":"override"}` {
		t.Errorf("got policy %s, want the default alone", got)
	}
	if got := policyOf(t, s.manage("PATCH", path, `{"policy":null}`)); got != "null" {
		t.Errorf("got policy %s, want null", got)
	}
	history := s.manage("GET", path+"/history", "").body
	if n := strings.Count(history, `"preset.set_policy"`); n != 3 || strings.Contains(history, "gpt-5-mini") || strings.Contains(history, "logit_bias") {
		t.Errorf("got %d changes of the policy, want 3, without its settings: %s", n, history)
	}
	s.do("PATCH", path, `{"policy":null}`, bearer(inferenceSecret)).want(t, 403)
}

// TestPoliciesThatAreRefused checks that errors name the place.
func TestPoliciesThatAreRefused(t *testing.T) {
	s := start(t, standard)
	const path = "/v1/presets/p"
	s.manage("POST", path+"/chat/completions", `{"model":"m"}`).want(t, 200)
	for policy, want := range map[string]string{
		`5`:                                      "/policy: must be an object or null",
		`{"lcok":[]}`:                            "/policy/lcok: name must be one of lock, bounds, models, drop, allow_fields or violation",
		`{"lock":"tools"}`:                       "/policy/lock: must be an array",
		`{"lock":null}`:                          "/policy/lock: must be an array",
		`{"lock":["tools","messages"]}`:          "/policy/lock/1: must be the name of a setting that presets keep, or system",
		`{"lock":["cache_enabled"]}`:             "/policy/lock/0: must be the name",
		`{"drop":["model"]}`:                     "/policy/drop/0: model cannot be dropped",
		`{"drop":["user","Messages"]}`:           "/policy/drop/1: Messages cannot be dropped",
		`{"drop":["metadata.user_id"]}`:          "/policy/drop/0: must be the name of a top-level field",
		`{"bounds":{"nothing":{"max":1}}}`:       "/policy/bounds/nothing: name must be that of a setting that is a number, a string or a boolean",
		`{"bounds":{"tools":{"max":1}}}`:         "/policy/bounds/tools: name must be that of a setting",
		`{"bounds":{"top_k":{"max":"1"}}}`:       "/policy/bounds/top_k/max: must be a number",
		`{"bounds":{"top_k":{"most":1}}}`:        "/policy/bounds/top_k/most: name must be one of min, max or in",
		`{"bounds":{"top_k":{}}}`:                "/policy/bounds/top_k: must have min, max or in",
		`{"bounds":{"top_k":{"in":[]}}}`:         "/policy/bounds/top_k/in: must have at least 1 item",
		`{"bounds":{"top_k":{"in":[{}]}}}`:       "/policy/bounds/top_k/in/0: must be a string, a number or a boolean",
		`{"bounds":{"top_k":{"min":2,"max":1}}}`: "/policy/bounds/top_k: min must not be above max",
		`{"models":[""]}`:                        "/policy/models/0: must be at least 1 character",
		`{"models":["a","b c"]}`:                 "/policy/models/1: must have 1 to 256 printable ASCII characters and no space",
		`{"models":["*/*/*/*/*"]}`:               "/policy/models/0: must have at most 4 *",
		`{"allow_fields":["a b"]}`:               "/policy/allow_fields/0: must be the name of a top-level field, of letters, digits, _ . and -",
		`{"violation":"ignore"}`:                 "/policy/violation: must be one of override or refuse",
		`{"bounds":{"route":{"in":["` + strings.Repeat("x", 17000) + `"]}}}`: "/policy: must be at most 16384 bytes of JSON",
	} {
		r := s.manage("PATCH", path, `{"policy":`+policy+`}`)
		r.want(t, 400)
		if !strings.Contains(r.body, strings.ReplaceAll(want, `"`, `\"`)) {
			t.Errorf("%.80s: got %s, want %s", policy, r.body, want)
		}
	}
	if got := policyOf(t, s.manage("GET", path, "")); got != "null" {
		t.Errorf("got policy %s, want null", got)
	}
}

// TestPolicyUpstream checks that a policy holds for each route, and for all versions and labels. It holds
// at once, and after a reload. What a policy does is the subject of domain/inference.
func TestPolicyUpstream(t *testing.T) {
	s := start(t, inferring())
	s.preset("writer", `{"model":"m","provider":{"zdr":true},"temperature":0.5}`)
	s.preset("writer", `{"model":"n","provider":{"zdr":true},"temperature":2}`)
	s.put("writer", "old", `{"version":1}`)
	const body = `{"model":"other@preset/writer%s","provider":{"sort":"price"},"temperature":1.5,"logit_bias":{}}`
	const rules = `"lock":["provider"],"bounds":{"temperature":{"max":1}},"models":["openai/*"],"drop":["logit_bias"]`
	for _, path := range inferencePaths {
		ask := func(pin string, headers ...string) reply { return s.ask(path, fmt.Sprintf(body, pin), headers...) }
		s.setPolicy("writer", "null")
		ask("").want(t, 202)
		if got := s.upstream.one(t).body; got != `{"model":"other","provider":{"sort":"price"},"temperature":1.5,"logit_bias":{}}` {
			t.Errorf("%s without a policy: got %s", path, got)
		}
		s.setPolicy("writer", `{`+rules+`}`)
		for pin, model := range map[string]string{"": "n", "@1": "m", "@old": "m"} {
			want := `{"model":"` + model + `","provider":{"zdr":true},"temperature":1}`
			r := ask(pin)
			r.want(t, 202)
			if got := s.upstream.one(t).body; got != want || r.header.Get("X-Preset-Enforced") != "provider, models, temperature" {
				t.Errorf("%s%s: got %s enforced by %q, want %s", path, pin, got, r.header.Get("X-Preset-Enforced"), want)
			}
			dry := ask(pin, "X-Preset-Dry-Run: true").described(t)
			if dry.Data.Body != want || dry.Data.Fields["provider"].From != "policy" || fmt.Sprint(dry.Data.Enforced) != "[provider models temperature]" {
				t.Errorf("%s%s: a dry run gives %+v", path, pin, dry.Data)
			}
		}
		s.setPolicy("writer", `{`+rules+`,"violation":"refuse"}`)
		for _, header := range []string{"X-None: 1", "X-Preset-Dry-Run: true"} {
			r := ask("", header)
			r.want(t, 403, "/provider: is locked by the preset's policy (provider)", "/model: is a model that the preset's policy does not allow", "/temperature: is outside of the bounds of the preset's policy (temperature)")
			if path == responsesPath && !strings.Contains(r.body, `"type":"preset_policy_broken"`) || strings.Contains(r.body, "price") || strings.Contains(r.body, "logit_bias") {
				t.Errorf("%s: got %s, want a type of its own, and no values or dropped fields", path, r.body)
			}
		}
	}
	s.reload(inferring())
	s.ask(chatPath, fmt.Sprintf(body, "")).want(t, 403, "/provider: is locked")
	s.upstream.none(t)
}
