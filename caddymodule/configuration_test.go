package caddymodule

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// loadJSON makes Caddy run our handler with members, in JSON, in front of the upstream.
func (s *server) loadJSON(members string) error {
	err := caddy.Load(fmt.Appendf(nil, `{"admin":{"listen":%q,"config":{"persist":false}},"apps":{"http":{"servers":{"s":{"listen":[%q],"routes":[{"handle":[`+
		`{"handler":"presets",%s},{"handler":"reverse_proxy","upstreams":[{"dial":%q}]}]}]}}}}}`, s.admin, s.address, members, s.upstream.Listener.Addr()), true)
	s.settle()
	return err
}

// TestRefusedSettings loads handlers with settings that cannot be used, in JSON, which has the same
// limits as a Caddyfile. Each error names the setting and shows no secret. The running configuration
// stays.
func TestRefusedSettings(t *testing.T) {
	tier.NoRace(t)
	const secret = "a-literal-secret-of-a-team"
	t.Setenv("PRESETS_WEBHOOK", webhookSecret)
	t.Setenv("PRESETS_SHORT", "short")
	t.Setenv("PRESETS_URL", "https://user:"+webhookSecret+"@receiver.test")
	hash := "sha256:" + sha256Of(secret)
	s := start(t, standard)
	refused := map[string]string{
		`"management_keys":[{"secret":"` + secret + `"}]`:                                            "management_keys[0]: the secret must be a placeholder",
		`"inference_keys":[{"secret":""}]`:                                                           "inference_keys[0]: the secret must be a placeholder",
		`"management_keys":[{"secret":"sha256:12"}]`:                                                 "management_keys[0]: sha256: must be followed by 64",
		`"management_keys":[{"secret":"` + hash + `"},{"secret":"` + hash + `"}]`:                    "management_keys[1]: has the same secret as config-management-1",
		`"management_keys":[{"secret":"` + hash + `"}],"inference_keys":[{"secret":"` + hash + `"}]`: "inference_keys[0]: has the same secret as config-management-1",
		`"max_body_size":-1`:                                     "max_body_size: must be positive",
		`"keep_versions":-1`:                                     "keep_versions: must be positive",
		`"preset_creators":"nobody"`:                             "preset_creators: must be management or any",
		`"storage":{"engine":"mongo"}`:                           `storage: there is no engine "mongo"; this build has badger`,
		`"storage":{"engine":"/var/lib/x"}`:                      "storage wants the name of an engine before its folder: storage badger /var/lib/x",
		`"storage":{"engine":"badger","folder":"{env.NO_SUCH}"}`: "folder: ",
		`"unknown":1`:                                            "unknown field",
		`"base_path":"{env.NO_SUCH}"`:                            "base_path: ",
		`"auth_failure_limit":-2`:                                "from 1 to 1000000",
		`"auth_failure_limit":1000001`:                           "from 1 to 1000000",
		`"auth_failure_window":"10ms"`:                           "from 1s to",
		`"auth_failure_window":"25h"`:                            "from 1s to",
		`"auth_failure_window":-1`:                               "from 1s to",

		`"console":{"path":"{env.NO_SUCH}"}`:              "console: path: ",
		`"console":{},"base_path":"/console"`:             "must not be /console/presets, above",
		`"console":{},"base_path":"/console/v1"`:          "must not be /console/v1/presets, above",
		`"console":{"path":"/responses"},"base_path":"/"`: "must not be /responses, above",
		`"console":{"path":"/console","paths":["/x"]}`:    "unknown field",
		`"console":"/console"`:                            "cannot unmarshal",
		`"health":"{env.PRESETS_NOTHING}"`:                "PRESETS_NOTHING",

		`"webhook":[{"url":"https://receiver.test","secret":"` + webhookSecret + `"}]`:                                                                  "webhook[0]: secret must be a placeholder",
		`"webhook":[{"url":"https://receiver.test","secret":"x{env.PRESETS_WEBHOOK}"}]`:                                                                 "webhook[0]: secret must be a placeholder",
		`"webhook":[{"url":"https://receiver.test","secret":"{env.PRESETS_SHORT}"}]`:                                                                    "webhook[0]: {env.PRESETS_SHORT}: the secret must be at least 16 characters",
		`"webhook":[{"url":"https://receiver.test","secret":"{env.PRESETS_ABSENT}"}]`:                                                                   "webhook[0]: ",
		`"webhook":[{"url":"{env.PRESETS_URL}","secret":"{env.PRESETS_WEBHOOK}"}]`:                                                                      "webhook[0]: url must hold no user and password",
		`"webhook":[{"url":"{env.PRESETS_ABSENT}","secret":"{env.PRESETS_WEBHOOK}"}]`:                                                                   "webhook[0]: url: ",
		`"webhook":[{"url":"https://receiver.test","secret":"{env.PRESETS_WEBHOOK}"},{"url":"https://receiver.test","secret":"{env.PRESETS_WEBHOOK}"}]`: "webhook[1]: has the same url as webhook[0]",
	}
	for _, path := range []string{"v1", "/a/../v1", "/a b", "/v%31", "/v1?x", "/a//b", "/a{b"} {
		refused[`"base_path":"`+path+`"`] = "base_path: must be a clean absolute path"
	}
	for _, path := range []string{"x", "/", "/a b", "/a//b", "/a/../b", "/..a", "/a%62", "/a?b", "/a;b", `/a\"b`, "/ü", "/a//", "/a{b"} {
		refused[`"console":{"path":"`+path+`"}`] = "console: path: must be a path such as /console"
	}
	for path, hidden := range map[string]string{
		"/v1": "/v1/presets", "/v1/presets": "/v1/presets", "/v1/presets/ui": "/v1/presets", "/v1/workspaces": "/v1/workspaces", "/v1/models": "/v1/models", "/v1/chat/completions": "/v1/chat/completions",
	} {
		refused[`"console":{"path":"`+path+`"}`] = "console: path: must not be " + hidden + ", above it or below it"
		refused[`"health":"`+path+`"`] = "health: must not be " + hidden
	}
	for _, path := range []string{"/console", "/console/health"} {
		refused[`"console":{},"health":"`+path+`"`] = "that of the console"
	}
	for _, url := range []string{"", "receiver.test", "ftp://receiver.test", "https://receiver.test/#x"} {
		refused[`"webhook":[{"url":"`+url+`","secret":"{env.PRESETS_WEBHOOK}"}]`] = "webhook[0]: url must be an absolute URL"
	}
	for inference, problem := range map[string]string{
		`{"keys":"nonsense"}`:                            `keys: must be everywhere, required, optional or off, got "nonsense"`,
		`{"max_body_size":-1}`:                           "max_body_size: must be positive",
		`{"max_body_size":33554432,"max_memory":-1}`:     "max_memory: must be at least 69206016 (66 MiB), to hold one request of max_body_size (33554432) in two forms at once, got -1",
		`{"max_body_size":67108864,"max_memory":100000}`: "max_memory: must be at least",
		`{"usage":{"stream_usage":"on"}}`:                "usage: stream_usage: must be off or add",
		`{"usage":{"keep_hours":"59m"}}`:                 "usage: keep: must be at least an hour",
		`{"usage":{"keep_days":"23h"}}`:                  "usage: keep: must be at least an hour",
		`{"attribution":"leave"}`:                        `attribution: must be keep or drop, got "leave"`,
		`{"list_models":"all"}`:                          `list_models: must be off, on or labels, got "all"`,
		`{"other_routes":"deny"}`:                        `other_routes: must be pass or refuse, got "deny"`,
		`{"keys":"required","other_routes":"refuse"}`:    "other_routes: refuse needs keys everywhere, or off",
		`{"keys":"optional","other_routes":"refuse"}`:    "other_routes: refuse needs keys everywhere, or off",
	} {
		refused[`"inference":`+inference] = "inference: " + problem
	}
	for _, field := range []string{"model", "messages", "input", "system", "instructions"} {
		refused[`"inference":{"drop_fields":["provider","`+field+`"]}`] = "inference: drop_fields: " + field + " cannot be dropped"
	}
	for _, field := range []string{"a b", `a\nb`, ""} {
		refused[`"inference":{"drop_fields":["`+field+`"]}`] = "inference: drop_fields: must be names"
	}
	for _, inference := range []string{`{"drop_fields":"provider"}`, `{"list_models":true}`, `{"unknown":1}`, `[]`} {
		refused[`"inference":`+inference] = ""
	}
	for members, problem := range refused {
		if err := s.loadJSON(members); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: got %v, want an error with %q", members, err, problem)
		} else if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), webhookSecret) {
			t.Errorf("the error shows a secret: %v", err)
		}
	}
	s.manage("GET", "/v1/workspaces/default", "").want(t, 200)
}

