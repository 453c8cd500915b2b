package caddymodule

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/deadline"
)

// TestKeysAreCheckedBeforeABodyIsRead sends requests without a valid key. The server
// neither requests their bodies nor waits for them.
func TestKeysAreCheckedBeforeABodyIsRead(t *testing.T) {
	s := start(t, standard)
	for header, status := range map[string]int{"X-Nothing: here": 401, bearer("another-secret-of-the-tests"): 401, bearer(inferenceSecret): 403} {
		for _, framing := range []string{
			"Content-Length: 1000\r\n", "Content-Length: 1000000000\r\n", "Transfer-Encoding: chunked\r\n", "Content-Length: 1000\r\nExpect: 100-continue\r\n",
		} {
			r := s.raw("POST /v1/workspaces HTTP/1.1\r\nHost: x\r\n"+header+"\r\n"+framing+"\r\n", 1)
			r[0].wantError(t, status, "")
		}
	}
}

func TestKeysFromPlaceholders(t *testing.T) {
	t.Setenv("PRESETS_TEST_KEY", "secret-from-the-environment")
	s := start(t, "management_key {env.PRESETS_TEST_KEY}\nmanagement_key sha256:"+sha256Of("secret-known-by-its-hash")+" hal")
	s.do("POST", "/v1/workspaces", minimalWorkspace, bearer("secret-from-the-environment")).want(t, 201, `"created_by":"config-management-1"`)
	s.do("POST", "/v1/workspaces", `{"name":"x","slug":"x"}`, bearer("secret-known-by-its-hash")).want(t, 201, `"created_by":"hal"`)
	for value, problem := range map[string]string{
		"":                                      "{env.PRESETS_TEST_KEY}",
		"too-short":                             "at least 16 characters",
		"has a space in it, which no token may": "printable ASCII",
		"secret-known-by-its-hash":              "same secret",
	} {
		t.Setenv("PRESETS_TEST_KEY", value)
		err := s.load(s.site("management_key sha256:" + sha256Of("secret-known-by-its-hash") + "\nmanagement_key {env.PRESETS_TEST_KEY}"))
		if err == nil || !strings.Contains(err.Error(), problem) || !strings.Contains(err.Error(), "management_keys[1]") {
			t.Errorf("got %v, want an error about %s", err, problem)
		} else if value != "" && strings.Contains(err.Error(), value) {
			t.Errorf("the error shows the secret: %v", err)
		}
	}
}

