package rawjson

import (
	"encoding/binary"
	"math/bits"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// MaxStreamDepth is how deep a Stream lets JSON nest.
	MaxStreamDepth = 1024
	// MaxStreamToken is the longest string or number whose text a Stream tells, as written.
	MaxStreamToken = 256
)

// Stream reads one JSON text that comes in pieces, token by token, in memory that does not grow with it.
// It accepts what Check accepts, but for deeper JSON.
// Its zero value begins a text. It is not safe for concurrent use.
type Stream struct {
	// Kind is the kind of the token: that of a name or a value, or a closing bracket.
	Kind jsontext.Kind
	// IsName tells that the token is a name.
	IsName bool
	// IsEscaped tells that the token is a string with escapes.
	IsEscaped bool
	// Depth is how many objects and arrays are open behind the token.
	Depth int

	piece       []byte // which is being read
	next, begin int    // in it: what is to read, and where the token begins
	end         int    // of the token

	state  streamState
	arrays [MaxStreamDepth/64 + 1]uint64 // a bit for each depth: an array, not an object
	escape int                           // how much of an escape there is
	held   [MaxStreamToken]byte          // how the token begins, if an earlier piece has that
	length int                           // of held
	isLong bool                          // held has not all of it
}

// streamState says which token comes next.
type streamState uint8

const (
	wantValue     streamState = iota
	wantFirst                 // a value or ]
	wantFirstName             // a name or }
	wantName
	wantColon
	wantMore // a comma or a closing bracket
	inString
	inPlain // in a number, true, false or null
	streamDone
	streamBroken
)

// Reset begins another text.
func (s *Stream) Reset() { s.state, s.Depth = wantValue, 0 }

// Feed begins to read the next piece of the text, after Next returned false. The piece must not
// change until Next returns false again.
func (s *Stream) Feed(piece []byte) { s.piece, s.next, s.begin = piece, 0, 0 }

// IsWhole reports whether what was read is one whole value.
func (s *Stream) IsWhole() bool {
	return s.state == streamDone || s.state == inPlain && s.Depth == 0 && isPlain(s.held[:s.length])
}

// Value returns the text of the token, a string or a number. It is nil for a longer one than
// MaxStreamToken, and valid until the next call of Next.
func (s *Stream) Value() jsontext.Value {
	switch {
	case s.isLong || s.end-s.begin > MaxStreamToken:
		return nil
	case s.length > 0:
		return s.held[:s.length]
	}
	return s.piece[s.begin:s.end]
}

// Next reads the next token. It returns false if the piece has no more, or is not JSON.
func (s *Stream) Next() bool {
	for s.next < len(s.piece) {
		switch s.state {
		case inString:
			if s.readString() {
				return true
			}
			continue
		case inPlain:
			if s.readPlain() {
				return true
			}
			continue
		case streamBroken:
			s.piece = nil
			return false
		}
		char := s.piece[s.next]
		s.next++
		switch char {
		case ' ', '\n', '\t', '\r':
		case ',':
			switch {
			case s.state != wantMore:
				s.state = streamBroken
			case s.inArray():
				s.state = wantValue
			default:
				s.state = wantName
			}
		case ':':
			if s.state == wantColon {
				s.state = wantValue
			} else {
				s.state = streamBroken
			}
		case '}', ']':
			isArray := char == ']'
			if isOpen := s.Depth > 0 && s.inArray() == isArray; isOpen && (s.state == wantMore || isArray && s.state == wantFirst || s.state == wantFirstName) {
				s.Depth--
				s.endValue(jsontext.Kind(char))
				return true
			}
			s.state = streamBroken
		default:
			if s.beginToken(char) {
				return true
			}
		}
	}
	s.hold(s.next)
	s.piece = nil
	return false
}

func (s *Stream) inArray() bool { return s.arrays[s.Depth/64]>>(s.Depth%64)&1 == 1 }

