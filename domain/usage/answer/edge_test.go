package answer

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// reasons are all reasons.
var reasons = []Reason{Aborted, Absent, Encoding, Malformed, MediaType, TooLarge}

const (
	known      = `"usage":{"prompt_tokens":3,"completion_tokens":4}`
	knownEvent = "data: {" + known + "}\n\n"
)

var three = Tokens{Input: 3, Output: 4}

func TestUnknown(t *testing.T) {
	usage := func(members string) string { return `{"usage":{` + members + `}}` }
	for _, test := range []struct {
		name, contentType, encoding, body string
		complete                          bool
		want                              Reason
	}{
		{"known", jsonType, "", usage(`"prompt_tokens":3,"completion_tokens":4`), true, ""},
		{"known, although not complete", jsonType, "", usage(`"prompt_tokens":3,"completion_tokens":4`), false, ""},
		{"zero fraction", jsonType, "", usage(`"prompt_tokens":3.0,"completion_tokens":4`), true, ""},
		{"null details", jsonType, "", usage(`"prompt_tokens":3,"completion_tokens":4,"prompt_tokens_details":null`), true, ""},
		{"greatest count", jsonType, "", usage(`"prompt_tokens":1000000000000,"completion_tokens":4`), true, ""},
		{"empty body", jsonType, "", "", true, Absent},
		{"empty body, cut", jsonType, "", "", false, Aborted},
		{"no usage", jsonType, "", `{}`, true, Absent},
		{"null usage", jsonType, "", `{"usage":null}`, true, Absent},
		{"not an object", jsonType, "", `[{` + known + `}]`, true, Absent},
		{"usage deeper", jsonType, "", `{"x":{` + known + `}}`, true, Absent},
		{"usage in a text", jsonType, "", `{"x":"\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}"}`, true, Absent},
		{"cut body", jsonType, "", `{` + known, false, Aborted},
		{"cut body that claims to be whole", jsonType, "", `{` + known, true, Malformed},
		{"trailing bytes", jsonType, "", `{` + known + `}}`, true, Malformed},
		{"usage is a list", jsonType, "", `{"usage":[]}`, true, Malformed},
		{"usage is empty", jsonType, "", usage(``), true, Malformed},
		{"no output", jsonType, "", usage(`"prompt_tokens":3`), true, Malformed},
		{"null output", jsonType, "", usage(`"prompt_tokens":3,"completion_tokens":null`), true, Malformed},
		{"negative", jsonType, "", usage(`"prompt_tokens":-3,"completion_tokens":4`), true, Malformed},
		{"fraction", jsonType, "", usage(`"prompt_tokens":3.5,"completion_tokens":4`), true, Malformed},
		{"exponent", jsonType, "", usage(`"prompt_tokens":3e1,"completion_tokens":4`), true, Malformed},
		{"huge", jsonType, "", usage(`"prompt_tokens":1000000000001,"completion_tokens":4`), true, Malformed},
		{"very huge", jsonType, "", usage(`"prompt_tokens":` + strings.Repeat("9", 200) + `,"completion_tokens":4`), true, Malformed},
		{"text", jsonType, "", usage(`"prompt_tokens":"3","completion_tokens":4`), true, Malformed},
		{"bad detail", jsonType, "", usage(`"prompt_tokens":3,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":-1}`), true, Malformed},

		{"parameters", "application/json; charset=utf-8", "", `{` + known + `}`, true, ""},
		{"capitals", "Application/JSON", "", `{` + known + `}`, true, ""},
		{"json suffix", "application/problem+json", "", `{` + known + `}`, true, ""},
		{"bad parameter", "text/event-stream; x", "", knownEvent, true, ""},
		{"HTML", "text/html", "", `{` + known + `}`, true, MediaType},
		{"no type", "", "", `{` + known + `}`, true, MediaType},
		{"identity", jsonType, "identity", `{` + known + `}`, true, ""},
		{"unknown encoding", jsonType, "compress", `{` + known + `}`, true, Encoding},
		{"two encodings", jsonType, "gzip, br", `{` + known + `}`, true, Encoding},
		{"not gzip", jsonType, "gzip", `{` + known + `}`, true, Encoding},
		{"not zstd", jsonType, "zstd", `{` + known + `}`, true, Encoding},
		{"empty gzip", jsonType, "gzip", "", true, Absent},
		{"wide brotli", jsonType, "br", "\x0f", true, TooLarge},

		{"stream", sseType, "", knownEvent, true, ""},
		{"stream, not complete", sseType, "", knownEvent, false, ""},
		{"empty stream", sseType, "", "", true, Absent},
		{"empty stream, cut", sseType, "", "", false, Aborted},
		{"no empty line", sseType, "", "data: {" + known + "}", false, ""},
		{"no empty line, LF", sseType, "", "data: {" + known + "}\n", true, ""},
		{"cut event", sseType, "", "data: {" + known, false, Aborted},
		{"cut event that claims to be whole", sseType, "", "data: {" + known, true, Malformed},
		{"cut event after a whole one", sseType, "", knownEvent + "data: {" + known, false, ""},
		{"broken event", sseType, "", "data: {" + known + ",}\n\n", true, Malformed},
		{"broken event without usage", sseType, "", "data: {\n\n" + knownEvent, true, ""},
		{"broken event before a good one", sseType, "", "data: {" + known + ",}\n\n" + knownEvent, true, ""},
		{"broken event after a good one", sseType, "", knownEvent + "data: {" + known + ",}\n\n", true, Malformed},
		{"bad usage after a good one", sseType, "", knownEvent + `data: {"usage":{"prompt_tokens":-1}}` + "\n\n", true, Malformed},
		{"null usage after a good one", sseType, "", knownEvent + `data: {"usage":null}` + "\n\n", true, ""},
		{"several lines", sseType, "", "data: {\"usage\":\ndata:{\"prompt_tokens\":3,\ndata: \"completion_tokens\":4}}\n\n", true, ""},
		{"line break in a text", sseType, "", "data: {\"us\ndata: age\":{}}\n\n", true, Absent},
		{"CRLF", sseType, "", strings.ReplaceAll(": x\n"+knownEvent+knownEvent, "\n", "\r\n"), true, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			for name, next := range map[string]func(int) int{"whole": all, "in bytes": one} {
				seen := readCut(domain.Chat, test.contentType, test.encoding, []byte(test.body), test.complete, next)
				if seen.Unknown != test.want {
					t.Errorf("%s: unknown is %q, want %q", name, seen.Unknown, test.want)
				}
				if seen.Unknown != "" && seen.Tokens != (Tokens{}) {
					t.Errorf("%s: unknown tokens are %+v, want none", name, seen.Tokens)
				}
				if seen.Unknown != "" && !slices.Contains(reasons, seen.Unknown) {
					t.Errorf("%s: got reason %q, which is no label of the metric", name, seen.Unknown)
				}
			}
			if test.encoding == "" && (test.contentType == jsonType || test.contentType == sseType) {
				check(t, domain.Chat, test.contentType, []byte(test.body), test.complete, 1)
			}
		})
	}
}

