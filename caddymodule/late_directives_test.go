package caddymodule

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// TestLateDirectives loads sites with directives that seem to guard the API. Caddy sorts those behind
// presets, and the log names them. It says nothing about directives that guard, and about those for
// other paths.
func TestLateDirectives(t *testing.T) {
	tier.Slow(t)
	s := start(t, standard)
	presets := fmt.Sprintf("presets {\nstorage badger %s\n%s\nconsole\n}\n", s.folder, standard)
	keyed := strings.Replace(presets, "presets {", "presets @keyed {", 1)
	const outside = "@outside not remote_ip 10.0.0.0/8\n"
	for name, tc := range map[string]struct{ site, late string }{
		"abort":                     {outside + "abort @outside\n" + presets, `"abort"`},
		"error":                     {outside + "error @outside 403\n" + presets, `"error"`},
		"respond":                   {outside + presets + "respond @outside 403\n", `"respond"`},
		"handle":                    {"@inside remote_ip 10.0.0.0/8\n" + presets + "handle @inside {\nreverse_proxy 127.0.0.1:1\n}\nhandle {\nabort\n}\n", `"handle or route"`},
		"handle that refuses":       {outside + "handle @outside {\nabort\n}\n" + presets, `"handle or route"`},
		"route that refuses":        {outside + "route @outside {\nerror 403\n}\n" + presets, `"handle or route"`},
		"several":                   {outside + "@old header X-Old 1\nabort @outside\nrespond @old 410\n" + presets, `"abort","respond"`},
		"the API's paths":           {"respond /v1/presets* 403\n" + presets, `"respond"`},
		"one path of the API":       {"respond /v1/presets/secret 403\n" + presets, `"respond"`},
		"all paths":                 {"respond * 403\n" + presets, ""}, // as without a matcher
		"the console's path":        {"abort /console/*\n" + presets, `"abort"`},
		"some of it by a glob":      {"abort /v1/*/versions/*\n" + presets, `"abort"`},
		"in capitals":               {"abort /V1/Presets*\n" + presets, `"abort"`},
		"login in a handle":         {"handle /v1/* {\nbasic_auth {\nann $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG\n}\nreverse_proxy 127.0.0.1:1\n}\n" + presets, `"handle or route"`},
		"presets in a route":        {outside + "abort @outside\nroute {\n" + presets + "}\n", `"abort"`},
		"presets in a handle":       {outside + "abort @outside\nhandle /v1/* {\n" + presets + "}\n", `"abort"`},
		"behind presets in a route": {outside + "route {\n" + presets + "abort @outside\n}\n", `"abort"`},

		"before presets in a route": {outside + "route {\nabort @outside\n" + presets + "}\n", ""},
		"login":                     {"basic_auth /console* {\nann $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG\n}\n" + presets, ""},
		"other paths":               {"respond /alive 200\nabort /.git*\nhandle /static/* {\nfile_server\n}\n" + presets, ""},
		"paths of a gateway":        {"handle /v1/* {\nreverse_proxy 127.0.0.1:1\n}\nhandle {\nreverse_proxy 127.0.0.1:2\n}\n" + presets, ""},
		"a path of our own matcher": {"respond /v1/presets/alive 200\n@keyed not path /v1/presets/alive\n" + keyed, ""},
		"our own matcher":           {"@preflight {\nmethod OPTIONS\nheader Origin *\n}\nrespond @preflight 204\n@keyed not {\nmethod OPTIONS\nheader Origin *\n}\n" + keyed, ""},
		"the other handle":          {outside + "handle @outside {\nabort\n}\nhandle {\n" + presets + "}\n", ""},
		"nothing":                   {presets, ""},
	} {
		before := len(s.logs())
		if err := s.load(s.siteAt(s.address, tc.site)); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		warned := ""
		for line := range strings.Lines(s.logs()[before:]) {
			if strings.Contains(line, "do not guard the API and the console") {
				_, warned, _ = strings.Cut(line, `"directives":[`)
				warned, _, _ = strings.Cut(warned, "]")
			}
		}
		if warned != tc.late {
			t.Errorf("%s: the log names %s, want %s", name, warned, tc.late)
		}
	}
	// Another site of the server is for other requests.
	before := len(s.logs())
	if err := s.load("http://a.example.com {\nbind " + s.address + "\n" + presets + "}\nhttp://b.example.com {\nbind " + s.address + "\n" + outside + "abort @outside\n}\n"); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(s.logs()[before:], "do not guard") {
		t.Error("the log warns of a directive of another site")
	}
}
