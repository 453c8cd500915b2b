package plan_test

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/files/plan"
)

// mail is a preset's file with everything.
const mail = `description: Used by the newsletter
labels:
  staging: latest
  canary: {split: [{version: latest, weight: 10}]}
policy:
  lock: [model]
responses:
  model: openai/gpt-5-mini
  temperature: 0.70
  instructions: !file mail.md
`

// tried is a preset's file with tags and inputs.
const tried = `tags: [team a, b]
chat: {model: m}
inputs:
- name: tour
  dialect: chat
  variables: {city: Rome}
  notes: names the Forum
- name: refund
  dialect: messages
  messages: [{role: user, content: "where?", x: 1.50}]
`

// TestActions plans and applies every action, one after another.
func TestActions(t *testing.T) {
	s := start(t)
	for _, step := range []struct {
		name    string
		files   map[string]string
		request []string // method, path, body, headers
		prune   bool
		plan    string
		holds   []string // parts of the plan's JSON
	}{
		{
			name:  "create",
			files: map[string]string{"default/mail.yaml": mail, "default/mail.md": "Write mails.\n", "team/chat.yaml": "chat: {model: m}\n"},
			plan:  "create team, create default/mail, create team/chat",
			holds: []string{
				`{"workspace":"team","action":"create","settings":[{"op":"add","path":"/name","value":"team"}]}`,
				`"settings":[{"op":"add","path":"/model","value":"openai/gpt-5-mini"},{"op":"add","path":"/temperature","value":0.70}]`,
				`"prompt":"--- /dev/null\n+++ default/mail.yaml\n@@ -0,0 +1 @@\n+Write mails.\n\\ No newline at end of file\n"`,
				`{"label":"staging","from":null,"to":{"version":"latest"}}`,
			},
		},
		{
			name:  "change the prompt",
			files: map[string]string{"default/mail.md": "Write short mails.\n"},
			plan:  "change default/mail",
			holds: []string{
				`"settings":[]`, `"drift":false`,
				`--- mail@1\n+++ default/mail.yaml\n@@ -1 +1 @@\n-Write mails.\n`,
				`{"label":"canary","from":{"split":[{"version":1,"weight":10}]},"to":{"split":[{"version":"latest","weight":10}]}}`,
				`{"label":"staging","from":{"version":1},"to":{"version":"latest"}}`,
			},
		},
		{
			name:  "labels alone",
			files: map[string]string{"default/mail.yaml": strings.Replace(mail, "staging: latest", "staging: 1", 1)},
			plan:  "change default/mail",
			holds: []string{`"prompt":null`, `{"label":"staging","from":{"version":2},"to":{"version":1}}`},
		},
		{
			name:  "a label, the description and the policy go",
			files: map[string]string{"default/mail.yaml": "responses: {model: openai/gpt-5-mini, temperature: 0.70, instructions: !file mail.md}\n"},
			plan:  "change default/mail",
			holds: []string{
				`{"label":"canary","from":{"split":[{"version":2,"weight":10}]},"to":null}`, `"policy":[{"op":"replace","path":"","value":null,"old":{"lock":["model"],"violation":"override"}}]`,
				`"preset":[{"op":"replace","path":"/description","value":null,"old":"Used by the newsletter"}]`,
			},
		},
		{
			name:    "a rollback by hand is undone without another version",
			request: []string{"POST", "/v1/presets/mail/designate", `{"version":1}`, "X-Preset-Override: files"},
			plan:    "change default/mail drift",
			holds:   []string{`"designate":2`, `-Write mails.\n`},
		},
		{
			name:    "a new setting by hand is undone",
			request: []string{"POST", "/v1/presets/mail/responses", `{"model":"other"}`, "X-Preset-Override: files"},
			plan:    "change default/mail drift",
			holds:   []string{`{"op":"replace","path":"/model","value":"openai/gpt-5-mini","old":"other"}`, `"designate":0`},
		},
		{
			name:  "disable and rename",
			files: map[string]string{"default/mail.yaml": "name: Mail\nstatus: disabled\nresponses: {model: openai/gpt-5-mini, temperature: 0.70, instructions: !file mail.md}\n"},
			plan:  "change default/mail",
			holds: []string{`{"op":"replace","path":"/status","value":"disabled","old":"active"}`},
		},
		{
			name:  "enable with other settings",
			files: map[string]string{"default/mail.yaml": "responses: {model: m2, instructions: !file mail.md}\n"},
			plan:  "change default/mail",
			holds: []string{`{"op":"replace","path":"/status","value":"active","old":"disabled"}`, `{"op":"remove","path":"/temperature","old":0.70}`},
		},
		{
			name:  "another API and a template",
			files: map[string]string{"team/chat.yaml": "template: true\nmessages: {model: m, messages: [{role: user, content: 'In {{city}}'}]}\n"},
			plan:  "change team/chat",
			holds: []string{`"dialect":{"from":"chat","to":"messages"}`, `"template":[{"op":"replace","path":"","value":{`},
		},
		{
			name:  "defaults of a workspace",
			files: map[string]string{"team/.workspace.yaml": "name: Team\ndefault_text_model: m\nio_logging_sampling_rate: 1.0\ndisabled_server_tools: []\n"},
			plan:  "change team",
			holds: []string{`"settings":[{"op":"replace","path":"/default_text_model","value":"m","old":null},{"op":"replace","path":"/name","value":"Team","old":"team"}]`},
		},
		{
			name: "limits and budgets",
			files: map[string]string{
				"team/.workspace.yaml": "limits: {requests_per_minute: 60.0}\nbudgets: {daily: {limit_usd: 10}, monthly: {limit_usd: 100.0}}\n",
				"team/chat.yaml":       "limits: {tokens_per_day: 5000000.0, cost_per_day: 20.0}\nchat: {model: m}\n",
				"eu/.workspace.yaml":   "budgets: {weekly: {limit_usd: 5}}\n",
				"eu/new.yaml":          "limits: {requests_per_minute: 1}\nchat: {}\n",
			},
			plan: "create eu, change team, create eu/new, change team/chat",
			holds: []string{
				`"settings":[{"op":"replace","path":"/budgets","value":{"daily":{"limit_usd":10},"monthly":{"limit_usd":100.0}},"old":null},{"op":"replace","path":"/limits","value":{"requests_per_minute":60.0},"old":null}]`,
				`"preset":[{"op":"replace","path":"/limits","value":{"cost_per_day":20,"tokens_per_day":5000000},"old":null}]`,
			},
		},
		{
			name: "greater limits and budgets",
			files: map[string]string{
				"team/.workspace.yaml": "budgets: {daily: {limit_usd: 200}, monthly: {limit_usd: 1000}}\n",
				"team/chat.yaml":       "limits: {tokens_per_day: 6000000}\nchat: {model: m}\n",
			},
			plan: "change team, change team/chat",
			holds: []string{
				`"settings":[{"op":"replace","path":"/budgets/daily/limit_usd","value":200,"old":10},{"op":"replace","path":"/budgets/monthly/limit_usd","value":1000,"old":100}]`,
				`"preset":[{"op":"remove","path":"/limits/cost_per_day","old":20},{"op":"replace","path":"/limits/tokens_per_day","value":6000000,"old":5000000}]`,
			},
		},
		{
			name:    "limits by hand are undone",
			request: []string{"PATCH", "/v1/presets/chat?workspace_id=team", `{"limits":{"tokens_per_day":9000000}}`, "X-Preset-Override: files"},
			plan:    "change team/chat drift",
			holds:   []string{`{"op":"replace","path":"/limits/tokens_per_day","value":6000000,"old":9000000}`},
		},
		{
			name: "limits and budgets go",
			files: map[string]string{
				"team/.workspace.yaml": "limits: null\nbudgets: {}\n", "team/chat.yaml": "chat: {model: m}\n", "eu/.workspace.yaml": "", "eu/new.yaml": "limits: {}\nchat: {}\n",
			},
			plan: "change team, change eu/new, change team/chat",
			holds: []string{
				`"settings":[{"op":"remove","path":"/budgets/daily","old":{"limit_usd":200}},{"op":"remove","path":"/budgets/monthly","old":{"limit_usd":1000}},{"op":"replace","path":"/limits","value":null,"old":{"requests_per_minute":60}}]`,
				`"preset":[{"op":"replace","path":"/limits","value":null,"old":{"tokens_per_day":6000000}}]`,
			},
		},
		{
			name:  "a file goes without prune",
			files: map[string]string{"default/mail.yaml": "", "default/mail.md": "", "default/other.yaml": "chat: {}\n"},
			plan:  "create default/other, note default/",
			holds: []string{`{"workspace":"default","message":"presets of files without a file, which --prune archives: mail"}`},
		},
		{
			name:  "prune",
			prune: true,
			plan:  "archive default/mail",
		},
		{
			name:  "tags and inputs of a new preset",
			files: map[string]string{"default/tried.yaml": tried},
			plan:  "create default/tried",
			holds: []string{`"inputs":[{"name":"tour","action":"create"},{"name":"refund","action":"create"}]`, `{"op":"replace","path":"/tags","value":["team a","b"]}`},
		},
		{
			name: "an input changes, one goes, one comes, and tags go",
			files: map[string]string{"default/tried.yaml": "tags: []\nchat: {model: m}\ninputs:\n- {name: new, dialect: responses, input: hi}\n" +
				"- {name: tour, dialect: chat, variables: {city: Paris}}\n"},
			plan:  "change default/tried",
			holds: []string{`"inputs":[{"name":"refund","action":"remove"},{"name":"new","action":"create"},{"name":"tour","action":"change"}]`, `"path":"/tags","value":[]`},
		},
		{
			name:    "tags by hand are as a file without the list says",
			request: []string{"PATCH", "/v1/presets/tried", `{"tags":["by hand"]}`, "X-Preset-Override: files"},
			files:   map[string]string{"default/tried.yaml": "chat: {model: m}\n"},
			plan:    "",
		},
		{
			name:  "a file that is back restores, and changes",
			files: map[string]string{"default/mail.yaml": "labels: {prod: latest}\nresponses: {model: m3}\n"},
			plan:  "restore default/mail",
		},
		{
			name:    "an equal preset without an owner is adopted",
			request: []string{"POST", "/v1/presets/found/chat/completions", `{"model":"m","temperature":1}`},
			files:   map[string]string{"default/found.yaml": "chat: {temperature: 1, model: m}\n"},
			plan:    "adopt default/found",
		},
		{
			name:    "a different one is adopted by its change",
			request: []string{"POST", "/v1/presets/found2/chat/completions", `{"model":"m","temperature":1}`},
			files:   map[string]string{"default/found2.yaml": "chat: {temperature: 1.0, model: m}\n"},
			plan:    "change default/found2",
		},
		{
			name:    "archived by hand",
			request: []string{"DELETE", "/v1/presets/found2", "", "X-Preset-Override: files"},
			plan:    "restore default/found2 drift",
		},
		{
			name:  "a rename is a new preset, and prune archives the old one",
			files: map[string]string{"default/found2.yaml": "", "default/found3.yaml": "chat: {temperature: 1.0, model: m}\n"},
			prune: true,
			plan:  "archive default/found2, create default/found3",
		},
	} {
		t.Run(step.name, func(t *testing.T) {
			s.T = t
			if r := step.request; r != nil {
				s.Manage(r[0], r[1], r[2], r[3:]...).Want(t, 200)
			}
			s.write(step.files)
			p := s.plan(plan.Options{Prune: step.prune})
			if got := actions(p); got != step.plan {
				t.Errorf("got plan %q, want %q", got, step.plan)
			}
			for _, part := range step.holds {
				if text := describe(p); !strings.Contains(text, part) {
					t.Errorf("the plan does not hold %s:\n%s", part, text)
				}
			}
			s.apply(plan.Options{Prune: step.prune})
		})
	}
	s.T = t
	s.Manage("GET", "/v1/presets/tried/inputs", "").Want(t, 200, `"total_count":2`, `"input":"hi"`, `"city":"Paris"`)
	s.Manage("GET", "/v1/presets/tried", "").Want(t, 200, `"tags":["by hand"]`)
	s.Manage("GET", "/v1/presets/found", "").Want(t, 200, `"managed_by":"files"`)
	s.Manage("GET", "/v1/presets/mail", "").Want(t, 200, `"managed_by":"files"`, `"labels":{"prod":{"version":6}}`, `"config":{"model":"m3"}`, `"message":"test"`)
	for slug, want := range map[string]int{"mail": 6, "found": 1, "found3": 1, "other": 1} {
		if got := s.versions("default", slug); got != want {
			t.Errorf("preset %s has %d versions, want %d", slug, got, want)
		}
	}
}

