package caddymodule

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/requestpath"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// TestStockCaddyForwardsConnectUnframed checks Caddy without this module against
// SECURITY.md. A CONNECT without a length goes upstream with an unframed body, which
// becomes the next request.
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
		t.Run(version+", refused as SECURITY.md says", func(t *testing.T) {
			upstream := newRecorder(t)
			w := startWired(t, "@connect method CONNECT\nrespond @connect 405\n"+upstream.proxy())
			w.do(version, wireRequest{method: "CONNECT", target: "localhost:80", body: smuggled}).want(t, 405)
			wantRequests(t, upstream.all(t), nil)
		})
	}
}

// wantRequests checks what a gateway parsed, up to the first difference.
func wantRequests(t *testing.T, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("the gateway did not get %q and %d more", want[i], len(want)-i-1)
		case i >= len(want):
			t.Errorf("the gateway got %q, and %d more", got[i], len(got)-i-1)
		case got[i] != want[i]:
			t.Errorf("the gateway got %q, want %q", got[i], want[i])
		default:
			continue
		}
		return
	}
}

// presetsDirective is the directive with subdirectives and a store of its own.
func presetsDirective(t *testing.T, subdirectives string) string {
	t.Helper()
	return fmt.Sprintf("presets {\nstorage badger %s\n%s\n}\n", caddytest.Folder(t), subdirectives)
}

// branches are the paths through the handler, by the subdirectives that select them.
var branches = map[string]string{
	"without inference": standard,
	"with inference":    inferring("keys required", "list_models on"),
	"keys everywhere":   inferring("keys everywhere"),
	"keys off":          inferring("keys off"),
}

// TestUpstreamParsesWhatWasJudged checks that the gateway parses exactly the requests that
// were judged and let through. It covers every version of HTTP and every framing.
func TestUpstreamParsesWhatWasJudged(t *testing.T) {
	tier.Slow(t)
	const (
		none      = 0           // the answer may be a reset
		shortPath = "/v1/short" // for a request that is forwarded until its length proves wrong
	)
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

					{"a length that is too short", wireRequest{method: "POST", target: shortPath, header: key, body: chat + smuggled, length: fmt.Sprint(len(chat))}, none, false},
					{"a length that is no number", wireRequest{method: "POST", target: shortPath, header: key, body: chat, length: "+2"}, none, false},
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
					case tc.r.target == shortPath: // only a part of the body is forwarded
					case tc.status == none && got.status != 0 && got.status < 400, got.header.Get("X-Gateway") != "":
						t.Errorf("%s, %s: got %d %q, want a refusal", version, tc.name, got.status, got.body)
					case tc.status != none:
						got.wantError(t, tc.status, "")
					}
				}
			}
			got := slices.DeleteFunc(upstream.all(t), func(r string) bool {
				body, short := strings.CutPrefix(strings.TrimSuffix(r, " (cut off)"), "POST "+shortPath+" ")
				return short && strings.HasPrefix(chat, body)
			})
			wantRequests(t, got, want)
		})
	}
}

// TestFreeReadersGetNothingUnseen models gateways that parse paths more freely than we do.
// They get no request that was judged as another.
func TestFreeReadersGetNothingUnseen(t *testing.T) {
	tier.NoRace(t)
	starlette := regexp.MustCompile(`^/v1/(chat/completions|responses|messages)\n?$`) // as Python's $ matches
	unquote := func(target string) string {
		target, _, _ = strings.Cut(target, "?")
		text, err := url.PathUnescape(target)
		if err != nil {
			return target
		}
		return text
	}
	// cutParameters removes parameters from segments, as Java servers do before they
	// decode.
	cutParameters := func(p string) string {
		segments := strings.Split(p, "/")
		for i, segment := range segments {
			segments[i], _, _ = strings.Cut(segment, ";")
		}
		return strings.Join(segments, "/")
	}
	for _, gateway := range []struct {
		name    string
		prefix  string // Caddy adds this before the path
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
			wantRequests(t, upstream.all(t), nil)
		})
	}
}

// TestUnusualPathsPass checks that unusual but safe paths pass unchanged.
func TestUnusualPathsPass(t *testing.T) {
	tier.Slow(t)
	for branch, subdirectives := range map[string]string{"without inference": standard, "with inference": inferring("keys required")} {
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
			wantRequests(t, upstream.all(t), want)
		})
	}
}

