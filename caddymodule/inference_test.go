package caddymodule

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/mediatype"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// inferring is standard with an inference block of the given lines.
func inferring(lines ...string) string {
	return standard + "\ninference {\n" + strings.Join(lines, "\n") + "\n}"
}

const (
	chatPath      = "/v1/chat/completions"
	responsesPath = "/v1/responses"
	messagesPath  = "/v1/messages"
)

var inferencePaths = []string{chatPath, responsesPath, messagesPath}

// writer is the preset of most tests. Only its responses form has an include.
const writer = `{"model":"openai/gpt-5","instructions":"Be brief.","temperature":0.70,"max_output_tokens":100,"include":["reasoning.encrypted_content"]}`

// preset makes a new version of a preset in the workspace default.
func (s *server) preset(slug, body string) {
	s.t.Helper()
	s.manage("POST", "/v1/presets/"+slug+"/responses", body).want(s.t, 200)
}

// ask sends an inference request with the inference key.
func (s *server) ask(path, body string, headers ...string) reply {
	s.t.Helper()
	return s.do("POST", path, body, append([]string{bearer(inferenceSecret)}, headers...)...)
}

// exchange sends raw bytes to an address and returns the final answer.
func exchange(t *testing.T, address, request string) reply {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	go io.WriteString(conn, request) // the answer may come before the request is written
	return finalAnswer(t, bufio.NewReader(conn))
}

// post returns a raw request with its Content-Length.
func post(path, body string, headers ...string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: gateway.test\r\n%sContent-Length: %d\r\n\r\n%s", path, lines(headers), len(body), body)
}

// postChunked is post in chunks without a length, with announced trailers.
func postChunked(path, body string, trailers []string, headers ...string) string {
	headers = slices.Clone(headers)
	for _, trailer := range trailers {
		name, _, _ := strings.Cut(trailer, ":")
		headers = append(headers, "Trailer: "+name)
	}
	return postTrailed(path, body, trailers, headers...)
}

