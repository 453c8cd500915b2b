package caddymodule

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// Caddy without this module, as SECURITY.md describes it. A CONNECT without a length
// goes upstream with its body unframed, which is the next request there.
func TestStockCaddyForwardsConnectUnframed(t *testing.T) {
	for _, version := range []string{"h2c", "h2", "h3"} {
		t.Run(version, func(t *testing.T) {
			upstream := newRecorder(t)
			w := startWired(t, upstream.proxy())
			w.do(version, wireRequest{method: "CONNECT", target: "localhost:80", body: smuggled})
			if got, want := upstream.all(t), []string{"CONNECT localhost:80 ", "GET /smuggled "}; !slices.Equal(got, want) {
				t.Errorf("got %q, want %q: Caddy no longer forwards a CONNECT unframed, so SECURITY.md has to change", got, want)
			}
		})
	}
}

// presetsDirective is the directive with subdirectives and a store of its own.
func presetsDirective(t *testing.T, subdirectives string) string {
	t.Helper()
	return fmt.Sprintf("presets {\nstorage badger %s\n%s\n}\n", storeFolder(t), subdirectives)
}

// branches are the ways through the handler, by the subdirectives that lead there.
var branches = map[string]string{
	"without inference": standard,
	"with inference":    inferring("list_models on"),
	"keys everywhere":   inferring("keys everywhere"),
	"keys off":          inferring("keys off"),
}

