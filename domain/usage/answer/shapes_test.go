package answer

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// shapes are answers as the official clients' types describe them: openai 7.57.0,
// @anthropic-ai/sdk 1.12.0 and @openrouter/sdk 1.3.19. Those of LiteLLM were recorded from 1.108.7. content is the text that ends in the
// event with the first content.
var shapes = []struct {
	file    string
	seen    Seen
	content string
}{
	{"chat/openai.json", Seen{Model: gpt, Tokens: Tokens{194, 57, 128, 0, 32}}, ""},
	{"chat/openrouter.json", Seen{Model: routed, Tokens: used, Cost: "0.00095"}, ""},
	{"chat/openrouter-own-key.json", Seen{Model: routed, Tokens: used, Cost: "0.0009975"}, ""},
	{"chat/error.json", Seen{Failed: true, Bare: true}, ""},
	{"chat/openai.sse", Seen{Model: gpt, Tokens: Tokens{194, 57, 128, 0, 32}}, `"Hello"`},
	{"chat/openai-no-usage.sse", Seen{Model: gpt, Unknown: Absent}, `"Hello"`},
	{"chat/openai-tools.sse", Seen{Model: gpt, Tokens: Tokens{194, 57, 128, 0, 32}}, `{\"`},
	{"chat/openai-custom-tool.sse", Seen{Model: gpt, Tokens: Tokens{194, 57, 128, 0, 32}}, `"print"`},
	{"chat/openai-function-call.sse", Seen{Model: gpt, Tokens: Tokens{194, 57, 128, 0, 32}}, `"{}"`},
	{"chat/openai-refusal.sse", Seen{Model: gpt, Tokens: Tokens{194, 57, 128, 0, 32}}, "sorry"},
	{"chat/openai-audio.sse", Seen{Model: gpt, Tokens: Tokens{194, 57, 128, 0, 32}}, `"Hi"`},
	{"chat/openrouter.sse", Seen{Model: routed, Tokens: used, Cost: "0.00095"}, "Let me"},
	{"chat/openrouter-reasoning-details.sse", Seen{Model: routed, Tokens: used, Cost: "0.00095"}, "Think"},
	{"chat/openrouter-error.sse", Seen{Model: routed, Failed: true}, `"He"`},
	{"chat/mistral-parts.sse", Seen{Model: gpt, Tokens: Tokens{Input: 7, Output: 3}}, "Hm"},
	{"chat/deepseek.sse", Seen{Model: gpt, Tokens: Tokens{Input: 7, Output: 3}}, "First"},
	{"chat/vllm-continuous.sse", Seen{Model: gpt, Tokens: Tokens{Input: 7, Output: 3}}, `"a"`},

	{"chat/litellm.sse", Seen{Model: "cheap", Tokens: Tokens{Input: 100, Output: 50}, Cost: "0.000125"}, `"Hi"`},

	{"responses/openai.json", Seen{Model: gpt, Tokens: used}, ""},
	{"responses/openrouter.json", Seen{Model: routed, Tokens: used, Cost: "0.00095"}, ""},
	{"responses/incomplete.json", Seen{Model: gpt, Tokens: used}, ""},
	{"responses/failed.json", Seen{Model: gpt, Failed: true}, ""},
	{"responses/queued.json", Seen{Model: gpt, Unknown: Absent}, ""},
	{"responses/error.json", Seen{Failed: true, Bare: true}, ""},
	{"responses/openai.sse", Seen{Model: gpt, Tokens: used}, `"Hel"`},
	{"responses/openai-unnamed.sse", Seen{Model: gpt, Tokens: used}, `"Hel"`},
	{"responses/openrouter.sse", Seen{Model: routed, Tokens: used, Cost: "0.00095"}, `"Hi"`},
	{"responses/litellm.sse", Seen{Model: "cheap", Tokens: Tokens{Input: 100, Output: 50}, Cost: "0.000125"}, `"delta":"Hi"`},
	{"responses/incomplete.sse", Seen{Model: gpt, Tokens: used}, `"Hel"`},
	{"responses/failed.sse", Seen{Model: gpt, Failed: true}, `"Hel"`},
	{"responses/failed-usage.sse", Seen{Model: gpt, Tokens: used, Failed: true}, `"Hel"`},
	{"responses/error.sse", Seen{Model: gpt, Failed: true}, ""},
	{"responses/every-event.sse", Seen{Model: gpt, Tokens: used}, `"delta":"Think"`},

	{"messages/anthropic.json", Seen{Model: claude, Tokens: used}, ""},
	{"messages/openrouter.json", Seen{Model: "anthropic/claude-sonnet-5", Tokens: used, Cost: "0.0273"}, ""},
	{"messages/error.json", Seen{Failed: true, Bare: true}, ""},
	{"messages/anthropic.sse", Seen{Model: claude, Tokens: used}, "Hello"},
	{"messages/anthropic-nulls.sse", Seen{Model: claude, Tokens: used}, "Hello"},
	{"messages/anthropic-cumulative.sse", Seen{Model: claude, Tokens: used}, "Hello"},
	{"messages/unnamed.sse", Seen{Model: claude, Tokens: used}, "Hello"},
	{"messages/typeless.sse", Seen{Model: claude, Tokens: used}, "Hello"},
	{"messages/error.sse", Seen{Model: claude, Tokens: Tokens{194, 1, 128, 40, 0}, Failed: true}, `"He"`},
	{"messages/every-event.sse", Seen{Model: claude, Tokens: used}, "Let me"},

	{"images/openai.json", Seen{Tokens: drawn}, ""},
	{"images/openai-no-usage.json", Seen{Unknown: Absent}, ""},
	{"images/openrouter.json", Seen{Tokens: drawn, Cost: "0.0412"}, ""},
	{"images/openai.sse", Seen{Tokens: drawn}, ""},
	{"images/openrouter.sse", Seen{Tokens: drawn, Cost: "0.0412"}, ""},
}

