package answer

import (
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"unicode/utf8"

	"github.com/caddy-presets/caddy-presets/domain"
)

const (
	// maxDepth is the deepest nesting that is read. Deeper JSON is malformed.
	maxDepth = 1024
	// maxNamed is the depth to which places are known. All nodes of interest lie above it.
	maxNamed = 12
	// maxText is the longest key, number or name that is held, as written.
	maxText = 256
)

// state says which token a scanner expects next.
type state uint8

const (
	wantValue         state = iota
	wantValueOrEnd          // after [
	wantKey                 // after a comma in an object
	wantKeyOrEnd            // after {
	wantColon               // after a key
	wantCommaOrEnd          // after a value
	inString                //
	inEscape                // after a backslash
	inHex                   // in the four digits of \u
	inLiteral               // in true, false or null
	afterMinus              // a number's states
	afterZero               //
	inInteger               //
	afterPoint              //
	inFraction              //
	afterE                  //
	afterExponentSign       //
	inExponent              //
	done                    // after the outermost value
	broken                  // these bytes are not JSON
)

// scanner reads one JSON text in pieces. It checks the grammar of RFC 8259, and gives
// values of interest to its event. rawjson needs a whole text, and an answer comes in pieces.
type scanner struct {
	dialect domain.Dialect
	event   event

	state   state
	key     bool // the string is a key
	escaped bool // the text has a backslash
	keep    bool // the text is kept
	long    bool // the text exceeds maxText
	hex     uint8
	literal string // what is left of the literal
	current node   // the value's place
	depth   int
	nodes   [maxNamed + 1]node
	arrays  [maxDepth/64 + 1]uint64 // a bit for each depth: an array, not an object
	text    [maxText]byte
	textLen int
}

// reset prepares s for the next text.
func (s *scanner) reset() {
	s.state, s.depth, s.current = wantValue, 0, top
	s.event.reset()
}

// end ends the text. It reports whether the text was one whole value.
func (s *scanner) end() bool {
	if s.depth == 0 {
		switch s.state {
		case afterZero, inInteger, inFraction, inExponent:
			s.endNumber()
			s.endValue()
		}
	}
	return s.state == done
}

// feed reads the text's next bytes.
func (s *scanner) feed(p []byte) {
	for i := 0; i < len(p); {
		c := p[i]
		switch s.state {
		case inString:
			i = s.inString(p, i)
			continue
		case wantCommaOrEnd:
			switch {
			case c == ',' && s.inArray():
				s.state, s.current = wantValue, s.place().element()
			case c == ',':
				s.state = wantKey
			case c == '}' && !s.inArray(), c == ']' && s.inArray():
				s.depth--
				s.endValue()
			case !isSpace(c):
				s.state = broken
			}
		case wantColon:
			if c == ':' {
				s.state = wantValue
			} else if !isSpace(c) {
				s.state = broken
			}
		case wantKey, wantKeyOrEnd:
			switch {
			case c == '"':
				s.beginString(true, s.place() != skip)
			case c == '}' && s.state == wantKeyOrEnd:
				s.depth--
				s.endValue()
			case !isSpace(c):
				s.state = broken
			}
		case wantValue, wantValueOrEnd:
			s.beginValue(c)
		case inEscape:
			switch c {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
				s.state = inString
			case 'u':
				s.state, s.hex = inHex, 0
			default:
				s.state = broken
			}
			s.append(p[i : i+1])
		case inHex:
			if !isHex(c) {
				s.state = broken
			} else if s.hex++; s.hex == 4 {
				s.state = inString
			}
			s.append(p[i : i+1])
		case inLiteral:
			if c != s.literal[0] {
				s.state = broken
			} else if s.literal = s.literal[1:]; s.literal == "" {
				s.endValue()
			}
		case done:
			if !isSpace(c) {
				s.state = broken
			}
		case broken:
			return
		default:
			if next := nextOfNumber(s.state, c); next != done {
				s.state = next
				s.append(p[i : i+1])
			} else {
				s.endNumber()
				s.endValue()
				continue // c is what comes after the number
			}
		}
		i++
	}
}

// beginValue begins the value whose first byte is c.
func (s *scanner) beginValue(c byte) {
	switch c {
	case '"':
		keep := false
		if s.current != skip {
			keep = s.event.beginString(s.current)
		}
		s.beginString(false, keep)
	case '{':
		s.open(0)
	case '[':
		s.open(1)
	case 't':
		s.beginLiteral("true", trueValue)
	case 'f':
		s.beginLiteral("false", falseValue)
	case 'n':
		s.beginLiteral("null", nullValue)
	case '-':
		s.beginNumber(c, afterMinus)
	case '0':
		s.beginNumber(c, afterZero)
	case '1', '2', '3', '4', '5', '6', '7', '8', '9':
		s.beginNumber(c, inInteger)
	case ']':
		if s.state == wantValueOrEnd {
			s.depth--
			s.endValue()
		} else {
			s.state = broken
		}
	default:
		if !isSpace(c) {
			s.state = broken
		}
	}
}

