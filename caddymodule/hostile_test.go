package caddymodule

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// smuggled is a complete request, unless it is part of another's body.
	smuggled = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"

	// end is the expectation that the server reads no more after its answers.
	end = -1
)

// TestHostileRequests sends malformed and malicious requests. Each gets an error envelope,
// or the connection is closed. The gateway gets no request that Caddy did not send, and
// none for our routes. It gets no key. The connection's next request is understood
// correctly.
func TestHostileRequests(t *testing.T) {
	s := start(t, inferring("keys required", "list_models on"))
	s.preset("p", `{"model":"m"}`)
	try := func(name, request string, want ...int) {
		t.Helper()
		s.hostile(name, request, want...)
	}

	// Framing, by request: one creates a preset, one uses it, and one passes through.
	long := strings.Repeat("a", 40<<10)
	for _, tc := range []struct {
		name, head, body   string
		made, used, passed []int // nil for the request as created
	}{
		{"length and chunks", "Content-Length: 4\r\nTransfer-Encoding: chunked", "2\r\n{}\r\n0\r\n\r\n" + smuggled, []int{200, 202}, []int{202, 202}, []int{202, 202}},
		{"chunks and length", "Transfer-Encoding: chunked\r\nContent-Length: 6", "0\r\n\r\n" + smuggled, []int{400, 202}, []int{202, 202}, []int{202, 202}},
		{"a folded coding", "Transfer-Encoding:\r\n chunked", "2\r\n{}\r\n0\r\n\r\n" + smuggled, []int{200, 202}, []int{202, 202}, []int{202, 202}},
		{"a coding under another name", "Transfer_Encoding: chunked\r\nContent-Length: 2", "{}" + smuggled, []int{200, 202}, []int{202, 202}, []int{202, 202}},
		{"chunks twice", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", "2\r\n{}\r\n0\r\n\r\n", []int{501, end}, nil, nil},
		{"an unknown coding", "Transfer-Encoding: xchunked", "2\r\n{}\r\n0\r\n\r\n", []int{501, end}, nil, nil},
		{"chunks and identity", "Transfer-Encoding: chunked, identity", "2\r\n{}\r\n0\r\n\r\n", []int{501, end}, nil, nil},
		{"identity", "Content-Length: 2\r\nTransfer-Encoding: identity", "{}", []int{501, end}, nil, nil},
		{"gzip in chunks", "Transfer-Encoding: gzip, chunked", "2\r\n{}\r\n0\r\n\r\n", []int{501, end}, nil, nil},
		{"a coding with a control character", "Transfer-Encoding: \x0bchunked", "2\r\n{}\r\n0\r\n\r\n", []int{400, end}, nil, nil},
		{"a space before the colon", "Transfer-Encoding : chunked", "2\r\n{}\r\n0\r\n\r\n", []int{400, end}, nil, nil},
		{"two lengths", "Content-Length: 2\r\nContent-Length: 40", "{}" + smuggled, []int{400, end}, nil, nil},
		{"one length twice", "Content-Length: 2\r\nContent-Length: 2", "{}" + smuggled, []int{200, 202}, []int{202, 202}, []int{202, 202}},
		{"a list of lengths", "Content-Length: 2, 2", "{}", []int{400, end}, nil, nil},
		{"a length with a plus", "Content-Length: +2", "{}", []int{400, end}, nil, nil},
		{"a length below nothing", "Content-Length: -2", "{}", []int{400, end}, nil, nil},
		{"a hexadecimal length", "Content-Length: 0x2", "{}", []int{400, end}, nil, nil},
		{"a length beyond numbers", "Content-Length: 99999999999999999999", "{}", []int{400, end}, nil, nil},
		{"an empty length", "Content-Length:", "{}", []int{400, end}, nil, nil},
		{"another request behind", "Content-Length: 2", "{}" + smuggled, []int{200, 202}, []int{202, 202}, []int{202, 202}},
		{"chunk extensions", "Transfer-Encoding: chunked", "2;a=b;c=\"d\"\r\n{}\r\n0;x\r\n\r\n" + smuggled, []int{200, 202}, []int{202, 202}, []int{202, 202}},
		{"a long chunk extension", "Transfer-Encoding: chunked", "2;" + long + "\r\n{}\r\n0\r\n\r\n" + smuggled, []int{400, end}, nil, nil},
		{"a chunk beyond numbers", "Transfer-Encoding: chunked", "10000000000000002\r\n{}\r\n0\r\n\r\n" + smuggled, []int{400, end}, nil, nil},
		{"a chunk below nothing", "Transfer-Encoding: chunked", "-2\r\n{}\r\n0\r\n\r\n" + smuggled, []int{400, end}, nil, nil},
		{"a chunk with 0x", "Transfer-Encoding: chunked", "0x2\r\n{}\r\n0\r\n\r\n" + smuggled, []int{400, end}, nil, nil},
		{"chunks with bare line feeds", "Transfer-Encoding: chunked", "2\n{}\n0\n\n" + smuggled, []int{400, end}, nil, nil},
		{"trailers", "Transfer-Encoding: chunked\r\nTrailer: X-A", "2\r\n{}\r\n0\r\nX-A: b\r\n\r\n" + smuggled, []int{200, 202}, []int{202, 202}, []int{202, 202}},
		{"trailers that say how long it is", "Transfer-Encoding: chunked\r\nTrailer: Content-Length", "2\r\n{}\r\n0\r\nContent-Length: 5\r\n\r\n", []int{400, end}, nil, nil},
		{"trailers that nobody announced", "Transfer-Encoding: chunked", "2\r\n{}\r\n0\r\nContent-Length: 50\r\nTransfer-Encoding: chunked\r\n\r\n" + smuggled, []int{200, 202}, []int{202, 202}, []int{202, 202}},
		{"an expectation nobody knows", "Content-Length: 2\r\nExpect: a-miracle", "{}", []int{417, end}, nil, nil},
		{"an expectation", "Content-Length: 2\r\nExpect: 100-continue", "{}" + smuggled, []int{200, 202}, []int{202, 202}, []int{202, 202}},
		{"an upgrade to HTTP/2", "Content-Length: 2\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA", "{}", []int{200}, []int{202}, []int{202}},
		{"an upgrade to a socket", "Content-Length: 2\r\nConnection: Upgrade\r\nUpgrade: websocket", "{}", []int{200}, []int{202}, []int{202}},
		{"a length that ends here", "Content-Length: 2\r\nConnection: Content-Length, Authorization, Via", "{}", []int{200}, []int{202}, []int{202}},
		{"a bare line feed", "X-A: b\nContent-Length: 2", "{}" + smuggled, []int{200, 202}, []int{202, 202}, []int{202, 202}},
		{"a bare carriage return", "X-A: b\rContent-Length: 9\r\nContent-Length: 2", "{}", []int{400, end}, nil, nil},
		{"a folded header", "X-A: b\r\n c\r\nContent-Length: 2", "{}" + smuggled, []int{200, 202}, []int{202, 202}, []int{202, 202}},
		{"a NUL in a header", "X-A: b\x00c\r\nContent-Length: 2", "{}", []int{400, end}, nil, nil},
		{"a header without a colon", "X-A\r\nContent-Length: 2", "{}", []int{400, end}, nil, nil},
		{"a header without a name", ": x\r\nContent-Length: 2", "{}", []int{400, end}, nil, nil},
		{"a header with a space in its name", "X A: x\r\nContent-Length: 2", "{}", []int{400, end}, nil, nil},
		{"a header with a name beyond ASCII", "X-é: x\r\nContent-Length: 2", "{}", []int{400, end}, nil, nil},
		{"a huge header", "X-A: " + long + "\r\nContent-Length: 2", "{}", []int{431, end}, nil, nil},
		{"many headers", strings.Repeat("X-A: b\r\n", 5000) + "Content-Length: 2", "{}", []int{431, end}, nil, nil},
		{"two hosts", "Host: y\r\nContent-Length: 2", "{}", []int{400, end}, nil, nil},
	} {
		for _, on := range []struct {
			name, path, secret string
			want               []int
		}{
			{"made", "/v1/presets/q/responses", managementSecret, tc.made},
			{"used", chatPath, inferenceSecret, tc.used},
			{"passed", "/v1/embeddings", inferenceSecret, tc.passed},
		} {
			if on.want == nil {
				on.want = tc.made
			}
			try(tc.name+", "+on.name, "POST "+on.path+" HTTP/1.1\r\nHost: x\r\n"+bearer(on.secret)+"\r\n"+tc.head+"\r\n\r\n"+tc.body, on.want...)
		}
	}

	// Targets. Paths that a gateway could read as ours are ours, and get a refusal.
	for target, want := range map[string][]int{
		"/v1/presets/%2F": {400}, "/v1/presets/p%2F..": {400}, "/v1/presets%2fp": {404}, "/v1/presets%252fp": {404}, "/v1/presets%252fx;%25zz": {404},
		"//v1/presets/p": {404}, "/v1//presets/p": {404}, "/v1;a/presets/p": {404}, "/v1/presets;a/p": {404}, "/v1/presets/p;a": {400}, "/v1/presets%ff/p": {404}, "/v1;%2f/presets/p": {400},
		"/v1/x/..%2fpresets/p": {400}, "/v1/%2e%2e/v1/presets/p": {400}, "/v1/x/%2e%2e/presets/p": {400}, "/v1/%252e%252e/v1/presets/p": {400}, "/v1/x/..;/presets/p": {400},
		"/./v1/presets/p": {400}, "/../../v1/presets/p": {400}, "/v1/presets/../presets/p": {400}, "/v1/presets/../models": {400}, "/v1/presets/p/../../../etc/passwd": {400},
		"/v1/presets/p%00": {400}, "/v1/presets%00": {400}, "/v1/models%00": {400}, "/v1/presets/\x00": {400, end}, "/v1/presets/\x7f": {400, end},
		"/v1/presets/%c0%af": {400}, "/v1/presets%c0%afp": {400}, "/v1/%c0%ae%c0%ae/v1/presets/p": {400}, "/v1/%c1%b0resets/p": {400}, "/elsewhere/%ff": {202}, "/v1/presets/\xc0\xaf": {400},
		`/v1\presets\p`: {400}, `/v1/x\..\presets/p`: {400},
		"/v1/presets/p#x": {400}, "/v1/presets/p?#": {200}, "/v1/presets/p x": {400, end}, "/v1/presets/%zz": {400, end}, "/v1/presets/p%": {400, end},
		"v1/presets/p": {400, end}, "": {400, end}, "/v1/presets/p" + long: {431, end},
		"http://other/v1/presets/p": {200}, "http://u:p@other/v1/presets/p": {200}, "http:///v1/presets/p": {200}, "ftp://x/v1//presets/p": {404},
		"http://other/v1/other": {202}, "/V1/PRESETS/p": {202}, "*": {202}, "x:80": {400}, "x:%2fv1/presets/p": {400},
	} {
		try("target "+target, "GET "+target+" HTTP/1.1\r\nHost: x\r\n"+bearer(managementSecret)+"\r\n\r\n", want...)
	}

	for method, wants := range map[string][4]int{ // on a path of ours, on another, on * and on a host
		"CONNECT": {405, 405, 405, 405}, "TRACE": {405, 405, 405, 405}, "OPTIONS": {405, 202, 200, 400}, "HEAD": {200, 202, 202, 400}, "BREW": {405, 202, 202, 400},
		"get": {405, 405, 405, 405}, "Get": {405, 405, 405, 405}, "connect": {405, 405, 405, 405}, "BREw": {405, 405, 405, 405}, "M-SEARCH": {405, 202, 202, 400}, "B2": {405, 202, 202, 400},
		strings.Repeat("A", 40): {405, 405, 405, 405}, "G\x00T": {400, 400, 400, 400}, "G(T": {400, 400, 400, 400}, "": {400, 400, 400, 400},
	} {
		for i, target := range []string{"/v1/presets/p", "/v1/other", "*", "x:80"} {
			want := wants[i : i+1]
			if wants[0] == 400 {
				want = []int{400, end}
			}
			try("method "+method+" "+target, method+" "+target+" HTTP/1.1\r\nHost: x\r\n"+bearer(managementSecret)+"\r\n\r\n", want...)
		}
	}

	for version, want := range map[string][]int{
		"HTTP/1.0": {200, end}, "HTTP/1.2": {200}, "HTTP/0.9": {505, end}, "HTTP/2.0": {505, end}, "HTTP/3": {400, end}, "http/1.1": {400, end}, "HTTP/1.1 ": {400, end}, "HTTP/1.10": {400, end}, "": {400, end},
	} {
		try("version "+version, "GET /v1/presets/p "+version+"\r\nHost: x\r\n"+bearer(managementSecret)+"\r\n\r\n", want...)
	}

	get := "GET /v1/presets/p HTTP/1.1\r\nHost: x\r\n" + bearer(managementSecret) + "\r\n"
	withBody := fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(smuggled), smuggled)
	for _, tc := range []struct {
		name, request string
		want          []int
	}{
		{"no host", strings.Replace(get, "Host: x\r\n", "", 1) + "\r\n", []int{400, end}},
		{"no host, HTTP/1.0", strings.Replace(strings.Replace(get, "Host: x\r\n", "", 1), "1.1", "1.0", 1) + "\r\n", []int{200, end}},
		{"an empty host", strings.Replace(get, "Host: x", "Host:", 1) + "\r\n", []int{400}},
		{"a host with a space", strings.Replace(get, "Host: x", "Host: a b", 1) + "\r\n", []int{400, end}},
		{"a host with a path", strings.Replace(get, "Host: x", "Host: x/v1/other", 1) + "\r\n", []int{400, end}},
		{"bare line feeds", strings.ReplaceAll(get+"\r\n", "\r\n", "\n"), []int{200}},
		{"an empty line first", "\r\n" + get + "\r\n", []int{400, end}},
		{"other methods and targets in headers", get + "X-HTTP-Method-Override: DELETE\r\nX-Original-URL: /v1/other\r\nX-Rewrite-URL: /v1/other\r\n\r\n", []int{200}},
		{"a GET with a body", get + withBody, []int{200, end}},
		{"a stranger's body", "POST /v1/presets/q/responses HTTP/1.1\r\nHost: x\r\n" + withBody, []int{401, end}},
		{"a guess's body", "POST " + chatPath + " HTTP/1.1\r\nHost: x\r\n" + bearer("a-guess") + "\r\n" + withBody, []int{401, end}},
		{"a body for nothing", "POST /v1/presets/q/r/s/t HTTP/1.1\r\nHost: x\r\n" + withBody, []int{404, end}},
		{"a body in another form", "POST /v1/presets/q/responses HTTP/1.1\r\nHost: x\r\n" + bearer(managementSecret) + "\r\nContent-Encoding: gzip\r\n" + withBody, []int{415, end}},
		{"after what is no JSON", "POST /v1/presets/q/responses HTTP/1.1\r\nHost: x\r\n" + bearer(managementSecret) + "\r\nContent-Length: 1\r\n\r\n{" + smuggled, []int{400, 202}},
		{"after what is not there", strings.Replace(get, "/p ", "/absent ", 1) + "\r\n" + smuggled, []int{404, 202}},
		{"after what is not offered", strings.Replace(get, "GET", "BREW", 1) + "\r\n" + smuggled, []int{405, 202}},
		{"after no key", "GET /v1/presets/p HTTP/1.1\r\nHost: x\r\n\r\n" + smuggled, []int{401, 202}},
	} {
		try(tc.name, tc.request, tc.want...)
	}
	if s.upstream.saw(managementSecret) || s.upstream.saw(inferenceSecret) {
		t.Error("the gateway saw a key of ours")
	}
	if got := s.metric("caddy_http_requests_in_flight{handler=\"subroute\",server=\"srv0\"}"); got != "0" && got != "" {
		t.Errorf("got %s requests in flight at the end, want none", got)
	}
}

