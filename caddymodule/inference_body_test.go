package caddymodule

import (
	"bytes"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// knownEncodings are a Content-Encoding of each coding.
var knownEncodings = []string{"gzip", "x-gzip", "zstd"}

// withoutSize encodes a text in zstd with a window, and without its size.
func withoutSize(t testing.TB, text string, window int) string {
	t.Helper()
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(window))
	if err != nil {
		t.Fatal(err)
	}
	for i := range text { // the size is not known at the first byte
		_, _ = io.WriteString(w, text[i:i+1])
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestContentEncodings sends bodies in each content coding. One with a reference is resolved, and
// goes up as it is. One without goes up as it was sent. What cannot be decoded is refused.
func TestContentEncodings(t *testing.T) {
	tier.NoRace(t)
	s := start(t, inferring("max_body_size 1MB"))
	s.preset("writer", writer)
	const body = `{"model":"@preset/writer@1","input":"hi"}`
	const merged = `{"model":"openai/gpt-5","input":"hi","temperature":0.70,"max_output_tokens":100,"include":["reasoning.encrypted_content"],"instructions":"Be brief."}`
	const refused = "refused"
	type test struct{ name, coding, sent, want string }
	zipped := caddytest.Gzip(body)
	tests := []test{
		{"in capitals", "GZIP", zipped, merged},
		{"two members", "gzip", caddytest.Gzip(body[:20]) + caddytest.Gzip(body[20:]), merged},
		{"two frames", "zstd", caddytest.Encode(t, "zstd", body[:20]) + caddytest.WithSize(t, body[20:]), merged},
		{"a skipped frame", "zstd", "\x51\x2a\x4d\x18\x03\x00\x00\x00abc" + caddytest.WithSize(t, body), merged},
		{"zstd with its size", "zstd", caddytest.WithSize(t, body, zstd.WithSingleSegment(true)), merged},
		{"the largest window", "zstd", withoutSize(t, body, 8<<20), merged},
		{"a larger window", "zstd", withoutSize(t, body, 16<<20), refused},
		{"a larger window in the second frame", "zstd", withoutSize(t, body[:20], 2<<20) + withoutSize(t, body[20:], 4<<20), refused},
		{"no JSON", "gzip", caddytest.Gzip("preset"), ""},
		{"empty", "gzip", "", ""},
		{"empty, not known", "compress", "", ""},
		{"identity", "identity", body, merged},
		{"nothing", "", body, merged},

		{"broken", "gzip", zipped[:len(zipped)-9], refused},
		{"wrong sum", "gzip", zipped[:len(zipped)-8] + "\x00\x00\x00\x00" + zipped[len(zipped)-4:], refused},
		{"more behind", "gzip", zipped + "x", refused},
		{"not compressed", "gzip", body, refused},
		{"another coding", "compress", body, refused},
		{"two codings", "gzip, zstd", zipped, refused},
		{"br", "br", body, refused},
		{"a parameter", "gzip;q=1", zipped, refused},
	}
	for _, coding := range knownEncodings {
		encoded := caddytest.Encode(t, coding, body)
		tests = append(tests,
			test{"with a reference", coding, encoded, merged},
			test{"without one", coding, caddytest.Encode(t, coding, `{"model":"m"}`), ""},
			test{"empty text", coding, caddytest.Encode(t, coding, ""), ""},
			test{"cut", coding, encoded[:len(encoded)-1], refused},
			test{"more behind", coding, encoded + "x", refused},
			test{"another", coding, `{"model":"m"}`, refused},
		)
	}
	for i, tc := range tests {
		framed := post(responsesPath, tc.sent, bearer(inferenceSecret), "Content-Encoding: "+tc.coding)
		if i%2 == 0 {
			framed = postChunked(responsesPath, tc.sent, nil, bearer(inferenceSecret), "Content-Encoding: "+tc.coding)
		}
		r := exchange(t, s.address, framed)
		if tc.want == refused {
			r.want(t, http.StatusUnsupportedMediaType, `{"error":{"code":415,"type":"invalid_prompt","message":"Unsupported content encoding: `)
			if got := r.header.Get("Accept-Encoding"); got != "zstd, gzip" {
				t.Errorf("%s, %s: got Accept-Encoding %q", tc.name, tc.coding, got)
			}
			s.upstream.none(t)
			continue
		}
		r.want(t, http.StatusAccepted)
		got := s.upstream.one(t)
		want, coding := tc.want, strings.TrimSpace(tc.coding)
		switch {
		case want == "":
			want = tc.sent
		case !slices.Contains([]string{"identity", ""}, coding):
			coding = ""
		}
		if got.body != want || got.header.Get("Content-Encoding") != coding {
			t.Errorf("%s, %s: got %q in %q, want %q in %q", tc.name, tc.coding, got.body, got.header.Get("Content-Encoding"), want, coding)
		}
		if resolved := r.header.Get("X-Preset") != ""; resolved != (tc.want != "") {
			t.Errorf("%s, %s: got X-Preset %q", tc.name, tc.coding, r.header.Get("X-Preset"))
		}
	}

	// The refusal names the coding, in the form of the route.
	s.ask(messagesPath, body, "Content-Encoding: snappy").want(t, 415, `{"type":"error","error":{"type":"invalid_request_error","message":"Unsupported content encoding: \"snappy\": send the body in zstd or gzip, or as it is"}}`)
	s.ask(chatPath, body, "Content-Encoding: gzip").want(t, 415, `{"error":{"code":415,"message":"Unsupported content encoding: the body is not valid gzip"`)
	s.ask(countResponsesPath, body, "Content-Encoding: "+strings.Repeat("é", 100), "Content-Encoding: gzip").want(t, 415, `Unsupported content encoding: \"\\u00e9`)
	s.upstream.none(t)
	s.wantNothingHeld()
}

// TestEncodedBombs checks that a compression bomb takes no more memory than the limit.
func TestEncodedBombs(t *testing.T) {
	tier.Slow(t)
	s := start(t, inferring("max_body_size 1MB"))
	for _, coding := range []string{"gzip", "zstd"} {
		bomb := caddytest.Encode(t, coding, strings.Repeat("\x00", 100<<20))
		runtime.GC() // frees what a coding takes to encode
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s.ask(responsesPath, bomb, "Content-Encoding: "+coding).want(t, 413, "Request payload too large")
		runtime.ReadMemStats(&after)
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 30<<20 {
			t.Errorf("refusing a bomb of %d bytes in %s took %d bytes of memory", len(bomb), coding, grown)
		}
	}
	s.ask(responsesPath, caddytest.WithSize(t, strings.Repeat("\x00", 100<<20)), "Content-Encoding: zstd").want(t, 413)
	s.upstream.none(t)
	s.wantNothingHeld()
}

// TestEncodedBodiesAreJudged checks that a body is judged by its text, where a key is limited or
// tools are disabled. It goes up as it was sent.
func TestEncodedBodiesAreJudged(t *testing.T) {
	s := start(t, inferring())
	limited := s.issue(`{"kind":"inference","models":["good"]}`).secret
	s.manage("PATCH", "/v1/workspaces/default", `{"disabled_server_tools":["openrouter:web_search"]}`).want(t, 200)
	for _, coding := range knownEncodings {
		encoding := "Content-Encoding: " + coding
		for body, status := range map[string]int{
			`{"model":"good"}`: 202, `{"model":"evil"}`: 403, `{"model":"good","tools":[{"type":"web_search"}]}`: 403, `{"model":"good"} x`: 400,
		} {
			sent := caddytest.Encode(t, coding, body)
			s.do("POST", chatPath, sent, bearer(limited), encoding).want(t, status)
			if status != 202 {
				s.upstream.none(t)
			} else if got := s.upstream.one(t); got.body != sent || got.header.Get("Content-Encoding") != coding {
				t.Errorf("%s: the gateway got %q in %q", coding, got.body, got.header.Get("Content-Encoding"))
			}
		}
	}
}

// TestDecodersFitIntoLittleMemory decodes the largest bodies within the least max_memory.
func TestDecodersFitIntoLittleMemory(t *testing.T) {
	s := start(t, inferring("max_body_size 1MiB", "max_memory 4MiB"))
	s.preset("writer", writer)
	for _, coding := range []string{"gzip", "zstd"} {
		body := bodyOf("@preset/writer", 1<<20-100)
		s.ask(chatPath, caddytest.Encode(t, coding, body), "Content-Encoding: "+coding).want(t, 202)
		if got := s.upstream.one(t); len(got.body) < 1<<20-100 {
			t.Errorf("%s: the gateway got %d bytes", coding, len(got.body))
		}
	}
	s.wantNothingHeld()
}
