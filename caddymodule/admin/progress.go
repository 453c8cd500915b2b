package admin

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/term"
)

func isTerminal(w any) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// progressInterval is the least time between two updates.
const progressInterval = 200 * time.Millisecond

// meter shows a line that changes, on a terminal. It may be used concurrently.
type meter struct {
	terminal io.Writer // nil if there is none
	start    time.Time

	mu    sync.Mutex
	shown time.Time // zero while no line is there
	ended bool
}

// meterWidth is the width of the line.
const meterWidth = 60

func newMeter(to io.Writer) *meter {
	m := &meter{start: time.Now()}
	if isTerminal(to) {
		m.terminal = to
	}
	return m
}

// show shows a line and the time since the start, if it is time for an update.
func (m *meter) show(line func() string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if m.terminal == nil || m.ended || now.Sub(m.shown) < progressInterval {
		return
	}
	m.shown = now
	fmt.Fprintf(m.terminal, "\r%-*s", meterWidth, fmt.Sprintf("%s in %v", line(), m.elapsed()))
}

// clear clears the line until the next update.
func (m *meter) clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.terminal != nil && !m.shown.IsZero() {
		fmt.Fprintf(m.terminal, "\r%s\r", strings.Repeat(" ", meterWidth))
	}
	m.shown = time.Time{}
}

// done clears the line, and shows nothing any more.
func (m *meter) done() {
	m.clear()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = true
}

func (m *meter) elapsed() time.Duration { return rounded(time.Since(m.start)) }

// rounded returns a duration as people read it.
func rounded(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(time.Second)
}

// progress is a reader that counts the bytes that are read, and shows them on a terminal. Its
// methods read, show and clear may be called during a Read.
type progress struct {
	*meter
	from  io.Reader
	bytes atomic.Int64
	// rest is shown behind the bytes. Only the goroutine that reads may use it.
	rest string
}

// newProgress returns the progress of a reader of total bytes, 0 if that is not known.
func newProgress(to io.Writer, from io.Reader, total int64) *progress {
	p := &progress{meter: newMeter(to), from: from}
	if total > 0 {
		p.rest = " of " + humanize.IBytes(uint64(total))
	}
	return p
}

func (p *progress) Read(b []byte) (int, error) {
	n, err := p.from.Read(b)
	p.bytes.Add(int64(n))
	p.show(func() string { return humanize.IBytes(uint64(p.read())) + p.rest })
	return n, err
}

// read returns how many bytes were read.
func (p *progress) read() int64 { return p.bytes.Load() }

// estimate shows how many bytes the reader has in all. records is how many records were read, of
// about how many. The bytes are taken to be spread evenly over them.
func (p *progress) estimate(records, about int) {
	if records > 0 {
		p.rest = " of about " + humanize.IBytes(uint64(float64(p.read())*float64(about)/float64(records)))
	}
}
