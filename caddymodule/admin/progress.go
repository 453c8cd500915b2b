package admin

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
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

// progress is a reader that counts the bytes that are read, and shows them on a terminal.
// Its other methods may be called during a Read.
type progress struct {
	from     io.Reader
	terminal io.Writer // nil if there is none
	start    time.Time
	total    int64 // 0 if it is not known

	mu    sync.Mutex
	shown time.Time
	bytes int64
	ended bool
}

func newProgress(to io.Writer, from io.Reader, total int64) *progress {
	p := &progress{from: from, start: time.Now(), total: total}
	if isTerminal(to) {
		p.terminal = to
	}
	return p
}

func (p *progress) Read(b []byte) (int, error) {
	n, err := p.from.Read(b)
	p.add(n)
	return n, err
}

// read returns how many bytes were read.
func (p *progress) read() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes
}

func (p *progress) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes += int64(n)
	now := time.Now()
	if p.terminal == nil || p.ended || now.Sub(p.shown) < progressInterval {
		return
	}
	p.shown = now
	line := humanize.IBytes(uint64(p.bytes))
	if p.total > 0 {
		line += " of " + humanize.IBytes(uint64(p.total))
	}
	fmt.Fprintf(p.terminal, "\r%-40s", fmt.Sprintf("%s in %v", line, p.elapsed()))
}

// done clears the line, and shows nothing any more.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	if p.terminal != nil && !p.shown.IsZero() {
		fmt.Fprintf(p.terminal, "\r%s\r", strings.Repeat(" ", 40))
	}
}

func (p *progress) elapsed() time.Duration {
	unit := time.Second
	if e := time.Since(p.start); e < 10*time.Second {
		unit = 10 * time.Millisecond
	}
	return time.Since(p.start).Round(unit)
}
