package answer

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

// field is the name of an SSE line's field.
type field uint8

const (
	unnamed field = iota // its name is not read yet
	ignored
	data
	eventName
)

// maxEventName holds every event name that matters.
const maxEventName = 32

// lines reads SSE by the rules of WHATWG HTML, section 9.2.6.
type lines struct {
	first    bool // no line has ended, so a byte order mark may come
	skipLF   bool // the last byte was a carriage return
	space    bool // a space here follows the colon
	hasData  bool // the event has a data line
	longName bool
	field    field
	name     [6]byte // the field's name so far
	nameLen  int
	event    [maxEventName]byte // the event's name
	eventLen int
	head     [len(doneMark)]byte // the beginning of the event's data
	headLen  int
}

// doneMark is the data of the last event of a chat.
const doneMark = "[DONE]"

// readLines reads the next bytes of a stream.
func (r *Reader) readLines(p []byte, now time.Time) {
	if r.canSkipEvent(p) {
		return
	}
	lf := -1
	for i := 0; i < len(p); {
		if r.lines.skipLF {
			r.lines.skipLF = false
			if p[i] == '\n' {
				i++
				continue
			}
		}
		if lf < i {
			if lf = bytes.IndexByte(p[i:], '\n'); lf < 0 {
				lf = len(p)
			} else {
				lf += i
			}
		}
		end := lf
		if cr := bytes.IndexByte(p[i:lf], '\r'); cr >= 0 {
			end = i + cr
		}
		if end == len(p) {
			r.readPiece(p[i:])
			return
		}
		if r.canSkip(p, i, end) {
			r.scanner.reset()
			r.scanner.state = broken
			r.lines.hasData, r.lines.headLen = true, 0
		} else {
			r.readPiece(p[i:end])
			r.endLine(now)
		}
		r.lines.skipLF = p[end] == '\r'
		i = end + 1
	}
}

// readPiece reads a piece of a line.
func (r *Reader) readPiece(p []byte) {
	l := &r.lines
	for l.field == unnamed {
		if len(p) == 0 {
			return
		}
		if l.nameLen == 0 && bytes.HasPrefix(p, dataPrefix) {
			p = p[len(dataPrefix):]
			r.beginField(data)
			break
		}
		c := p[0]
		p = p[1:]
		if c == ':' {
			r.beginField(l.named())
			break
		}
		if l.nameLen < len(l.name) {
			l.name[l.nameLen] = c
			l.nameLen++
		}
		if l.first && string(l.name[:l.nameLen]) == "\xEF\xBB\xBF" {
			l.first, l.nameLen = false, 0
		}
	}
	if l.space && len(p) > 0 {
		l.space = false
		if p[0] == ' ' {
			p = p[1:]
		}
	}
	switch l.field {
	case data:
		l.headLen += copy(l.head[l.headLen:], p)
		r.scanner.feed(p)
	case eventName:
		if l.longName = l.longName || l.eventLen+len(p) > maxEventName; !l.longName {
			l.eventLen += copy(l.event[l.eventLen:], p)
		}
	}
}

var (
	dataPrefix  = []byte("data:")
	eventPrefix = []byte("event: ")
	newline     = []byte{'\n'}
	eventEnd    = []byte("\n\n")
	space       = []byte{' '}
	chatEnd     = []byte(doneMark)
	messagesEnd = []byte(`{"type":"message_stop"`)
)

// named returns the field of the name that was read. An empty name is a comment.
func (l *lines) named() field {
	switch string(l.name[:l.nameLen]) {
	case "data":
		return data
	case "event":
		return eventName
	}
	return ignored
}

// beginField begins a field's value.
func (r *Reader) beginField(f field) {
	l := &r.lines
	l.field, l.space = f, true
	switch f {
	case data:
		if l.hasData {
			r.scanner.feed(newline)
		} else {
			r.scanner.reset()
			l.hasData, l.headLen = true, 0
		}
	case eventName:
		l.eventLen, l.longName = 0, false
	}
}

// endLine ends a line. An empty one ends the event.
func (r *Reader) endLine(now time.Time) {
	l := &r.lines
	if l.field == unnamed {
		if l.nameLen == 0 {
			r.endEvent(now, true)
		} else {
			r.beginField(l.named())
		}
	}
	l.first, l.field, l.nameLen = false, unnamed, 0
}

// endLines ends the stream. An event counts without its empty line.
func (r *Reader) endLines(complete bool) {
	r.endLine(r.last)
	r.endEvent(r.last, complete)
}

// endEvent ends an event. An event that is not whole has no effect if it cannot be read.
func (r *Reader) endEvent(now time.Time, whole bool) {
	l := &r.lines
	if !l.hasData {
		l.eventLen, l.longName = 0, false
		return
	}
	s, e := &r.summary, &r.scanner.event
	k := l.kind()
	if k == errorKind || k == failedKind {
		s.failed = true
	}
	isJSON := r.scanner.end()
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
	l.hasData, l.eventLen, l.longName = false, 0, false
}

// kind is the meaning of the event's name.
func (l *lines) kind() eventKind {
	if l.longName {
		return otherKind
	}
	return kindOf(l.event[:l.eventLen])
}

// canSkipEvent reports whether p is one whole event that can add nothing. Most gateways write
// one event at a time. An event of several data lines, or with carriage returns, is not
// recognized.
func (r *Reader) canSkipEvent(p []byte) bool {
	l := &r.lines
	if !r.isPastContent() || l.skipLF || l.eventLen > 0 || l.longName || bytes.IndexByte(p, '\r') >= 0 {
		return false
	}
	if rest, ok := bytes.CutPrefix(p, eventPrefix); ok {
		name, data, _ := bytes.Cut(rest, newline)
		if kindOf(name) != otherKind {
			return false
		}
		p = data
	}
	line, ok := bytes.CutSuffix(p, eventEnd)
	return ok && bytes.HasPrefix(line, dataPrefix) && bytes.IndexByte(line, '\n') < 0 && r.addsNothing(line)
}

// isPastContent reports whether a line begins, and only usage and errors are still of
// interest.
func (r *Reader) isPastContent() bool {
	l, s := &r.lines, &r.summary
	return !s.firstContent.IsZero() && s.model.len > 0 && !l.hasData && l.field == unnamed && l.nameLen == 0
}

// canSkip reports whether the line p[i:end] is the whole data of an event that can add
// nothing. Then the event is not parsed. An error that only the event's name tells is recorded
// without its data.
func (r *Reader) canSkip(p []byte, i, end int) bool {
	line := p[i:end]
	if !r.isPastContent() || !bytes.HasPrefix(line, dataPrefix) {
		return false
	}
	next := p[end+1:]
	if p[end] == '\r' && len(next) > 0 && next[0] == '\n' {
		next = next[1:]
	}
	return len(next) > 0 && (next[0] == '\n' || next[0] == '\r') && r.addsNothing(line)
}

// addsNothing reports whether a data line has none of the quoted names that matter, and does not end
// the stream. A stop without the event's name has its type first.
func (r *Reader) addsNothing(line []byte) bool {
	if text := bytes.TrimPrefix(line[len(dataPrefix):], space); bytes.HasPrefix(text, chatEnd) || bytes.HasPrefix(text, messagesEnd) {
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
