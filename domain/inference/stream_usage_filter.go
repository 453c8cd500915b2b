package inference

import (
	"bytes"

	"github.com/caddy-presets/caddy-presets/domain/sse"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// MaxStreamUsage is the longest event that can be the chunk of IsStreamUsage, in bytes.
const MaxStreamUsage = 64 << 10

// StreamUsageFilter takes the chunks of IsStreamUsage out of a chat stream. Everything else
// keeps its bytes and its order. It holds an event back from its data to the end of that line, which
// no client can read before, and beyond that only while the event may be such a chunk. It holds at most
// MaxStreamUsage bytes. The zero value begins a stream. It is not safe for concurrent use.
type StreamUsageFilter struct {
	reader sse.Reader
	out    []byte
	held   []byte // what did not pass yet
	data   []byte // of the event, without that of an event that passes
	lines  int    // of data that have begun

	isPassing bool // the event is not the chunk
	hasPassed bool // lines of the event passed before its data
}

// Next returns what passes after p, which is the next part of the stream. The result is valid
// until the next call.
func (f *StreamUsageFilter) Next(p []byte) []byte {
	f.out = f.out[:0]
	for f.reader.Feed(p); f.reader.Next(); {
		f.readPart()
	}
	return f.out
}

// End returns what passes at the end of the stream. A last event counts without its empty
// line.
func (f *StreamUsageFilter) End() []byte {
	if IsStreamUsage(f.data) {
		return nil
	}
	return f.held
}

// readPart reads a part of a line, and lets it pass unless it must wait.
func (f *StreamUsageFilter) readPart() {
	f.held = append(f.held, f.reader.Raw()...)
	switch f.reader.Field {
	case sse.Data:
		f.readData()
	case sse.Ignored, sse.Name:
		f.hasPassed = f.hasPassed || f.lines == 0
	case sse.End:
		if !f.isPassing && IsStreamUsage(f.data) {
			end := len(f.held)
			if f.hasPassed { // the blank line ends what passed
				end = 1 + bytes.LastIndexByte(f.held[:end-1], '\n')
			}
			f.held = append(f.held[:0], f.held[end:]...)
		}
		f.data, f.lines, f.isPassing, f.hasPassed = f.data[:0], 0, false, false
	}
	f.isPassing = f.isPassing || len(f.held) > MaxStreamUsage
	if f.isPassing || f.lines == 0 && f.reader.Field != sse.Unknown {
		f.out = append(f.out, f.held...)
		f.held, f.data = f.held[:0], f.data[:0]
	}
}

// readData reads data of the event. The first line decides, unless its JSON goes on in others.
func (f *StreamUsageFilter) readData() {
	if f.isPassing {
		return
	}
	if f.reader.Begins {
		f.lines++
	}
	f.data = append(f.data, f.reader.Value()...)
	begin := bytes.TrimLeft(f.data, " \t\n")
	switch {
	case len(begin) > 0 && begin[0] != '{':
		f.isPassing = true
	case f.reader.Ends:
		f.isPassing = f.lines == 1 && rawjson.Check(f.data) == nil && !IsStreamUsage(f.data)
		f.data = append(f.data, '\n')
	}
}
