package caddymodule

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// consoleBranches are branches with a console.
func consoleBranches() map[string]string {
	with := map[string]string{"refused other routes": inferring("other_routes refuse", "keys everywhere") + "\nconsole"}
	for branch, subdirectives := range branches {
		with[branch] = subdirectives + "\nconsole"
	}
	return with
}

// wantConsole checks that an answer is the console's, by headers that nothing else sends.
func (r reply) wantConsole(t *testing.T, name string, status int) {
	t.Helper()
	if r.status != status {
		t.Errorf("%s: got %d %.200s, want %d", name, r.status, r.body, status)
	}
	headers := map[string]string{"X-Content-Type-Options": "nosniff"}
	if !strings.HasPrefix(r.header.Get("Content-Type"), "text/javascript") { // which is no document
		headers["Content-Security-Policy"] = "default-src 'none'; script-src 'self'"
		headers["Referrer-Policy"], headers["Cross-Origin-Opener-Policy"], headers["Permissions-Policy"] = "no-referrer", "same-origin", "accelerometer=()"
	}
	for header, want := range headers {
		if got := r.header.Values(header); len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%s: got %s %q", name, header, got)
		}
	}
	if got := r.header.Get("Set-Cookie") + r.header.Get("X-Gateway") + r.header.Get("Access-Control-Allow-Origin"); got != "" {
		t.Errorf("%s: got %v", name, r.header)
	}
}

// TestConsole checks that the page needs no key with any settings, and that no request to
// it reaches the gateway.
func TestConsole(t *testing.T) {
	tier.NoRace(t)
	for branch, subdirectives := range consoleBranches() {
		t.Run(branch, func(t *testing.T) {
			upstream := newRecorder(t)
			w := startWired(t, presetsDirective(t, subdirectives)+upstream.proxy())
			shell := w.do("h2", wireRequest{method: "GET", target: "/console"})
			shell.wantConsole(t, "the shell", 200)
			asset := regexp.MustCompile(`src="(/console/assets/[^"]+\.js)"`).FindStringSubmatch(shell.body)
			if asset == nil {
				t.Fatalf("the shell names no script\n%s", shell.body)
			}
			for i, tc := range []struct {
				method, target string
				status         int
			}{
				{"GET", "/console/", 200},
				{"HEAD", "/console", 200},
				{"GET", "/console/workspaces", 200},
				{"GET", "/console/w/default/p/mail/compare/1..2", 200},
				{"GET", "/console?key=x", 200},
				{"GET", asset[1], 200},
				{"HEAD", asset[1], 200},
				{"GET", strings.Replace(asset[1], "/assets/", "/assets/0", 1), 404},
				{"GET", "/console/nothing", 200},
				{"GET", "/console/v1/models", 200},
				{"POST", "/console", 405},
				{"DELETE", "/console/w/default/p/mail", 405},
				{"OPTIONS", "/console", 405},
				{"post", "/console", 405},
				{"TRACE", "/console/w/default", 405},
				// Other spellings of the page's paths.
				{"GET", "//console", 200},
				{"GET", "/console//w/default", 200},
				{"GET", "/console;x=1", 200},
				{"GET", "/console;%2fx", 200},
				{"GET", "/con%73ole", 200},
				{"GET", "/con%2573ole", 200},
				{"GET", "/con%252573ole/w/default", 200},
				{"GET", "/console%2fw%2fdefault", 200},
				{"GET", "/console%252fw%252fdefault", 200},
				{"GET", "/console%3fx", 200},
				{"GET", "/console%ff", 200},
				// Paths that are refused everywhere else.
				{"GET", "/console/w/..", 200},
				{"GET", "/console/./w", 200},
				{"GET", "/x/../console", 200},
				{"GET", "/console/w/%2e%2e/p", 200},
				{"GET", "/console/w/%0a", 200},
				{"GET", `/console/w\default`, 200},
				{"GET", "/console/w/%c0%af", 200},
			} {
				version := versions[i%len(versions)]
				if tc.method == "post" {
					version = "HTTP/1.1"
				}
				got := w.do(version, wireRequest{method: tc.method, target: tc.target, header: []string{bearer("a-key-that-nobody-knows")}})
				got.wantConsole(t, version+" "+tc.method+" "+tc.target, tc.status)
				if allow := got.header.Get("Allow"); (allow == "GET, HEAD") != (tc.status == 405) {
					t.Errorf("%s %s: got Allow %q", tc.method, tc.target, allow)
				}
			}

			// Paths beside the page's, and the API, are as without it.
			var passed []string
			for _, target := range []string{"/consoles", "/Console", "/v1/console", "/x/console"} {
				passed = append(passed, "GET "+target+" ")
				if got := w.do("h2c", wireRequest{method: "GET", target: target, header: []string{bearer(inferenceSecret)}}); got.status != 202 {
					t.Errorf("%s: got %d %s, want the gateway's 202", target, got.status, got.body)
				}
			}
			w.do("h2c", wireRequest{method: "GET", target: "/v1/presets"}).wantError(t, 401, "Missing Authentication header")
			w.do("h2c", wireRequest{method: "GET", target: "/console/../v1/presets"}).wantError(t, 400, "Invalid request parameters: path: must not have dot segments")
			wantRequests(t, upstream.all(t), passed)
		})
	}
}

