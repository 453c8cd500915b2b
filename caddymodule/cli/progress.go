package cli

import (
	"fmt"
	"io"
	"time"
)

// progressInterval is the least time between two updates.
const progressInterval = 200 * time.Millisecond

// progress shows how far a command is, on a terminal only.
type progress struct {
	terminal io.Writer // nil if there is none
	verb     string
	shown    time.Time
}

// newProgress returns the progress of work that a past participle describes.
func newProgress(to io.Writer, verb string) *progress {
	p := &progress{verb: verb}
	if isTerminal(to) {
		p.terminal = to
	}
	return p
}

// show shows how many of all are done.
func (p *progress) show(done, all int) {
	if now := time.Now(); p.terminal != nil && now.Sub(p.shown) >= progressInterval {
		p.shown = now
		fmt.Fprintf(p.terminal, "\r\x1b[K%s: %d of %d", p.verb, done, all)
	}
}

// end clears the line.
func (p *progress) end() {
	if p.terminal != nil && !p.shown.IsZero() {
		fmt.Fprint(p.terminal, "\r\x1b[K")
	}
}
