package caddymodule

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// knownEncodings are a Content-Encoding of each coding, and of several.
var knownEncodings = []string{"gzip", "x-gzip", "deflate", "br", "zstd", "gzip, zstd", "br,deflate", "zstd, identity, gzip , br"}

// encode encodes a text as a Content-Encoding says.
func encode(t testing.TB, codings, text string) string {
	t.Helper()
	for coding := range strings.SplitSeq(codings, ",") {
		var out bytes.Buffer
		var w io.WriteCloser
		switch strings.ToLower(strings.TrimSpace(coding)) {
		case "identity":
			continue
		case "gzip", "x-gzip":
			text = gzipped(text)
			continue
		case "deflate":
			w = zlib.NewWriter(&out)
		case "br":
			w = brotli.NewWriterLevel(&out, 2)
		case "zstd":
			encoder, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithLowerEncoderMem(true)) // it does not tell the size
			if err != nil {
				t.Fatal(err)
			}
			w = encoder
		default:
			t.Fatalf("no such coding: %q", coding)
		}
		_, _ = io.WriteString(w, text)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		text = out.String()
	}
	return text
}

// withSize encodes a text in zstd, with its size.
func withSize(t testing.TB, text string, options ...zstd.EOption) string {
	t.Helper()
	encoder, err := zstd.NewWriter(nil, options...)
	if err != nil {
		t.Fatal(err)
	}
	return string(encoder.EncodeAll([]byte(text), nil))
}

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
	s := start(t, inferring("max_body_size 1MB"))
	s.preset("writer", writer)
	const body = `{"model":"@preset/writer@1","input":"hi"}`
	const merged = `{"model":"openai/gpt-5","input":"hi","temperature":0.70,"max_output_tokens":100,"include":["reasoning.encrypted_content"],"instructions":"Be brief."}`
	const refused = "refused"
	type test struct{ name, coding, sent, want string }
	zipped := gzipped(body)
	tests := []test{
		{"in capitals", "GZIP", zipped, merged},
		{"two members", "gzip", gzipped(body[:20]) + gzipped(body[20:]), merged},
		{"two frames", "zstd", encode(t, "zstd", body[:20]) + withSize(t, body[20:]), merged},
		{"a skipped frame", "zstd", "\x51\x2a\x4d\x18\x03\x00\x00\x00abc" + withSize(t, body), merged},
		{"zstd with its size", "zstd", withSize(t, body, zstd.WithSingleSegment(true)), merged},
		{"the largest window", "zstd", withoutSize(t, body, 8<<20), merged},
		{"a larger window", "zstd", withoutSize(t, body, 16<<20), refused},
		{"a larger window in the second frame", "zstd", withoutSize(t, body[:20], 2<<20) + withoutSize(t, body[20:], 4<<20), refused},
		{"no JSON", "gzip", gzipped("preset"), ""},
		{"empty", "gzip", "", ""},
		{"empty, not known", "compress", "", ""},
		{"identity", "identity", body, merged},
		{"nothing", "", body, merged},
		{"commas alone", " , ,", body, merged},

		{"broken", "gzip", zipped[:len(zipped)-9], refused},
		{"wrong sum", "gzip", zipped[:len(zipped)-8] + "\x00\x00\x00\x00" + zipped[len(zipped)-4:], refused},
		{"more behind", "gzip", zipped + "x", refused},
		{"once, not twice", "gzip, gzip", zipped, refused},
		{"the wrong order", "zstd, gzip", encode(t, "gzip, zstd", body), refused},
		{"not compressed", "gzip", body, refused},
		{"a dictionary", "deflate", "\x78\xbb" + encode(t, "deflate", body)[2:], refused},
		{"a larger window than there is", "br", "\x11\x1e" + encode(t, "br", body), refused},
		{"another coding", "compress", body, refused},
		{"another coding among others", "gzip, Snappy, br", zipped, refused},
		{"a parameter", "gzip;q=1", zipped, refused},
		{"too often", "gzip, gzip, gzip, gzip", encode(t, "gzip, gzip, gzip, gzip", body), refused},
	}
	for _, coding := range knownEncodings {
		encoded := encode(t, coding, body)
		tests = append(tests,
			test{"with a reference", coding, encoded, merged},
			test{"without one", coding, encode(t, coding, `{"model":"m"}`), ""},
			test{"empty text", coding, encode(t, coding, ""), ""},
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
			if got := r.header.Get("Accept-Encoding"); got != "zstd, br, gzip, deflate" {
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
		case !slices.Contains([]string{"identity", "", ", ,"}, coding):
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
	s.ask(messagesPath, body, "Content-Encoding: snappy").want(t, 415, `{"type":"error","error":{"type":"invalid_request_error","message":"Unsupported content encoding: \"snappy\": send the body in zstd, br, gzip or deflate, or as it is"}}`)
	s.ask(chatPath, body, "Content-Encoding: gzip, br").want(t, 415, `{"error":{"code":415,"message":"Unsupported content encoding: the body is not valid br"`)
	s.ask(countResponsesPath, body, "Content-Encoding: gzip", "Content-Encoding: "+strings.Repeat("é", 100)).want(t, 415, `Unsupported content encoding: \"\\u00e9`)
	s.upstream.none(t)
	s.wantNothingHeld()
}

// TestEncodedBombs checks that a compression bomb takes no more memory than the limit.
func TestEncodedBombs(t *testing.T) {
	tier.Slow(t)
	s := start(t, inferring("max_body_size 1MB"))
	for _, coding := range []string{"gzip", "deflate", "br", "zstd", "zstd, gzip", "gzip, zstd"} {
		bomb := encode(t, coding, strings.Repeat("\x00", 100<<20))
		runtime.GC() // frees what a coding takes to encode
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s.ask(responsesPath, bomb, "Content-Encoding: "+coding).want(t, 413, "Request payload too large")
		runtime.ReadMemStats(&after)
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 30<<20 {
			t.Errorf("refusing a bomb of %d bytes in %s took %d bytes of memory", len(bomb), coding, grown)
		}
	}
	s.ask(responsesPath, withSize(t, strings.Repeat("\x00", 100<<20)), "Content-Encoding: zstd").want(t, 413)
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
			sent := encode(t, coding, body)
			s.do("POST", chatPath, sent, bearer(limited), encoding).want(t, status)
			if status != 202 {
				s.upstream.none(t)
			} else if got := s.upstream.one(t); got.body != sent || got.header.Get("Content-Encoding") != coding {
				t.Errorf("%s: the gateway got %q in %q", coding, got.body, got.header.Get("Content-Encoding"))
			}
		}
	}
}

