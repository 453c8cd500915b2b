package usagetap

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

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
		of := New(tapped, dialects[int(dialect)%len(dialects)], false, false, func(int) {})
		want, got := play(plain, steps, body), play(of, steps, body)
		if !slices.Equal(got, want) {
			t.Errorf("the gateway's handler got %q, without the tap %q", got, want)
		}
		if !slices.Equal(tapped.calls, plain.calls) {
			t.Errorf("the client got\n%q, without the tap\n%q", tapped.calls, plain.calls)
		}
		used := of.Close(time.Now(), true, false)
		if tokens := used.Tokens; used.Unknown != "" && tokens != (gatewayanswer.Tokens{}) {
			t.Errorf("unknown, and %+v", tokens)
		}
		if written := int(room) - tapped.room; written == 0 && (used.Tokens != gatewayanswer.Tokens{} || used.Model != "") {
			t.Errorf("the client got nothing, and it used %+v", used)
		}
	})
}

// refusingWriter is a client that takes one write.
type refusingWriter struct {
	http.ResponseWriter
	taken int
}

var errRefused = errors.New("refused")

func (w *refusingWriter) Write(p []byte) (int, error) {
	if w.taken++; w.taken > 1 {
		return 1, errRefused
	}
	return w.ResponseWriter.Write(p)
}

// TestTapOfAClientThatLeaves checks that errors of writes pass, and that the answer is
// aborted then. A ReadFrom of the body goes through the tap, too.
func TestTapOfAClientThatLeaves(t *testing.T) {
	w := New(&refusingWriter{ResponseWriter: httptest.NewRecorder()}, "chat/completions", false, false, func(int) {})
	w.Header().Set("Content-Type", "application/json")
	if n, err := w.ReadFrom(strings.NewReader(`{"model":`)); n != 9 || err != nil {
		t.Fatalf("got %d, %v, want all 9 bytes", n, err)
	}
	if n, err := w.Write([]byte(`"m"}`)); n != 1 || !errors.Is(err, errRefused) {
		t.Errorf("got %d, %v, want 1 and the client's error", n, err)
	}
	if used := w.Close(time.Now(), true, false); !used.Aborted || used.Status != 200 || used.Unknown != gatewayanswer.Aborted {
		t.Errorf("got %+v, want an aborted answer", used)
	}
}

// TestHiddenUsageOfAClientThatLeaves checks that errors of writes pass where a chunk is left out.
func TestHiddenUsageOfAClientThatLeaves(t *testing.T) {
	const streamContent = "data: {\"model\":\"m\",\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n"
	w := New(&refusingWriter{ResponseWriter: httptest.NewRecorder()}, domain.Chat, true, false, func(int) {})
	w.Header().Set("Content-Type", "text/event-stream")
	if n, err := io.WriteString(w, streamContent+"dat"); n != len(streamContent)+3 || err != nil {
		t.Errorf("got %d, %v, want all bytes", n, err)
	}
	if n, err := io.WriteString(w, "b: x\n"); n != 1 || err == nil {
		t.Errorf("got %d, %v, want 1 and the client's error", n, err)
	}
	w = New(&refusingWriter{ResponseWriter: httptest.NewRecorder(), taken: 1}, domain.Chat, true, false, func(int) {})
	w.Header().Set("Content-Type", "text/event-stream")
	if n, err := io.WriteString(w, "dat"); n != 3 || err != nil {
		t.Errorf("got %d, %v, want 3 bytes that wait", n, err)
	}
	if used := w.Close(time.Now(), true, false); !used.Aborted {
		t.Error("the client's error is lost at the end")
	}
}
