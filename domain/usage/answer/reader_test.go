package answer

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// readCut reads body in pieces. Each passes at the millisecond of its end.
func readCut(d domain.Dialect, contentType, encoding string, body []byte, complete bool, next func(left int) int) Seen {
	r := New(d, contentType, encoding)
	for at := 0; at < len(body); {
		n := min(max(next(len(body)-at), 1), len(body)-at)
		piece := bytes.Clone(body[at : at+n])
		at += n
		r.Write(piece, epoch.Add(time.Duration(at)*time.Millisecond))
		clear(piece) // Write does not keep it
	}
	return r.Close(complete)
}

func all(left int) int { return left }

func one(int) int { return 1 }

const (
	jsonType = "application/json"
	sseType  = "text/event-stream"
)

// check reads body in several pieces, which must not matter.
func check(t *testing.T, d domain.Dialect, contentType string, body []byte, complete bool, cuts uint64) Seen {
	t.Helper()
	random := rand.New(rand.NewPCG(cuts, 1))
	whole := readCut(d, contentType, "", body, complete, all)
	single := readCut(d, contentType, "", body, complete, one)
	pieces := 0
	var ends []int
	at := 0
	cut := readCut(d, contentType, "", body, complete, func(left int) int {
		pieces++
		n := min(1+random.IntN(1<<random.IntN(10)), left)
		at += n
		ends = append(ends, at)
		return n
	})
	// Content is seen with the piece that has the byte that completes its event.
	if !single.FirstContent.IsZero() {
		offset := int(single.FirstContent.Sub(epoch) / time.Millisecond)
		want := epoch
		for _, end := range ends {
			if end >= offset {
				want = epoch.Add(time.Duration(end) * time.Millisecond)
				break
			}
		}
		if !cut.FirstContent.Equal(want) {
			t.Fatalf("cut in %d pieces: first content at %v, want %v", pieces, cut.FirstContent, want)
		}
	}
	if whole.FirstContent.IsZero() != single.FirstContent.IsZero() || cut.FirstContent.IsZero() != single.FirstContent.IsZero() {
		t.Fatalf("first content: %v whole, %v in bytes, %v in pieces", whole.FirstContent, single.FirstContent, cut.FirstContent)
	}
	first := whole.FirstContent
	whole.FirstContent, single.FirstContent, cut.FirstContent = time.Time{}, time.Time{}, time.Time{}
	if whole != single || whole != cut {
		t.Fatalf("seen\n%+v whole\n%+v in bytes\n%+v in %d pieces", whole, single, cut, pieces)
	}
	whole.FirstContent = first
	return whole
}

// TestContentIsCounted counts the content of streams and bodies, in any pieces, and all bytes of what cannot be read.
func TestContentIsCounted(t *testing.T) {
	const chatEvent, delta = `data: {"model":"m","choices":[{"delta":{"content":"`, `data: {"type":"response.output_text.delta","delta":"`
	long := strings.Repeat("x", 1000)
	for _, tc := range []struct {
		name              string
		d                 domain.Dialect
		media, coding, in string
		want              int64
	}{
		{"chat", domain.Chat, sseType, "", chatEvent + "12345\"}}]}\n\n" + chatEvent + "678\"}}]}\n\n: wait\n\n" + chatEvent + "\",\"reasoning\":\"90\"}}]}\n\ndata: [DONE]\n\n", 10},
		{"chat, long", domain.Chat, sseType, "", chatEvent + long + "\"}}]}\n\n" + chatEvent + long + "\"}}]}\n\n", 2000},
		{"responses", domain.Responses, sseType, "", delta + "12345\"}\n\n" + delta + long + "\"}\n\ndata: {\"type\":\"response.output_text.done\",\"text\":\"12345" + long + "\"}\n\n", 1005},
		{"messages", domain.Messages, sseType, "", "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\"12345\"}}\n\n", 5},
		{"an error", domain.Chat, sseType, "", "data: {\"error\":{\"message\":\"no\"}}\n\n", 0},
		{"no JSON", domain.Chat, sseType, "", "data: hello\n\n", 5},
		{"a body", domain.Chat, jsonType, "", `{"id":"12345","choices":[{"message":{"role":"x","content":"` + long + `"},"logprobs":{"content":[{"token":"12345","top_logprobs":[]}]}}]}`, 1000},
		{"a body of responses", domain.Responses, jsonType, "", `{"output":[{"type":"message","content":[{"type":"output_text","text":"12345"}]},{"type":"function_call","arguments":"{}"}]}`, 7},
		{"a body of messages", domain.Messages, jsonType, "", `{"type":"message","content":[{"type":"thinking","thinking":"12"},{"type":"tool_use","input":{"text":"345"}}]}`, 5},
		{"an image", domain.Images, jsonType, "", `{"data":[{"b64_json":"` + long + `"}]}`, 0},
		{"an error body", domain.Chat, jsonType, "", `{"error":{"message":"no"}}`, 0},
		{"a cut body", domain.Chat, jsonType, "", `{"choices":[`, 12},
		{"a body that looks long", domain.Chat, jsonType, "", `{"choices":[{"message":{"content":"…9999"}}]}`, int64(len(`{"choices":[{"message":{"content":"…9999"}}]}`))},
		{"another type", domain.Chat, "text/html", "", long, 1000},
		{"another coding", domain.Chat, sseType, "compress", long, 1000},
	} {
		for _, step := range []int{1, 7, 1 << 20} {
			r := New(tc.d, tc.media, tc.coding)
			r.CountContent()
			for piece := range slices.Chunk([]byte(tc.in), step) {
				r.Write(piece, epoch)
			}
			if got := r.Close(false).Content; got != tc.want {
				t.Errorf("%s in pieces of %d: got %d bytes of content, want %d", tc.name, step, got, tc.want)
			}
		}
	}
}

