package caddymodule

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// patience is how long a test waits for an immediate event. It only ends what hangs.
const patience = wait.Limit

// streamed makes the upstream send SSE events. It sends the first at once, and each other
// one when the returned channel receives a value.
func (u *upstream) streamed(events ...string) (next chan struct{}) {
	next = make(chan struct{})
	u.answers(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		w.Header().Set("Cache-Control", "no-cache")
		for i, event := range events {
			if i > 0 {
				select {
				case <-next:
				case <-r.Context().Done():
					return
				}
			}
			io.WriteString(w, event)
			http.NewResponseController(w).Flush()
		}
	})
	return next
}

// open sends a request and returns the answer before its body.
func (s *server) open(client *http.Client, path string, body io.Reader, headers ...string) *http.Response {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	s.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, "POST", s.url+path, body)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, h := range append([]string{bearer(inferenceSecret)}, headers...) {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Add(name, value)
	}
	response, err := client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { response.Body.Close() })
	return response
}

// unsized hides a body's length, so that it is sent in chunks.
func unsized(body string) io.Reader { return io.MultiReader(strings.NewReader(body)) }

// TestEventsArriveAsTheyAreSent checks that each event arrives before the gateway sends the
// next one, with the same bytes.
func TestEventsArriveAsTheyAreSent(t *testing.T) {
	s := start(t, inferring())
	s.preset("writer", writer)
	s.put("writer", "live", `{"split":[{"version":1,"weight":1}]}`)
	s.disable("default", `["openrouter:web_search"]`)
	s.options = "servers {\nprotocols h1 h2c\n}"
	s.reload(inferring("list_models on", "usage"))
	events := []string{": comment\n\n", "event: a\r\ndata: {\"x\" : 1}\r\n\r\n", "data: half", " an event\n\n", "data: [DONE]\n\n", "\xff\x00\n\n"}
	h2 := new(http.Protocols)
	h2.SetUnencryptedHTTP2(true)
	for name, client := range map[string]*http.Client{
		"HTTP/1.1": {Transport: &http.Transport{}},
		"HTTP/2":   {Transport: &http.Transport{Protocols: h2}},
	} {
		for _, path := range inferencePaths {
			for _, body := range []io.Reader{
				strings.NewReader(`{"model":"@preset/writer","stream":true}`), strings.NewReader(`{"model":"m","stream":true}`),
				unsized(`{"model":"@preset/writer","stream":true}`), unsized(`{"model":"m","stream":true}`), strings.NewReader("{}"),
				strings.NewReader(`{"model":"@preset/writer@live","stream":true,"tools":[{"type":"openrouter:datetime"}]}`), unsized(`{"model":"m","tools":[{"type":"openrouter:datetime"}]}`),
			} {
				next := s.upstream.streamed(events...)
				response := s.open(client, path, body)
				if response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/event-stream; charset=utf-8" || response.ContentLength != -1 {
					t.Fatalf("%s %s: got %v", name, path, response)
				}
				if response.Proto[:6] != name[:6] {
					t.Fatalf("got %s, want %s", response.Proto, name)
				}
				for i, event := range events {
					if i > 0 {
						next <- struct{}{}
					}
					got := make([]byte, len(event))
					if _, err := io.ReadFull(response.Body, got); err != nil || string(got) != event {
						t.Fatalf("%s %s: event %d: got %q, %v, want %q", name, path, i, got, err, event)
					}
				}
				if rest, err := io.ReadAll(response.Body); err != nil || len(rest) > 0 {
					t.Errorf("%s %s: got %q, %v after the last event", name, path, rest, err)
				}
			}
		}
		client.CloseIdleConnections()
	}
}

// TestLeavingMidStreamCancelsTheGateway leaves in the middle of a stream. The gateway's
// request is cancelled at once.
func TestLeavingMidStreamCancelsTheGateway(t *testing.T) {
	s := start(t, inferring("usage"))
	s.preset("writer", writer)
	for _, path := range inferencePaths {
		for _, body := range []io.Reader{strings.NewReader(`{"model":"@preset/writer"}`), unsized(`{"model":"@preset/writer"}`), strings.NewReader(`{"model":"m"}`), strings.NewReader("")} {
			cancelled := make(chan struct{})
			s.upstream.answers(func(w http.ResponseWriter, r *http.Request) {
				io.WriteString(w, "data: 1\n\n")
				http.NewResponseController(w).Flush()
				<-r.Context().Done()
				close(cancelled)
			})
			client := &http.Client{Transport: &http.Transport{}}
			response := s.open(client, path, body)
			if _, err := io.ReadFull(response.Body, make([]byte, len("data: 1\n\n"))); err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			client.CloseIdleConnections()
			select {
			case <-cancelled:
			case <-time.After(patience):
				t.Fatalf("%s: the gateway goes on for nobody", path)
			}
		}
	}
}