// TestInferenceJSON loads inference blocks with default and odd values.
func TestInferenceJSON(t *testing.T) {
	s := start(t, standard)
	s.preset("writer", writer)
	load := func(inference string) {
		t.Helper()
		if err := s.loadJSON(fmt.Sprintf(`"storage":{"engine":"badger","folder":%q},"inference_keys":[{"secret":"sha256:%s"}],"inference":%s`, s.folder, sha256Of(inferenceSecret), inference)); err != nil {
			t.Fatal(err)
		}
	}
	load(`{"drop_fields":["max_output_tokens","include"],"keys":"optional","max_body_size":1000,"list_models":"on"}`)
	for range 3 {
		r := s.do("POST", responsesPath, `{"model":"@preset/writer","input":"hi"}`, bearer("sk-foreign"))
		r.want(t, 202)
		const want = `{"model":"openai/gpt-5","input":"hi","temperature":0.70,"instructions":"Be brief."}`
		if got := s.upstream.one(t).body; got != want || r.header.Get("X-Preset-Dropped") != "max_output_tokens, include" {
			t.Errorf("got %s, dropped %q", got, r.header.Get("X-Preset-Dropped"))
		}
	}
	s.ask(responsesPath, strings.Repeat(" ", 1001)).want(t, 413)
	for _, inference := range []string{`{}`, `{"keys":"required","max_body_size":0}`, `{"max_body_size":4611686018427387904}`, `{"max_body_size":1152921504606846976}`} {
		load(inference)
		s.do("POST", responsesPath, `{}`).want(t, 401)
		s.ask(responsesPath, `{"model":"@preset/writer"}`).want(t, 202)
		s.upstream.all()
	}
	load(`null`)
	s.do("POST", responsesPath, `{}`).want(t, 202)
}