// TestFailures reads errors, and other members that are not what they may be.
func TestFailures(t *testing.T) {
	const counts = `"usage":{"input_tokens":3,"output_tokens":4}`
	for name, tc := range map[string]struct {
		dialect domain.Dialect
		body    string // a stream if it begins with data
		want    Seen
	}{
		"no error":                {domain.Chat, `{"error":null,` + known + `}`, Seen{Tokens: three}},
		"a false error":           {domain.Chat, `{"error":false,` + known + `}`, Seen{Tokens: three}},
		"an error":                {domain.Chat, `{"error":"x"}`, Seen{Failed: true, Bare: true}},
		"an empty error":          {domain.Chat, `{"error":"",` + known + `}`, Seen{Tokens: three}},
		"a number for a model":    {domain.Chat, `{"model":1,` + known + `}`, Seen{Tokens: three}},
		"a failed response":       {domain.Responses, `{"status":"failed","model":"\ud83d\ude00"}`, Seen{Failed: true, Bare: true, Model: "😀"}},
		"a status that is none":   {domain.Responses, `{"status":1,` + counts + `}`, Seen{Tokens: three}},
		"a model that is no text": {domain.Chat, "{\"model\":\"a\xff\xfe\"," + known + "}", Seen{Model: "a\uFFFD\uFFFD", Tokens: three}},
		"a name in escapes":       {domain.Chat, `data: {"us\u0061ge":{"prompt_tokens":3,"completion_tokens":4}}` + "\n\n", Seen{Tokens: three}},
		"the kind, not the name":  {domain.Messages, "event: message_stop\ndata: {\"type\":\"message_delta\"," + counts + "}\n\n", Seen{Tokens: three}},
		"an error with output":    {domain.Responses, `{"error":"x","output":[]}`, Seen{Failed: true}},
		"deltas":                  {domain.Messages, `data: {"type":"message_delta",` + counts + `}` + "\n\n" + `data: {"type":"message_delta","usage":{"input_tokens":null,"output_tokens":5,"cost":"1"}}`, Seen{Tokens: Tokens{Input: 3, Output: 5}}},
	} {
		contentType := jsonType
		if !strings.HasPrefix(tc.body, "{") {
			contentType, tc.want.Streamed = sseType, true
		}
		if got := check(t, tc.dialect, contentType, []byte(tc.body), true, 1); got != tc.want {
			t.Errorf("%s: seen\n%+v, want\n%+v", name, got, tc.want)
		}
	}
}

