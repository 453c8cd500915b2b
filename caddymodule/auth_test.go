package caddymodule

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/deadline"
)

// TestAuthorizationHeaders checks in which headers a key counts. TestAuthorisationMatrix
// checks what each kind of key may do.
func TestAuthorizationHeaders(t *testing.T) {
	s := start(t, standard)
	issued := s.issue(`{"kind":"management"}`).secret
	for _, tc := range []struct {
		name, header string
		status       int
	}{
		{"empty", "", 401},
		{"no token", "Bearer", 401},
		{"prefix of a key", "Bearer " + managementSecret[:20], 401},
		{"key and more", "Bearer " + managementSecret + " x", 401},
		{"damaged", "Bearer " + issued[:len(issued)-1] + "_", 401},
		{"hash of a key", "Bearer sha256:" + strings.Repeat("0", 64), 401},
		{"scheme in lower case", "bearer " + managementSecret, 200},
		{"scheme in upper case", "BEARER  " + managementSecret, 200},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := s.do("GET", "/v1/workspaces/default", "", "Authorization: "+tc.header)
			if r.want(t, tc.status); tc.status == 401 {
				r.wantError(t, 401, "Invalid credentials")
			}
		})
	}
}

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

func TestRevocationActsAtTheNextRequest(t *testing.T) {
	s := start(t, standard)
	k := s.issue(`{"kind":"management","name":"ci","user_id":"robot","expires_in":"1h"}`)
	s.do("GET", "/v1/workspaces/default", "", bearer(k.secret)).want(t, 200)
	send(t, "DELETE", "http://"+s.admin+"/presets/keys/"+k.id, "").want(t, 200)
	s.do("GET", "/v1/workspaces/default", "", bearer(k.secret)).wantError(t, 401, "Invalid credentials")
}

func TestCreatorsAny(t *testing.T) {
	s := start(t, standard+"\npreset_creators any")
	s.do("POST", "/v1/presets/p/responses", "{}", bearer(inferenceSecret)).want(t, 200, `"creator_user_id":"bob"`)
	s.do("POST", "/v1/workspaces", minimalWorkspace, bearer(inferenceSecret)).wantError(t, 403, "Only management keys")
	s.do("GET", "/v1/workspaces/default", "", bearer(inferenceSecret)).wantError(t, 403, "Only management keys")
}

// TestJSONConfiguration checks that JSON has the same limits as a Caddyfile, and that
// errors show no secret.
func TestJSONConfiguration(t *testing.T) {
	s := start(t, standard)
	const secret = "a-literal-secret-of-a-team"
	hash := "sha256:" + sha256Of(secret)
	for handler, problem := range map[string]string{
		`"management_keys":[{"secret":"` + secret + `"}]`:                                            "management_keys[0]: the secret must be a placeholder",
		`"inference_keys":[{"secret":""}]`:                                                           "inference_keys[0]: the secret must be a placeholder",
		`"management_keys":[{"secret":"sha256:12"}]`:                                                 "management_keys[0]: sha256: must be followed by 64",
		`"management_keys":[{"secret":"` + hash + `"},{"secret":"` + hash + `"}]`:                    "management_keys[1]: has the same secret as config-management-1",
		`"management_keys":[{"secret":"` + hash + `"}],"inference_keys":[{"secret":"` + hash + `"}]`: "inference_keys[0]: has the same secret as config-management-1",
		`"base_path":"v1"`:                                       "base_path: must be a clean absolute path",
		`"base_path":"/a/../v1"`:                                 "base_path: must be a clean absolute path",
		`"base_path":"/a b"`:                                     "base_path: must be a clean absolute path",
		`"base_path":"/v%31"`:                                    "base_path: must be a clean absolute path",
		`"base_path":"/v1?x"`:                                    "base_path: must be a clean absolute path",
		`"base_path":"/a//b"`:                                    "base_path: must be a clean absolute path",
		`"base_path":"/a{b"`:                                     "base_path: must be a clean absolute path",
		`"base_path":"{env.NO_SUCH}"`:                            "base_path: ",
		`"max_body_size":-1`:                                     "max_body_size: must be positive",
		`"preset_creators":"nobody"`:                             "preset_creators: must be management or any",
		`"storage":{"engine":"mongo"}`:                           "storage: there is no engine \"mongo\"; this build has badger",
		`"storage":{"engine":"badger","folder":"{env.NO_SUCH}"}`: "folder: ",
		`"unknown":1`:                                            "unknown field",
	} {
		err := caddy.Load([]byte(`{"admin":{"listen":"`+s.admin+`","config":{"persist":false}},"apps":{"http":{"servers":{"s":{"listen":["`+s.address+`"],"routes":[{"handle":[{"handler":"presets",`+handler+`}]}]}}}}}`), true)
		s.settle()
		if err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: got %v, want an error with %q", handler, err, problem)
		} else if strings.Contains(err.Error(), secret) {
			t.Errorf("the error shows the secret: %v", err)
		}
	}
	s.manage("GET", "/v1/workspaces/default", "").want(t, 200) // all of them were rejected
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
			conn, err := net.Dial("tcp", s.address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
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
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	for n := range 3 {
		body, end := io.Pipe() // never sent
		defer end.Close()
		r, err := http.NewRequest("POST", s.url+"/v1/presets/p/responses", body)
		if err != nil {
			t.Fatal(err)
		}
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