// The gateway parses, from the bytes that it gets, the requests that were judged and
// let through, and no other, whatever the version of HTTP and however they are framed.
func TestUpstreamParsesWhatWasJudged(t *testing.T) {
	const none = 0 // the answer may be a reset
	chat := `{"model":"m","messages":[]}`
	key := []string{bearer(inferenceSecret)}
	for branch, subdirectives := range branches {
		t.Run(branch, func(t *testing.T) {
			upstream := newRecorder(t)
			w := startWired(t, presetsDirective(t, subdirectives)+upstream.proxy())
			var want []string
			for _, version := range versions {
				http1 := strings.HasPrefix(version, "HTTP/1.1")
				for _, tc := range []struct {
					name   string
					r      wireRequest
					status int // 0 for a reset or any refusal
					passes bool
				}{
					{"a GET", wireRequest{method: "GET", target: "/files/a", header: key}, 202, true},
					{"a GET with a body", wireRequest{method: "GET", target: "/files/a", header: key, body: smuggled}, 202, true},
					{"a HEAD with a body", wireRequest{method: "HEAD", target: "/files/a", header: key, body: smuggled}, 202, true},
					{"a DELETE with a body and its length", wireRequest{method: "DELETE", target: "/files/a", header: key, body: smuggled, length: fmt.Sprint(len(smuggled))}, 202, true},
					{"an OPTIONS with a body", wireRequest{method: "OPTIONS", target: "/files/a", header: key, body: smuggled}, 202, true},
					{"a method of one's own with a body", wireRequest{method: "M-SEARCH", target: "/files/a", header: key, body: smuggled}, 202, true},
					{"a POST", wireRequest{method: "POST", target: "/v1/embeddings", header: key, body: smuggled}, 202, true},
					{"an empty POST", wireRequest{method: "POST", target: "/v1/embeddings", header: key}, 202, true},
					{"an inference request", wireRequest{method: "POST", target: chatPath, header: key, body: chat}, 202, true},
					{"with trailers", wireRequest{method: "POST", target: "/v1/embeddings", header: append([]string{"Trailer: X-A"}, key...), body: smuggled}, 202, true},

					{"CONNECT", wireRequest{method: "CONNECT", target: "localhost:80", header: key, body: smuggled}, 405, false},
					{"CONNECT without a body", wireRequest{method: "CONNECT", target: "localhost:80", header: key}, 405, false},
					{"CONNECT without a key", wireRequest{method: "CONNECT", target: "localhost:80", body: smuggled}, 405, false},
					{"CONNECT with a length", wireRequest{method: "CONNECT", target: "localhost:80", header: key, body: smuggled, length: fmt.Sprint(len(smuggled))}, 405, false},
					{"CONNECT with trailers", wireRequest{method: "CONNECT", target: "localhost:80", header: append([]string{"Trailer: X-A"}, key...), body: smuggled}, 405, false},
					{"CONNECT that goes on", wireRequest{method: "CONNECT", target: "localhost:80", header: key, body: smuggled, open: true}, 405, false},
					{"CONNECT of another host", wireRequest{method: "CONNECT", target: "127.0.0.1:2019", header: key, body: smuggled}, 405, false},
					{"TRACE", wireRequest{method: "TRACE", target: "/files/a", header: key}, 405, false},
					{"TRACE with a body", wireRequest{method: "TRACE", target: "/files/a", header: key, body: smuggled}, 405, false},
					{"post", wireRequest{method: "post", target: chatPath, body: chat}, 405, false},
					{"PoST", wireRequest{method: "PoST", target: chatPath, body: chat}, 405, false},
					{"connect", wireRequest{method: "connect", target: "/files/a", body: smuggled}, 405, false},
					{"Connect of ours", wireRequest{method: "Connect", target: "/v1/presets/p", body: smuggled}, 405, false},

					{"a dot segment", wireRequest{method: "POST", target: "/../api" + chatPath, body: chat}, 400, false},
					{"a line feed", wireRequest{method: "POST", target: chatPath + "%0a", body: chat}, 400, false},
					{"a backslash", wireRequest{method: "POST", target: `/v1\chat\completions`, body: chat}, 400, false},

					{"a length that is too short", wireRequest{method: "POST", target: chatPath, header: key, body: chat + smuggled, length: fmt.Sprint(len(chat))}, none, false},
					{"a length that is no number", wireRequest{method: "POST", target: chatPath, header: key, body: chat, length: "+2"}, none, false},
					{"an upgrade of HTTP/2", wireRequest{method: "GET", target: "/files/a", header: []string{"Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA"}}, none, false},
					{"chunks within HTTP/2", wireRequest{method: "POST", target: chatPath, header: []string{"Transfer-Encoding: chunked"}, body: "0\r\n\r\n" + smuggled}, none, false},
					{"a method with a line", wireRequest{method: "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\nGET", target: "/files/a"}, none, false},
					{"a path with a line", wireRequest{method: "GET", target: "/files/a HTTP/1.1\r\nHost: x\r\n\r\n" + smuggled}, none, false},
					{"a header with a line", wireRequest{method: "GET", target: "/files/a", header: []string{"X-A: b\r\n\r\n" + smuggled}}, none, false},
					{"another host", wireRequest{method: "GET", target: "/files/a", header: []string{"Host: other"}}, none, false},
					{"a path without a slash", wireRequest{method: "POST", target: "x:%2fv1/chat/completions", body: chat}, none, false},
					{"a pseudo header within", wireRequest{method: "GET", target: "/files/a", header: []string{"X-A: b", ":path: /smuggled"}}, none, false},
					{"an extended CONNECT to nothing known", wireRequest{method: "CONNECT", target: "/files/a", protocol: "connect-udp", body: smuggled}, none, false},
				} {
					if http1 && (tc.status == none || tc.r.protocol != "") {
						continue // TestHostileRequests has those of HTTP/1.1
					}
					got := w.do(version, tc.r)
					switch {
					case tc.passes:
						want = append(want, fmt.Sprintf("%s %s %s", tc.r.method, tc.r.target, tc.r.body))
						if got.status != tc.status || got.header.Get("X-Gateway") == "" {
							t.Errorf("%s, %s: got %d %q, want the gateway's answer", version, tc.name, got.status, got.body)
						}
					case tc.status == none && got.status != 0 && got.status < 400, got.header.Get("X-Gateway") != "":
						t.Errorf("%s, %s: got %d %q, want a refusal", version, tc.name, got.status, got.body)
					case tc.status != none:
						got.wantError(t, tc.status, "")
					}
				}
			}
			if got := upstream.all(t); !slices.Equal(got, want) {
				t.Errorf("the gateway parsed\n%q\nwant\n%q", got, want)
			}
		})
	}
}