// hostile sends raw requests and checks the result. If the connection continues, the next
// bytes must be a new request.
func (s *server) hostile(name, request string, want ...int) {
	t := s.t
	t.Helper()
	if len(name) > 60 {
		name = name[:60]
	}
	conn := s.dial()
	written := make(chan struct{})
	go func() { // the answer may arrive before the request is written
		defer close(written)
		_, _ = io.WriteString(conn, request)
	}()
	defer func() { <-written }()
	reader := bufio.NewReader(conn)
	expected, _, ends := cutLast(want)
	responses, fromGateway, err := []int{}, 0, error(nil)
	for range expected {
		asked, _ := http.NewRequest("GET", "http://x/", nil)
		if strings.HasPrefix(request, "HEAD ") {
			asked.Method = "HEAD"
		}
		var response *http.Response
		var body []byte
		for err == nil && (response == nil || response.StatusCode < 200) { // 100 Continue
			if response, err = http.ReadResponse(reader, asked); err == nil {
				body, err = io.ReadAll(response.Body)
				response.Body.Close()
			}
		}
		if ends && errors.Is(err, syscall.ECONNRESET) {
			break // the connection ends without an answer, because the request was not read
		} else if err != nil {
			t.Errorf("%q: after the answers %v: %v, want %v", name, responses, err, want)
			return
		}
		r := reply{response.StatusCode, response.Header, string(body)}
		responses = append(responses, r.status)
		if r.status == http.StatusMethodNotAllowed && r.header.Get("Allow") == "" && r.body != "" { // Caddy's own has no body
			t.Errorf("%q: the 405 does not say which methods are allowed", name)
		}
		switch {
		case r.header.Get("X-Gateway") != "":
			fromGateway++
		case r.header.Get("Via") != "": // an error of the gateway, which could not parse it
		case r.status >= 400 && json.Valid([]byte(r.body)):
			r.wantError(t, r.status, "")
		case r.status >= 400 && r.body != "" && !response.Close && asked.Method != "HEAD":
			t.Errorf("%q: got %d %q and an open connection, want the envelope or its end", name, r.status, r.body)
		}
	}
	if err == nil && !slices.Equal(responses, expected) {
		t.Errorf("%q: got %v, want %v", name, responses, expected)
	}
	if ends {
		if rest, err := io.ReadAll(reader); len(rest) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%q: got %.100q and %v after %v, want the end of the connection", name, rest, err, responses)
		}
	} else {
		<-written
		fmt.Fprintf(conn, "GET /v1/presets/p HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s\r\n\r\n", bearer(managementSecret))
		if response, err := http.ReadResponse(reader, nil); err != nil || response.StatusCode != 200 {
			t.Errorf("%q: the request after it got %v, %v, want 200", name, response, err)
		} else if r := readResponse(t, response); !strings.Contains(r.body, `"slug":"p"`) {
			t.Errorf("%q: the request after it got %s", name, r.body)
		}
	}
	got := 0
	for _, r := range s.upstream.all() {
		if len(r.header["Via"]) != 1 {
			t.Errorf("%q: the gateway got %s %s, which Caddy did not send", name, r.method, r.uri)
		}
		if strings.HasPrefix(r.uri, "/v1/presets") {
			t.Errorf("%q: the gateway got %s %s, which is ours", name, r.method, r.uri)
		}
		if r.err == nil {
			got++
		}
	}
	if got != fromGateway {
		t.Errorf("%q: the gateway got %d requests and gave %d answers", name, got, fromGateway)
	}
}