// TestIgnoredFields applies files to a server that does not know all their settings.
func TestIgnoredFields(t *testing.T) {
	for _, tc := range []struct{ name, file, header, want string }{
		{"named", "chat: {model: m, top_k: 7}\n", "top_k", "stored version 1 differently, and may be older than this program: top_k"},
		{"not named", "chat: {model: m, top_k: 7}\n", "", "stored version 1 differently, and may be older than this program: compare the two"},
		{"a draft", "earlier: [{chat: {model: m1}}, {chat: {model: m2, top_k: 7}}]\nchat: {model: m3}\n", "top_k", "stored version 2 differently, and may be older than this program: top_k"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := start(t)
			s.write(map[string]string{"default/p.yaml": tc.file, "default/q.yaml": "chat: {model: m}\n"})
			p := s.planThrough(func(through http.RoundTripper, r *http.Request) (*http.Response, error) {
				if r.Method != http.MethodPost {
					return through.RoundTrip(r)
				}
				body, err := io.ReadAll(r.Body)
				if err != nil {
					return nil, err
				}
				known := bytes.Replace(body, []byte(`,"top_k":7`), nil, 1)
				r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(known)), int64(len(known))
				response, err := through.RoundTrip(r)
				if err == nil && tc.header != "" && len(known) < len(body) {
					response.Header.Set("X-Preset-Ignored", tc.header)
				}
				return response, err
			})
			if failed := s.applyWithFailure(p); !strings.Contains(failed.Message, tc.want) {
				t.Errorf("got %+v, want %q", failed, tc.want)
			}
			s.Manage("GET", "/v1/presets/q", "").Want(t, 200)
		})
	}
}
