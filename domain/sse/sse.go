// Package sse reads server-sent events (WHATWG HTML, section 9.2.6) while they pass.
package sse

import (
	"bytes"
	"errors"
	"io"
	"iter"
)

// Field is the field of a line.
type Field uint8

const (
	// Unknown is the field of a line of whose name a part is still to come.
	Unknown Field = iota
	// Ignored is a comment, or a field other than data and event.
	Ignored
	// Data is a part of the event's data. A line feed is between its lines.
	Data
	// Name is a part of the event's name. A later line replaces it.
	Name
	// End is the blank line that ends an event.
	End
	// LineFeed is the second half of a line's end whose first half was in the part before.
	LineFeed
)

const byteOrderMark = "\xEF\xBB\xBF"

// Reader reads a stream that comes in pieces, part by part. A part is a line, or what a piece has of
// it. The Reader keeps nothing of a piece that it has read. Its zero value begins a stream. It is not
// safe for concurrent use.
type Reader struct {
	// Field is the field of the part.
	Field Field
	// Begins tells that the field's value begins in the part, and Ends that the line ends in it.
	Begins, Ends bool

	piece                   []byte
	begin, value, end, next int // the part, its value, and what follows the part
	feed, back              int // the line feed and the carriage return that come next in the piece

	begun  bool                                 // a line has ended, so no byte order mark comes
	line   Field                                // the field of the line
	name   [len(byteOrderMark+"event") + 1]byte // how the line begins, of an Unknown field
	length int
	space  bool // a space that comes now follows the colon
	skipLF bool // the last byte was a carriage return
}

// Raw returns the bytes of the part. Those of all parts are the bytes of the stream.
func (r *Reader) Raw() []byte { return r.piece[r.begin:r.next] }

// Value returns what the part has of the field's value.
func (r *Reader) Value() []byte { return r.piece[r.value:r.end] }

// Feed begins to read the next piece of a stream, after Next returned false. The piece must not
// change until Next returns false again.
func (r *Reader) Feed(piece []byte) { r.piece, r.next, r.feed, r.back = piece, 0, -1, -1 }

// Next reads the next part. It returns false if the piece has no more.
func (r *Reader) Next() bool {
	begin, piece := r.next, r.piece
	if begin >= len(piece) {
		r.piece, r.begin, r.value, r.end, r.next = nil, 0, 0, 0, 0
		return false
	}
	r.begin = begin
	if piece[begin] == '\n' && (r.skipLF || r.begun && r.line == Unknown && r.length == 0) {
		r.Field = End
		if r.skipLF {
			r.Field = LineFeed
		}
		r.value, r.end, r.next, r.skipLF, r.Begins, r.Ends = begin, begin, begin+1, false, true, true
		return true
	}
	r.skipLF = false
	if r.feed < begin {
		r.feed = begin + index(piece[begin:], '\n')
	}
	if r.back < begin {
		r.back = begin + index(piece[begin:], '\r')
	}
	r.end = min(r.feed, r.back)
	r.next = r.end
	if r.Ends = r.end < len(piece); r.Ends {
		if r.next++; r.end == r.back {
			if r.skipLF = r.next == len(piece); r.next == r.feed && !r.skipLF {
				r.next++
			}
		}
	}
	r.readField(piece[begin:r.end])
	return true
}

// index returns where a byte is in text, the end of text if it is not there.
func index(text []byte, b byte) int {
	if i := bytes.IndexByte(text, b); i >= 0 {
		return i
	}
	return len(text)
}

var colon = []byte{':'}

// begins reports whether text begins with a prefix.
func begins(text []byte, prefix string) bool {
	return len(text) >= len(prefix) && string(text[:len(prefix)]) == prefix
}

// readField reads a piece of a line without its end.
func (r *Reader) readField(text []byte) {
	r.value = r.begin
	if r.Begins = r.line == Unknown; r.Begins {
		switch {
		case r.length == 0 && begins(text, "data:"):
			r.value += len("data:")
			r.line = Data
		case r.length == 0 && begins(text, "event:"):
			r.value += len("event:")
			r.line = Name
		default:
			name, _, found := bytes.Cut(text, colon)
			if r.length += copy(r.name[r.length:], name); !found && !r.Ends {
				r.Field, r.value, r.Begins = Unknown, r.end, false
				return
			}
			r.value = min(r.value+len(name)+len(colon), r.end)
			r.line = r.named(found)
		}
		r.space = true
	}
	if r.space && r.value < r.end {
		r.space = false
		if r.piece[r.value] == ' ' {
			r.value++
		}
	}
	if r.Field = r.line; r.Ends {
		r.begun, r.line, r.length = true, Unknown, 0
	}
}

// named returns the field of a name that was read. A line without a name is a comment, or blank.
func (r *Reader) named(hasColon bool) Field {
	name := string(r.name[:r.length])
	if !r.begun && len(name) >= len(byteOrderMark) && name[:len(byteOrderMark)] == byteOrderMark {
		name = name[len(byteOrderMark):]
	}
	switch {
	case name == "data":
		return Data
	case name == "event":
		return Name
	case name == "" && !hasColon:
		return End
	}
	return Ignored
}

// ErrTooLong is the error of an event with more data than Events may hold.
var ErrTooLong = errors.New("an event is too long")

// Events yields the data of each event of a stream, which is valid until the next one. Events without
// data are left out, and a last one counts without its blank line. ErrTooLong ends a stream with an
// event of more than most bytes of data, and so does an error of the stream.
func Events(stream io.Reader, most int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		var r Reader
		var data []byte
		piece := make([]byte, 32<<10)
		for {
			n, err := stream.Read(piece)
			for r.Feed(piece[:n]); r.Next(); {
				switch {
				case r.Field == Data && len(data)+len(r.Value()) >= most:
					yield(nil, ErrTooLong)
					return
				case r.Field == Data:
					if data = append(data, r.Value()...); r.Ends {
						data = append(data, '\n')
					}
				case r.Field == End && len(data) > 0:
					if !yield(data[:len(data)-1], nil) {
						return
					}
					data = data[:0]
				}
			}
			switch {
			case err == nil:
			case !errors.Is(err, io.EOF):
				yield(nil, err)
				return
			default:
				if len(data) > 0 {
					yield(bytes.TrimSuffix(data, []byte{'\n'}), nil)
				}
				return
			}
		}
	}
}
