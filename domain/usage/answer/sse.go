package answer

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/sse"
)

// maxEventName is longer than every event name that matters.
const maxEventName = 32

// lines is the state of reading the lines of an event.
type lines struct {
	sse      sse.Reader
	hasData  bool               // the event has a data line
	waiting  []byte             // that line, whole and without an end of the event so far. It is not parsed yet
	kind     eventKind          // the meaning of the event's name
	event    [maxEventName]byte // how that begins, if it comes in parts
	eventLen int
	head     [len(doneMark)]byte // how the event's data begins
	headLen  int
}

// doneMark is the data of the last event of a chat.
const doneMark = "[DONE]"

var (
	newline     = []byte{'\n'}
	chatEnd     = []byte(doneMark)
	messagesEnd = []byte(`{"type":"message_stop"`)
)

// readLines reads the next bytes of a stream.
func (r *Reader) readLines(p []byte, now time.Time) {
	l := &r.lines
	for l.sse.Feed(p); l.sse.Next(); {
		switch l.sse.Field {
		case sse.Data:
			r.parseWaiting()
			if isFirst := !l.hasData; isFirst && l.sse.Begins && l.sse.Ends && r.isPastContent() {
				l.hasData, l.headLen, l.waiting = true, 0, l.sse.Value()
				continue
			}
			r.readData(l.sse.Value(), l.sse.Begins)
		case sse.Name:
			if l.sse.Begins {
				l.eventLen = 0
			}
			if l.sse.Begins && l.sse.Ends { // nearly always
				l.kind = kindOf(l.sse.Value())
				continue
			}
			l.eventLen += copy(l.event[l.eventLen:], l.sse.Value())
			l.kind = kindOf(l.event[:l.eventLen])
		case sse.End:
			if l.waiting != nil && l.kind <= otherKind && r.addsNothing(l.waiting) {
				l.waiting, l.hasData, l.kind = nil, false, noKind
				continue
			}
			r.parseWaiting()
			r.endEvent(now, true)
		}
	}
	r.parseWaiting()
}

// parseWaiting parses the data that waits, if any.
func (r *Reader) parseWaiting() {
	if data := r.lines.waiting; data != nil {
		r.lines.waiting, r.lines.hasData = nil, false
		r.readData(data, true)
	}
}

// readData parses a piece of a data line.
func (r *Reader) readData(p []byte, begins bool) {
	l := &r.lines
	switch {
	case !l.hasData:
		r.scanner.reset()
		l.hasData, l.headLen = true, 0
	case begins:
		r.scanner.feed(newline)
	}
	l.headLen += copy(l.head[l.headLen:], p)
	r.scanner.feed(p)
}

// endEvent ends an event. An event that is not whole has no effect if it cannot be read.
func (r *Reader) endEvent(now time.Time, whole bool) {
	l := &r.lines
	k := l.kind
	l.kind = noKind
	if !l.hasData {
		return
	}
	l.hasData = false
	s, e := &r.summary, &r.scanner.event
	if k == errorKind || k == failedKind {
		s.failed = true
	}
	isJSON := r.scanner.text.IsWhole()
	if isJSON {
		if e.kind != noKind {
			k = e.kind
		}
		s.add(r.dialect, e, k, now)
	} else if whole && (e.outer.usage.said || e.in.usage.said) {
		s.broken = true
	}
	isLast := string(l.head[:l.headLen]) == doneMark || (whole || isJSON) && endsStream(r.dialect, k)
	s.ended = s.ended || isLast
}

// isPastContent reports whether only usage and errors are still of interest.
func (r *Reader) isPastContent() bool {
	return !r.summary.firstContent.IsZero() && r.summary.model.len > 0
}

// addsNothing reports whether the whole data of an event has none of the quoted names that matter, and
// does not end the stream. Such data is not parsed. A stop without the event's name has its type first.
func (r *Reader) addsNothing(line []byte) bool {
	if bytes.HasPrefix(line, chatEnd) || bytes.HasPrefix(line, messagesEnd) {
		return false
	}
	if i := bytes.IndexByte(line, '\\'); i >= 0 && bytes.Contains(line[i:], unicodeEscape) {
		return false // a name may be written with escapes
	}
	if r.dialect == domain.Responses {
		return !mentions(line, `response"`, `error"`)
	}
	return !mentions(line, `usage"`, `error"`)
}

var (
	unicodeEscape = []byte(`\u`)
	nullMember    = []byte(":null")
)

// mentions reports whether line has a quote followed by a or b, but not as a member that is
// null. Most events cost little else, so it looks at eight bytes at a time.
func mentions(line []byte, a, b string) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	firstA, firstB := ones*uint64(a[0]), ones*uint64(b[0])
	for ; len(line) >= 9; line = line[8:] {
		quote := binary.LittleEndian.Uint64(line) ^ ones*'"'
		next := binary.LittleEndian.Uint64(line[1:])
		// A byte is zero where a quote is followed by a's or b's first letter.
		hitA, hitB := quote|(next^firstA), quote|(next^firstB)
		hit := ((hitA-ones)&^hitA | (hitB-ones)&^hitB) & highs
		for ; hit != 0; hit &= hit - 1 {
			if isMention(line[bits.TrailingZeros64(hit)/8+1:], a, b) {
				return true
			}
		}
	}
	for i, c := range line {
		if c == '"' && isMention(line[i+1:], a, b) {
			return true
		}
	}
	return false
}

// isMention reports whether rest, which follows a quote, begins with a or b.
func isMention(rest []byte, a, b string) bool {
	for _, name := range [...]string{a, b} {
		if len(rest) >= len(name) && string(rest[:len(name)]) == name {
			return !bytes.HasPrefix(rest[len(name):], nullMember)
		}
	}
	return false
}