// Gateways that read a path more freely than we do get no request that was not
// judged as what they read.
func TestFreeReadersGetNothingUnseen(t *testing.T) {
	starlette := regexp.MustCompile(`^/v1/(chat/completions|responses|messages)\n?$`) // as Python's $ matches
	unquote := func(target string) string {
		target, _, _ = strings.Cut(target, "?")
		text, err := url.PathUnescape(target)
		if err != nil {
			return target
		}
		return text
	}
	// cutParameters is what Java servers do before they decode.
	cutParameters := func(p string) string {
		segments := strings.Split(p, "/")
		for i, segment := range segments {
			segments[i], _, _ = strings.Cut(segment, ";")
		}
		return strings.Join(segments, "/")
	}
	for _, gateway := range []struct {
		name    string
		prefix  string // what Caddy puts before the path
		runs    func(target string) bool
		targets []string
	}{
		{"Starlette", "", func(target string) bool { return starlette.MatchString(unquote(target)) }, []string{
			"/v1/chat/completions%0a", "/v1/chat/completions%0A", "/v1/responses%0a", "/v1/messages%0a?x", "x:%2fv1/chat/completions", "x:%2Fv1%2Fresponses?",
		}},
		{"one that normalizes", "/api", func(target string) bool {
			return path.Clean(unquote(target)) == "/api/v1/chat/completions"
		}, []string{
			"/../api/v1/chat/completions", "/%2e%2e/api/v1/chat/completions", "/v1/../../api/v1/chat/completions", "/.%2E/api/v1/chat/completions",
			"/x/..%2f..%2fapi/v1/chat/completions", "/./v1/chat/completions", "/v1/chat/./completions", "/v1/chat/completions/.", "/v1/chat/completions/x/..",
		}},
		{"one that decodes twice and normalizes", "/api", func(target string) bool {
			return path.Clean(unquote(unquote(target))) == "/api/v1/chat/completions"
		}, []string{
			"/%252e%252e/api/v1/chat/completions", "/..%252fapi/v1/chat/completions", "/v1/%2563hat/completions", "/v1/x%252f../chat/completions", "/v1/chat/completions%252f.",
		}},
		{"one that cuts parameters first", "", func(target string) bool {
			return path.Clean(unquote(cutParameters(target))) == "/v1/chat/completions"
		}, []string{
			"/v1;x/chat/completions", "/v1;%2fx/chat/completions", "/v1/chat/completions;%2fx", "/v1/chat;%3fx/completions", "/;%2fx/v1/chat/completions", "/v1/..;/v1/chat/completions", "/v1/chat;%252fx/completions",
		}},
		{"one that decodes and cuts parameters", "", func(target string) bool {
			return path.Clean(cutParameters(unquote(target))) == "/v1/chat/completions"
		}, []string{
			"/v1%3bx/chat/completions", "/v1/chat%3b%252fx/completions", "/%3b%252fx/v1/chat/completions", "/;%252fx%2fv1/chat/completions",
		}},
		{"one that drops what is not UTF-8", "", func(target string) bool {
			return strings.ToValidUTF8(unquote(target), "") == "/v1/chat/completions"
		}, []string{"/v1/chat/completions%ff", "/v1/%e9chat/completions", "/v1/chat/complet%80ions"}},
		{"one that decodes before it finds the query", "", func(target string) bool {
			p, _, _ := strings.Cut(unquote(target), "?")
			return p == "/v1/chat/completions"
		}, []string{"/v1/chat/completions%3f", "/v1/chat/completions%3Fa=b"}},
		{"one that takes backslashes for slashes", "", func(target string) bool {
			return strings.ReplaceAll(unquote(unquote(target)), `\`, "/") == "/v1/chat/completions"
		}, []string{`/v1\chat\completions`, "/v1%5cchat/completions", "/v1/chat%255ccompletions"}},
	} {
		t.Run(gateway.name, func(t *testing.T) {
			upstream := newRecorder(t)
			lines := []string{}
			if gateway.prefix != "" {
				lines = append(lines, "rewrite "+gateway.prefix+"{uri}")
			}
			w := startWired(t, presetsDirective(t, inferring())+upstream.proxy(lines...))
			for _, target := range gateway.targets {
				direct := target
				if gateway.prefix != "" {
					direct = gateway.prefix + target
				}
				if !gateway.runs(strings.TrimPrefix(direct, "x:")) {
					t.Errorf("%s would not run %s: it tests nothing", gateway.name, target)
				}
				for _, version := range []string{"HTTP/1.1", "h2c", "h3"} {
					if got := w.do(version, wireRequest{method: "POST", target: target, body: `{"model":"m"}`}); got.header.Get("X-Gateway") != "" {
						t.Errorf("%s: POST %s without a key got %d from the gateway", version, target, got.status)
					}
				}
			}
			if got := upstream.all(t); len(got) > 0 {
				t.Errorf("the gateway got %q", got)
			}
		})
	}
}

// What is only unusual passes as it stands.
func TestUnusualPathsPass(t *testing.T) {
	for branch, subdirectives := range map[string]string{"without inference": standard, "with inference": inferring()} {
		t.Run(branch, func(t *testing.T) {
			upstream := newRecorder(t)
			w := startWired(t, presetsDirective(t, subdirectives)+upstream.proxy())
			var want []string
			for _, target := range []string{
				"/caf%E9.txt", "/caf%C3%A9.txt", "/%93%FA%96%7B.txt", "/%ff", "/%80%80", "/files//a", "//files/a", "/files/a;x=1", "/files/a;x=1/b;y", "/files/;/a", "/a%2Fb", "/a%252Fb",
				"/files/100%25", "/files/100%25zz", "/files/%25", "/files/a;b%2Fc", "/files/a%3Fb", "/files/a%23b", "/files/...", "/files/.a", "/files/a.", "/.well-known/x", "/files/..a", "/a%20b", "/%E2%80%A8",
				"/files/a?x=/../&y=%00%0a", "/V1/presets", "/v1/presetsx", "/v1/presets%ffx", "/v1/embeddings;x=1", "/v1//embeddings", "/",
			} {
				for _, version := range versions {
					want = append(want, "GET "+target+" ")
					if got := w.do(version, wireRequest{method: "GET", target: target}); got.status != 202 {
						t.Errorf("%s: GET %s got %d %s, want 202", version, target, got.status, got.body)
					}
				}
			}
			if got := upstream.all(t); !slices.Equal(got, want) {
				t.Errorf("the gateway got\n%q\nwant\n%q", got, want)
			}
		})
	}
}

// Refused paths are refused on each branch, on our routes and elsewhere, with a key and
// without one, in the envelope of the route.
func TestRefusedPaths(t *testing.T) {
	refused := map[string]string{
		"/files/%00": "control characters", "/files/%0a": "control characters", "/files/%1f": "control characters", "/files/%7F": "control characters", "/files/%09a": "control characters",
		"/files/%c2%80": "control characters", "/files/%C2%85": "control characters", "/files/%c2%9f": "control characters", "/files/%250a": "control characters", "/files/%2500": "control characters",
		"/files/%25c2%2585": "control characters", "/files/%25250a": "control characters", "/files/%ff%00": "control characters", "/files/%25zz%250a": "control characters", "/files/%zz%0a": "",
		"/files/..": "dot segments", "/files/../a": "dot segments", "/..": "dot segments", "/.": "dot segments", "/./a": "dot segments", "/files/%2e": "dot segments", "/files/%2E%2e/a": "dot segments",
		"/files/.%2e": "dot segments", "/files/%252e%252e/a": "dot segments", "/files/..;/a": "dot segments", "/files/.;x=1": "dot segments", "/files/..%3bx": "dot segments", "/files/..%253bx/a": "dot segments",
		"/files/a%2f..": "dot segments", "/files/a%252f..%252fb": "dot segments", "/files/..%3fx": "dot segments", "/files/%2e%2e%23": "dot segments", "/files/%25%32%65%25%32%65/a": "dot segments",
		"/files/%25zz/%252e%252e/a": "dot segments", "/files;%2f../a": "dot segments", "/files/%25252525252e%2e": "dot segments",
		`/files\a`: "backslashes", "/files/%5c": "backslashes", "/files/%255Ca": "backslashes", `/files/..\a`: "backslashes", "/files/%25zz%255c": "backslashes",
		"/files/%c0%af": "overlong", "/files/%c0%ae%c0%ae/a": "overlong", "/files/%e0%80%af": "overlong", "/files/%f0%80%80%af": "overlong", "/files/%f8%80%80%80%af": "overlong", "/files/%fc%80%80%80%80%af": "overlong",
		"/files/%25c0%25af": "overlong", "/files/%c1%bf": "overlong",
	}
	for _, base := range []string{"/v1/presets/p", "/v1/workspaces", "/v1/models", chatPath, "/v1"} {
		refused[base+"/.."], refused[base+"%0a"], refused[base+"/%252e%252e/x"], refused[base+"%5cx"], refused[base+"%00"] = "dot segments", "control characters", "dot segments", "backslashes", "control characters"
	}
	for branch, subdirectives := range branches {
		t.Run(branch, func(t *testing.T) {
			upstream := newRecorder(t)
			w := startWired(t, presetsDirective(t, subdirectives)+upstream.proxy())
			for target, reason := range refused {
				for i, key := range []string{"X-A: b", bearer(managementSecret), bearer(inferenceSecret)} {
					version := versions[(len(target)+i)%len(versions)]
					got := w.do(version, wireRequest{method: "GET", target: target, header: []string{key}})
					if reason == "" { // the server's own
						if got.status != 400 && got.status != 0 {
							t.Errorf("%s %s: got %d", version, target, got.status)
						}
						continue
					}
					got.wantError(t, 400, "Invalid request parameters: path: must not have "+reason)
				}
			}
			for target, parts := range map[string][]string{ // envelopes
				"/v1/x/../responses":        {`{"error":{"code":"invalid_prompt","message":"Invalid request parameters: path: must not have dot segments"},"metadata":`},
				"/v1/messages/.":            {`{"type":"error","error":{"type":"invalid_request_error","message":"Invalid request parameters: path: must not have dot segments"}`},
				"/v1/chat/completions/%2e/": {`{"error":{"code":400,"message":"Invalid request parameters: path: must not have dot segments"`},
			} {
				w.do("h2c", wireRequest{method: "POST", target: target, body: "{}"}).want(t, 400, parts...)
			}
			for target, allow := range map[string]string{chatPath: "POST", "/v1/presets": "GET, HEAD", "/v1/presets/p/labels/l": "DELETE, GET, HEAD, PUT", "/files/a": ""} {
				got := w.do("h2", wireRequest{method: "TRACE", target: target})
				got.wantError(t, 405, "Method not allowed")
				if got.header.Get("Allow") != allow {
					t.Errorf("TRACE %s: got Allow %q, want %q", target, got.header.Get("Allow"), allow)
				}
			}
			if got := upstream.all(t); len(got) > 0 {
				t.Errorf("the gateway got %q", got)
			}
		})
	}
}

func TestNormalizePath(t *testing.T) {
	for p, want := range map[string]string{
		"/": "/", "": ".", "*": "*", "/a/b": "/a/b", "/a//b/": "/a/b", "//a": "/a", "/a;x/b;y=1": "/a/b", "/a%2fb": "/a/b", "/a%252fb": "/a/b", "/a%25252fb": "/a/b", "/;x/a": "/a",
		"/v1/presets%252fx;%25zz": "/v1/presets/x", "/%zz%2fa": "/%zz/a", "/%": "/%", "/%2": "/%2", "/%25": "/%", "/%2525": "/%", "/%25%32%66a": "/a", "/%2%35": "/%", "/%%32%35": "/%",
		"/a?b/c": "/a", "/a%3fb/c": "/a", "/a%23b": "/a", "/caf\xe9": "/caf", "/é": "/é", "/a\xff/b": "/a/b", "/...": "/...", "/.a": "/.a", "/a.": "/a.",
	} {
		if got, err := normalizePath(p); got != want || err != nil {
			t.Errorf("%q: got %q, %v, want %q", p, got, err, want)
		}
	}
}

// The time for a path grows with its length, and not with the depth of its encoding.
func TestNormalizePathIsLinear(t *testing.T) {
	took := func(n int, unit, tail string) time.Duration {
		p := "/" + strings.Repeat(unit, n/len(unit)) + tail
		best := time.Hour
		for range 5 {
			start := time.Now()
			_, _ = normalizePath(p)
			best = min(best, time.Since(start))
		}
		return best
	}
	for _, tc := range [][2]string{{"25", ""}, {"%25", "2e"}, {"%", ""}, {"/", ""}, {";", ""}, {"a;/", ""}, {"%2", "5"}, {"\xc0", ""}, {"\xfc", ""}} {
		if tc[0] == "25" {
			tc[0], tc[1] = "25", "2e"
			p := "/%" + strings.Repeat("25", 1<<19) + "2e"
			if got, _ := normalizePath(p); got != "/" {
				t.Errorf("got %.20q", got)
			}
		}
		short, long := took(1<<15, tc[0], tc[1]), took(1<<20, tc[0], tc[1])
		if long > 32*8*max(short, 20*time.Microsecond) {
			t.Errorf("%q: 32 KiB take %v and 1 MiB takes %v", tc[0], short, long)
		}
	}
}

// A WebSocket passes as what it is; every other upgrade passes as a plain request, and
// none becomes a tunnel, also not with a gateway that switches unasked.
func TestUpgrades(t *testing.T) {
	const tunnelled = "GET /smuggled-through-a-tunnel HTTP/1.1\r\nHost: x\r\n\r\n"
	for _, tc := range []struct {
		name    string
		upgrade []string
		extra   []string
		want    string // the Upgrade that the gateway gets
	}{
		{"h2c", []string{"Upgrade: h2c"}, []string{"Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA"}, ""},
		{"another case", []string{"Upgrade: H2C"}, []string{"Connection: keep-alive, uPgRaDe"}, ""},
		{"anything", []string{"Upgrade: any/1"}, []string{"Connection: upgrade"}, ""},
		{"TLS", []string{"Upgrade: TLS/1.0"}, []string{"Connection: upgrade"}, ""},
		{"a WebSocket with a version", []string{"Upgrade: websocket/13"}, []string{"Connection: upgrade"}, ""},
		{"a WebSocket beside another", []string{"Upgrade: h2c, websocket"}, []string{"Connection: upgrade"}, "websocket"},
		{"another beside a WebSocket", []string{"Upgrade: WebSocket , h2c"}, []string{"Connection: upgrade"}, "websocket"},
		{"two headers", []string{"Upgrade: h2c", "Upgrade: websocket"}, []string{"Connection: upgrade"}, "websocket"},
		{"a WebSocket", []string{"Upgrade: websocket"}, []string{"Connection: Upgrade"}, "websocket"},
		{"a WebSocket in capitals", []string{"Upgrade: WebSocket"}, []string{"Connection: keep-alive, Upgrade"}, "websocket"},
		{"a WebSocket without the option", []string{"Upgrade: websocket"}, nil, ""},
		{"nothing", []string{"Upgrade:"}, []string{"Connection: upgrade"}, ""},
	} {
		for branch, subdirectives := range branches {
			for _, switches := range []string{"", "h2c", "websocket", "nothing"} {
				t.Run(tc.name+", "+branch+", the gateway switches to "+switches, func(t *testing.T) {
					upstream := newRecorder(t)
					upgrades := make(chan http.Header, 2)
					upstream.answer = func(conn net.Conn, rest *bufio.Reader, r *http.Request) bool {
						upgrades <- r.Header
						answer := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + switches + "\r\n\r\n"
						switch switches {
						case "":
							return answerAccepted(conn, rest, r)
						case "nothing":
							answer = "HTTP/1.1 101 Switching Protocols\r\n\r\n"
						}
						_, _ = io.WriteString(conn, answer+"from the tunnel")
						rest.Reset(io.MultiReader(bytes.NewReader(nil), conn))
						if text, _ := io.ReadAll(rest); len(text) > 0 {
							upstream.record("tunnel: " + string(text))
						}
						return false
					}
					w := startWired(t, presetsDirective(t, subdirectives)+upstream.proxy())
					stream := w.begin("HTTP/1.1", wireRequest{method: "GET", target: "/files/a", header: append(append([]string{bearer(inferenceSecret)}, tc.upgrade...), tc.extra...)})
					defer stream.abandon()
					status, header := stream.header()
					got := <-upgrades
					if upgrade := strings.Join(got.Values("Upgrade"), "|"); upgrade != tc.want {
						t.Errorf("the gateway got Upgrade %q, want %q", upgrade, tc.want)
					}
					if (got.Get("Connection") != "") != (tc.want != "") || got.Get("Http2-Settings") != "" {
						t.Errorf("the gateway got Connection %q and HTTP2-Settings %q", got.Get("Connection"), got.Get("Http2-Settings"))
					}
					opens := tc.want != "" && switches == "websocket"
					if (status == http.StatusSwitchingProtocols) != opens {
						t.Errorf("got %d with Upgrade %q, want a tunnel: %t", status, header.Get("Upgrade"), opens)
					}
					if opens {
						text := make([]byte, len("from the tunnel"))
						if _, err := io.ReadFull(stream, text); err != nil || string(text) != "from the tunnel" {
							t.Errorf("got %q, %v from the tunnel", text, err)
						}
					}
					_, _ = stream.Write([]byte(tunnelled)) // is the next request where there is no tunnel
					stream.abandon()
					want := []string{"GET /files/a "}
					if opens {
						want = append(want, "tunnel: "+tunnelled)
					}
					got2 := upstream.all(t)
					if !opens { // the next request may have been served, as such
						got2 = slices.DeleteFunc(got2, func(r string) bool { return r == "GET /smuggled-through-a-tunnel " })
					}
					if !slices.Equal(got2, want) {
						t.Errorf("the gateway got %q, want %q", got2, want)
					}
				})
			}
		}
	}
}