// TestTheGatewayBreaksOff checks how a client sees a gateway that breaks off.
func TestTheGatewayBreaksOff(t *testing.T) {
	s := start(t, inferring("usage"))
	s.preset("writer", writer)
	s.upstream.answers(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "data: 1\n\ndata: {\"error\":{}}\n\n")
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	for _, path := range inferencePaths {
		for _, model := range []string{"m", "@preset/writer"} {
			response := s.open(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, path, strings.NewReader(`{"model":"`+model+`"}`))
			got, err := io.ReadAll(response.Body)
			if string(got) != "data: 1\n\ndata: {\"error\":{}}\n\n" || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s: got %q, %v, want the two events and no proper end", path, got, err)
			}
		}
	}
}

// TestLongStreamsAreNotCut checks that the body's deadline does not end a longer answer.
func TestLongStreamsAreNotCut(t *testing.T) {
	tier.Race(t)
	s := start(t, inferring("max_body_size 1MiB"))
	s.preset("writer", writer)
	s.options = "servers {\nprotocols h1 h2c\n}"
	s.reload(inferring("max_body_size 1MiB"))
	timeout := &s.handler().deadlines.Body
	*timeout = 500 * time.Millisecond
	h2 := new(http.Protocols)
	h2.SetUnencryptedHTTP2(true)
	type stream struct {
		name     string
		response *http.Response
		next     chan struct{}
	}
	var streams []stream
	for name, transport := range map[string]*http.Transport{"HTTP/1.1": {}, "HTTP/2": {Protocols: h2}} {
		for what, text := range map[string]string{
			"resolved": `{"model":"@preset/writer"}`, "resolved, chunked": `{"model":"@preset/writer"}`,
			"passed": `{"model":"m"}`, "passed, chunked": `{"model":"m"}`, "gzip": caddytest.Gzip(`{"model":"@preset/writer"}`),
			"empty": "", "empty, chunked": "",
		} {
			var headers []string
			if what == "gzip" {
				headers = append(headers, "Content-Encoding: gzip")
			}
			next := s.upstream.streamed("data: 1\n\n", "data: 2\n\n")
			open := func() *http.Response {
				var body io.Reader = strings.NewReader(text)
				if strings.HasSuffix(what, "chunked") {
					body = unsized(text)
				}
				return s.open(&http.Client{Transport: transport}, responsesPath, body, headers...)
			}
			response := open()
			for response.StatusCode == 408 && *timeout < 30*time.Second { // on a slow machine the body may arrive too late
				*timeout *= 4
				response = open()
			}
			streams = append(streams, stream{name + ", " + what, response, next})
		}
	}
	// This test measures time itself.
	time.Sleep(2 * *timeout)
	for _, stream := range streams {
		select {
		case stream.next <- struct{}{}:
		case <-time.After(patience):
			t.Errorf("%s: the gateway's request was cancelled", stream.name)
			continue
		}
		if got, err := io.ReadAll(stream.response.Body); err != nil || string(got) != "data: 1\n\ndata: 2\n\n" {
			t.Errorf("%s: got %q, %v, want both events", stream.name, got, err)
		}
	}
}

// TestSlowInferenceBodies sends bodies that stop. They time out with the route's own
// envelope.
func TestSlowInferenceBodies(t *testing.T) {
	s := start(t, inferring("max_body_size 1MiB"))
	s.handler().deadlines.Body = 50 * time.Millisecond
	var responses []reply
	for _, path := range inferencePaths {
		for _, framing := range []string{"Content-Length: 1000\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n5\r\n{"} {
			r := s.raw("POST "+path+" HTTP/1.1\r\nHost: x\r\n"+bearer(inferenceSecret)+"\r\n"+framing, 1)[0]
			r.want(t, 408, "The request body took too long to arrive")
			if framing[0] == 'C' {
				responses = append(responses, r)
			}
		}
	}
	golden(t, "inference_slow", responses...)
	s.upstream.none(t)
}

// TestLyingLengths sends bodies whose length or encoding is not as announced.
func TestLyingLengths(t *testing.T) {
	s := start(t, inferring("keys required", "max_body_size 1MB"))
	s.preset("writer", writer)
	head := func(path, framing string) string {
		return "POST " + path + " HTTP/1.1\r\nHost: x\r\n" + bearer(inferenceSecret) + "\r\n" + framing + "\r\n\r\n"
	}
	for _, path := range inferencePaths {
		for name, tc := range map[string]struct {
			request, says string
			status        int
		}{
			"too little":        {head(path, "Content-Length: 100") + `{"model":"m"}`, "ended before its announced length", 400},
			"chunks end early":  {head(path, "Transfer-Encoding: chunked") + "d\r\n{\"model\":\"m\"}\r\n", "ended before its announced length", 400},
			"no chunks":         {head(path, "Transfer-Encoding: chunked") + "zz\r\n", "could not be read", 400},
			"more than allowed": {head(path, "Content-Length: 1000001"), "Request payload too large", 413},
			"far more":          {head(path, "Content-Length: 9000000000000000000"), "Request payload too large", 413},
			"far more, asking":  {head(path, "Content-Length: 9000000000\r\nExpect: 100-continue"), "Request payload too large", 413},
		} {
			conn, err := net.Dial("tcp", s.address)
			if err != nil {
				t.Fatal(err)
			}
			conn.SetDeadline(time.Now().Add(patience))
			io.WriteString(conn, tc.request)
			if tc.status == 400 {
				conn.(*net.TCPConn).CloseWrite()
			}
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatalf("%s%s: %v", name, path, err)
			}
			r := readResponse(t, response)
			r.want(t, tc.status, tc.says)
			conn.Close()
		}
		s.upstream.none(t)
		// Bytes after the announced end are another request.
		body := `{"model":"@preset/writer"}`
		responses := s.raw(head(path, fmt.Sprintf("Content-Length: %d", len(body)))+body+"GET /next HTTP/1.1\r\nHost: x\r\n\r\n", 2)
		responses[0].want(t, 202)
		responses[1].want(t, 202)
		if got := s.upstream.all(); len(got) != 2 || !strings.Contains(got[0].body, "gpt-5") || got[1].uri != "/next" {
			t.Errorf("the gateway got %v", got)
		}
	}
}