func TestCost(t *testing.T) {
	for _, test := range []struct{ name, members, want string }{
		{"none", ``, ""},
		{"null", `,"cost":null`, ""},
		{"zero", `,"cost":0`, "0"},
		{"exact", `,"cost":0.1000000000000000055511151231257827`, "0.1000000000000000055511151231257827"},
		{"exponent", `,"cost":1.5e-7`, "0.00000015"},
		{"great exponent", `,"cost":1.5E+3`, "1500"},
		{"text", `,"cost":"1"`, ""},
		{"negative", `,"cost":-1`, ""},
		{"extreme", `,"cost":1e999999999`, ""},
		{"tiny", `,"cost":1e-999999999`, ""},
		{"overflow", `,"cost":1e99999999999999999999`, ""},
		{"long", `,"cost":0.` + strings.Repeat("1", maxDigits), ""},
		{"own key", `,"cost":0.1,"is_byok":true,"cost_details":{"upstream_inference_cost":0.2}`, "0.3"},
		{"own key, cost after", `,"cost_details":{"upstream_inference_cost":2e-1},"is_byok":true,"cost":0.1`, "0.3"},
		{"own key, no details", `,"cost":0.1,"is_byok":true`, "0.1"},
		{"own key, null", `,"cost":0.1,"is_byok":true,"cost_details":{"upstream_inference_cost":null}`, "0.1"},
		{"own key, extreme", `,"cost":0.1,"is_byok":true,"cost_details":{"upstream_inference_cost":1e999999999}`, ""},
		{"gateway's key", `,"cost":0.1,"is_byok":false,"cost_details":{"upstream_inference_cost":0.2}`, "0.1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			body := []byte(`{"usage":{"prompt_tokens":3,"completion_tokens":4` + test.members + `}}`)
			if seen := check(t, domain.Chat, jsonType, body, true, 1); seen.Cost != test.want || seen.Tokens != three {
				t.Errorf("seen cost %q and tokens %+v, want %q and %+v", seen.Cost, seen.Tokens, test.want, three)
			}
		})
	}
}

