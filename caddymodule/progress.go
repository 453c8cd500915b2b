package caddymodule

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/term"
)

func isTerminal(w any) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// progressInterval is how often progress is shown at most.
const progressInterval = 200 * time.Millisecond

// progress counts what is read and shows it, on a terminal.
type progress struct {
	terminal io.Writer // nil if there is none
	start    time.Time
	shown    time.Time
	bytes    int64
	total    int64 // 0 if it is not known
}

func newProgress(to io.Writer, total int64) *progress {
	p := &progress{start: time.Now(), total: total}
	if isTerminal(to) {
		p.terminal = to
	}
	return p
}

// watch returns a reader of r that counts.
func (p *progress) watch(r io.Reader) io.Reader { return watched{r, p} }

type watched struct {
	io.Reader
	p *progress
}

func (w watched) Read(b []byte) (int, error) {
	n, err := w.Reader.Read(b)
	w.p.bytes += int64(n)
	w.p.show()
	return n, err
}

func (p *progress) show() {
	now := time.Now()
	if p.terminal == nil || now.Sub(p.shown) < progressInterval {
		return
	}
	p.shown = now
	line := humanize.IBytes(uint64(p.bytes))
	if p.total > 0 {
		line += " of " + humanize.IBytes(uint64(p.total))
	}
	fmt.Fprintf(p.terminal, "\r%-40s", fmt.Sprintf("%s in %v", line, p.elapsed()))
}

// done removes what was shown.
func (p *progress) done() {
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
