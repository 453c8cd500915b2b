package answer

import (
	"bytes"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/sse"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// maxEventName is longer than every event name that matters.
const maxEventName = 32

// lines is the state of reading the lines of an event.
type lines struct {
	sse      sse.Reader
	hasData  bool               // the event has data, whose text is kept
	size     int                // of that data as it was sent
	inFirst  bool               // it is of one line so far
	kind     eventKind          // the meaning of the event's name
	event    [maxEventName]byte // how that begins, if it comes in parts
	eventLen int
}

var (
	newline     = []byte{'\n'}
	chatEnd     = []byte("[DONE]") // the data of the last event of a chat
	messagesEnd = []byte(`{"type":"message_stop"`)
)

// readLines reads the next bytes of a stream.
func (r *Reader) readLines(p []byte, now time.Time) {
	l := &r.lines
	for l.sse.Feed(p); l.sse.Next(); {
		switch l.sse.Field {
		case sse.Data:
			r.readData(l.sse.Value(), l.sse.Begins, l.sse.Ends)
		case sse.Name:
			if l.sse.Begins {
				l.eventLen = 0
			}
			l.eventLen += copy(l.event[l.eventLen:], l.sse.Value())
			l.kind = kindOf(bytes.TrimSuffix(l.event[:l.eventLen], []byte{'\r'}))
		case sse.End:
			r.endEvent(now, true)
		}
	}
}

// readData reads a part of a data line.
func (r *Reader) readData(p []byte, begins, ends bool) {
	l := &r.lines
	isFirst := !l.hasData
	if isFirst && begins && ends && r.addsNothing(p) {
		r.countContent(p, len(p))
		return // without a copy, as nearly always
	}
	switch {
	case isFirst:
		r.text.Reset()
		l.hasData, l.inFirst, l.size = true, true, 0
	case begins:
		r.text.Add(newline)
		l.inFirst = false
	}
	r.text.Add(p)
	l.size += len(p)
	switch {
	case len(r.text.Text()) > rawjson.MaxShortText:
		r.reason = TooLarge
	case ends && l.inFirst && r.addsNothing(r.text.Text()):
		r.countContent(r.text.Text(), l.size)
		l.hasData = false
	}
}

// endEvent ends an event. An event that is not whole has no effect if it cannot be read.
func (r *Reader) endEvent(now time.Time, whole bool) {
	l, s, data := &r.lines, &r.summary, r.text.Text()
	k, hasData := l.kind, l.hasData
	l.kind, l.hasData = noKind, false
	if !hasData {
		return
	}
	r.countContent(data, l.size)
	if k == errorKind || k == failedKind {
		s.failed = true
	}
	isJSON := rawjson.Check(data) == nil
	if isJSON {
		if own := kindNamed(rawjson.Get(data, "type")); own != noKind {
			k = own
		}
		s.add(r.dialect, data, k, now)
	} else if whole && usageName.isIn(data) {
		s.broken = true
	}
	isLast := bytes.Equal(bytes.TrimSpace(data), chatEnd) || (whole || isJSON) && endsStream(r.dialect, k)
	s.ended = s.ended || isLast
}

// countContent counts the content of an event's data, which was of a size. A stream of responses has all content in deltas,
// and repeats it.
func (r *Reader) countContent(data jsontext.Value, size int) {
	part := data
	switch {
	case !r.counts, bytes.HasPrefix(data, chatEnd):
		return
	case rawjson.Check(data) != nil:
		r.content += size
		return
	case r.dialect == domain.Responses:
		part = rawjson.Get(data, "delta")
	}
	r.content += min(size, contentSize(part, contentNames, maxContentDepth))
}

// addsNothing reports whether the first line of an event's data has none of the names that still matter,
// and does not end the stream. Such an event is not read, so most cost little. A stop without the event's
// name has its type first.
func (r *Reader) addsNothing(data []byte) bool {
	if r.lines.kind > otherKind || r.summary.firstContent.IsZero() || r.summary.model == "" {
		return false
	}
	name := usageName
	if r.dialect == domain.Responses {
		name = responseName
	}
	return !bytes.HasPrefix(data, chatEnd) && !bytes.HasPrefix(data, messagesEnd) && !name.isIn(data) && !errorName.isIn(data)
}

// name is a member's name with its last quote, in two parts. The second begins with a letter that few events
// have, because that is searched.
type name struct{ begin, end []byte }

var (
	usageName    = name{[]byte("usa"), []byte(`ge"`)}
	responseName = name{[]byte("res"), []byte(`ponse"`)}
	errorName    = name{[]byte("e"), []byte(`rror"`)}
)

// isIn reports whether data has the name, but not as a member that is null.
func (n name) isIn(data []byte) bool {
	for {
		at := bytes.Index(data, n.end)
		if at < 0 {
			return false
		}
		before := data[:at]
		data = data[at+len(n.end):]
		if bytes.HasSuffix(before, n.begin) && !bytes.HasPrefix(data, []byte(":null")) {
			return true
		}
	}
}