// TestLarge reads large answers, and checks that the reader holds nothing of them.
func TestLarge(t *testing.T) {
	megabyte := strings.Repeat(`\"usage\" \u00e4 {[ all that glitters `, 1<<20/38)
	text := `"x":"` + megabyte + `"`
	for _, test := range []struct {
		name, contentType string
		parts             []string
	}{
		{"event of 1 MiB", sseType, []string{"data: {" + text + ",", known, "}\n\n"}},
		{"usage after an event of 1 MiB", sseType, []string{"data: {" + text + "}\n\n", knownEvent}},
		{"body of 32 MiB", jsonType, append(slices.Repeat([]string{`{` + text + `,`}, 1), append(slices.Repeat([]string{text + `,`}, 31), known+`}`)...)},
		{"line of 32 MiB", sseType, append(slices.Repeat([]string{":" + megabyte}, 32), "\n\n"+knownEvent)},
		{"field name of 1 MiB", sseType, []string{strings.Repeat("data", 1<<18), ":\n\n" + knownEvent}},
		{"event name of 1 MiB", sseType, []string{"event: " + megabyte, "\n" + knownEvent}},
		{"key of 1 MiB", jsonType, []string{`{"` + megabyte, `":1,` + known + `}`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			pieces := make([][]byte, len(test.parts))
			for i, part := range test.parts {
				pieces[i] = []byte(part)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			r := New(domain.Chat, test.contentType, "")
			for _, piece := range pieces {
				for part := range slices.Chunk(piece, 32<<10) {
					r.Write(part, epoch)
				}
			}
			seen := r.Close(true)
			runtime.ReadMemStats(&after)
			if seen.Tokens != three || seen.Unknown != "" {
				t.Errorf("seen %+v, want %+v", seen, three)
			}
			if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 64<<10 {
				t.Errorf("allocated %d bytes in all, want at most 64 KiB", allocated)
			}
		})
	}
}

// TestBomb reads answers that decode to more than the limit.
func TestBomb(t *testing.T) {
	tier.Slow(t)
	for encoding, encode := range encoders {
		bomb := encode(t, append([]byte("{"+known+`,"x":"`), bytes.Repeat([]byte("a"), maxDecoded+1)...))
		start := time.Now()
		seen := readCut(domain.Chat, jsonType, encoding, bomb, true, all)
		if seen.Unknown != TooLarge {
			t.Errorf("%s: unknown is %q, want %q", encoding, seen.Unknown, TooLarge)
		}
		t.Logf("%s: %d bytes take %s", encoding, len(bomb), time.Since(start).Round(time.Millisecond))
	}
}

func TestEncoded(t *testing.T) {
	body := []byte("data: {\"model\":\"m\"}\n\n" + knownEvent)
	for encoding, encode := range encoders {
		encoded := encode(t, body)
		if encoding == "gzip" || encoding == "zstd" { // of several members or frames
			two := append(encode(t, body[:10]), encode(t, body[10:])...)
			if seen := readCut(domain.Chat, sseType, encoding, two, true, one); seen.Tokens != three || seen.Unknown != "" {
				t.Errorf("%s: seen %+v in two members, want %+v", encoding, seen, three)
			}
		}
		for n := range encoded {
			for _, complete := range []bool{true, false} {
				seen := readCut(domain.Chat, sseType, encoding, encoded[:n], complete, one)
				switch want := map[bool]Reason{true: Encoding, false: Aborted}[complete]; {
				case seen.Unknown == "" && seen.Tokens == three:
				case n == 0 && seen.Unknown == map[bool]Reason{true: Absent, false: Aborted}[complete]:
				case seen.Unknown != want:
					t.Errorf("%s: cut after %d bytes of %d, unknown is %q, want %q", encoding, n, len(encoded), seen.Unknown, want)
				}
			}
		}
		// A flush shows what was written before it, without waiting for more.
		r := New(domain.Chat, sseType, encoding)
		half := encode(t, append(body, body...))
		for i := range half {
			r.Write(half[i:i+1], epoch)
			if r.summary.usage.said {
				if i == len(half)-1 {
					t.Errorf("%s: nothing is decoded before the end", encoding)
				}
				break
			}
		}
		r.Close(false)
	}
	damaged := encoders["gzip"](t, body)
	damaged[len(damaged)-5]++ // the checksum
	if seen := readCut(domain.Chat, sseType, "gzip", damaged, true, one); seen.Unknown != Encoding {
		t.Errorf("wrong checksum: unknown is %q, want %q", seen.Unknown, Encoding)
	}
}

// TestEnded reads streams that break off. They have ended if their last event is there.
func TestEnded(t *testing.T) {
	const (
		chunk   = `data: {"model":"m","choices":[{"delta":{"content":"a"}}]}` + "\n\n"
		created = `data: {"type":"response.created","response":{"model":"m"}}` + "\n\n" + `data: {"type":"response.output_text.delta","delta":"a"}` + "\n\n"
		started = "event: message_start\n" + `data: {"type":"message_start","message":{"model":"m"}}` + "\n\n" +
			"event: content_block_delta\n" + `data: {"type":"content_block_delta","delta":{"text":"a"}}` + "\n\n"
	)
	for _, test := range []struct {
		dialect    domain.Dialect
		body, last string
		ended      bool
	}{
		{domain.Chat, chunk, "data: [DONE]\n\n", true},
		{domain.Chat, chunk, "data:[DONE]\r\n\r\n", true},
		{domain.Chat, chunk, "data: [DONE]", true},
		{domain.Chat, chunk, chunk + "data: [DONE]\n\n: bye\n\n", true},
		{domain.Chat, chunk, "data: [DON", false},
		{domain.Chat, chunk, "data: {\"x\":\"[DONE]\"}\n\n", false},
		{domain.Chat, chunk, ": [DONE]\n\nevent: [DONE]\n\n", false},
		{domain.Chat, chunk, `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n", false},
		{domain.Chat, chunk, `data: {"error":{"message":"x"}}` + "\n\n", false}, // [DONE] may follow
		{domain.Chat, chunk, "event: message_stop\ndata: {}\n\n", false},
		{domain.Responses, created, `data: {"type":"response.completed","response":{}}` + "\n\n", true},
		{domain.Responses, created, "event: response.incomplete\n" + `data: {"type":"response.incomplete","response":{}}` + "\n\n", true},
		{domain.Responses, created, `data: {"type":"response.failed","response":{"error":{}}}` + "\n\n", true},
		{domain.Responses, created, `data: {"type":"error","message":"x"}` + "\n\n", true},
		{domain.Responses, created, `data: {"type":"response.output_text.done"}` + "\n\n", false},
		{domain.Responses, created, `data: {"type":"response.completed","resp`, false},
		{domain.Messages, started, "event: message_stop\n" + `data: {"type":"message_stop"}` + "\n\n", true},
		{domain.Messages, started, "event: message_stop\r\n" + `data: {"amazon-bedrock-invocationMetrics":{},"type":"message_stop"}` + "\r\n\r\n", true},
		{domain.Messages, started, `data: {"type":"message_stop","x":1}` + "\n\n", true},
		{domain.Messages, started, "event: error\n" + `data: {"type":"error","error":{"type":"overloaded_error"}}` + "\n\n", true},
		{domain.Messages, started, "event: message_delta\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}` + "\n\n", false},
		{domain.Messages, started, "event: content_block_delta\n" + `data: {"type":"content_block_delta","delta":{"text":"message_stop\""}}` + "\n\n", false},
		{domain.Messages, started, "event: message_stop\n" + `data: {"typ`, false},
	} {
		want := map[bool]Reason{true: Absent, false: Aborted}[test.ended]
		for _, pieces := range [][]string{{test.body, test.last}, {test.body + test.last}, strings.SplitAfter(test.body+test.last, ""), strings.SplitAfter(test.body+test.last, "\n")} {
			r := New(test.dialect, sseType, "")
			for _, piece := range pieces {
				r.Write([]byte(piece), epoch)
			}
			if seen := r.Close(false); seen.Ended != test.ended || seen.Unknown != want && !seen.Failed {
				t.Errorf("%s, %q in %d pieces: got %+v, want that it ended: %t", test.dialect, test.last, len(pieces), seen, test.ended)
			}
		}
	}
	// What is encoded may end early, too.
	body := encoders["gzip"](t, []byte(chunk+knownEvent+"data: [DONE]\n\n"))
	r := New(domain.Chat, sseType, "gzip")
	r.Write(body[:len(body)-8], epoch)
	if seen := r.Close(false); !seen.Ended || seen.Tokens != three || seen.Unknown != "" {
		t.Errorf("gzip: got %+v", seen)
	}
}

// TestBrotliBytes reads a whole stream byte by byte, whose last symbols have bits in several
// bytes. brotli.Reader fails.
func TestBrotliBytes(t *testing.T) {
	encoded, err := hex.DecodeString("1b3000f8c56a47a4cd714099ed7b4558d1d2be34c61547c88ac0f7fa4568505776c980814e0e00")
	if err != nil {
		t.Fatal(err)
	}
	r, err := openBrotli(nil, iotest.OneByteReader(bytes.NewReader(encoded)))
	if err != nil {
		t.Fatal(err)
	}
	const want = `,bda"dfcb"caegcbaahdgd:ecafeafdfcddfbbeabeac baha`
	if text, err := io.ReadAll(r); string(text) != want || err != nil {
		t.Errorf("read %q, %v, want %q", text, err, want)
	}
	r, _ = openBrotli(r, iotest.OneByteReader(bytes.NewReader(append(encoded, 0))))
	if _, err := io.ReadAll(r); err == nil {
		t.Error("a byte behind the stream is no error")
	}
}

// decodingNow counts the goroutines that decode.
func decodingNow(t *testing.T) int {
	t.Helper()
	var stacks bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&stacks, 2); err != nil {
		t.Fatal(err)
	}
	return strings.Count(stacks.String(), "answer.(*decoder).decode(")
}

// TestClose ends readers at every point. It does not use synctest. A decoder of zstd has
// channels, and the pool would take them out of the bubble.
func TestClose(t *testing.T) {
	body := []byte(knownEvent)
	for encoding, encode := range encoders {
		encoded := encode(t, body)
		open := New(domain.Chat, sseType, encoding)
		open.Write(encoded[:len(encoded)/2], epoch)
		if n := decodingNow(t); n != 1 {
			t.Errorf("%s: %d goroutines decode an open answer, want 1", encoding, n)
		}
		open.Close(false)
		for n := range len(encoded) + 1 {
			r := New(domain.Chat, sseType, encoding)
			r.Write(encoded[:n], epoch)
			seen := r.Close(false)
			r.Write(encoded[n:], epoch)
			if again := r.Close(true); again != seen {
				t.Errorf("%s: a second Close returned %+v, want %+v", encoding, again, seen)
			}
		}
		New(domain.Chat, sseType, encoding).Close(false)
		if n := decodingNow(t); n != 0 {
			t.Errorf("%s: %d goroutines decode after Close, want none", encoding, n)
		}
	}
}

func ExampleReader() {
	r := New(domain.Chat, "text/event-stream", "")
	now := time.Now()
	for _, p := range []string{
		`data: {"model":"m","choices":[{"delta":{"content":"Hi"}}]}` + "\n\n",
		`data: {"choices":[],"usage":{"prompt_tokens":3,"comple`, `tion_tokens":4}}` + "\n\ndata: [DONE]\n\n",
	} {
		r.Write([]byte(p), now)
	}
	seen := r.Close(true)
	fmt.Println(seen.Model, seen.Tokens.Input, seen.Tokens.Output, seen.FirstContent.Equal(now))
	// Output: m 3 4 true
}