// TestRefusedPaths sends refused paths to each branch, on our routes and others, with and
// without a key. The refusal has the route's envelope.
func TestRefusedPaths(t *testing.T) {
	tier.Slow(t)
	refused := map[string]string{
		"/files/%00": "control characters", "/files/%0a": "control characters", "/files/%1f": "control characters", "/files/%7F": "control characters", "/files/%09a": "control characters",
		"/files/%c2%80": "control characters", "/files/%C2%85": "control characters", "/files/%c2%9f": "control characters", "/files/%250a": "control characters", "/files/%2500": "control characters",
		"/files/%25c2%2585": "control characters", "/files/%25250a": "control characters", "/files/%ff%00": "control characters", "/files/%25zz%250a": "control characters", "/files/%zz%0a": "",
		"/files/..": "dot segments", "/files/../a": "dot segments", "/..": "dot segments", "/.": "dot segments", "/./a": "dot segments", "/files/%2e": "dot segments", "/files/%2E%2e/a": "dot segments",
		"/files/.%2e": "dot segments", "/files/%252e%252e/a": "dot segments", "/files/..;/a": "dot segments", "/files/.;x=1": "dot segments", "/files/..%3bx": "dot segments", "/files/..%253bx/a": "dot segments",
		"/files/a%2f..": "dot segments", "/files/a%252f..%252fb": "dot segments", "/files/..%3fx": "dot segments", "/files/%2e%2e%23": "dot segments", "/files/%25%32%65%25%32%65/a": "dot segments",
		"/files/%25zz/%252e%252e/a": "dot segments", "/files;%2f../a": "dot segments", "/files/%25252525252e%2e": "dot segments",
		"/files/..%ff/a": "dot segments", "/files/%2e%80%2e/a": "dot segments", "/files/.%ff./a": "dot segments", "/..%ff/api": "dot segments",
		`/files\a`: "backslashes", "/files/%5c": "backslashes", "/files/%255Ca": "backslashes", `/files/..\a`: "backslashes", "/files/%25zz%255c": "backslashes",
		"/files/%c0%af": "overlong", "/files/%c0%ae%c0%ae/a": "overlong", "/files/%e0%80%af": "overlong", "/files/%f0%80%80%af": "overlong", "/files/%f8%80%80%80%af": "overlong", "/files/%fc%80%80%80%80%af": "overlong",
		"/files/%25c0%25af": "overlong", "/files/%c1%bf": "overlong",
	}
	for _, base := range []string{"/v1/presets/p", "/v1/workspaces", "/v1/models", chatPath, "/v1"} {
		refused[base+"/.."], refused[base+"%0a"], refused[base+"/%252e%252e/x"], refused[base+"%5cx"], refused[base+"%00"] = "dot segments", "control characters", "dot segments", "backslashes", "control characters"
	}
	// What follows an encoded ? or # may be a query to the gateway, on a route on which a query counts.
	for _, target := range []string{
		chatPath + "%3Fmodel=evil", chatPath + "%253Fmodel=evil", chatPath + "%25253fmodel=evil", "/v1/responses%23x", "/v1/responses%2523x",
		"/v1//messages%3f", "/v1/messages/count_tokens%3F", "/v1/responses/input_tokens%253Fmodel", "/v1/%63hat/completions%3F?model=good", "/v1/chat/completions%ff%3F",
	} {
		refused[target] = "an encoded ? or #"
	}
	refused["/v1/messages%3f/../x"], refused["/v1/messages;a%3Fmodel=evil"] = "dot segments", "an encoded /, ? or #"
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
					message := "Invalid request parameters: path: must not have " + reason
					if !strings.HasPrefix(reason, "an encoded") { // the routes have envelopes of their own
						got.wantError(t, 400, message)
					}
					got.want(t, 400, message)
				}
			}
			for target, parts := range map[string][]string{ // envelopes
				"/v1/x/../responses":        {`{"error":{"code":400,"type":"invalid_prompt","message":"Invalid request parameters: path: must not have dot segments"},"metadata":`},
				"/v1/messages/.":            {`{"type":"error","error":{"type":"invalid_request_error","message":"Invalid request parameters: path: must not have dot segments"}`},
				"/v1/chat/completions/%2e/": {`{"error":{"code":400,"message":"Invalid request parameters: path: must not have dot segments"`},
				"/v1/responses%3Fx":         {`{"error":{"code":400,"type":"invalid_prompt","message":"Invalid request parameters: path: must not have an encoded ? or #"},"metadata":`},
				"/v1/messages%253Fx":        {`{"type":"error","error":{"type":"invalid_request_error","message":"Invalid request parameters: path: must not have an encoded ? or #"}`},
			} {
				w.do("h2c", wireRequest{method: "POST", target: target, body: "{}"}).want(t, 400, parts...)
			}
			for _, target := range []string{ // below the API, whatever the dot segments lead to
				"/v1/presets/%2e%2e/responses", "/v1/presets/../messages", "/v1/workspaces/w/%252e%252e/../responses", "//v1//presets;x/..;y/responses", "/v1/presets/p/responses/..%2f..%2f../messages/%0a",
			} {
				got := w.do("h2c", wireRequest{method: "POST", target: target, body: "{}"})
				got.want(t, 400, `{"error":{"code":400,"message":"Invalid request parameters: path: must not have `)
			}
			for target, allow := range map[string]string{chatPath: "POST", "/v1/presets": "GET, HEAD", "/v1/presets/p/labels/l": "DELETE, GET, HEAD, PUT", "/files/a": gatewayMethods} {
				got := w.do("h2", wireRequest{method: "TRACE", target: target})
				got.wantError(t, 405, "Method not allowed")
				if got.header.Get("Allow") != allow {
					t.Errorf("TRACE %s: got Allow %q, want %q", target, got.header.Get("Allow"), allow)
				}
			}
			w.do("h2", wireRequest{method: "TRACE", target: "/v1/presets/p/nothing"}).wantError(t, 404, "Resource not found")
			wantRequests(t, upstream.all(t), nil)
		})
	}
}