// beginToken begins the name or value whose first character was read. It reports whether that is the
// whole token.
func (s *Stream) beginToken(char byte) bool {
	s.IsName = s.state == wantName || s.state == wantFirstName
	isValue := s.state == wantValue || s.state == wantFirst
	s.begin, s.length, s.isLong, s.IsEscaped = s.next-1, 0, false, false
	switch {
	case char == '"' && (s.IsName || isValue):
		s.Kind, s.state, s.escape = '"', inString, 0
		return s.readString()
	case !isValue:
		s.state = streamBroken
	case char == '{' || char == '[':
		if s.Depth == MaxStreamDepth {
			s.state = streamBroken
			return false
		}
		s.Depth++
		s.Kind, s.state = jsontext.Kind(char), wantFirstName
		bit := uint64(1) << (s.Depth % 64)
		s.arrays[s.Depth/64] &^= bit
		if char == '[' {
			s.state = wantFirst
			s.arrays[s.Depth/64] |= bit
		}
		return true
	default:
		if s.Kind, s.state = '0', inPlain; char >= 'a' {
			s.Kind = jsontext.Kind(char)
		}
		if end := scanPlain(s.piece, s.begin); end >= 0 && end < len(s.piece) { // nearly always
			s.next = end
			s.endToken()
			s.endValue(s.Kind)
			return true
		}
	}
	return false
}

// endValue ends a value, or an object or array by its closing bracket.
func (s *Stream) endValue(kind jsontext.Kind) {
	s.Kind, s.IsName = kind, false
	if s.state = wantMore; s.Depth == 0 {
		s.state = streamDone
	}
}

// readString reads on in a string. It reports whether the string has ended.
func (s *Stream) readString() bool {
	for ; ; s.next++ {
		if s.escape == 0 {
			s.next = plainEnd(s.piece, s.next)
		}
		if s.next == len(s.piece) {
			return false
		}
		switch char := s.piece[s.next]; {
		case s.escape == 0 && char == '"':
			s.next++
			s.endToken()
			if s.state = wantColon; !s.IsName {
				s.endValue('"')
			}
			return true
		case s.escape == 0 && char == '\\':
			s.escape, s.IsEscaped = 1, true
		case s.escape == 1 && isEscape[char]:
			s.escape = 0
		case s.escape == 1 && char == 'u' || s.escape > 1 && isHex(char):
			s.escape = (s.escape + 1) % len(`\u0000`)
		default:
			s.state = streamBroken
			return false
		}
	}
}

// plainEnd returns where the first quote, backslash or control character of text is from i.
func plainEnd(text []byte, i int) int {
	for ; i+8 <= len(text); i += 8 {
		if hit := special(binary.LittleEndian.Uint64(text[i:])); hit != 0 {
			return i + bits.TrailingZeros64(hit)/8 // the lowest is exact
		}
	}
	for i < len(text) && text[i] != '"' && text[i] != '\\' && text[i] >= ' ' {
		i++
	}
	return i
}

// readPlain reads on in a number or a word. It reports whether it has ended.
func (s *Stream) readPlain() bool {
	for ; s.next < len(s.piece); s.next++ {
		switch s.piece[s.next] {
		case ',', ']', '}', ' ', '\n', '\t', '\r':
			s.hold(s.next)
			s.end = s.next
			if !isPlain(s.held[:s.length]) {
				s.state = streamBroken
				return false
			}
			s.endValue(s.Kind)
			return true
		}
	}
	return false
}

// isPlain reports whether text is a number or a word.
func isPlain(text []byte) bool { return scanPlain(text, 0) == len(text) && len(text) > 0 }

// endToken ends the text of a string or a number.
func (s *Stream) endToken() {
	if s.end = s.next; s.length > 0 || s.isLong {
		s.hold(s.next)
	}
}

// hold holds what the piece has of a string or number, up to its end.
func (s *Stream) hold(end int) {
	part := s.piece[s.begin:end]
	switch {
	case s.state != inString && s.state != inPlain:
	case s.length+len(part) <= MaxStreamToken && !s.isLong:
		s.length += copy(s.held[s.length:], part)
	default:
		if s.isLong = true; s.state == inPlain {
			s.holdShort(part)
		}
	}
}

// holdShort holds a long number without the digits that follow two others. It is a number if and only
// if the long one is.
func (s *Stream) holdShort(part []byte) {
	short := s.held[:0]
	for _, text := range [...][]byte{s.held[:s.length], part} {
		for _, char := range text {
			switch n := len(short); {
			case n >= 2 && isDigit(short[n-2]) && isDigit(short[n-1]) && isDigit(char):
			case n == len(s.held): // no number has so many other characters, so this is none
				s.length = n
				return
			default:
				short = append(short, char)
			}
		}
	}
	s.length = len(short)
}

func isDigit(char byte) bool { return '0' <= char && char <= '9' }