const (
	gpt    = "gpt-5-mini-2025-08-07"
	routed = "openai/gpt-5-mini"
	claude = "claude-sonnet-5-20260601"
)

// used is the usage of the answers in testdata. Messages counts 26 of the tokens apart from
// the cache.
var used = Tokens{Input: 194, Output: 57, CacheRead: 128, CacheWrite: 40, Reasoning: 32}

// drawn is the usage of the answers with images.
var drawn = Tokens{Input: 194, Output: 57}

// shape returns an answer of testdata, its dialect and its Content-Type.
func shape(tb testing.TB, file string) (domain.Dialect, string, []byte) {
	tb.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", filepath.FromSlash(file)))
	if err != nil {
		tb.Fatal(err)
	}
	var d domain.Dialect
	dialect, _, _ := strings.Cut(file, "/")
	if err := d.UnmarshalText([]byte(dialect)); err != nil || !d.Valid() && d != domain.Images {
		tb.Fatalf("%s: no dialect: %v", file, err)
	}
	if strings.HasSuffix(file, ".sse") {
		return d, sseType, body
	}
	return d, jsonType, body
}

func TestShapes(t *testing.T) {
	tier.Slow(t)
	tested := map[string]bool{}
	for _, test := range shapes {
		tested[test.file] = true
		t.Run(test.file, func(t *testing.T) {
			d, contentType, body := shape(t, test.file)
			want := test.seen
			want.Streamed = contentType == sseType
			want.Ended = want.Streamed // each stream has its last event
			single := readCut(d, contentType, "", body, true, one)
			if test.content != "" {
				at := bytes.Index(body, []byte(test.content))
				at += bytes.Index(body[at:], []byte("\n\n")) + 2
				want.FirstContent = epoch.Add(time.Duration(at) * time.Millisecond)
			}
			if single != want {
				t.Errorf("seen\n%+v, want\n%+v", single, want)
			}
			for cuts := range uint64(8) {
				check(t, d, contentType, body, true, cuts)
			}
			for n := range len(body) { // cut anywhere
				if n%37 == 0 || n > len(body)-20 {
					check(t, d, contentType, body[:n], false, uint64(n))
					check(t, d, contentType, body[:n], true, uint64(n))
				}
			}
			if contentType == sseType {
				check(t, d, contentType, bytes.ReplaceAll(body, []byte("\n"), []byte("\r\n")), true, 1)
			}
			for encoding, encode := range encoders {
				seen := readCut(d, contentType, encoding, encode(t, body), true, one)
				if content := seen.FirstContent.IsZero(); content != want.FirstContent.IsZero() {
					t.Errorf("%s: first content at %v, want %v", encoding, seen.FirstContent, want.FirstContent)
				}
				if seen.FirstContent = want.FirstContent; seen != want {
					t.Errorf("%s: seen\n%+v, want\n%+v", encoding, seen, want)
				}
			}
		})
	}
	files, err := filepath.Glob("testdata/*/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := strings.TrimPrefix(filepath.ToSlash(file), "testdata/")
		if !tested[name] && !strings.HasPrefix(name, "fuzz/") {
			t.Errorf("%s has no test", name)
		}
	}
}

