package caddymodule

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

const (
	streamContent = "data: {\"model\":\"m\",\"choices\":[{\"delta\":{\"content\":\"Hi\"}}],\"usage\":null}\r\n\r\n: wait\n\n"
	streamUsage   = "data: {\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\n"
	streamEnd     = "data: [DONE]\n\n"
	streamAsking  = `{"model":"@preset/writer","stream":true}`
	streamAdding  = "usage {\nstream_usage add\n}"
)

// openStream asks for a stream, and returns its answer.
func (s *server) openStream(body string, headers ...string) *http.Response {
	client := &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}
	return s.open(client, chatPath, strings.NewReader(body), headers...)
}

// TestStreamUsage checks that a client gets each byte but the chunk with the usage,
// wherever the gateway cuts the stream. The usage is counted, and a dry run tells what is added.
func TestStreamUsage(t *testing.T) {
	s := start(t, inferring(streamAdding))
	s.preset("writer", writer)
	dry := s.ask(chatPath, streamAsking, "X-Preset-Dry-Run: true").described(t)
	if field := dry.Data.Fields["stream_options"]; field.From != "server" || field.Preset != nil || field.Version != nil {
		t.Errorf("stream_options is %+v, want it from the server", field)
	}
	const sent, want = streamContent + streamUsage + streamEnd, streamContent + streamEnd
	for cut := range len(sent) {
		s.upstream.answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			w.Header().Set("Trailer", "X-End")
			if cut == 0 {
				w.Header().Set("Content-Length", strconv.Itoa(len(sent)))
			}
			w.WriteHeader(http.StatusEarlyHints)
			_, _ = io.WriteString(w, sent[:cut])
			_ = http.NewResponseController(w).Flush()
			_, _ = io.WriteString(w, sent[cut:])
			w.Header().Set("X-End", "yes")
		})
		got := s.openStream(streamAsking, "Accept-Encoding: gzip")
		text, err := io.ReadAll(got.Body)
		if err != nil || string(text) != want {
			t.Fatalf("cut at %d: got %q, %v, want %q", cut, text, err, want)
		}
		if cut > 0 && got.Trailer.Get("X-End") != "yes" || got.ContentLength != -1 {
			t.Errorf("cut at %d: got the trailer %v and the length %d", cut, got.Trailer, got.ContentLength)
		}
		asked := s.upstream.one(t)
		if !strings.Contains(asked.body, `"stream_options":{"include_usage":true}`) || asked.header.Get("Accept-Encoding") != "identity" {
			t.Fatalf("the gateway got %s and %v", asked.body, asked.header)
		}
	}
	want4 := strconv.Itoa(4 * len(sent))
	if !s.eventually(func() bool { return s.metric(series("output_tokens_total", "")) == want4 }) {
		t.Errorf("%s output tokens were counted, want %s", s.metric(series("output_tokens_total", "")), want4)
	}
}

// TestStreamUsageThatIsNotAdded checks that other requests and their answers keep their
// bytes.
func TestStreamUsageThatIsNotAdded(t *testing.T) {
	s := start(t, inferring("usage"))
	s.preset("writer", writer)
	const sent = streamContent + streamUsage + streamEnd
	var zipped bytes.Buffer
	zip := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(zip, sent)
	_ = zip.Close()
	const yes, no = `{"model":"@preset/writer","stream":true,"stream_options":{"include_usage":true}}`, `{"model":"@preset/writer","stream":true,"stream_options":{"include_usage":false}}`
	for _, tc := range []struct {
		name, usage, body string
		status            int
		media, coding     string
		response          string
	}{
		{name: "off", usage: "usage", body: streamAsking},
		{name: "expressly off", usage: "usage {\nstream_usage off\n}", body: streamAsking},
		{name: "asked for", body: yes},
		{name: "refused", body: no},
		{name: "no stream", body: `{"model":"@preset/writer"}`},
		{name: "no preset", body: `{"model":"m", "stream":true}`},
		{name: "an error", body: streamAsking, status: 500},
		{name: "no stream of events", body: streamAsking, media: "application/json"},
		{name: "encoded nevertheless", body: streamAsking, coding: "gzip", response: zipped.String()},
	} {
		if tc.usage == "" {
			tc.usage = streamAdding
		}
		if tc.response == "" {
			tc.response = sent
		}
		s.reload(inferring(tc.usage))
		s.upstream.all()
		s.upstream.answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			if tc.media != "" {
				w.Header().Set("Content-Type", tc.media)
			}
			if tc.coding != "" {
				w.Header().Set("Content-Encoding", tc.coding)
			}
			w.Header().Set("Content-Length", strconv.Itoa(len(tc.response)))
			if tc.status != 0 {
				w.WriteHeader(tc.status)
			}
			_, _ = io.WriteString(w, tc.response)
		})
		got := s.openStream(tc.body, "Accept-Encoding: gzip")
		text, err := io.ReadAll(got.Body)
		if err != nil || string(text) != tc.response || got.ContentLength != int64(len(tc.response)) {
			t.Errorf("%s: got %q with the length %d, %v, want every byte", tc.name, text, got.ContentLength, err)
		}
		asked := s.upstream.one(t)
		if strings.HasSuffix(tc.name, "off") && strings.Contains(asked.body, "stream_options") {
			t.Errorf("%s: the gateway got %s", tc.name, asked.body)
		}
		if tc.name == "no preset" && asked.body != tc.body || tc.body == no && !strings.Contains(asked.body, `"include_usage":false`) {
			t.Errorf("%s: the gateway got %s", tc.name, asked.body)
		}
	}
}

// TestStreamUsageArrivesAtOnce checks that events reach the client before the next is sent.
func TestStreamUsageArrivesAtOnce(t *testing.T) {
	s := start(t, inferring(streamAdding))
	s.preset("writer", writer)
	next := s.upstream.streamed(streamContent, streamContent, streamUsage, streamEnd)
	got := s.openStream(streamAsking)
	for i, want := range []string{streamContent, streamContent, "", streamEnd} {
		if i > 0 {
			next <- struct{}{}
		}
		text := make([]byte, len(want))
		if _, err := io.ReadFull(got.Body, text); err != nil || string(text) != want {
			t.Fatalf("got %q, %v, want %q", text, err, want)
		}
	}
}

// TestStreamUsageOfABrokenStream checks that all bytes pass that came before the gateway broke
// off.
func TestStreamUsageOfABrokenStream(t *testing.T) {
	s := start(t, inferring(streamAdding))
	s.preset("writer", writer)
	const cut = streamContent + "data: {\"choices\": ["
	s.upstream.answers(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, cut)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	got := s.openStream(streamAsking)
	if text, err := io.ReadAll(got.Body); err == nil || string(text) != cut {
		t.Errorf("got %q, %v, want %q and an error", text, err, cut)
	}
}