// cutLast returns the statuses of want, and whether the connection then ends.
func cutLast(want []int) (statuses []int, last int, ends bool) {
	if n := len(want); n > 0 && want[n-1] == end {
		return want[:n-1], end, true
	}
	return want, 0, false
}

// TestHTTP2WithoutAsking sends HTTP/2 without negotiation. It is handled as HTTP/2, and an
// invalid frame ends the connection.
func TestHTTP2WithoutAsking(t *testing.T) {
	s := start(t, inferring("keys required"))
	conn := s.dial()
	fmt.Fprintf(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nGET /v1/presets/p HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n%s", bearer(managementSecret), smuggled)
	if response, err := io.ReadAll(conn); bytes.Contains(response, []byte("HTTP/1")) || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %.100q and %v, want the end of the connection", response, err)
	}
	s.upstream.none(t)
}

// TestHugeChunks announces huge chunks. They allocate no memory in advance, and their
// bodies have the usual deadline.
func TestHugeChunks(t *testing.T) {
	s := start(t, inferring("keys required"))
	s.handler().deadlines.Body = 10 * time.Millisecond
	for path, secret := range map[string]string{"/v1/presets/q/responses": managementSecret, chatPath: inferenceSecret} {
		for _, size := range []string{"ffffffffffffffff", "7fffffffffffffff", "ffffffff", "0000000000000400"} {
			s.raw("POST "+path+" HTTP/1.1\r\nHost: x\r\n"+bearer(secret)+"\r\nTransfer-Encoding: chunked\r\n\r\n"+size+"\r\n{}\r\n0\r\n\r\n", 1)[0].
				wantError(t, 408, "The request body took too long")
		}
	}
	s.upstream.none(t)
}