// TestSharedOriginIsWarnedOf checks that a start warns once if pages of the gateway need no key
// beside the console.
func TestSharedOriginIsWarnedOf(t *testing.T) {
	tier.NoRace(t)
	s := start(t, standard)
	const warning = "pages of a gateway behind this site can steal the console's key"
	for subdirectives, warnings := range map[string]int{
		standard + "\nconsole":                     1,
		inferring("keys required") + "\nconsole":   1,
		inferring("keys optional") + "\nconsole":   1,
		inferring("keys off") + "\nconsole /ui":    1,
		inferring("keys everywhere") + "\nconsole": 0,
		standard + "\ninference\nconsole":          0,
		standard:                                   0,
		inferring("keys off"):                      0,
	} {
		before := len(s.logs())
		s.reload(subdirectives)
		if got := strings.Count(s.logs()[before:], warning); got != warnings {
			t.Errorf("%s: got %d warnings, want %d", subdirectives, got, warnings)
		}
	}
}

// TestNoConsole checks that without the directive the path is the gateway's.
func TestNoConsole(t *testing.T) {
	s := start(t, standard)
	if got := s.do("GET", "/console", ""); got.status != 202 || got.header.Get("X-Gateway") == "" {
		t.Errorf("got %d %s, want the gateway's answer", got.status, got.body)
	}
}

func TestConsolePaths(t *testing.T) {
	tier.NoRace(t)
	t.Setenv("PRESETS_TEST_CONSOLE", "/ui/of/presets/")
	s := start(t, standard+"\nconsole {env.PRESETS_TEST_CONSOLE}\nbase_path /kü/v1")
	for _, path := range []string{"/ui/of/presets", "/ui/of/presets/", "/ui/of/presets/w/x"} {
		got := s.do("GET", path, "")
		got.wantConsole(t, path, 200)
		if !strings.Contains(got.body, `"/ui/of/presets"`) || !strings.Contains(got.body, `"/kü/v1"`) || !strings.Contains(got.body, `"/ui/of/presets/assets/`) {
			t.Errorf("%s: the paths are not in\n%s", path, got.body)
		}
	}
	for _, path := range []string{"/ui/of", "/ui", "/console"} {
		if got := s.do("GET", path, ""); got.status != 202 {
			t.Errorf("%s: got %d, want the gateway's 202", path, got.status)
		}
	}

	// Base paths beside, above and at the root.
	for base, path := range map[string]string{"/": "/console", "/v1": "/v1/console", "/console/v1": "/console/ui", "/v2": "/models"} {
		if err := s.load(s.site(standard + "\nconsole " + path + "\nbase_path " + base)); err != nil {
			t.Errorf("base path %s, console %s: %v", base, path, err)
			continue
		}
		s.do("GET", path, "").wantConsole(t, path, 200)
		s.do("GET", strings.TrimSuffix(base, "/")+"/presets", "", bearer(managementSecret)).want(t, 200)
	}
}

// TestConsoleBehindEncode checks that Caddy's encode directive does not encode twice, and
// that tags still work.
func TestConsoleBehindEncode(t *testing.T) {
	s := start(t, standard)
	if err := s.load(s.siteAt(s.address, "encode zstd gzip\npresets {\nstorage badger "+s.folder+"\n"+standard+"\nconsole\n}")); err != nil {
		t.Fatal(err)
	}
	address := regexp.MustCompile(`"(/console/assets/[^"]+\.js)"`).FindStringSubmatch(s.do("GET", "/console", "").body)[1]
	for _, coding := range []string{"gzip", "zstd", "identity"} {
		got := s.do("GET", address, "", "Accept-Encoding: "+coding)
		if encoding := strings.Join(got.header.Values("Content-Encoding"), ","); got.status != 200 || strings.Contains(encoding, ",") {
			t.Errorf("%s: got %d with the encoding %q", coding, got.status, encoding)
		}
		again := s.do("GET", address, "", "Accept-Encoding: "+coding, "If-None-Match: "+got.header.Get("ETag"))
		if again.status != http.StatusNotModified || again.body != "" {
			t.Errorf("%s: got %d for the tag %s, want 304", coding, again.status, got.header.Get("ETag"))
		}
	}
}