// postTrailed is postChunked, but announces only the trailers that headers announce.
func postTrailed(path, body string, trailers []string, headers ...string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "POST %s HTTP/1.1\r\nHost: gateway.test\r\n%sTransfer-Encoding: chunked\r\n\r\n", path, lines(headers))
	for len(body) > 0 {
		n := min(len(body), 1000)
		fmt.Fprintf(&text, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	text.WriteString("0\r\n" + lines(trailers) + "\r\n")
	return text.String()
}

func lines(headers []string) string {
	var text strings.Builder
	for _, h := range headers {
		text.WriteString(h + "\r\n")
	}
	return text.String()
}

// TestReferences compares the gateway's body byte by byte, for each style of reference on each route.
// What is merged is the subject of domain/inference.
func TestReferences(t *testing.T) {
	tier.NoRace(t)
	s := start(t, inferring())
	s.preset("writer", writer)
	s.preset("writer", `{"model":"openai/gpt-6"}`)
	routes := map[string]struct{ content, merged, dropped string }{
		chatPath: {
			`"messages": [ {"role":"user","content":"h\u00e9\/ <&> ü"}],"seed":1.0e+2`,
			`"messages":[{"role":"system","content":"Be brief."}, {"role":"user","content":"h\u00e9\/ <&> ü"}],"seed":1.0e+2%s,"temperature":0.70,"max_completion_tokens":100`, "include",
		},
		responsesPath: {
			`"z" : {"b":1,"a":[ ]},"input":"hi"`,
			`"z":{"b":1,"a":[ ]},"input":"hi"%s,"temperature":0.70,"max_output_tokens":100,"include":["reasoning.encrypted_content"],"instructions":"Be brief."`, "",
		},
		messagesPath: {
			`"max_tokens":7,"messages":[{"role":"user","content":"hi"}]`,
			`"max_tokens":7,"messages":[{"role":"user","content":"hi"}]%s,"temperature":0.70,"system":"Be brief."`, "include",
		},
	}
	for path, route := range routes {
		for reference, becomes := range map[string][2]string{ // in its place, and behind the request's fields
			`"model":"@preset/writer@1",`:                     {`"model":"openai/gpt-5",`, ""},
			`"m\u006fdel":"\u0040preset/writer@1",`:           {`"m\u006fdel":"openai/gpt-5",`, ""},
			`"model":"own/m@preset/writer@1",`:                {`"model":"own/m",`, ""},
			`"preset":"writer@1",`:                            {"", `,"model":"openai/gpt-5"`},
			`"preset":"writer@1","model":"own\/m",`:           {`"model":"own\/m",`, ""},
			`"model":"@preset/writer@1","preset":"writer@1",`: {`"model":"openai/gpt-5",`, ""},
		} {
			want := "{" + becomes[0] + fmt.Sprintf(route.merged, becomes[1]) + "}"
			r := s.ask(path+"?a=b%20c", "{ "+reference+"\n"+route.content+" }", "Content-Type: text/plain")
			r.want(t, http.StatusAccepted, "from the gateway")
			if preset := r.header.Values("X-Preset"); !slices.Equal(preset, []string{"writer@1"}) || r.header.Get("X-Preset-Dropped") != route.dropped {
				t.Errorf("%s%s: got X-Preset %q, dropped %q", reference, path, preset, r.header.Get("X-Preset-Dropped"))
			}
			got := s.upstream.one(t)
			if got.body != want {
				t.Errorf("%s%s: the gateway got\n%s, want\n%s", reference, path, got.body, want)
			}
			if got.method != "POST" || got.uri != path+"?a=b%20c" || got.length != int64(len(want)) || got.header.Get("Content-Length") != fmt.Sprint(len(want)) || got.coding != nil ||
				got.header.Get("Content-Type") != mediatype.JSON || got.header.Values("Authorization") != nil {
				t.Errorf("%s%s: got %+v", reference, path, got)
			}
		}
		for _, pin := range []string{"", "@2"} {
			s.ask(path, `{"model":"@preset/writer`+pin+`"}`).want(t, http.StatusAccepted)
			if got := s.upstream.one(t).body; got != `{"model":"openai/gpt-6"}` {
				t.Errorf("the newest version, %s: the gateway got %s", path, got)
			}
		}
	}
}

// TestHeadersAreKept sends a request with a reference. It keeps the headers that a stock
// reverse_proxy keeps, except its length and its credentials.
func TestHeadersAreKept(t *testing.T) {
	s := start(t, inferring("keys optional"))
	s.preset("writer", writer)
	stock := s.beside(inferring("keys optional"))
	headers := []string{
		"Authorization: Bearer sk-foreign", "X-Api-Key: sk-ant-foreign", "Cookie: a=b; c=d", "Cookie: e=f", "X-Empty:", "x-lower: v", "X-Twice: 1", "X-Twice: 2",
		"X-Bytes: \xff\xfe\u00e9", "Accept-Encoding: br;q=1.0, gzip", "Accept: text/event-stream", "User-Agent: openai-python/1", "X-Forwarded-For: 1.2.3.4",
		"Anthropic-Version: 2023-06-01", "Idempotency-Key: k", "Connection: X-Hop", "X-Hop: gone", "TE: trailers", "Date: Sat, 01 Jan 2000 00:00:00 GMT",
		"Content-Type: application/json; charset=utf-8", "X-Preset-Dry-Run: false", "X-Session-Id: from-header", "Content-Language: de", "X-Long: " + strings.Repeat("x", 9000),
	}
	for _, path := range inferencePaths {
		for _, request := range []string{
			post(path, `{"model":"@preset/writer"}`, headers...),
			postChunked(path, `{"model":"@preset/writer"}`, nil, headers...),
		} {
			exchange(t, s.address, request).want(t, http.StatusAccepted)
			got := s.upstream.one(t)
			exchange(t, stock, request).want(t, http.StatusAccepted)
			want := s.upstream.one(t)
			if got.length <= 0 || got.coding != nil {
				t.Errorf("%s: got length %d and Transfer-Encoding %v", path, got.length, got.coding)
			}
			got.header.Del("Content-Length")
			want.header.Del("Content-Length")
			if !reflect.DeepEqual(got.header, want.header) || got.host != want.host {
				t.Errorf("%s: got %v, want %v", path, got.header, want.header)
			}
			if got.header.Get("Authorization") != "Bearer sk-foreign" || len(got.header["X-Twice"]) != 2 {
				t.Error("the comparison compares nothing")
			}
		}
	}
}

// beside loads a second site without our handler before the same upstream. It returns its
// address.
func (s *server) beside(subdirectives string) (address string) {
	s.t.Helper()
	address = freeAddress(s.t)
	if err := s.load(s.site(subdirectives) + s.siteAt(address, "")); err != nil {
		s.t.Fatal(err)
	}
	return address
}

// wantAsStock sends a request to our site and to one without our handler. The gateway gets the same
// from both, and the client the same answer.
func (s *server) wantAsStock(what, stock, request, body string) {
	s.t.Helper()
	ours := exchange(s.t, s.address, request)
	got := s.upstream.one(s.t)
	theirs := exchange(s.t, stock, request)
	want := s.upstream.one(s.t)
	if want.body != body || want.err != nil {
		s.t.Fatalf("%s: the test is at fault: stock gives %.500q, %v", what, want.body, want.err)
	}
	got.trailer, want.trailer = withoutEmpty(got.trailer), withoutEmpty(want.trailer)
	if !reflect.DeepEqual(got, want) {
		s.t.Errorf("%s: the gateway got\n%.2000v, want\n%.2000v", what, got, want)
	}
	ours.header.Del("Date")
	theirs.header.Del("Date")
	if !reflect.DeepEqual(ours, theirs) {
		s.t.Errorf("%s: got answer %v, want %v", what, ours, theirs)
	}
}

// TestPassThrough sends requests without a reference. They pass unchanged. JSON that is none is the
// subject of domain/inference and schema/rawjson.
func TestPassThrough(t *testing.T) {
	tier.Slow(t)
	s := start(t, inferring("keys off"))
	s.preset("writer", writer)
	bodies := map[string]string{
		"empty":               "",
		"no reference":        `{"model" : "openai/gpt-5" ,"stream":true, "n":1.0}` + "\n",
		"preset is null":      `{"preset":null,"model":"m"}`,
		"the mark in content": `{"model":"m","input":"use @preset/writer, or {\"preset\":\"writer\"}"}`,
		"other case":          `{"Model":"@preset/writer","PRESET":"writer"}`,
		"an array":            `[{"model":"@preset/writer"}]`,
		"model is no string":  `{"model":["@preset/writer"],"input":1}`,
		"binary":              "\x00\xff\xfe preset \x80\r\n",
		"form":                "model=@preset/writer&preset=writer",
		"multipart":           "--x\r\nContent-Disposition: form-data; name=\"preset\"\r\n\r\nwriter\r\n--x--\r\n",
		"byte order mark":     "\ufeff" + `{"x":"preset"}`,
		"repeated names":      `{"a":1,"a":2,"model":"m","model":"n"}`,
		"half a character":    `{"model":"m","input":"\ud800 preset"}`,
		"other server tools":  `{"tools":[{"type":"openrouter\u003adatetime"},{"type" : "openrouter:fusion","parameters":{"tools":[]}}]}`,
		"cut":                 `{"model":"m","preset"`,
		"brackets":            strings.Repeat("[", 10000) + "preset",
		"5 MB":                `{"input":"` + strings.Repeat("preset ", 5<<20/7) + `"}`,
		"5 MB of nothing":     strings.Repeat("\x00", 5<<20),
		"gzip":                caddytest.Gzip(`{"model":"m"}`),
	}
	for _, mode := range []string{"off", "optional"} {
		stock := s.beside(inferring("keys " + mode))
		for name, body := range bodies {
			for _, path := range inferencePaths {
				requests := map[string]string{
					"length":  post(path+"?x=%zz&y", body, "Authorization: Bearer sk-foreign", "Content-Type: application/json", "X-Session-Id: s"),
					"chunked": postChunked(path, body, nil, "X-Api-Key: sk-foreign", "Expect: 100-continue"),
				}
				if len(body) < 1000 {
					requests["trailers"] = postChunked(path, body, []string{"X-Checksum: 1", "X-Other: 2"})
				}
				if name == "gzip" {
					requests["encoded"] = post(path, body, "Content-Encoding: gzip")
				}
				for framing, request := range requests {
					if len(body) < 1<<20 || path == chatPath { // the same again, sent slowly
						s.wantAsStock(fmt.Sprintf("%s%s, %s, keys %s", name, path, framing, mode), stock, request, body)
					}
				}
			}
		}
	}
}

func withoutEmpty(header http.Header) http.Header {
	header = header.Clone()
	maps.DeleteFunc(header, func(_ string, values []string) bool { return len(values) == 0 })
	if len(header) == 0 {
		return nil
	}
	return header
}

// TestChunkedRequestsWithReference sends chunked bodies with a reference. They get a
// length, and their trailers are dropped.
func TestChunkedRequestsWithReference(t *testing.T) {
	s := start(t, inferring())
	s.preset("writer", writer)
	for _, trailers := range [][]string{nil, {"X-Checksum: 1"}, {"Authorization: Bearer " + inferenceSecret, "X-Api-Key: " + inferenceSecret}} {
		r := exchange(t, s.address, postChunked(responsesPath, `{"model":"@preset/writer@1","input":"hi"}`, trailers, bearer(inferenceSecret)))
		r.want(t, http.StatusAccepted)
		got := s.upstream.one(t)
		const want = `{"model":"openai/gpt-5","input":"hi","temperature":0.70,"max_output_tokens":100,"include":["reasoning.encrypted_content"],"instructions":"Be brief."}`
		if got.body != want || got.length != int64(len(want)) || got.coding != nil || got.err != nil {
			t.Errorf("got %+v, want %s", got, want)
		}
	}
	if s.upstream.saw(inferenceSecret) {
		t.Error("the gateway saw our key")
	}
}

// TestKeysInTrailers sends keys of ours in trailers, announced and not. They are dropped. Other trailers
// pass with the body, if they were announced.
func TestKeysInTrailers(t *testing.T) {
	tier.NoRace(t)
	const foreign = "Bearer " + foreignBearer
	ours := []string{"X-Checksum: 1", "X-Api-Key: " + inferenceSecret, "Authorization: Bearer " + inferenceSecret}
	basic := "authorization: Basic " + base64.RawURLEncoding.EncodeToString([]byte("ann:"+inferenceSecret))
	for _, mode := range []string{"required", "optional", "everywhere", "off"} {
		s := start(t, inferring("keys "+mode, "list_models on"))
		for _, request := range []string{"POST " + responsesPath, "POST /v1/embeddings", "GET /v1/models"} {
			for _, announced := range []string{"", "X-Other", "X-Checksum, authorization, X-Api-Key"} {
				for _, trailers := range [][]string{ours, append(slices.Clone(ours), "Authorization: "+foreign, basic), {"X-Checksum: 1", "Authorization: " + foreign}} {
					headers, checksum, want := []string{bearer(inferenceSecret)}, "", []string(nil)
					if announced != "" {
						headers, checksum = append(headers, "Trailer: "+announced), "1"
						if len(trailers) == 2 {
							want = []string{foreign}
						}
					}
					method, path, _ := strings.Cut(request, " ")
					exchange(t, s.address, method+strings.TrimPrefix(postTrailed(path, `{"model":"m"}`, trailers, headers...), "POST")).want(t, http.StatusAccepted)
					got := s.upstream.one(t)
					if got.err != nil || got.trailer.Get("X-Checksum") != checksum || !slices.Equal(got.trailer.Values("Authorization"), want) || got.trailer.Get("X-Api-Key") != "" {
						t.Errorf("keys %s, %s, %q announced: of %q the gateway got trailers %v, %v", mode, request, announced, trailers, got.trailer, got.err)
					}
				}
			}
		}
		if s.upstream.saw(inferenceSecret) {
			t.Errorf("keys %s: the gateway saw our key", mode)
		}
	}
}

// TestSessions checks which session id goes up in X-Session-Id. What a body's session id may be is the
// subject of domain/inference.
func TestSessions(t *testing.T) {
	tier.NoRace(t)
	s := start(t, inferring())
	s.preset("writer", writer)
	long := strings.Repeat("é", 256)
	for _, tc := range []struct {
		field, want string
		headers     []string
	}{
		{``, "", nil},
		{``, "from-header", []string{"X-Session-Id: from-header"}},
		{`"session_id":"from-body",`, "from-body", []string{"X-Session-Id: from-header"}},
		{`"session\u005fid":"from\u002dbody",`, "from-body", nil},
		{`"session_id":null,`, "from-header", []string{"X-Session-Id: from-header"}},
		{`"session_id":"a\nX-Evil: b",`, "", nil},
		{`"session_id":"a\r\nX-Evil: b",`, "from-header", []string{"X-Session-Id: from-header"}},
		{`"session_id":"a\u0000b",`, "", nil},
		{`"session_id":"a\u007fb",`, "", nil},
		{`"session_id":"` + long + `",`, long, []string{"X-Session-Id: from-header"}},
		{`"session_id":"a ü/<&>😀",`, "a ü/<&>😀", []string{"X-Session-Id: 1", "X-Session-Id: 2"}},
		// Agents have headers of their own.
		{``, "codex", []string{"Session-Id: codex"}},
		{``, "codex", []string{"X-Claude-Code-Session-Id: claude", "Session-Id: codex"}},
		{``, "from-header", []string{"Session-Id: codex", "X-Session-Id: from-header"}},
		{``, "codex", []string{"Session-Id: codex", "X-Session-Id: "}},
		{``, "claude", []string{"Session-Id: ", "X-Claude-Code-Session-Id: claude"}},
		{``, "claude", []string{"Session-Id: " + long + "x", "X-Claude-Code-Session-Id: claude"}},
		{``, "", []string{"X-Claude-Code-Session-Id: " + long + "x"}},
		{`"session_id":"from-body",`, "from-body", []string{"Session-Id: codex"}},
	} {
		for _, model := range []string{"m", "@preset/writer"} {
			for _, path := range inferencePaths {
				s.ask(path, "{"+tc.field+`"model":"`+model+`"}`, tc.headers...).want(t, http.StatusAccepted)
				got := s.upstream.one(t)
				if id := got.header.Values("X-Session-Id"); strings.Join(id, "") != tc.want || len(id) > 1 || got.header.Get("X-Evil") != "" {
					t.Errorf("%s %s%s: got X-Session-Id %q, want %q", tc.field, tc.headers, path, id, tc.want)
				}
				if !strings.Contains(got.body, strings.TrimSuffix(tc.field, ",")) {
					t.Errorf("%s: the body lost its session: %s", tc.field, got.body)
				}
				for _, sent := range tc.headers {
					if name, value, _ := strings.Cut(sent, ": "); name != "X-Session-Id" && value != "" && got.header.Get(name) != value {
						t.Errorf("%s: got %s %q", tc.headers, name, got.header.Get(name))
					}
				}
			}
		}
	}
}

// TestStickyRouting uses lb_policy header X-Session-Id. A session stays on one upstream. Later handlers,
// such as header_up, see the new length and the preset.
func TestStickyRouting(t *testing.T) {
	s := start(t, inferring())
	s.preset("writer", writer)
	other := newUpstream(t)
	proxy := fmt.Sprintf("reverse_proxy %s %s {\nlb_policy header X-Session-Id\nheader_up X-Length {header.Content-Length}\nheader_up X-Served \"{http.presets.slug}@{http.presets.version}\"\n}", s.upstream.Listener.Addr(), other.Listener.Addr())
	if err := s.load(s.proxying(inferring(), proxy)); err != nil {
		t.Fatal(err)
	}
	other.taken()
	hits := [2]int{}
	for n := range 40 {
		id, place := fmt.Sprint("session-", n), -1
		for round, body := range []string{`{"model":"m","session_id":"` + id + `"}`, `{"session_id":"` + id + `","model":"x@preset/writer"}`, `{"model":"m"}`} {
			header := "X-Session-Id: another"
			if round == 2 {
				header = "X-Session-Id: " + id
			}
			s.ask(inferencePaths[round], body, header).want(t, http.StatusAccepted)
			got, gotOther := s.upstream.all(), other.all()
			if len(got)+len(gotOther) != 1 || place >= 0 && place != len(gotOther) {
				t.Fatalf("%s, request %d: %d and %d requests, after upstream %d", id, round, len(got), len(gotOther), place)
			}
			place = len(gotOther)
			one := append(got, gotOther...)[0]
			if want := []string{"@", "writer@1", "@"}[round]; one.header.Get("X-Length") != fmt.Sprint(len(one.body)) || one.header.Get("X-Served") != want {
				t.Errorf("got the length %s of a body of %d bytes, served %q, want %q", one.header.Get("X-Length"), len(one.body), one.header.Get("X-Served"), want)
			}
		}
		hits[place]++
	}
	if hits[0] == 0 || hits[1] == 0 {
		t.Errorf("the sessions went to %v, want both upstreams to have some", hits)
	}
}

// TestInferenceErrors checks that every refusal has its route's envelope, and that the
// gateway gets nothing.
func TestInferenceErrors(t *testing.T) {
	s := start(t, inferring("max_body_size 10KB"))
	s.preset("writer", writer)
	s.preset("empty", `{}`)
	filled := func(size int, head string) string {
		return head + strings.Repeat("x", size-len(head)-len(`"}`)) + `"}`
	}
	for name, path := range map[string]string{"chat": chatPath, "responses": responsesPath, "messages": messagesPath} {
		var responses []reply
		refused := func(r reply, status int) {
			t.Helper()
			r.want(t, status)
			if got := r.header.Get("Content-Type"); got != "application/json" || r.header.Get("X-Gateway") != "" || r.header.Get("X-Preset") != "" {
				t.Errorf("%s: got Content-Type %q and headers %v", name, got, r.header)
			}
			if got := r.header.Get("WWW-Authenticate"); (got == "Bearer") != (status == 401) {
				t.Errorf("%s: got WWW-Authenticate %q with status %d", name, got, status)
			}
			responses = append(responses, r)
		}
		for _, body := range []string{
			`{"model":"@preset/nothing"}`, `{"model":"m@preset/nothing@7"}`, `{"preset":"nothing"}`, `{"model":"@preset/writer@2"}`, `{"preset":"writer@0"}`, `{"model":"@preset/writer@x"}`,
		} {
			refused(s.ask(path, body), 404)
		}
		for _, body := range []string{
			`{"model":"@preset/"}`, `{"model":"@preset/a b"}`, `{"preset":""}`, `{"preset":7}`, `{"model":"@preset/writer@"}`, `{"model":"@preset/a@preset/b"}`,
			`{"model":"@preset/writer","preset":"empty"}`, `{"model":"@preset/writer","preset":"writer@1"}`, `{"models":["a","@preset/writer"]}`,
			`{"model":"@preset/writer","models":["b@preset/writer"]}`, `{"fallbacks":[{"model":"@preset/writer"}]}`, `{"model":"@preset/empty"}`,
			`{"model":"@preset/writer","model":"b"}`, `{"model":"@preset/writer","x":}`, `{"model":"@preset/writer"} x`, `{"model":"@preset/writer"`,
			"{\"model\":\"@preset/writer\",\"\xff\":\x01}",
		} {
			refused(s.ask(path, body), 400)
		}
		refused(s.ask(path, `{}`, "X-Preset-Dry-Run: maybe"), 400)
		refused(s.do("POST", path, `{}`), 401)
		refused(s.do("POST", path, `{"model":"m"}`, bearer("sk-of-somebody-else")), 401)
		refused(s.do("POST", path, `{}`, bearer(managementSecret)), 403)
		refused(s.ask(path, filled(10001, `{"model":"@preset/writer","input":"`)), 413)
		refused(s.ask(path, filled(10001, `{"model":"m","input":"`)), 413)
		refused(exchange(t, s.address, postChunked(path, filled(10001, `{"model":"m","input":"`), nil, bearer(inferenceSecret))), 413)
		golden(t, "inference_errors_"+name, responses...)
		s.upstream.none(t)

		// A body of exactly the limit passes, with any media type.
		s.ask(path, filled(10000, `{"model":"m","input":"`)).want(t, 202)
		for _, media := range []string{"text/plain", "application/octet-stream", "nonsense", "", "application/json; charset=latin1"} {
			s.ask(path, `{"model":"@preset/writer"}`, "Content-Type: "+media).want(t, 202)
			if got := s.upstream.all(); !strings.Contains(got[len(got)-1].body, "gpt-5") {
				t.Errorf("Content-Type %q: not resolved", media)
			}
		}
		s.upstream.all()
	}
}

// TestUpstreamFailures checks that the gateway's own failures pass unchanged.
func TestUpstreamFailures(t *testing.T) {
	s := start(t, inferring())
	s.preset("writer", writer)
	for _, status := range []int{201, 204, 302, 400, 401, 403, 404, 413, 422, 429, 500, 502, 503, 529} {
		body := fmt.Sprintf("{\"error\" : \"number %d\"}\n\xff", status)
		if status == 204 {
			body = ""
		}
		s.upstream.answers(func(w http.ResponseWriter, r *http.Request) {
			w.Header()["Retry-After"] = []string{"7"}
			w.Header().Add("X-Twice", "1")
			w.Header().Add("X-Twice", "2")
			w.Header().Set("Content-Type", "application/problem+json")
			w.Header().Set("WWW-Authenticate", `Basic realm="gateway"`)
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(status)
			io.WriteString(w, body)
		})
		for _, path := range inferencePaths {
			r := exchange(t, s.address, post(path, `{"model":"@preset/writer@1"}`, bearer(inferenceSecret)))
			if r.status != status || r.body != body || r.header.Get("Retry-After") != "7" || len(r.header["X-Twice"]) != 2 ||
				r.header.Get("Content-Type") != "application/problem+json" || r.header.Get("WWW-Authenticate") != `Basic realm="gateway"` {
				t.Errorf("%s: got %v, want the gateway's %d unchanged", path, r, status)
			}
			if r.header.Get("X-Preset") != "writer@1" {
				t.Errorf("%s: got X-Preset %q", path, r.header.Get("X-Preset"))
			}
		}
	}
}

// describedRun is the answer to a dry run.
type describedRun struct {
	Data struct {
		Method, Path, Body string
		Fields             map[string]struct {
			From    string
			Preset  *string
			Version *int
		}
		Dropped, Enforced []string
	}
}

func (r reply) described(t *testing.T) describedRun {
	t.Helper()
	r.want(t, 200)
	var d describedRun
	if err := json.Unmarshal([]byte(r.body), &d); err != nil {
		t.Fatalf("%q: %v", r.body, err)
	}
	return d
}

// TestDryRunIsWhatGoesUp checks that a dry run shows the exact bytes that go upstream, for any request,
// and tells of each field.
func TestDryRunIsWhatGoesUp(t *testing.T) {
	tier.NoRace(t)
	s := start(t, inferring("drop_fields provider plugins"))
	s.preset("writer", writer)
	s.preset("empty", `{}`)
	s.preset("tools", `{"models":["a/b","c/d"],"tools":[{"type":"function","name":"f","parameters":{"type":"object"},"strict":true},{"type":"web_search"}],"tool_choice":"required",`+
		`"provider":{"order":["x"]},"reasoning":{"effort":"high","max_tokens":1000},"text":{"format":{"type":"json_schema","name":"n","schema":{"a":1.0}},"verbosity":"low"},"instructions":"<Zoë>\n\u2028\"\\"}`)
	compared := 0
	for path, contents := range map[string][]string{
		chatPath: {
			`"messages":[{"role":"developer","content":[{"type":"text","text":"own"}]},{"role":"user","content":"\ud83d\ude00"}],"tools":[{"type":"function","function":{"name":"f"}}]`,
			`"max_tokens":5,"response_format":null,"provider":{"sort":"price"}`,
		},
		responsesPath: {`"instructions":null,"temperature":1.50,"tools":[{"type":"function","name":"g"}]`, `"models":["q/r"],"plugins":[],"session_id":"s"`},
		messagesPath:  {`"system":"own","tools":[{"name":"f","input_schema":{}}]`, `"stop_sequences":["x"],"provider":{},"thinking":{"type":"disabled"}`},
	} {
		for _, content := range contents {
			for _, reference := range []string{`"model":"@preset/%s"`, `"preset":"%s@1","model":"own/m"`, `"model":"@preset/%s@1","x":"` + "\u00fc" + `\u00fc"`, `"model":"none%.0s"`} {
				for _, slug := range []string{"writer", "tools", "empty"} {
					body := "{ " + content + " , " + fmt.Sprintf(reference, slug) + " }"
					dry := s.ask(path+"?q=%20", body, "X-Preset-Dry-Run: true")
					s.upstream.none(t)
					live := s.ask(path+"?q=%20", body)
					if live.status == 400 {
						dry.want(t, 400, live.body)
						continue // no model at all
					}
					live.want(t, 202)
					got, d := s.upstream.one(t), dry.described(t)
					if d.Data.Body != got.body || d.Data.Path != got.uri || d.Data.Method != got.method {
						t.Errorf("%s %s: the dry run tells %+v, the gateway got %s %s", path, body, d.Data, got.uri, got.body)
					}
					if strings.Join(d.Data.Dropped, ", ") != live.header.Get("X-Preset-Dropped") || dry.header.Get("X-Preset-Dropped") != live.header.Get("X-Preset-Dropped") || dry.header.Get("X-Preset") != live.header.Get("X-Preset") {
						t.Errorf("%s: the dry run dropped %q with headers %v, the gateway's answer says %v", body, d.Data.Dropped, dry.header, live.header)
					}
					var fields map[string]json.RawMessage
					if err := json.Unmarshal([]byte(got.body), &fields); err != nil || !slices.Equal(slices.Sorted(maps.Keys(fields)), slices.Sorted(maps.Keys(d.Data.Fields))) {
						t.Errorf("%s: got %v of %s, %v", body, d.Data.Fields, got.body, err)
					}
					compared++
				}
			}
		}
	}
	if compared < 60 {
		t.Errorf("only %d requests were compared", compared)
	}
}

func TestDryRun(t *testing.T) {
	s := start(t, inferring("drop_fields plugins"))
	s.manage("POST", "/v1/workspaces", `{"name":"Team","slug":"team","default_text_model":"ws/model","default_provider_sort":"price"}`).want(t, 201)
	key := s.issue(`{"kind":"inference","workspace":"team"}`).secret
	s.manage("POST", "/v1/presets/p/responses?workspace_id=team", `{"temperature":0.5,"include":[],"instructions":"P","tools":[{"type":"function","name":"f","parameters":null}]}`).want(t, 200)
	s.manage("POST", "/v1/presets/p/responses?workspace_id=team", `{"top_p":1}`).want(t, 200)

	const body = `{"preset":"p@1","plugins":[],"messages":[{"role":"user","content":"hi"}],"user":"<ü>","tools":[{"type":"function","function":{"name":"g"}}]}`
	r := s.do("POST", chatPath, body, bearer(key), "X-Preset-Dry-Run: TRUE")
	golden(t, "inference_dry_run", r,
		s.do("POST", chatPath, `{"model":"m"}`, bearer(key), "X-Preset-Dry-Run: true"),
		s.do("POST", chatPath, `no JSON`, bearer(key), "X-Preset-Dry-Run: true"),
		s.do("POST", chatPath, ``, bearer(key), "X-Preset-Dry-Run: true"),
		s.do("POST", chatPath, "\xff", bearer(key), "X-Preset-Dry-Run: true"),
		s.do("POST", responsesPath+"?a=%20&b", caddytest.Gzip(`{"model":"@preset/p","provider":{"only":["x"]}}`), bearer(key), "X-Preset-Dry-Run: true", "Content-Encoding: gzip"),
	)
	d := r.described(t).Data
	want := map[string]string{"messages": "preset", "user": "request", "tools": "preset", "temperature": "preset", "model": "workspace", "provider": "workspace"}
	for name, from := range want {
		got := d.Fields[name]
		if got.From != from || (got.Preset != nil) != (from == "preset") || (got.Version != nil) != (from == "preset") || from == "preset" && (*got.Preset != "p" || *got.Version != 1) {
			t.Errorf("got %s from %+v, want %s", name, got, from)
		}
	}
	if len(d.Fields) != len(want) || !slices.Equal(d.Dropped, []string{"include", "plugins"}) {
		t.Errorf("got fields %v and dropped %q", d.Fields, d.Dropped)
	}
	s.upstream.none(t)

	// These are the callers that may run dry runs.
	for _, mode := range []string{"required", "optional", "off"} {
		s.reload(inferring("keys " + mode))
		for _, path := range inferencePaths {
			for _, tc := range []struct {
				header, value string
				status        int
			}{
				{"X-None: 1", "true", 401},
				{"Authorization: Bearer sk-foreign", "true", 401},
				{"X-Api-Key: sk-foreign", "true", 401},
				{bearer(managementSecret), "true", 403},
				{bearer(inferenceSecret), "maybe", 400},
				{bearer(inferenceSecret), "1", 400},
				{bearer(inferenceSecret), "true", 200},
				{"X-Api-Key: " + inferenceSecret, "True", 200},
			} {
				s.do("POST", path, `{"model":"m"}`, tc.header, "X-Preset-Dry-Run: "+tc.value).want(t, tc.status)
			}
		}
		for _, second := range []string{"true", "false", ""} { // an ambiguous header must not cost money
			s.ask(chatPath, `{"model":"m"}`, "X-Preset-Dry-Run: false", "X-Preset-Dry-Run: "+second).want(t, 400)
		}
		s.upstream.none(t)
		s.ask(chatPath, `{"model":"m"}`, "X-Preset-Dry-Run: false").want(t, 202)
		if got := s.upstream.one(t).body; got != `{"model":"m"}` {
			t.Errorf("got %s", got)
		}
	}
	// With keys off the key permits dry runs of any request.
	s.preset("home", `{"model":"home"}`)
	run := s.do("POST", chatPath, `{"model":"@preset/home"}`, bearer(key), "X-Preset-Dry-Run: true").described(t)
	s.do("POST", chatPath, `{"model":"@preset/home"}`, bearer(key)).want(t, 202)
	if got := s.upstream.one(t).body; got != run.Data.Body {
		t.Errorf("a dry run with keys off gives %s, and the gateway got %s", run.Data.Body, got)
	}
}

// TestAChangeShowsAtOnce changes a preset. The next request has the change, on this site and on another
// with the same folder. A revoked key is refused at once.
func TestAChangeShowsAtOnce(t *testing.T) {
	s := start(t, inferring())
	second := freeAddress(t)
	if err := s.load(s.site(inferring()) + s.siteAt(second, s.presets(inferring()))); err != nil {
		t.Fatal(err)
	}
	s.ask(chatPath, `{"model":"@preset/hot"}`).want(t, 404)
	for n := 1; n <= 50; n++ {
		s.preset("hot", fmt.Sprintf(`{"model":"model-%d"}`, n))
		for i, url := range []string{s.url, "http://" + second} {
			r := send(t, "POST", url+inferencePaths[(n+i)%3], `{"model":"@preset/hot"}`, bearer(inferenceSecret))
			if got := s.upstream.one(t).body; got != fmt.Sprintf(`{"model":"model-%d"}`, n) || r.header.Get("X-Preset") != fmt.Sprintf("hot@%d", n) {
				t.Fatalf("round %d at %s: got %s, %s", n, url, got, r.header.Get("X-Preset"))
			}
		}
	}
	k := s.issue(`{"kind":"inference"}`)
	s.do("POST", chatPath, `{"model":"@preset/hot"}`, bearer(k.secret)).want(t, 202)
	send(t, "DELETE", "http://"+s.admin+"/presets/keys/"+k.id, "").want(t, 200)
	s.do("POST", chatPath, `{"model":"@preset/hot"}`, bearer(k.secret)).want(t, 401)
}

// TestResolvingAcrossAReload resolves pending requests of an old configuration after its
// cleanup.
func TestResolvingAcrossAReload(t *testing.T) {
	for _, next := range []string{inferring(), standard} {
		s := start(t, inferring())
		s.preset("writer", writer)
		const body = `{"model":"@preset/writer","input":"hi"}`
		conns := make([]net.Conn, 4)
		for i := range conns {
			conn := s.dial()
			conns[i] = conn
			// The server's 100 shows that the handler waits for the body.
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\n%s\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", responsesPath, bearer(inferenceSecret), len(body))
			if r, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil || r.StatusCode != 100 {
				t.Fatalf("got %v, %v, want 100", r, err)
			}
		}
		s.reload(next)
		for _, conn := range conns {
			io.WriteString(conn, body)
			r := finalAnswer(t, bufio.NewReader(conn))
			r.want(t, 202)
			if r.header.Get("X-Preset") != "writer@1" || !strings.Contains(s.upstream.one(t).body, "Be brief.") {
				t.Errorf("got %v, want the preset of the old configuration", r)
			}
		}
		// New requests are served by the new configuration, with or without the block.
		s.ask(responsesPath, body).want(t, 202)
		got := s.upstream.one(t)
		if untouched := got.body == body; untouched != (next == standard) || got.header.Get("Authorization") != "" {
			t.Errorf("after the reload the gateway got %v", got)
		}
		s.stop()
		if !s.eventually(s.isReleased) {
			t.Error("the store is still open after the end")
		}
	}
}

// TestWithoutInference checks the directive without an inference block, and with a block
// that a reload removed.
func TestWithoutInference(t *testing.T) {
	s := start(t, standard)
	stock := s.beside(standard)
	for _, request := range []string{
		post(chatPath, `{"model":"@preset/writer","session_id":"b"}`, bearer(inferenceSecret), "X-Preset-Dry-Run: true", "X-Session-Id: h"),
		post(responsesPath, `{"preset":"nothing"}`, "X-Api-Key: "+managementSecret),
		post(messagesPath, caddytest.Gzip(`{"preset":"nothing"}`), "Content-Encoding: gzip"),
		"GET /v1/models HTTP/1.1\r\nHost: gateway.test\r\n" + bearer(inferenceSecret) + "\r\n\r\n",
	} {
		exchange(t, s.address, request).want(t, 202)
		got := s.upstream.one(t)
		exchange(t, stock, request).want(t, 202)
		want := s.upstream.one(t)
		want.header.Del("Authorization") // the credentials are keys of ours
		want.header.Del("X-Api-Key")
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

// TestInferenceRoutes checks which paths and methods are inference. The others are the
// gateway's.
func TestInferenceRoutes(t *testing.T) {
	s := start(t, inferring("keys required"))
	s.preset("writer", writer)
	const body, other = `{"model":"@preset/writer"}`, `{"model":"m"}`
	check := func(base string, ours, others []string) {
		t.Helper()
		for _, path := range ours {
			request := func(headers ...string) string { return post(path, body, headers...) }
			r := exchange(t, s.address, request())
			if r.status != 401 {
				t.Errorf("base path %s: POST %s without a key: got %d, want 401", base, path, r.status)
			}
			s.upstream.none(t)
			exchange(t, s.address, request(bearer(inferenceSecret))).want(t, 202)
			if got := s.upstream.one(t); !strings.Contains(got.body, "gpt-5") || got.header.Get("Authorization") != "" {
				t.Errorf("base path %s: POST %s was not resolved: %v", base, path, got)
			}
		}
		for _, path := range others {
			exchange(t, s.address, post(path, other, "X-Session-Id: s")).want(t, 202)
			if got := s.upstream.one(t); got.body != other || got.uri != path {
				t.Errorf("base path %s: POST %s changed: %v", base, path, got)
			}
		}
	}
	check("/v1", []string{
		chatPath, responsesPath, messagesPath, "/v1//responses", "/v1/responses/", "/v1/responses//",
		"//v1/responses", "/v1/%72esponses", "/%761/responses", "/v1/chat//completions", "/v1/responses%ff",
		"/v1/chat%2Fcompletions", "/v1%2Fmessages", "/v1;a/messages;b", "/v1/chat%252Fcompletions", "/v1/messages?x=/../", "http://gateway.test/v1/responses",
		"/v1/messages/count_tokens", "/v1/responses/input_tokens", "/v1/responses/compact", "/v1/messages//count_tokens/", "/v1/responses%2Finput_tokens",
	}, []string{
		"/v1/responses/abc", "/v1/responsesx", "/v1responses", "/v1chat/completions", "/responses", "/messages", "/chat/completions", "/v2/responses", "/v1/chat", "/v1/completions",
		"/v1/embeddings", "/v1/v1/responses", "/v1/messages/count_tokens/x", "/V1/responses", "/v1/Responses", "/x/v1/responses",
	})
	for _, method := range []string{"GET", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"} {
		for _, path := range inferencePaths {
			r := s.do(method, path, "", "Origin: https://app.test")
			if r.status != 202 {
				t.Errorf("%s %s: got %d, want the gateway's answer", method, path, r.status)
			}
			if got := s.upstream.one(t); got.method != method {
				t.Errorf("got %s, want %s", got.method, method)
			}
		}
	}
	s.reload(inferring("keys required") + "\nbase_path /ai/api")
	check("/ai/api", []string{"/ai/api/responses", "/ai/api/chat/completions", "/ai//api/messages"}, []string{responsesPath, chatPath, "/responses", "/ai/responses", "/ai/apiresponses"})
	s.reload(inferring("keys required") + "\nbase_path /")
	check("/", []string{"/responses", "/chat/completions", "/messages", "//messages"}, []string{responsesPath, chatPath, "/x/responses", "/chat/completionsx"})
}
