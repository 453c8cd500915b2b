package caddymodule

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-presets/caddy-presets/domain"
	gatewayanswer "github.com/caddy-presets/caddy-presets/domain/usage/answer"
)

// transcript is a client's writer that records each call. It takes room bytes.
type transcript struct {
	header http.Header
	calls  []string
	room   int
}

func (w *transcript) Header() http.Header { return w.header }

func (w *transcript) WriteHeader(status int) {
	w.calls = append(w.calls, fmt.Sprint("header ", status, w.header))
}

func (w *transcript) Write(p []byte) (n int, err error) {
	if n = min(len(p), w.room); n < len(p) {
		err = errRefused
	}
	w.room -= n
	w.calls = append(w.calls, "write "+string(p[:n]))
	return n, err
}

func (w *transcript) Flush() { w.calls = append(w.calls, "flush") }

// play writes an answer as the steps say: the size of a piece, and how it is written. It
// returns what the writer returned.
func play(w http.ResponseWriter, steps, body []byte) (returned []string) {
	for _, step := range steps {
		piece := body[:min(len(body), int(step>>3))]
		body = body[len(piece):]
		var n int64
		var err error
		switch step & 7 {
		case 0:
			w.WriteHeader(http.StatusEarlyHints)
		case 1:
			w.WriteHeader([...]int{200, 204, 400, 503}[step>>3&3])
		case 2:
			err = http.NewResponseController(w).Flush()
		case 3:
			n, err = io.Copy(w, struct{ io.Reader }{bytes.NewReader(piece)})
		case 4:
			w.Header().Add("Trailer-"+fmt.Sprint(step), "x")
		default:
			var written int
			written, err = w.Write(piece)
			n = int64(written)
		}
		returned = append(returned, fmt.Sprint(n, err))
	}
	return returned
}

// FuzzTap writes any bytes in any pieces, with and without the tap. The client's writer gets
// the same calls, and the gateway's handler the same results.
func FuzzTap(f *testing.F) {
	const chat = `data: {"model":"m","choices":[{"delta":{"content":"a"}}]}` + "\n\n" + `data: {"model":"m","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3}}` + "\n\ndata: [DONE]\n\n"
	f.Add(uint8(0), uint8(0), uint16(1000), []byte{1, 0xff, 2, 0xff, 0x1b, 2, 0xff}, []byte(chat))
	f.Add(uint8(1), uint8(1), uint16(1000), []byte{0, 1, 0xff, 2, 4}, []byte(`{"model":"m","usage":{"input_tokens":7,"output_tokens":3}}`))
	f.Add(uint8(2), uint8(2), uint16(20), []byte{0xff, 0xff, 0x19}, []byte("\x1f\x8b\x08\x00\x00"))
	f.Add(uint8(2), uint8(3), uint16(0), []byte{0xff, 2}, []byte("event: message_start\ndata: {}\n\n"))
	dialects := []domain.Dialect{domain.Chat, domain.Responses, domain.Messages}
	headers := []http.Header{
		{"Content-Type": {"text/event-stream"}},
		{"Content-Type": {"application/json"}},
		{"Content-Type": {"text/event-stream"}, "Content-Encoding": {"gzip"}},
		{"Content-Type": {"application/json"}, "Content-Encoding": {"br"}},
		{},
	}
	f.Fuzz(func(t *testing.T, dialect, header uint8, room uint16, steps, body []byte) {
		client := func() *transcript {
			return &transcript{header: headers[int(header)%len(headers)].Clone(), room: int(room)}
		}
		plain, tapped := client(), client()
		of := &tap{
			ResponseWriterWrapper: &caddyhttp.ResponseWriterWrapper{ResponseWriter: tapped},
			dialect:               dialects[int(dialect)%len(dialects)], opening: func(int) {},
		}
		want, got := play(plain, steps, body), play(of, steps, body)
		if !slices.Equal(got, want) {
			t.Errorf("the gateway's handler got %q, without the tap %q", got, want)
		}
		if !slices.Equal(tapped.calls, plain.calls) {
			t.Errorf("the client got\n%q, without the tap\n%q", tapped.calls, plain.calls)
		}
		used := of.close(time.Now(), true, false)
		if tokens := used.Tokens; used.Unknown != "" && tokens != (gatewayanswer.Tokens{}) {
			t.Errorf("unknown, and %+v", tokens)
		}
		if written := int(room) - tapped.room; written == 0 && (used.Tokens != gatewayanswer.Tokens{} || used.Model != "") {
			t.Errorf("the client got nothing, and it used %+v", used)
		}
	})
}

// TestUsageOverHTTP2 compares answers of an HTTP/2 gateway with and without usage. It
// compares each event when it is sent, the headers and the trailers.
func TestUsageOverHTTP2(t *testing.T) {
	h2 := new(http.Protocols)
	h2.SetUnencryptedHTTP2(true)
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
	gateway.Config.Protocols = h2
	gateway.Start()
	t.Cleanup(gateway.Close)

	s := start(t, inferring())
	s.preset("writer", writer)
	s.options = "servers {\nprotocols h1 h2c\n}"
	clients := map[string]*http.Client{"HTTP/1.1": {Transport: &http.Transport{}}, "HTTP/2": {Transport: &http.Transport{Protocols: h2}}}
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
