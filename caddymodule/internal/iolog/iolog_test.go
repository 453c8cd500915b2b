package iolog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/heldbody"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/draft"
	"github.com/caddy-presets/caddy-presets/domain/usage"
)

// sink gets lines, and hangs until it is opened.
type sink struct {
	opened chan struct{}
	mu     sync.Mutex
	lines  [][]byte
}

func (s *sink) Write(p []byte) (int, error) {
	<-s.opened
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, bytes.Clone(p))
	return len(p), nil
}

func (s *sink) Sync() error { return nil }

// newTested returns a log to a sink, and what it warns of.
func newTested() (*Log, *sink, *observer.ObservedLogs) {
	core, warnings := observer.New(zapcore.InfoLevel)
	to := &sink{opened: make(chan struct{})}
	return newLog(zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), to, zapcore.InfoLevel)), zap.New(core)), to, warnings
}

// ask logs a request and its answer.
func (l *Log) ask(memory int64, request, answer string) {
	e := &Entry{log: l, warn: l.warn, logs: true, requestID: "id", memory: heldbody.Reservation{Limit: memory}}
	e.AddSent([]byte(request))
	e.AddRequest(draft.Body{[]byte(request)})
	e.Answer(domain.Chat)(false)([]byte(answer))
	e.End(noop.Span{}, &usage.Request{Dialect: domain.Chat, Status: 200})
	e.Drop()
}

// TestHangingReceiver logs more than there is memory for to a receiver that hangs. Later, it gets what there was
// memory for, and the numbers of the others.
func TestHangingReceiver(t *testing.T) {
	const memory, asked = 8 << 20, 200
	text := strings.Repeat("lorem ipsum ", 10_000) // 120 kB
	l, to, warnings := newTested()
	heap := func() int {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return int(stats.HeapAlloc)
	}
	before := heap()
	for range asked {
		l.ask(memory, `{"messages":[{"role":"user","content":"`+text+`"}]}`, `{"choices":[{"message":{"content":"`+text+`"}}]}`)
	}
	if grown := heap() - before; grown > memory+8<<20 { // two lines are being written
		t.Errorf("%d MiB are kept, want at most %d and the lines that are being written", grown>>20, memory>>20)
	} else {
		t.Logf("%d requests with %d kB: %d MiB are kept of %d", asked, 3*len(text)/1000, grown>>20, memory>>20)
	}
	for range maxPending {
		l.ask(0, "{}", "{}")
	}
	l.patience = time.Millisecond
	l.Close()
	messages := func() (text string) {
		for _, entry := range warnings.TakeAll() {
			text += fmt.Sprintln(entry.Message, entry.ContextMap())
		}
		return text
	}
	if got := messages(); !strings.Contains(got, "is too slow") || !strings.Contains(got, "hangs") || !strings.Contains(got, fmt.Sprintf("map[lines:%d]", maxPending)) {
		t.Errorf("got %s", got)
	}
	close(to.opened)
	l.patience = time.Hour
	l.Close()
	whole, bare := 0, 0
	for _, text := range to.lines {
		var line struct {
			Sent, Request, Answer json.RawMessage
			NoMemory              bool `json:"no_memory"`
		}
		if err := json.Unmarshal(text, &line); err != nil {
			t.Fatal(err)
		}
		switch hasAll := line.Sent != nil && line.Request != nil && line.Answer != nil; {
		case line.NoMemory && line.Sent == nil && line.Request == nil && line.Answer == nil:
			bare++
		case hasAll && !line.NoMemory:
			whole++
		default:
			t.Errorf("got a line with a part of its content: %.200s", text)
		}
	}
	if len(to.lines) != maxPending || whole < 5 || bare != maxPending-whole {
		t.Errorf("got %d lines, %d with content and %d without it", len(to.lines), whole, bare)
	}
	l.mu.Lock() // once the last writer has gone
	for l.writers > 0 {
		l.mu.Unlock()
		runtime.Gosched()
		l.mu.Lock()
	}
	l.mu.Unlock()
	if got, want := messages(), fmt.Sprintf("map[lines_without_content:%d lost_lines:%d]", bare, asked); !strings.Contains(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	if held := heldbody.InUse(); held != 0 {
		t.Errorf("%d bytes of memory are held", held)
	}
}

// TestFlawsAreSurvived has a request whose line cannot be made. The next one is logged.
func TestFlawsAreSurvived(t *testing.T) {
	l, to, warnings := newTested()
	close(to.opened)
	(&Entry{log: l, warn: l.warn, logs: true, broadcasts: true, requestID: "flawed"}).End(noop.Span{}, nil)
	l.ask(1<<20, "{}", "{}")
	l.Close()
	if flaws := warnings.FilterField(zap.String("request_id", "flawed")).Len(); flaws != 2 || len(to.lines) != 1 {
		t.Errorf("got %d warnings and %d lines, want 2 and 1", flaws, len(to.lines))
	}
}

// BenchmarkContent measures what the content of a request takes beside the request: the copies before its end, then its
// span, which the end of the response waits for, and the line, which nobody waits for. Each side has as many kB. The
// times are the least of all runs, since a machine may do other things.
func BenchmarkContent(b *testing.B) {
	for _, size := range []int{2, 20, 270} {
		text := strings.Repeat("The quick brown fox jumps over the lazy dog. ", size*1000/45)
		request := []byte(`{"model":"m","messages":[{"role":"user","content":"` + text + `"}]}`)
		var stream bytes.Buffer
		for word := range strings.SplitAfterSeq(text, " ") {
			fmt.Fprintf(&stream, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":%q}}]}`+"\n\n", word)
		}
		body := []byte(`{"choices":[{"message":{"content":"` + text + `"}}]}`)
		for _, streamed := range []bool{false, true} {
			answer := body
			if streamed {
				answer = stream.Bytes()
			}
			var copies, span, line time.Duration
			b.Run(fmt.Sprintf("%dkB/streamed=%t", size, streamed), func(b *testing.B) {
				copies, span, line = time.Hour, time.Hour, time.Hour
				l := newLog(zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(io.Discard), zapcore.InfoLevel)), zap.NewNop())
				for b.Loop() {
					begin := time.Now()
					e := &Entry{log: l, warn: l.warn, logs: true, memory: heldbody.Reservation{Limit: 64 << 20}, used: &usage.Request{Dialect: domain.Chat}}
					e.AddRequest(draft.Body{request})
					write := e.Answer(domain.Chat)(streamed)
					for piece := range slices.Chunk(answer, 4096) {
						write(piece)
					}
					copied := time.Now()
					e.broadcast(noop.Span{})
					ended := time.Now()
					l.write(e)
					copies, span, line = min(copies, copied.Sub(begin)), min(span, ended.Sub(copied)), min(line, time.Since(ended))
				}
				for name, took := range map[string]time.Duration{"copies": copies, "span": span, "line": line} {
					b.ReportMetric(float64(took.Microseconds()), "µs/"+name)
				}
			})
		}
	}
}
