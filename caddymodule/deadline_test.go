package caddymodule

import (
	"io"
	"net/http"
	"sync"
	"testing"
	"time"
)

// TestDeadlineOfAnEmptyBody checks that a body's deadline does not end a request whose
// gateway answers later. This includes empty bodies.
func TestDeadlineOfAnEmptyBody(t *testing.T) {
	s := start(t, inferring("max_body_size 1MiB"))
	s.options = "servers {\nprotocols h1 h2c\n}"
	s.reload(inferring("max_body_size 1MiB"))
	// Since 2.11 Caddy's own idle timeout would clear the deadline.
	send(t, "PUT", "http://"+s.admin+"/config/apps/http/servers/srv0/read_idle_timeout", "-1", "Content-Type: application/json").want(t, 200)
	s.settle()
	timeout := &s.handler().deadlines.Body
	*timeout = 500 * time.Millisecond
	s.upstream.answers(func(w http.ResponseWriter, r *http.Request) {
		timer := time.NewTimer(2 * *timeout)
		defer timer.Stop()
		select {
		case <-r.Context().Done():
			t.Error("the gateway's request was cancelled")
		case <-timer.C:
			w.WriteHeader(http.StatusAccepted)
		}
	})
	h2 := new(http.Protocols)
	h2.SetUnencryptedHTTP2(true)
	var requests sync.WaitGroup // each request waits for the gateway
	for name, transport := range map[string]*http.Transport{"HTTP/1.1": {}, "HTTP/2": {Protocols: h2}} {
		for what, body := range map[string]func() io.Reader{
			"empty": func() io.Reader { return http.NoBody }, "empty, chunked": func() io.Reader { return unsized("") }, "some": func() io.Reader { return unsized("{}") },
		} {
			requests.Go(func() {
				status := http.StatusRequestTimeout
				// On a slow machine the body may arrive too late.
				for end := time.Now().Add(patience); status == http.StatusRequestTimeout && time.Now().Before(end); {
					r, err := http.NewRequest("POST", s.url+chatPath, body())
					if err != nil {
						t.Error(err)
						return
					}
					r.Header.Set("Authorization", "Bearer "+inferenceSecret)
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