// TestExpectContinue sends Expect: 100-continue. The server requests the body only if it
// needs it.
func TestExpectContinue(t *testing.T) {
	s := start(t, inferring())
	s.preset("writer", writer)
	for _, path := range inferencePaths {
		for _, tc := range []struct {
			body   string
			status int
		}{
			{`{"model":"@preset/writer","n":1}`, 202}, {`{"model":"m"}`, 202}, {`{"model":"@preset/nothing"}`, 404},
		} {
			conn, err := net.Dial("tcp", s.address)
			if err != nil {
				t.Fatal(err)
			}
			conn.SetDeadline(time.Now().Add(patience))
			fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\n%s\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", path, bearer(inferenceSecret), len(tc.body))
			reader := bufio.NewReader(conn)
			first, err := http.ReadResponse(reader, nil)
			if err != nil || first.StatusCode != 100 {
				t.Fatalf("%s: got %v, %v, want 100", path, first, err)
			}
			io.WriteString(conn, tc.body)
			finalAnswer(t, reader).want(t, tc.status)
			conn.Close()
			if tc.status != 202 {
				s.upstream.none(t)
				continue
			}
			got := s.upstream.one(t)
			if strings.Contains(tc.body, "@preset") != strings.Contains(got.body, "gpt-5") || got.length != int64(len(got.body)) {
				t.Errorf("%s: the gateway got %v", path, got)
			}
		}
	}

	// Informational answers of the gateway pass, and X-Preset remains.
	s.upstream.answers(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "</style.css>; rel=preload")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusOK)
	})
	for _, expect := range []string{"X-None: 1", "Expect: 100-continue"} {
		r := exchange(t, s.address, post(chatPath, `{"model":"@preset/writer@1"}`, bearer(inferenceSecret), expect))
		if r.status != 200 || r.header.Get("X-Preset") != "writer@1" || r.header.Get("X-Preset-Dropped") != "include" {
			t.Errorf("%s: got %v, want X-Preset behind 103", expect, r)
		}
	}
}

func TestLargeBodies(t *testing.T) {
	tier.Slow(t)
	s := start(t, inferring())
	s.preset("writer", writer)
	filled := func(size int, head string) string {
		return head + strings.Repeat("x\\n ü ", (size-len(head)-2)/7) + strings.Repeat("y", (size-len(head)-2)%7) + `"}`
	}
	size := 8 << 20
	if tier.EveryCase() {
		size = 30 << 20
	}
	for _, tc := range []struct {
		head, becomes, tail string
	}{
		{`{"model":"m","input":"`, `{"model":"m","input":"`, ""},
		{`{ "model":"@preset/writer","input":"`, `{"model":"openai/gpt-5","input":"`, `,"temperature":0.70,"max_output_tokens":100,"include":["reasoning.encrypted_content"],"instructions":"Be brief."}`},
	} {
		sent := filled(size, tc.head)
		want := strings.Replace(sent, tc.head, tc.becomes, 1)
		if tc.tail != "" {
			want = strings.TrimSuffix(want, "}") + tc.tail
		}
		for _, body := range []io.Reader{strings.NewReader(sent), unsized(sent)} {
			response := s.open(http.DefaultClient, responsesPath, body)
			readResponse(t, response).want(t, 202)
			if got := s.upstream.one(t); got.body != want || got.err != nil {
				t.Errorf("%s: a body of %d bytes reached the gateway as one of %d, or changed, want %d", tc.head, len(sent), len(got.body), len(want))
			}
		}
	}
	// The default limit is exact to the byte.
	for _, model := range []string{"m", "@preset/writer"} {
		for length, status := range map[int]int{32 << 20: 202, 32<<20 + 1: 413} {
			sent := filled(length, `{"model":"`+model+`","input":"`)
			if len(sent) != length {
				t.Fatalf("the test is at fault: %d bytes, want %d", len(sent), length)
			}
			s.raw(post(responsesPath, "")+"", 1) // a stranger's request in between
			exchange(t, s.address, post(responsesPath, sent, bearer(inferenceSecret))).want(t, status)
		}
	}
}
