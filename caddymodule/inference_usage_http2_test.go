package caddymodule

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// TestUsageOverHTTP2 compares answers of an HTTP/2 gateway with and without usage. It
// compares each event when it is sent, the headers and the trailers.
func TestUsageOverHTTP2(t *testing.T) {
	events := []string{"data: {\"model\":\"m\",\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n", "data: half", " an event\n\n", "data: {\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}\n\n", "data: [DONE]\n\n"}
	next := make(chan struct{})
	gateway := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("the gateway got %s, want HTTP/2", r.Proto)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Trailer", "X-Sum")
		w.Header().Set("Content-Type", "text/event-stream")
		for i, event := range events {
			if i > 0 {
				<-next
			}
			_, _ = io.WriteString(w, event)
			_ = http.NewResponseController(w).Flush()
		}
		w.Header().Set("X-Sum", "abc")
		w.Header().Set(http.TrailerPrefix+"X-Late", "def")
	}))
	gateway.Config.Protocols = h2c().Protocols
	gateway.Start()
	t.Cleanup(gateway.Close)

	s := start(t, inferring())
	s.preset("writer", writer)
	s.options = "servers {\nprotocols h1 h2c\n}"
	clients := map[string]*http.Client{"HTTP/1.1": {Transport: &http.Transport{}}, "HTTP/2": {Transport: h2c()}}
	// ask returns everything that clients see.
	ask := func() (seen []string) {
		for _, name := range slices.Sorted(maps.Keys(clients)) {
			for _, model := range []string{"m", "@preset/writer"} {
				answer := s.open(clients[name], chatPath, strings.NewReader(`{"model":"`+model+`","stream":true}`))
				for i, event := range events {
					if i > 0 {
						next <- struct{}{}
					}
					got := make([]byte, len(event))
					if _, err := io.ReadFull(answer.Body, got); err != nil {
						t.Fatalf("%s: event %d: %v", name, i, err)
					}
					seen = append(seen, string(got))
				}
				rest, err := io.ReadAll(answer.Body)
				if err != nil || !strings.HasPrefix(answer.Proto, name) {
					t.Fatalf("%s: got %v over %s", name, err, answer.Proto)
				}
				answer.Header.Del("Date")
				answer.Header.Del(requestIDHeader)
				seen = append(seen, string(rest), fmt.Sprint(answer.Status, answer.ContentLength, answer.Header, answer.Trailer))
			}
			clients[name].CloseIdleConnections()
		}
		return seen
	}
	reload := func(subdirectives string) {
		sites := strings.Replace(s.site(subdirectives), s.upstream.Listener.Addr().String(), "h2c://"+gateway.Listener.Addr().String(), 1)
		if err := s.load(sites); err != nil {
			t.Fatal(err)
		}
	}
	reload(inferring())
	want := ask()
	if !slices.ContainsFunc(want, func(seen string) bool {
		return strings.Contains(seen, "X-Sum:[abc]") && strings.Contains(seen, "X-Late:[def]")
	}) {
		t.Fatalf("no trailer passes: this tests nothing: %q", want)
	}
	reload(inferring("usage"))
	if got := ask(); !slices.Equal(got, want) {
		t.Errorf("got\n%q, without usage\n%q", got, want)
	}
	if !s.eventually(func() bool { return len(s.usage("/v1/presets/writer/usage").Data.Series) == 1 }) {
		t.Error("the requests show in no report")
	}
}
