// Package sse reads server-sent events (WHATWG HTML, section 9.2.6) while they pass. Lines end with a
// line feed, perhaps behind a carriage return, as every gateway writes them.
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
)

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

	line   Field                   // the field of the line
	name   [len("event:") + 1]byte // how the line begins, of an Unknown field
	length int
	space  bool // a space that comes now follows the colon
}

// Raw returns the bytes of the part. Those of all parts are the bytes of the stream.
func (r *Reader) Raw() []byte { return r.piece[r.begin:r.next] }

// Value returns what the part has of the field's value, with the carriage return before the line feed.
func (r *Reader) Value() []byte { return r.piece[r.value:r.end] }

// Feed begins to read the next piece of a stream, after Next returned false. The piece must not
// change until Next returns false again.
func (r *Reader) Feed(piece []byte) { r.piece, r.next = piece, 0 }

// Next reads the next part. It returns false if the piece has no more.
func (r *Reader) Next() bool {
	if r.begin = r.next; r.begin == len(r.piece) {
		r.piece, r.begin, r.value, r.end, r.next = nil, 0, 0, 0, 0
		return false
	}
	r.end, r.next = len(r.piece), len(r.piece)
	length := bytes.IndexByte(r.piece[r.begin:], '\n')
	if r.Ends = length >= 0; r.Ends {
		r.end = r.begin + length
		r.next = r.end + 1
	}
	r.readField(r.piece[r.begin:r.end])
	return true
}

// readField reads a piece of a line without its end.
func (r *Reader) readField(text []byte) {
	r.value = r.begin
	if r.Begins = r.line == Unknown; r.Begins {
		switch {
		case r.length == 0 && bytes.HasPrefix(text, []byte("data:")):
			r.value += len("data:")
			r.line = Data
		case r.length == 0 && bytes.HasPrefix(text, []byte("event:")):
			r.value += len("event:")
			r.line = Name
		default:
			name, _, found := bytes.Cut(text, []byte{':'})
			if r.length += copy(r.name[r.length:], name); !found && !r.Ends {
				r.Field, r.value, r.Begins = Unknown, r.end, false
				return
			}
			r.value = min(r.value+len(name)+len(":"), r.end)
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
		r.line, r.length = Unknown, 0
	}
}

// named returns the field of a name that was read. A line without a name is a comment, or blank.
func (r *Reader) named(hasColon bool) Field {
	name := r.name[:r.length]
	if !hasColon {
		name = bytes.TrimSuffix(name, []byte{'\r'})
	}
	switch {
	case string(name) == "data":
		return Data
	case string(name) == "event":
		return Name
	case len(name) == 0 && !hasColon:
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
						data = append(bytes.TrimSuffix(data, []byte{'\r'}), '\n')
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
