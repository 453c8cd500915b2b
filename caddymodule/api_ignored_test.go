package caddymodule

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/namelist"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// TestSettingNames compares the names that the console knows with the rule of listIgnored.
func TestSettingNames(t *testing.T) {
	schemas, err := schema.Load()
	if err != nil {
		t.Fatal(err)
	}
	text, err := namelist.SettingNames(schemas)
	if err != nil {
		t.Fatal(err)
	}
	var names map[domain.Dialect]string
	if err := json.Unmarshal([]byte(text), &names); err != nil {
		t.Fatal(err)
	}
	all := []string{"temprature", "Model"}
	for _, list := range names {
		all = append(all, strings.Fields(list)...)
	}
	for dialect, body := range map[domain.Dialect]*schema.Schema{domain.Chat: schemas.ChatRequest, domain.Responses: schemas.ResponsesRequest, domain.Messages: schemas.MessagesRequest} {
		known := strings.Fields(names[dialect])
		if !slices.Contains(known, "temperature") || slices.Contains(known, "temprature") {
			t.Errorf("%s: got %q, want temperature among them, and no misspelt one", dialect, known)
		}
		for _, name := range all {
			if got, want := slices.Contains(known, name), body.Names(name) || namelist.IsClients(name); got != want {
				t.Errorf("%s: %s: got known %t, want %t", dialect, name, got, want)
			}
		}
	}
}

// TestIgnoredMembers sends unknown members. The server ignores them and lists them in the
// answer.
func TestIgnoredMembers(t *testing.T) {
	tier.NoRace(t)
	s := start(t, standard)
	many := make([]string, 25)
	for i := range many {
		many[i] = fmt.Sprintf(`"unknown_%02d":1`, i)
	}
	wide := make([]string, 20)
	for i := range wide {
		wide[i] = fmt.Sprintf(`"%02d%s":1`, i, strings.Repeat("é", 32))
	}
	for _, tc := range []struct{ name, method, path, body, want string }{
		{"a typo", "POST", "/v1/presets/p/responses", `{"temprature":0.4,"model":"m"}`, "temprature"},
		{"several, in order", "POST", "/v1/presets/p/responses", `{"temprature":0.4,"model":"m","modl":null}`, "temprature, modl"},
		{"known and stored", "POST", "/v1/presets/p/responses", `{"temperature":0.4,"cache_enabled":true}`, ""},
		{"known and dropped", "POST", "/v1/presets/p/responses", `{"input":"i","instructions":"s","stream":true,"user":"u","metadata":{},"session_id":"x","prompt":null,"background":null}`, ""},
		{"of no effect here", "POST", "/v1/presets/p/responses", `{"name":"N","preset":"q","workspace_id":"w","messages":[],"max_tokens":1}`, "name, preset, workspace_id, messages, max_tokens"},
		{"chat", "POST", "/v1/presets/p/chat/completions", `{"messages":[],"max_tokens":1,"input":"i","verbosity":"low","stream_options":{},"stop":"x","instructions":"s"}`, "input, instructions"},
		{"messages", "POST", "/v1/presets/p/messages", `{"messages":[],"system":"s","max_tokens":1,"stop":"x","fallbacks":[],"thinking":{"type":"disabled"}}`, "stop"},
		{"members of members", "POST", "/v1/presets/p/responses", `{"reasoning":{"efort":"high"}}`, ""},
		{"no member", "POST", "/v1/presets/p/responses", `{}`, ""},
		{"patch", "PATCH", "/v1/presets/p", `{"description":"d","slug":"q","Name":"N"}`, "slug, Name"},
		{"patch of known ones", "PATCH", "/v1/presets/p", `{"description":"d","name":"N","status":"active"}`, ""},
		{"designate", "POST", "/v1/presets/p/designate", `{"version":1,"vers":2}`, "vers"},
		{"label", "PUT", "/v1/presets/p/labels/a", `{"version":1,"weight":2}`, "weight"},
		{"archive", "DELETE", "/v1/presets/p", `{"workspace":"default"}`, "workspace"},
		{"restore without a body", "POST", "/v1/presets/p/restore", "", ""},
		{"workspace", "POST", "/v1/workspaces", `{"name":"n","slug":"s","default_model":"m"}`, "default_model"},
		{"patch of a workspace", "PATCH", "/v1/workspaces/s", `{"name":"n","id":"i","updated_at":null}`, "id, updated_at"},
		{
			"unusual names", "POST", "/v1/presets/p/responses", `{"max tokens":1,"a,b":1,"température":1,"x\r\nSet-Cookie: a=b":1,"%41":1,"":1,"\u0000\"":1,"a:b":1}`,
			"max%20tokens, a%2Cb, temp%C3%A9rature, x%0D%0ASet-Cookie:%20a=b, %2541, \"\", %00%22, a:b",
		},
		{"a long name", "POST", "/v1/presets/p/responses", `{"` + strings.Repeat("x", 1000) + `":1}`, strings.Repeat("x", 64) + "..."},
		{"many", "POST", "/v1/presets/p/responses", `{` + strings.Join(many, ",") + `}`, strings.NewReplacer(`"`, "", ":1", "").Replace(strings.Join(many[:20], ", ")) + ", ..."},
	} {
		for _, again := range []string{"", "true"} {
			r := s.manage(tc.method, tc.path, tc.body, once(tc.name))
			if got := r.header["X-Preset-Ignored"]; r.status >= 300 || strings.Join(got, "\n") != tc.want || (tc.want == "") != (got == nil) {
				t.Errorf("%s: got %d %s and X-Preset-Ignored %q, want %q", tc.name, r.status, r.body, got, tc.want)
			}
			if got := r.header.Get("Idempotency-Replayed"); got != again {
				t.Errorf("%s: got Idempotency-Replayed %q, want %q", tc.name, got, again)
			}
		}
	}
	got := s.manage("POST", "/v1/presets/p/responses", `{`+strings.Join(wide, ",")+`}`).header.Get("X-Preset-Ignored")
	if len(got) > 2100 || !strings.HasSuffix(got, ", ...") {
		t.Errorf("got %d bytes of names, want at most 2100 that end in ...: %s", len(got), got)
	}
	// A refusal lists no ignored members.
	r := s.manage("POST", "/v1/presets/p/responses", `{"modl":1,"top_k":"x"}`)
	if r.want(t, 400); r.header["X-Preset-Ignored"] != nil {
		t.Errorf("got X-Preset-Ignored %q with a 400", r.header["X-Preset-Ignored"])
	}
}