// TestNormalizePathIsLinear normalizes a long path. With quadratic time it would take
// minutes.
func TestNormalizePathIsLinear(t *testing.T) {
	tier.NoRace(t)
	const size = 512 << 10
	h := &Handler{BasePath: "/v1"}
	for _, tc := range []struct{ start, unit, end string }{
		{"/%", "25", "2e"}, {"/", "%25", "2e"}, {"/", "%", ""}, {"", "/", ""}, {"/", ";", ""}, {"/", "a;/", ""}, {"/", "%2", "5"}, {"/", "\xc0", ""}, {"/", "\xfc", ""}, {"/v1;", "%2f", ""}, {"/", "/v1;%2f", ""},
	} {
		p := tc.start + strings.Repeat(tc.unit, size/len(tc.unit)) + tc.end
		start := time.Now()
		_, _ = h.checkRequest(&http.Request{Method: "GET", URL: &url.URL{Path: p, RawPath: p}})
		if took := time.Since(start); took > time.Minute {
			t.Errorf("%q, and %q again and again: %v", tc.start, tc.unit, took)
		}
	}
	if got, _, err := requestpath.Normalize("/%" + strings.Repeat("25", size/2) + "41"); got != "/A" || err != nil {
		t.Errorf("got %.20q, %v, want /A", got, err)
	}
}

// switching makes u answer /switch/<protocol> with 101 and that protocol, or none, and
// record the tunnel's bytes. Each tunnel reads as many bytes as tunnelled has.
func (u *recorder) switching() {
	u.response = func(conn net.Conn, rest *bufio.Reader, r *http.Request) bool {
		u.record("Upgrade: " + strings.Join(r.Header.Values("Upgrade"), "|") + ", Connection: " + r.Header.Get("Connection") + ", settings: " + r.Header.Get("Http2-Settings"))
		protocol, switches := strings.CutPrefix(r.URL.Path, "/switch/")
		if !switches {
			return answerAccepted(conn, rest, r)
		}
		response := "HTTP/1.1 101 Switching Protocols\r\n\r\n"
		if protocol != "" {
			response = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + protocol + "\r\n\r\n"
		}
		_, _ = io.WriteString(conn, response+welcome)
		text := make([]byte, len(tunnelled))
		if n, _ := io.ReadFull(rest, text); n > 0 {
			u.record("tunnel: " + string(text[:n]))
			_, _ = io.WriteString(conn, goodbye)
		}
		return false
	}
}

