package plan_test

import (
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/caddymodule/files/plan"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
)

// dump dumps the server into the folder and returns its files.
func (s *server) dump(only string) map[string]string {
	s.T.Helper()
	set, err := plan.Dump(s.T.Context(), s.client(s.transport()), only)
	if err != nil {
		s.T.Fatal(err)
	}
	if _, err := files.Write(s.dir, set); err != nil {
		s.T.Fatal(err)
	}
	texts := make(map[string]string)
	err = fs.WalkDir(os.DirFS(s.dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(os.DirFS(s.dir), name)
		texts[name] = string(text)
		return err
	})
	if err != nil {
		s.T.Fatal(err)
	}
	return texts
}

// fill stores presets of every kind.
func (s *server) fill() {
	s.T.Helper()
	s.Manage("POST", "/v1/workspaces", caddytest.Workspace).Want(s.T, 201)
	s.Manage("PATCH", "/v1/workspaces/team", `{"default_text_model":"m","disabled_server_tools":["openrouter:web_search"],"io_logging_sampling_rate":0.5,"limits":{"requests_per_minute":60},"budgets":{"daily":{"limit_usd":10},"monthly":{"limit_usd":100.5}}}`).Want(s.T, 200)
	for _, r := range [][]string{
		{"POST", "plain/responses", `{"model":"openai/gpt-5-mini","temperature":0.70,"top_p":1e-1,"instructions":"Be brief."}`},
		{"POST", "lines/messages", `{"model":"m","max_tokens":100,"system":"Two\nlines\n","tools":[{"name":"t","input_schema":{"type":"object"}}]}`},
		{"POST", "odd/chat/completions", `{"model":"yes","seed":12345678901234567890,"stop":["null","1e3","a: b","\u2028'"],"messages":[{"role":"system","content":"{{no template}} \u0007"}]}`},
		{"POST", "tour/responses?template=true", `{"model":"m","instructions":"You know {{city}}.","input":[{"role":"user","content":"Name {{n}} sights."}]}`},
		{"POST", "tour-chat/chat/completions?template=true", `{"messages":[{"role":"system","content":"S {{a}}"},{"role":"user","content":"U"}]}`},
		{"POST", "empty/chat/completions", `{}`},
		{"POST", "versions/chat/completions", `{"model":"m1"}`},
		{"POST", "versions/chat/completions", `{"model":"m2"}`},
		{"POST", "versions/designate", `{"version":1}`},
		{"PUT", "versions/labels/prod", `{"version":1}`},
		{"PUT", "versions/labels/canary", `{"split":[{"version":2,"weight":90},{"version":1,"weight":10}]}`},
		{"PATCH", "versions", `{"name":"All: versions","description":"# no comment","status":"disabled"}`},
		{"PATCH", "plain", `{"policy":{"lock":["model"],"bounds":{"temperature":{"min":0.10,"max":1}},"models":["openai/*"],"violation":"refuse"}}`},
		{"PATCH", "empty", `{"description":"","limits":{"requests_per_minute":100,"cost_per_day":0.000001}}`},
		{"PATCH", "plain", `{"tags":["a: b","c"]}`},
		{"POST", "gone/chat/completions", `{}`},
		{"DELETE", "gone", ""},
	} {
		separator := "?"
		if strings.Contains(r[1], "?") {
			separator = "&"
		}
		s.Manage(r[0], "/v1/presets/"+r[1]+separator+"workspace_id=team", r[2]).Want(s.T, 200)
	}
	for slug, body := range map[string]string{
		"plain": `{"name":"refund: \"angry\"","dialect":"chat","messages":[{"role":"user","content":"a\nb","x":1.50}],"variables":{"größe":"1"},"notes":"two\nlines"}`,
		"tour":  `{"name":"null","dialect":"responses","input":"null"}`,
	} {
		s.Manage("POST", "/v1/presets/"+slug+"/inputs?workspace_id=team", body).Want(s.T, 201)
	}
}