// TestDecodedMemory decodes bodies, of which some tell a wrong size. Just the memory that a text
// takes stays reserved.
func TestDecodedMemory(t *testing.T) {
	const limit = 140_000
	text := strings.Repeat("x", 100_000)
	lying := func(size uint32) string {
		packed := []byte(gzipped(text))
		return string(binary.LittleEndian.AppendUint32(packed[:len(packed)-4], size))
	}
	sized := []byte(withSize(t, text))
	if sized[4]>>6 != 2 {
		t.Fatalf("the size has another length: %x", sized[:16])
	}
	// lyingFrame tells another size, in the four bytes behind the descriptor and the window.
	lyingFrame := func(size uint32) string {
		frame := bytes.Clone(sized)
		at := 5
		if frame[4]&1<<5 == 0 {
			at++
		}
		binary.LittleEndian.PutUint32(frame[at:], size)
		return string(frame)
	}
	type test struct {
		name, coding, sent, want string
		err                      error
	}
	tests := []test{
		{"two members", "gzip", gzipped(text) + gzipped("y"), text + "y", nil},
		{"two members, the second larger", "gzip", gzipped("y") + gzipped(text), "y" + text, nil},
		{"empty last member", "gzip", gzipped(text) + gzipped(""), text, nil},
		{"two members, too large", "gzip", gzipped(text) + gzipped(text), "", errTooLarge},
		{"more than there is", "gzip", lying(0xffffffff), "", errBroken},
		{"less than there is", "gzip", lying(1), "", errBroken},
		{"its size", "zstd", string(sized), text, nil},
		{"two frames", "zstd", string(sized) + withSize(t, "y"), text + "y", nil},
		{"two frames, the second larger", "zstd", withSize(t, "y") + string(sized), "y" + text, nil},
		{"an empty frame before", "zstd", withSize(t, "", zstd.WithZeroFrames(true)) + string(sized), text, nil},
		{"two frames, too large", "zstd", string(sized) + string(sized), "", errTooLarge},
		{"more than there is", "zstd", lyingFrame(100_001), "", errBroken},
		{"less than there is", "zstd", lyingFrame(99_999), "", errBroken},
		{"far more than there is", "zstd", lyingFrame(0xffffffff), "", errBroken},
		{"its size, too large", "zstd", withSize(t, strings.Repeat("x", limit+1)), "", errTooLarge},
		{"a huge window", "zstd", "\x28\xb5\x2f\xfd\x00\xf0\x01\x00\x00", "", errBroken},
		{"none", "gzip", "\x1f", "", errBroken},
		{"none", "zstd", "\x28", "", errBroken},
		{"none", "br", "\xff", "", errBroken},
		{"none", "deflate", "\x78", "", errBroken},
	}
	for coding := range bodyDecoders {
		tests = append(tests,
			test{"plain", coding, encode(t, coding, text), text, nil},
			test{"empty", coding, encode(t, coding, ""), "", nil},
			test{"of the largest size", coding, encode(t, coding, strings.Repeat("x", limit)), strings.Repeat("x", limit), nil},
			test{"a byte too large", coding, encode(t, coding, strings.Repeat("x", limit+1)), "", errTooLarge},
			test{"cut", coding, encode(t, coding, text)[:10], "", errBroken},
		)
	}
	for _, tc := range tests {
		m := &reservation{limit: 32 << 20}
		got, err := decodeFrom(tc.coding, m, []byte(tc.sent), limit)
		if _, broken := errors.AsType[*codingError](err); broken != errors.Is(tc.err, errBroken) || !broken && !errors.Is(err, tc.err) || string(got) != tc.want {
			t.Errorf("%s, %s: got %d bytes, %v, want %d, %v", tc.coding, tc.name, len(got), err, len(tc.want), tc.err)
		}
		if m.held.Load() != int64(cap(got)) || cap(got) > max(len(tc.want), 100_000)+1 {
			t.Errorf("%s, %s: %d bytes are reserved, and %d taken, for %d", tc.coding, tc.name, m.held.Load(), cap(got), len(tc.want))
		}
		m.release()
	}
	// Without memory a text is refused, and nothing stays reserved.
	for coding := range bodyDecoders {
		m := &reservation{limit: 70_000}
		if _, err := decodeFrom(coding, m, []byte(encode(t, coding, text)), limit); !errors.Is(err, errTooLarge) || m.held.Load() != 0 {
			t.Errorf("%s: got %v without memory, and %d bytes are reserved", coding, err, m.held.Load())
		}
	}
	// The memory of a decoder counts while it decodes.
	other := &reservation{limit: 32 << 20}
	if err := other.add(31 << 20); err != nil {
		t.Fatal(err)
	}
	for coding, want := range map[string]error{"gzip": nil, "deflate": nil, "br": errNoMemory, "zstd": errNoMemory} {
		m := &reservation{limit: 32 << 20}
		if _, err := decodeFrom(coding, m, []byte(encode(t, coding, "text")), limit); !errors.Is(err, want) {
			t.Errorf("%s: got %v beside others, want %v", coding, err, want)
		}
		m.release()
	}
	other.release()
	if held() != 0 {
		t.Errorf("%d bytes are held", held())
	}
}