// flusher is a writer of a content encoding.
type flusher interface {
	io.WriteCloser
	Flush() error
}

// encoders encode a body, flushed in the middle.
var encoders = map[string]func(testing.TB, []byte) []byte{
	"gzip": encodeWith(func(w io.Writer) flusher { return gzip.NewWriter(w) }),
	"br":   encodeWith(func(w io.Writer) flusher { return brotli.NewWriter(w) }),
	"zstd": encodeWith(func(w io.Writer) flusher {
		e, _ := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
		return e
	}),
}

func encodeWith(open func(io.Writer) flusher) func(testing.TB, []byte) []byte {
	return func(tb testing.TB, body []byte) []byte {
		tb.Helper()
		var out bytes.Buffer
		w := open(&out)
		half := len(body) / 2
		for _, piece := range [][]byte{body[:half], body[half:]} {
			if _, err := w.Write(piece); err != nil {
				tb.Fatal(err)
			}
			if err := w.Flush(); err != nil {
				tb.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			tb.Fatal(err)
		}
		return out.Bytes()
	}
}

// TestCostOf reads costs of a header as LiteLLM and others may write them.
func TestCostOf(t *testing.T) {
	for header, want := range map[string]string{
		"0.000125": "0.000125", "2.4999999999999998e-05": "0.000024999999999999998", "0": "0", "0.0": "0", "1E2": "100", "7": "7",
		"": "", "None": "", "nan": "", "NaN": "", "inf": "", "-inf": "", "Infinity": "", "-1": "", "-0.1": "", "+1": "", ".5": "", "1.": "", "01": "",
		"0x10": "", "1_000": "", "1,5": "", "1 2": "", `"1"`: "", "true": "", "[1]": "", "1e400": "", "1e-400": "", "1e99999999999": "",
		"0.0000000000000000000000000000000000000000000000000000000000000000000001": "", // longer than is read
	} {
		if got := CostOf(http.Header{costHeader: {header}}); got != want {
			t.Errorf("%q: got %q, want %q", header, got, want)
		}
	}
	for _, told := range [][]string{nil, {"1", "1"}} {
		if got := CostOf(http.Header{costHeader: told}); got != "" {
			t.Errorf("%q: got %q, want none", told, got)
		}
	}
}

// TestModelOfAStream has a stream in which the gateway's name of the model and the provider's
// alternate. The gateway's counts, as in its other answers.
func TestModelOfAStream(t *testing.T) {
	for name, tc := range map[string]struct {
		dialect domain.Dialect
		stream  string
		want    string
	}{
		"chat": {domain.Chat, `data: {"model":"alias","choices":[]}` + "\n\n" + `data: {"model":"theirs","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}` + "\n\n", "alias"},
		"responses": {domain.Responses, `data: {"type":"response.created","model":"alias","response":{"model":"theirs"}}` + "\n\n" +
			`data: {"type":"response.output_text.delta","delta":"x"}` + "\n\n" + `data: {"type":"response.completed","response":{"model":"theirs"},"model":"alias"}` + "\n\n", "alias"},
		"responses, the last word": {domain.Responses, `data: {"type":"response.created","response":{"model":"asked"}}` + "\n\n" + `data: {"type":"response.completed","response":{"model":"ran"}}` + "\n\n", "ran"},
		"responses, no last word":  {domain.Responses, `data: {"type":"response.created","response":{"model":"asked"}}` + "\n\n" + `data: {"type":"response.completed","response":{}}` + "\n\n", "asked"},
		"responses, the other way": {domain.Responses, `data: {"type":"response.created","response":{"model":"theirs"},"model":"alias"}` + "\n\n" + `data: {"type":"response.completed","model":"alias","response":{"model":"theirs"}}` + "\n\n", "alias"},
		"messages":                 {domain.Messages, `data: {"type":"message_start","model":"alias","message":{"model":"theirs"}}` + "\n\n", "alias"},
		"messages, the provider's": {domain.Messages, `data: {"type":"message_start","message":{"model":"theirs"}}` + "\n\n", "theirs"},
		"messages, null":           {domain.Messages, `data: {"type":"message_start","model":null,"message":{"model":"theirs"}}` + "\n\n", "theirs"},
	} {
		r := New(tc.dialect, sseType, "")
		r.Write([]byte(tc.stream), epoch)
		if got := r.Close(true).Model; got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}
