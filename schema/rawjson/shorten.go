package rawjson

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

const (
	// MaxShortString is the longest string that a Shortener keeps, as written.
	MaxShortString = 256
	// MaxShortText bounds what a Shortener keeps. It is more than any text has besides long strings.
	MaxShortText = 8 << 20
)

// Shortener keeps a JSON text that comes in pieces. It keeps "…" and the size in the place of a long string, so the
// memory that it takes does not grow with the texts in it. SizeOf reads that. Its zero value begins a text. It is not
// safe for concurrent use.
type Shortener struct {
	text      []byte
	begin     int // of the string, in text
	inString  bool
	isEscaped bool // the string's next byte follows a backslash
	size      int  // of the string so far, if it is long
}

// Reset begins another text.
func (s *Shortener) Reset() { *s = Shortener{text: s.text[:0]} }

// Text returns what was kept, which is valid until the next Add or Reset. It has more than
// MaxShortText bytes if that is not all.
func (s *Shortener) Text() jsontext.Value { return s.text }

// Add reads the next piece of the text, and keeps no part of its memory.
func (s *Shortener) Add(piece []byte) {
	for len(piece) > 0 && len(s.text) <= MaxShortText {
		end, wasInString := len(piece), s.inString
		switch {
		case s.isEscaped:
			end, s.isEscaped = 1, false
		case s.inString:
			if plain := plainEnd(piece); plain < len(piece) {
				s.inString, s.isEscaped, end = piece[plain] != '"', piece[plain] == '\\', plain+1
			}
		default:
			if quote := bytes.IndexByte(piece, '"'); quote >= 0 {
				s.inString, end = true, quote+1
				s.begin = len(s.text) + end
			}
		}
		s.keep(piece[:end], wasInString)
		piece = piece[end:]
	}
}

// keep keeps a part of a string, or of what is between two strings.
func (s *Shortener) keep(part []byte, isString bool) {
	if isString && (s.size > 0 || len(s.text)-s.begin+len(part) > MaxShortString) {
		if s.size == 0 {
			s.size = len(s.text) - s.begin
		}
		s.size += len(part)
		if s.text = append(s.text[:s.begin], mark...); s.inString {
			return
		}
		s.text = strconv.AppendInt(s.text, int64(s.size-len(`"`)), 10)
		part, s.size = []byte{'"'}, 0
	}
	s.text = append(s.text, part...)
}

// mark begins what stands for a long string.
const mark = "…"

// SizeOf returns how many bytes a string of a text that a Shortener kept has inside, as written. A string that was
// written as one that stands for another is read as that. Other values, and what is cut, have none.
func SizeOf(value jsontext.Value) int {
	if value.Kind() != '"' || len(value) < len(`""`) {
		return 0
	}
	inside := insideOf(value)
	if digits, isMarked := bytes.CutPrefix(inside, []byte(mark)); isMarked {
		if size, err := strconv.Atoi(string(digits)); err == nil && size >= 0 {
			return size
		}
	}
	return len(inside)
}

// plainEnd returns where the first quote, backslash or control character of text is.
func plainEnd(text []byte) (i int) {
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