func TestBareDirective(t *testing.T) {
	s := start(t, standard)
	if err := s.load(s.siteAt(s.address, "presets")); err != nil {
		t.Fatal(err)
	}
	k := s.issue(`{"kind":"management"}`)
	s.do("GET", "/v1/workspaces/default", "", bearer(k.secret)).want(t, 200, `"name":"Default"`)
}

// TestRequire loads configurations whose placeholders have a value or none. One that has none is
// refused, also as JSON, and the running configuration stays.
func TestRequire(t *testing.T) {
	s := start(t, standard)
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := "{file." + filepath.ToSlash(key) + "}"
	t.Setenv("PRESETS_SET", "sk-secret")
	t.Setenv("PRESETS_EMPTY", "")
	for _, tc := range []struct{ require, want string }{
		{"{env.PRESETS_SET}", ""},
		{"{env.PRESETS_SET} {env.PRESETS_NOT_SET}", "{env.PRESETS_NOT_SET}"},
		{"{env.PRESETS_EMPTY}", "{env.PRESETS_EMPTY}"},
		{file, file},
		{"{file./nowhere/key}", "{file./nowhere/key}"},
		{"{nothing.known}", "{nothing.known}"},
	} {
		err := s.load(s.site(standard + "\nrequire " + tc.require))
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v", tc.require, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), "require: ") || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%s: got %v, want an error that names %s", tc.require, err, tc.want)
		}
		s.manage("GET", "/v1/presets", "").want(t, 200)
	}

	if err := os.WriteFile(key, []byte("sk-secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.load(s.site(standard + "\nrequire " + file)); err != nil {
		t.Errorf("a file with a key: %v", err)
	}
	h := Handler{Require: []string{"sk-secret"}}
	if err := h.provisionRequire(nil); err == nil || strings.Contains(err.Error(), "sk-secret") {
		t.Errorf("a value: got %v, want an error without it", err)
	}
}