// TestDump dumps a server, applies the files, and dumps again.
func TestDump(t *testing.T) {
	s := start(t)
	s.fill()
	first := s.dump("")
	if names, want := slices.Sorted(maps.Keys(first)), []string{
		"team/.workspace.yaml", "team/empty.yaml", "team/lines.md", "team/lines.yaml", "team/odd.yaml", "team/plain.yaml",
		"team/tour-chat.yaml", "team/tour.yaml", "team/versions.yaml",
	}; !slices.Equal(names, want) {
		t.Errorf("got files %v, want %v", names, want)
	}
	if got := actions(s.plan(plan.Options{})); strings.Contains(got, "create") || strings.Contains(got, "change") || strings.Contains(got, "error") || strings.Count(got, "adopt ") != 7 {
		t.Errorf("the plan after a dump is %q, want to adopt 7 presets", got)
	}
	s.apply(plan.Options{})
	if again := s.dump(""); !maps.Equal(first, again) {
		t.Errorf("another dump differs:\n%v\n%v", first, again)
	}
	s.dir = t.TempDir() // where no files help
	if again := s.dump("team"); !maps.Equal(first, again) {
		t.Errorf("another dump into an empty folder differs:\n%v\n%v", first, again)
	}

	caddytest.Stop(t)
	other := start(t)
	other.dir = s.dir
	other.write(map[string]string{"team/versions.yaml": ""}) // a new preset has not all versions of its labels
	delete(first, "team/versions.yaml")
	other.apply(plan.Options{})
	other.dir = t.TempDir()
	moved := other.dump("")
	if !maps.Equal(first, moved) {
		t.Errorf("the dump of another server differs:\n%v\n%v", first, moved)
	}
	_, err := plan.Dump(t.Context(), other.client(other.transport()), "nothing")
	if err == nil || !strings.Contains(err.Error(), `workspace "nothing"`) {
		t.Errorf("a dump of a missing workspace: %v", err)
	}
}

// TestDumpDefaults dumps workspaces over files that name some of their members.
func TestDumpDefaults(t *testing.T) {
	for _, tc := range []struct {
		name, workspace string
		server          string // what is set there, empty for nothing
		file, want      string // empty for no file
	}{
		{"defaults that were cleared", "default", "", "default_text_model: m # why\n", "default_text_model: null # why\n"},
		{"no defaults, and no file", "default", "", "", ""},
		{"an empty file", "default", "", "# nothing yet\n", "# nothing yet\n"},
		{"values of a new workspace", "default", `{"description":"x"}`, "description: x\nio_logging_sampling_rate: 1 # all\n", "description: x\nio_logging_sampling_rate: 1 # all\n"},
		{"the first name", "default", `{"description":"x"}`, "name: Default\ndescription: x\n", "name: Default\ndescription: x\n"},
		{"the slug as the name", "team", `{"name":"team","description":"x"}`, "name: team\ndescription: x\n", "name: team\ndescription: x\n"},
		{"another text of a number", "team", `{"name":"team","io_logging_sampling_rate":0.5}`, "io_logging_sampling_rate: 0.50\n", "io_logging_sampling_rate: 0.50\n"},
		{"an empty list", "team", `{"name":"team"}`, "disabled_server_tools: []\n", "disabled_server_tools: []\n"},
		{"a value that differs", "team", `{"name":"team","description":"z"}`, "# ours\nio_logging_sampling_rate: 1\ndescription: x # b\n", "# ours\nio_logging_sampling_rate: 1\ndescription: z # b\n"},
		{"a member that the file does not have", "team", `{"name":"team","default_text_model":"m"}`, "description: null\n", "default_text_model: m\ndescription: null\n"},
		{"limits and budgets", "team", `{"name":"team","limits":{"tokens_per_day":5},"budgets":{"monthly":{"limit_usd":100}}}`, "description: null\n", "budgets:\n  monthly:\n    limit_usd: 100\nlimits:\n  tokens_per_day: 5\ndescription: null\n"},
		{"another text of budgets", "team", `{"name":"team","budgets":{"daily":{"limit_usd":10},"monthly":{"limit_usd":100}}}`, "budgets: {monthly: {limit_usd: 1e2}, daily: {limit_usd: 10.0}} # ours\n", "budgets: {monthly: {limit_usd: 1e2}, daily: {limit_usd: 10.0}} # ours\n"},
		{"no limits and no budgets", "team", `{"name":"team"}`, "limits: {}\nbudgets: {}\n", "limits: {}\nbudgets: {}\n"},
		{"values of a new workspace that differ", "team", `{"name":"team"}`, "name: Team A\nio_logging_sampling_rate: 0.5\n", "name: team\nio_logging_sampling_rate: 1\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := start(t)
			s.Manage("POST", "/v1/workspaces", caddytest.Workspace).Want(t, 201)
			if tc.server != "" {
				s.Manage("PATCH", "/v1/workspaces/"+tc.workspace, tc.server).Want(t, 200)
			}
			name := tc.workspace + "/.workspace.yaml"
			if tc.file != "" {
				s.write(map[string]string{name: tc.file})
			}
			if got := s.dump(tc.workspace)[name]; got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
			if got := actions(s.plan(plan.Options{})); got != "" {
				t.Errorf("the plan after a dump is %q", got)
			}
		})
	}
}