// TestContentOfALargeBody counts the content of a body that is too large to be read, as far as it was kept. It may end anywhere.
func TestContentOfALargeBody(t *testing.T) {
	begin := `{"choices":[{"message":{"content":"` + strings.Repeat("x", 1000) + `"},"logprobs":[`
	for _, more := range []string{`{"token":"a"},`, `"`, `{`, `[`, `1,`, `{"choices":"`, `{"choices"`} {
		r := New(domain.Chat, jsonType, "")
		r.CountContent()
		r.Write([]byte(begin), epoch)
		r.Write([]byte(strings.Repeat(more, rawjson.MaxShortText/len(more))), epoch)
		const rest = 100
		r.Write([]byte(strings.Repeat(" ", rest)), epoch)
		if got := r.Close(true); got.Unknown == TooLarge && (got.Content < 1000 || got.Content > 1000+2*rest) {
			t.Errorf("%s: got %d bytes of content, want those of the text and what came later", more, got.Content)
		}
	}
}

// TestToldFigures has answers tell figures and break off, or tell smaller ones later.
func TestToldFigures(t *testing.T) {
	const start = `data: {"type":"message_start","message":{"usage":{"input_tokens":200000,"output_tokens":1,"cache_read_input_tokens":7}}}` + "\n\n"
	usage := func(text string) string { return `data: {"usage":` + text + "}\n\n" }
	for _, tc := range []struct {
		name     string
		d        domain.Dialect
		in       string
		complete bool
		want     Tokens
		cost     string
		unknown  Reason
		isCut    bool
	}{
		{"a message that breaks off", domain.Messages, start, false, Tokens{Input: 200_007, Output: 1, CacheRead: 7}, "", Aborted, true},
		{"zeros last", domain.Chat, usage(`{"prompt_tokens":10,"completion_tokens":9,"cost":0.5}`) + usage(`{"prompt_tokens":0,"completion_tokens":0,"cost":0}`), true, Tokens{Input: 10, Output: 9}, "0.5", "", false},
		{"rising", domain.Chat, usage(`{"prompt_tokens":10,"completion_tokens":0}`) + usage(`{"prompt_tokens":10,"completion_tokens":9,"cost":0.5}`), false, Tokens{Input: 10, Output: 9}, "0.5", "", true},
		{"a part", domain.Chat, usage(`{"completion_tokens":9}`), true, Tokens{Output: 9}, "", Malformed, false},
		{"the end", domain.Chat, usage(`{"prompt_tokens":1,"completion_tokens":9}`) + "data: [DONE]\n\n", false, Tokens{Input: 1, Output: 9}, "", "", false},
	} {
		r := New(tc.d, sseType, "")
		r.CountContent()
		r.Write([]byte(tc.in), epoch)
		if got := r.Close(tc.complete); got.Told != tc.want || got.Cost != tc.cost || got.Unknown != tc.unknown || got.Cut != tc.isCut {
			t.Errorf("%s: seen %+v, want told %+v, cost %q, unknown %q, cut %t", tc.name, got, tc.want, tc.cost, tc.unknown, tc.isCut)
		}
	}
}
