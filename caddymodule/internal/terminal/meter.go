package terminal

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// meterInterval is the least time between two updates.
const meterInterval = 200 * time.Millisecond

// meterWidth is the width of the line.
const meterWidth = 60

// Meter shows a line that changes, on a terminal only. It may be used concurrently.
type Meter struct {
	start time.Time

	mu       sync.Mutex
	terminal io.Writer // nil if there is none, or the work is done
	shown    time.Time // zero while no line is there
}

// NewMeter returns a Meter that shows nothing yet.
func NewMeter(to io.Writer) *Meter {
	m := &Meter{start: time.Now()}
	if Is(to) {
		m.terminal = to
	}
	return m
}

// Show shows a line and the time since the start, if it is time for an update.
func (m *Meter) Show(line func() string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	if m.terminal == nil || now.Sub(m.shown) < meterInterval {
		return
	}
	m.shown = now
	fmt.Fprintf(m.terminal, "\r%-*s", meterWidth, fmt.Sprintf("%s in %v", line(), m.Elapsed()))
}

// Done clears the line, and shows nothing any more.
func (m *Meter) Done() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.terminal != nil && !m.shown.IsZero() {
		fmt.Fprintf(m.terminal, "\r%s\r", strings.Repeat(" ", meterWidth))
	}
	m.terminal = nil
}

// Elapsed returns the time since the start as people read it.
func (m *Meter) Elapsed() time.Duration { return Rounded(time.Since(m.start)) }

// Rounded returns a duration as people read it.
func Rounded(d time.Duration) time.Duration {
	if d < 10*time.Second {
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(time.Second)
}