// TestDecodersFitIntoLittleMemory decodes the largest bodies within the least max_memory.
func TestDecodersFitIntoLittleMemory(t *testing.T) {
	s := start(t, inferring("max_body_size 1MiB", "max_memory 4MiB"))
	s.preset("writer", writer)
	for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
		body := bodyOf("@preset/writer", 1<<20-100)
		s.ask(chatPath, encode(t, coding, body), "Content-Encoding: "+coding).want(t, 202)
		if got := s.upstream.one(t); len(got.body) < 1<<20-100 {
			t.Errorf("%s: the gateway got %d bytes", coding, len(got.body))
		}
	}
	s.wantNothingHeld()
}

// errBroken stands for any *codingError.
var errBroken = errors.New("broken")

// TestBrotliMemory compares the reserved window with that of streams.
func TestBrotliMemory(t *testing.T) {
	for bits := 10; bits <= 24; bits++ {
		var out bytes.Buffer
		w := brotli.NewWriterOptions(&out, brotli.WriterOptions{Quality: 5, LGWin: bits})
		_, _ = io.WriteString(w, "text")
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if got := brotliMemory(out.Bytes()[0]); got != 3<<20+1<<bits {
			t.Errorf("%d bits: got %d bytes", bits, got)
		}
	}
}

// FuzzEncodedBody decodes anything. What is reserved at the end is what the text takes.
func FuzzEncodedBody(f *testing.F) {
	for coding := range bodyDecoders {
		f.Add(coding, []byte(encode(f, coding, `{"model":"@preset/writer"}`)))
	}
	f.Fuzz(func(t *testing.T, coding string, sent []byte) {
		const limit = 64 << 10
		c := &inferenceCall{call: call{r: &http.Request{Header: http.Header{"Content-Encoding": {coding}}}}}
		c.held = &heldBody{reservation: reservation{limit: 32 << 20}}
		defer c.held.release()
		text, unpacked, err := c.decodeBody(sent, limit)
		_, refused := errors.AsType[*statusError](err)
		_, broken := errors.AsType[*codingError](err)
		switch {
		case err != nil && (!refused && !broken || text != nil || unpacked):
			t.Errorf("got %q, %t, %v", text, unpacked, err)
		case unpacked && len(text) > limit:
			t.Errorf("got %d bytes", len(text))
		}
		want := int64(0)
		if unpacked {
			want = int64(cap(text))
		}
		if got := c.held.held.Load(); got != want {
			t.Errorf("%d bytes are reserved, want %d", got, want)
		}
	})
}

// TestDecodersFail checks that a decoder which panics refuses the body alone.
func TestDecodersFail(t *testing.T) {
	bodyDecoders["panics"] = func(m *reservation, _ []byte, _ int64) ([]byte, error) {
		if err := m.add(100); err != nil {
			t.Fatal(err)
		}
		panic("of the decoder")
	}
	t.Cleanup(func() { delete(bodyDecoders, "panics") })
	m := &reservation{limit: 1000}
	if err := m.add(10); err != nil {
		t.Fatal(err)
	}
	defer m.release()
	if _, err := decodeFrom("panics", m, []byte("x"), 1); fmt.Sprint(err) != "Unsupported content encoding: the body is not valid panics" || m.held.Load() != 10 {
		t.Errorf("got %v, and %d bytes are reserved", err, m.held.Load())
	}
}