// open opens an object, or an array if array is 1.
func (s *scanner) open(array uint64) {
	if s.depth == maxDepth {
		s.state = broken
		return
	}
	if s.current != skip {
		if array == 1 {
			s.event.beginAt(s.current, arrayValue)
		} else {
			s.event.beginAt(s.current, objectValue)
		}
	}
	s.depth++
	if s.depth <= maxNamed {
		s.nodes[s.depth] = s.current
	}
	word, bit := s.depth/64, uint(s.depth%64)
	s.arrays[word] = s.arrays[word]&^(1<<bit) | array<<bit
	if array == 1 {
		s.state, s.current = wantValueOrEnd, s.place().element()
	} else {
		s.state = wantKeyOrEnd
	}
}

// place returns the node of the innermost open object or array.
func (s *scanner) place() node {
	if s.depth > maxNamed {
		return skip
	}
	return s.nodes[s.depth]
}

func (s *scanner) inArray() bool { return s.arrays[s.depth/64]>>(s.depth%64)&1 == 1 }

// endValue sets the state after a value.
func (s *scanner) endValue() {
	if s.depth == 0 {
		s.state = done
	} else {
		s.state = wantCommaOrEnd
	}
}

func (s *scanner) beginLiteral(literal string, v valueKind) {
	if s.current != skip {
		s.event.beginAt(s.current, v)
	}
	s.state, s.literal = inLiteral, literal[1:]
}

func (s *scanner) beginNumber(c byte, next state) {
	s.state, s.keep, s.textLen, s.long = next, false, 0, false
	if s.current != skip {
		s.event.beginAt(s.current, numberValue)
		s.keep = true
		s.text[0], s.textLen = c, 1
	}
}

func (s *scanner) endNumber() {
	if s.keep {
		text := s.text[:s.textLen]
		if s.long {
			text = nil
		}
		s.event.addNumber(s.current, text)
	}
}

func (s *scanner) beginString(key, keep bool) {
	s.state, s.key, s.keep = inString, key, keep
	s.escaped, s.long, s.textLen = false, false, 0
}

// inString reads a string from p[i:], and returns where it stopped.
func (s *scanner) inString(p []byte, i int) int {
	j := plainEnd(p, i)
	if j == len(p) {
		s.append(p[i:])
		return j
	}
	switch p[j] {
	case '"':
		switch {
		case !s.keep:
		case s.textLen == 0 && j-i <= maxText: // the common case: not copied
			s.endString(p[i:j])
		default:
			s.append(p[i:j])
			s.endString(s.text[:s.textLen])
		}
		if s.key {
			s.state = wantColon
		} else {
			s.endValue()
		}
	case '\\':
		s.append(p[i : j+1])
		s.state, s.escaped = inEscape, true
	default: // a control character
		s.state = broken
	}
	return j + 1
}

// endString gives a string that is kept to its reader. text is as written.
func (s *scanner) endString(text []byte) {
	if !s.long && (s.key || s.current.isText()) && (s.escaped || !s.key && !utf8.Valid(text)) {
		text = unescape(text)
	}
	switch {
	case !s.key:
		s.event.addString(s.current, text, s.long)
	case s.long:
		s.current = skip
	default:
		s.current = s.place().child(s.dialect, text)
	}
}

// append holds a piece of the text, if it is kept.
func (s *scanner) append(piece []byte) {
	if !s.keep || s.long {
		return
	}
	if s.textLen+len(piece) > maxText {
		s.long = true
		return
	}
	s.textLen += copy(s.text[s.textLen:], piece)
}

// unescape returns what text means, which stood between quotes. Escapes are rare in the
// texts that are kept.
func unescape(text []byte) []byte {
	var out string
	if json.Unmarshal(append(append([]byte{'"'}, text...), '"'), &out) != nil {
		return nil
	}
	return []byte(out)
}

// plainEnd returns the index of the first quote, backslash or control character of p from
// i. It is len(p) if there is none.
func plainEnd(p []byte, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(p); i += 8 {
		x := binary.LittleEndian.Uint64(p[i:])
		quote, backslash := x^ones*'"', x^ones*'\\'
		// The lowest set bit is exact. A borrow can only set bits above it.
		if hit := ((x-ones*0x20)&^x | (quote-ones)&^quote | (backslash-ones)&^backslash) & highs; hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
	}
	for ; i < len(p); i++ {
		if c := p[i]; c == '"' || c == '\\' || c < 0x20 {
			return i
		}
	}
	return i
}

// nextOfNumber returns what follows c in a number, done if c does not belong to it.
func nextOfNumber(s state, c byte) state {
	digit := '0' <= c && c <= '9'
	switch s {
	case afterMinus:
		switch {
		case c == '0':
			return afterZero
		case digit:
			return inInteger
		}
		return broken
	case afterZero, inInteger, inFraction:
		switch {
		case digit && s != afterZero:
			return s
		case c == '.' && s != inFraction:
			return afterPoint
		case c == 'e', c == 'E':
			return afterE
		}
		return done
	case afterPoint:
		if digit {
			return inFraction
		}
		return broken
	case afterE:
		if c == '+' || c == '-' {
			return afterExponentSign
		}
		fallthrough
	case afterExponentSign:
		if digit {
			return inExponent
		}
		return broken
	default: // inExponent
		if digit {
			return inExponent
		}
		return done
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}