// These texts go through a tunnel, to the upstream and back.
const (
	tunnelled = "GET /tunnelled HTTP/1.1\r\nHost: x\r\n\r\n"
	welcome   = "welcome"
	goodbye   = "goodbye"
)

// TestUpgrades checks that a WebSocket passes. Every other upgrade passes as a request
// without one. No tunnel opens, even if the gateway switches without a request for it.
func TestUpgrades(t *testing.T) {
	for branch, subdirectives := range branches {
		t.Run(branch, func(t *testing.T) {
			upstream := newRecorder(t)
			upstream.switching()
			w := startWired(t, presetsDirective(t, subdirectives)+upstream.proxy())
			var want []string
			for _, tc := range []struct {
				name    string
				headers []string
				upgrade string // that the gateway gets
			}{
				{"h2c", []string{"Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA"}, ""},
				{"h2c in capitals", []string{"Upgrade: H2C", "Connection: keep-alive, uPgRaDe"}, ""},
				{"any protocol", []string{"Upgrade: any/1", "Connection: upgrade"}, ""},
				{"TLS", []string{"Upgrade: TLS/1.0", "Connection: upgrade"}, ""},
				{"a WebSocket with a version", []string{"Upgrade: websocket/13", "Connection: upgrade"}, ""},
				{"a WebSocket after another", []string{"Upgrade: h2c, websocket", "Connection: upgrade"}, "websocket"},
				{"a WebSocket before another", []string{"Upgrade: WebSocket , h2c", "Connection: upgrade"}, "websocket"},
				{"a WebSocket in a second header", []string{"Upgrade: h2c", "Upgrade: websocket", "Connection: upgrade"}, "websocket"},
				{"a WebSocket", []string{"Upgrade: websocket", "Connection: Upgrade"}, "websocket"},
				{"a WebSocket in capitals", []string{"Upgrade: WebSocket", "Connection: keep-alive, Upgrade"}, "websocket"},
				{"a WebSocket without the option", []string{"Upgrade: websocket"}, ""},
				{"nothing", []string{"Upgrade:", "Connection: upgrade"}, ""},
			} {
				for _, target := range []string{"/files/a", "/switch/", "/switch/h2c", "/switch/websocket"} {
					want = append(want, "GET "+target+" ")
					connection := ""
					if tc.upgrade != "" {
						connection = "Upgrade"
					}
					want = append(want, "Upgrade: "+tc.upgrade+", Connection: "+connection+", settings: ")
					stream := w.begin("HTTP/1.1", wireRequest{method: "GET", target: target, header: append([]string{bearer(inferenceSecret)}, tc.headers...)})
					status, _ := stream.header()
					opens := tc.upgrade != "" && target == "/switch/websocket"
					if (status == http.StatusSwitchingProtocols) != opens {
						t.Errorf("%s, %s: got %d, want a tunnel: %t", tc.name, target, status, opens)
					}
					if opens {
						throughTunnel(t, stream)
						want = append(want, "tunnel: "+tunnelled)
					}
					stream.abandon()
				}
			}
			wantRequests(t, upstream.all(t), want)
		})
	}
}

// throughTunnel sends something through a tunnel and reads what comes back.
func throughTunnel(t *testing.T, stream wireStream) {
	t.Helper()
	_, _ = stream.Write([]byte(tunnelled))
	text := make([]byte, len(welcome)+len(goodbye))
	if _, err := io.ReadFull(stream, text); err != nil || string(text) != welcome+goodbye {
		t.Errorf("got %q, %v from the tunnel", text, err)
	}
}

// TestInferenceWithAnUpgrade checks that an upgrade does not bypass an inference request's
// checks. Methods that no WebSocket has open no tunnel.
func TestInferenceWithAnUpgrade(t *testing.T) {
	upstream := newRecorder(t)
	upstream.switching()
	w := startWired(t, presetsDirective(t, inferring())+upstream.proxy("rewrite /switch/websocket"))
	for _, protocol := range []string{"websocket", "h2c"} {
		r := wireRequest{method: "POST", target: chatPath, header: []string{"Connection: Upgrade", "Upgrade: " + protocol}, body: `{"model":"m"}`, length: "13"}
		w.do("HTTP/1.1", r).wantError(t, 401, "Missing Authentication header")
		r.header = append(r.header, bearer(inferenceSecret))
		r.body, r.length = `{"model":"@preset/absent"}`, "26"
		w.do("HTTP/1.1", r).wantError(t, 404, "")
		r.body, r.length = `{"model":"m"}`, "13"
		stream := w.begin("HTTP/1.1", r)
		if status, _ := stream.header(); status == http.StatusSwitchingProtocols {
			t.Errorf("%s: a POST opened a tunnel", protocol)
		}
		stream.abandon()
	}
	want := []string{`POST /switch/websocket {"model":"m"}`, "Upgrade: , Connection: , settings: "}
	wantRequests(t, upstream.all(t), append(want, want...))
}

