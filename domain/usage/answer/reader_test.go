package answer

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
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

// TestContentIsCounted counts the content of streams, in any pieces, and all bytes of other answers.
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
		{"a body", domain.Chat, jsonType, "", "{\"choices\":[]} ", 15},
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