// TestRefusedBodiesAreNotWaitedFor checks how long a connection stays open when its body is
// refused. The client has time to read the answer, but less than a request's timeout.
func TestRefusedBodiesAreNotWaitedFor(t *testing.T) {
	const slow = 4 * time.Second // for 100 KB at 25 KB/s
	if usual := deadline.Default.Linger; usual < slow {
		t.Errorf("a client has %v to send its body and read the answer, want %v", usual, slow)
	}
	s := start(t, standard+"\ninference\n")
	s.options = "servers {\nprotocols h1 h2c\n}"
	s.reload(standard + "\ninference\n")
	linger := &s.handler().deadlines.Linger
	*linger = 500 * time.Millisecond
	var waits sync.WaitGroup
	for _, target := range []string{"POST /v1/presets/p/responses", "POST " + chatPath, "PUT /v1/presets/p", "GET /v1/presets/p/nothing"} {
		for _, framing := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
			conn := s.dial()
			begun := time.Now()
			conn.SetDeadline(begun.Add(deadline.Default.Body / 2))
			fmt.Fprintf(conn, "%s HTTP/1.1\r\nHost: x\r\n%s\r\n\r\n", target, framing)
			reader := bufio.NewReader(conn)
			response, err := http.ReadResponse(reader, nil)
			if err != nil {
				t.Fatal(err)
			}
			if r := readResponse(t, response); r.status < 400 || !response.Close {
				t.Errorf("%s, %s: got %d, closing %t, want a refusal that closes", target, framing, r.status, response.Close)
			}
			waits.Go(func() {
				if _, err := reader.ReadByte(); err != io.EOF {
					t.Errorf("%s, %s: got %v, want the end of the connection", target, framing, err)
				}
				if open := time.Since(begun); open < *linger {
					t.Errorf("%s, %s: a client has %v to send its body and read the answer, want %v", target, framing, open, *linger)
				}
			})
		}
	}
	waits.Wait()
	*linger = time.Minute

	// A client that reads the answer only after it has sent the whole body gets the answer.
	request := "POST /v1/presets/p/responses HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n" + strings.Repeat("x", 200_000)
	s.raw(request, 1)[0].wantError(t, 401, "Missing Authentication header")

	// With HTTP/2 only the stream ends, and the connection stays.
	transport := h2c()
	defer transport.CloseIdleConnections()
	for n := range 3 {
		body, end := io.Pipe() // never sent
		defer end.Close()
		r := newRequest(t, "POST", s.url+"/v1/presets/p/responses", body)
		reused := false
		trace := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { reused = c.Reused }})
		response, err := transport.RoundTrip(r.WithContext(trace))
		if err != nil {
			t.Fatal(err)
		}
		if r := readResponse(t, response); r.status != 401 || response.ProtoMajor != 2 || reused != (n > 0) {
			t.Errorf("got %d with HTTP/%d, on the same connection: %t", r.status, response.ProtoMajor, reused)
		}
	}
}

// TestConfiguredKeysOfEverySiteHoldTheirWorkspace deletes and renames workspaces on each
// site of a store. Keys of all its sites count as acting in their workspaces.
func TestConfiguredKeysOfEverySiteHoldTheirWorkspace(t *testing.T) {
	s := start(t, standard)
	s.manage("POST", "/v1/workspaces", minimalWorkspace).want(t, 201, `"slug":"team"`)
	other := s.siteAt(freeAddress(t), s.presets("inference_key other-inference-secret carl team"))
	if err := s.load(s.site(standard) + other); err != nil {
		t.Fatal(err)
	}
	s.manage("DELETE", "/v1/workspaces/team", "").wantError(t, 400, "Invalid request parameters: id: the workspace has live keys")
	s.manage("PATCH", "/v1/workspaces/team", `{"slug":"crew"}`).wantError(t, 400, "Invalid request parameters: /slug: keys of the configuration")
	s.manage("PATCH", "/v1/workspaces/team", `{"name":"Crew","slug":"team"}`).want(t, 200, `"name":"Crew"`)
	s.reload(standard)
	s.manage("PATCH", "/v1/workspaces/team", `{"slug":"crew"}`).want(t, 200, `"slug":"crew"`)
	s.manage("DELETE", "/v1/workspaces/crew", "").want(t, 200)
}

// TestReplaysOfAnotherSite checks two sites whose keys have the same numbers. One site's
// answers are not replayed on the other.
func TestReplaysOfAnotherSite(t *testing.T) {
	s := start(t, standard)
	s.manage("POST", "/v1/workspaces", minimalWorkspace).want(t, 201)
	address := freeAddress(t)
	other := s.siteAt(address, s.presets("preset_creators any\ninference_key other-inference-secret eve team"))
	if err := s.load(s.site(standard+"\npreset_creators any") + other); err != nil {
		t.Fatal(err)
	}
	const path = "/v1/presets/p/responses"
	s.do("POST", path, `{}`, bearer(inferenceSecret), once("1")).want(t, 200, `"creator_user_id":"bob"`)
	send(t, "POST", "http://"+address+path, `{}`, bearer("other-inference-secret"), once("1")).want(t, 200, `"creator_user_id":"eve"`)
	send(t, "GET", "http://"+address+"/v1/presets/p", "", bearer("other-inference-secret")).want(t, 200, `"creator_user_id":"eve"`)
}