// extended is the setting that makes HTTP/2 servers accept :protocol. It is read once, at
// the program's start.
const extended = "http2xconnect=1"

// TestWebSocketConnect checks that WebSockets over HTTP/2 and HTTP/3 are judged as the GET
// that the gateway gets.
func TestWebSocketConnect(t *testing.T) {
	tier.Race(t)
	connects := []string{"h3"}
	if strings.Contains(os.Getenv("GODEBUG"), extended) {
		connects = append(connects, "h2c", "h2")
	} else {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), "GODEBUG="+extended)
		if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name()+"/keys_off/h2 ")) {
			t.Errorf("with %s: %v\n%s", extended, err, out)
		}
	}
	key := []string{bearer(inferenceSecret)}
	for branch, subdirectives := range branches {
		for _, version := range connects {
			t.Run(branch+"/"+version, func(t *testing.T) {
				upstream := newRecorder(t)
				upstream.switching()
				w := startWired(t, presetsDirective(t, subdirectives)+upstream.proxy())
				passed := []string{"Upgrade: websocket, Connection: Upgrade, settings: "}
				stream := w.begin(version, wireRequest{method: "CONNECT", protocol: "websocket", target: "/switch/websocket", header: key, open: true})
				if status, _ := stream.header(); status != 200 {
					t.Errorf("got %d, want a tunnel", status)
				} else {
					throughTunnel(t, stream)
				}
				stream.abandon()
				want := slices.Concat([]string{"GET /switch/websocket "}, passed, []string{"tunnel: " + tunnelled})
				// Data that a client sends before the gateway has switched is not a
				// request.
				w.do(version, wireRequest{method: "CONNECT", protocol: "websocket", target: "/files/a", header: key, body: smuggled}).want(t, 202)
				want = append(want, "GET /files/a ", passed[0])
				for _, tc := range []struct {
					r      wireRequest
					status int
				}{
					{wireRequest{target: "/../switch/websocket", protocol: "websocket"}, 400},
					{wireRequest{target: "/switch/websocket%0a", protocol: "websocket"}, 400},
					{wireRequest{target: `/switch\websocket`, protocol: "websocket"}, 400},
					{wireRequest{target: "/v1/presets/p", protocol: "websocket"}, 405},
					{wireRequest{target: "/v1/presets", protocol: "websocket"}, 405},
					{wireRequest{target: "/switch/websocket", protocol: "WebSocket"}, 405},
					{wireRequest{target: "/switch/websocket", protocol: "connect-udp"}, 405},
					{wireRequest{target: "/switch/websocket", protocol: "h2c"}, 405},
				} {
					tc.r.method, tc.r.header, tc.r.body = "CONNECT", key, smuggled
					w.do(version, tc.r).wantError(t, tc.status, "")
				}
				if branch != "without inference" {
					r := w.do(version, wireRequest{method: "CONNECT", protocol: "websocket", target: "/v1/responses", header: key, body: smuggled})
					r.want(t, http.StatusUpgradeRequired, `{"error":{"code":426,"type":"invalid_prompt","message":"This route serves no WebSocket`)
					if r.header.Get("Upgrade") != "" {
						t.Error("HTTP/2 and HTTP/3 have no header Upgrade")
					}
				}
				status := 202
				if branch == "keys everywhere" {
					status = 401
				} else {
					want = append(want, "GET /files/b ", passed[0])
				}
				if got := w.do(version, wireRequest{method: "CONNECT", protocol: "websocket", target: "/files/b"}); got.status != status {
					t.Errorf("without a key: got %d, want %d", got.status, status)
				}
				if branch == "with inference" {
					w.do(version, wireRequest{method: "CONNECT", protocol: "websocket", target: "/v1/models"}).wantError(t, 401, "")
				}
				wantRequests(t, upstream.all(t), want)
			})
		}
	}
}
