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
	"sync"
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
	r := newRequest(s.t, "POST", s.url+path, body, append([]string{bearer(inferenceSecret)}, headers...)...).WithContext(ctx)
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
	for name, client := range map[string]*http.Client{
		"HTTP/1.1": {Transport: &http.Transport{}},
		"HTTP/2":   {Transport: h2c()},
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

// TestDeadlineOfABody checks that a body's deadline does not end a request whose
// gateway answers later. This includes empty bodies.
func TestDeadlineOfABody(t *testing.T) {
	s := start(t, inferring("max_body_size 1MiB"))
	s.preset("writer", writer)
	s.options = "servers {\nprotocols h1 h2c\n}"
	s.reload(inferring("max_body_size 1MiB"))
	// Since 2.11 Caddy's own idle timeout would clear the deadline.
	send(t, "PUT", "http://"+s.admin+"/config/apps/http/servers/srv0/read_idle_timeout", "-1", "Content-Type: application/json").want(t, 200)
	s.settle()
	const timeout = 500 * time.Millisecond
	s.handler().deadlines.Body = timeout
	s.upstream.answers(func(w http.ResponseWriter, r *http.Request) {
		timer := time.NewTimer(2 * timeout)
		defer timer.Stop()
		select {
		case <-r.Context().Done():
			t.Error("the gateway's request was cancelled")
		case <-timer.C:
			w.WriteHeader(http.StatusAccepted)
		}
	})
	encoded := caddytest.Gzip(`{"model":"@preset/writer"}`)
	var requests sync.WaitGroup // each request waits for the gateway
	for name, transport := range map[string]*http.Transport{"HTTP/1.1": {}, "HTTP/2": h2c()} {
		for what, body := range map[string]func() io.Reader{
			"empty": func() io.Reader { return http.NoBody }, "empty, chunked": func() io.Reader { return unsized("") }, "some": func() io.Reader { return unsized("{}") },
			"resolved": func() io.Reader { return strings.NewReader(`{"model":"@preset/writer"}`) }, "gzip": func() io.Reader { return strings.NewReader(encoded) },
		} {
			requests.Go(func() {
				status := http.StatusRequestTimeout
				// On a slow machine the body may arrive too late.
				for end := time.Now().Add(patience); status == http.StatusRequestTimeout && time.Now().Before(end); {
					r := newRequest(t, "POST", s.url+chatPath, body(), bearer(inferenceSecret), "Content-Encoding: "+map[bool]string{true: "gzip", false: "identity"}[what == "gzip"])
					response, err := (&http.Client{Transport: transport}).Do(r)
					if err != nil {
						t.Errorf("%s, %s: %v", name, what, err)
						return
					}
					response.Body.Close()
					status = response.StatusCode
				}
				if status != http.StatusAccepted {
					t.Errorf("%s, %s: got status %d, want 202", name, what, status)
				}
			})
		}
	}
	requests.Wait()
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
			conn := s.dial()
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
			conn := s.dial()
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
