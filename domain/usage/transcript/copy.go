package transcript

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain/secrets"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

const (
	// MaxSide bounds what is kept of one side: of a request, or of all messages of an answer.
	MaxSide = 256 << 10
	// slack is how much more is read before a side is cut. So a key at the cut is whole when keys are
	// masked, and then cut off.
	slack = 4 << 10
)

// place is where a run of base64 digits is.
type place int

const (
	inText place = iota
	inData       // the value of a member that has a file in some API
	inURL        // behind the type of a data URL
)

// mostDigits is the longest run that is text. A longer one is an image or a file, and is kept as its size.
var mostDigits = [...]int{inText: 256, inData: 64, inURL: 0}

// maxRead is how much of a side is read. Tests read less.
var maxRead = MaxSide + slack

// minLine is the shortest line of base64 that another line follows.
const minLine = 60

// fileMembers are the members whose values may be files without a type before them.
var fileMembers = map[string]bool{"data": true, "file_data": true, "b64_json": true, "result": true}

// Copy is a bounded copy of a JSON text that comes in pieces. It keeps images and files as their size, behind
// the type that a data URL has. An escape of an ASCII character that needs none becomes the character, so
// that no key hides behind it. Its zero value begins a text. A Copy is not safe for concurrent use.
type Copy struct {
	text  []byte
	cut   bool
	files bool

	inString bool
	begin    int     // of the string, in text
	name     string  // of the member whose value is next, if it is one of fileMembers
	escape   [6]byte // of the string, which is not whole yet
	escaped  int     // how much there is of it

	// A run of base64 digits, which may be broken into lines.
	run    int // where it begins in text
	digits int // how many there are
	line   int // how many of them are in the last line
	place  place
	isLeft bool   // it is not in text, because it is a file
	gap    []byte // what follows a line, and may be a break. It is not in text yet.
}

// Add reads the next piece of the text, and keeps no part of its memory.
func (c *Copy) Add(piece []byte) {
	c.grow(len(piece))
	for i := 0; i < len(piece) && !c.cut; i++ {
		switch char := piece[i]; {
		case c.inString && c.escaped == 0 && isDigit[char]:
			i += c.addDigits(piece[i:]) - 1
		case !c.inString:
			c.between(char)
		case c.escaped > 0:
			c.addEscape(char)
		case char == '\\':
			c.escape[0], c.escaped = char, 1
		case char == '"':
			c.endRun()
			if c.inString = false; fileMembers[string(c.text[c.begin:])] {
				c.name = string(c.text[c.begin:])
			}
			c.text = append(c.text, char)
		default:
			c.add(char)
		}
		c.cut = len(c.text) > maxRead
	}
}

// addDigits reads the digits of base64 that a piece begins with, and returns how many these were.
func (c *Copy) addDigits(piece []byte) (n int) {
	room := mostDigits[c.place] - c.digits
	if c.isLeft {
		room = len(piece)
	}
	room = min(room, len(piece), max(maxRead+1-len(c.text), 1))
	if room <= 0 || len(c.gap) > 0 || c.digits == 0 && endsWith(c.text, `\`) {
		c.add(piece[0])
		return 1
	}
	for n < room && isDigit[piece[n]] {
		n++
	}
	if c.digits == 0 {
		c.run = len(c.text)
	}
	if c.digits, c.line = c.digits+n, c.line+n; !c.isLeft {
		c.text = append(c.text, piece[:n]...)
	}
	return n
}

// addPlain reads the next piece of a text that is not within JSON, until the copy has more than most bytes.
func (c *Copy) addPlain(text string, most int) (isWhole bool) {
	for i := 0; i < len(text); i++ {
		if len(c.text) > most {
			return false
		}
		c.add(text[i])
	}
	return true
}

// between reads a character outside of strings.
func (c *Copy) between(char byte) {
	c.text = append(c.text, char)
	switch char {
	case '"':
		c.inString, c.begin, c.place = true, len(c.text), inText
		if c.name != "" {
			c.place = inData
		}
		c.name = ""
	case ' ', '\t', '\r', '\n', ':':
	default: // what was read last is no name
		c.name = ""
	}
}

// addEscape reads a character of an escape.
func (c *Copy) addEscape(char byte) {
	c.escape[c.escaped] = char
	c.escaped++
	if c.escape[1] == 'u' && c.escaped < len(c.escape) {
		return
	}
	escape := c.escape[:c.escaped]
	c.escaped = 0
	switch escape[1] {
	case '/':
		c.add('/')
		return
	case 'u':
		if code, err := strconv.ParseUint(string(escape[2:]), 16, 16); err == nil && code >= ' ' && code < 0x7F && code != '"' && code != '\\' {
			c.add(byte(code))
			return
		}
	case 'n', 'r', '\\':
		if c.line >= minLine || len(c.gap) > 0 {
			c.add(escape[0])
			c.add(escape[1])
			return
		}
	}
	c.endRun()
	c.text = append(c.text, escape...)
}

// isDigit tells of each byte whether it is a digit of base64 in either alphabet.
var isDigit = func() (is [256]bool) {
	for _, char := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_=") {
		is[char] = true
	}
	return is
}()

// add adds a character of a string, as it is written.
func (c *Copy) add(char byte) {
	if len(c.gap) > 0 && c.addToGap(char) {
		return
	}
	switch {
	case isDigit[char]:
		c.addDigit(char)
	case c.line >= minLine && len(c.gap) == 0 && (char == '\\' || char == '\n' || char == '\r'):
		c.gap = append(c.gap, char)
	default:
		c.endRun()
		if c.text = append(c.text, char); char == ',' && endsWith(c.text[:len(c.text)-1], ";base64") {
			c.place = inURL
		}
	}
}

// addToGap adds a character behind a line, if it belongs to a break, which may be escaped more than once. Behind a
// whole one, the run goes on with a digit. Anything else ends the run.
func (c *Copy) addToGap(char byte) bool {
	last := c.gap[len(c.gap)-1]
	switch isReturn := last == 'r' || last == '\r'; {
	case len(c.gap) < 32 && (last == '\\' && (char == '\\' || char == 'n' || char == 'r') || isReturn && (char == '\\' || char == '\n')):
		c.gap = append(c.gap, char)
		return true
	case last != '\\' && isDigit[char]:
		if !c.isLeft {
			c.text = append(c.text, c.gap...)
		}
		c.gap, c.line = c.gap[:0], 0
	default:
		c.endRun()
	}
	return false
}

// addDigit adds a digit of base64.
func (c *Copy) addDigit(char byte) {
	switch {
	case c.digits == 0 && endsWith(c.text, `\`): // of an escape
		c.text = append(c.text, char)
		return
	case c.digits == 0:
		c.run = len(c.text)
	}
	if c.digits == mostDigits[c.place] && (c.place != inText || isMixed(c.text[c.run:])) {
		c.text, c.isLeft = c.text[:c.run], true
	}
	c.digits++
	c.line++
	if !c.isLeft {
		c.text = append(c.text, char)
	}
}

// isMixed reports whether a run has all sorts of digits, unlike a rule or a path.
func isMixed(run []byte) bool {
	return bytes.ContainsFunc(run, unicode.IsUpper) && bytes.ContainsFunc(run, unicode.IsLower) && bytes.ContainsFunc(run, unicode.IsDigit)
}

func endsWith(text []byte, end string) bool {
	return len(text) >= len(end) && text[len(text)-1] == end[len(end)-1] && strings.EqualFold(string(text[len(text)-len(end):]), end)
}

// endRun ends a run of base64 digits.
func (c *Copy) endRun() {
	if c.digits == 0 {
		c.place = inText
		return
	}
	if c.isLeft {
		c.text = append(c.text, '[')
		c.text = strconv.AppendInt(c.text, int64(c.digits)*3/4, 10)
		c.text = append(c.text, " bytes]"...)
		c.files = true
	}
	c.text = append(c.text, c.gap...)
	c.digits, c.line, c.place, c.isLeft, c.gap = 0, 0, inText, false, c.gap[:0]
}

// spare is what a piece may add beyond its own size: an escape, a gap and the size of a file.
const spare = 64

// need returns how much memory the copy takes with n bytes more.
func (c *Copy) need(n int) int {
	if n = min(len(c.text)+n, maxRead) + spare; n <= cap(c.text) {
		return cap(c.text)
	}
	return max(n, min(2*cap(c.text), maxRead+spare))
}

// grow gets the memory for n bytes more.
func (c *Copy) grow(n int) {
	if need := c.need(n); need > cap(c.text) {
		c.text = append(make([]byte, 0, need), c.text...)
	}
}

// Size is how much memory the copy takes, in bytes.
func (c *Copy) Size() int { return cap(c.text) }

// End ends the text. Further pieces must not follow.
func (c *Copy) End() Side {
	c.endRun()
	masked, hasKeys := secrets.Mask(c.text)
	side := Side{Files: c.files, Keys: hasKeys}
	side.Text, side.Cut = cutText(masked, c.cut, MaxSide)
	side.IsJSON = !side.Cut && rawjson.Check(side.Text) == nil && utf8.Valid(side.Text)
	return side
}

// cutText cuts a text that was masked at most bytes, and tells whether it lacks an end. One that isCut was cut
// before, at some slack beyond what may be shown.
func cutText(text []byte, isCut bool, most int) (_ []byte, lacksEnd bool) {
	if isCut {
		most = min(most, max(len(text)-slack, 0))
	}
	if len(text) <= most {
		return text, isCut
	}
	text = text[:most]
	for range utf8.UTFMax - 1 { // not within a character
		if char, size := utf8.DecodeLastRune(text); char != utf8.RuneError || size != 1 {
			break
		}
		text = text[:len(text)-1]
	}
	return text, true
}

// closeJSON adds the ends to a JSON text that was cut. What is not whole goes, but for a text in the place of a
// value.
func closeJSON(text []byte) []byte {
	var ends []byte
	whole, open := 0, 0 // text lacks only so many of ends at this place
	inString, isValue := false, false
	last, code := byte(0), -1 // mark outside of strings, and place of an escape \u
	for i := 0; i < len(text); i++ {
		switch char := text[i]; {
		case inString && char == '\\':
			size := len(`\n`)
			if i+1 < len(text) && text[i+1] == 'u' {
				size = len(`\u0000`)
			}
			switch {
			case i+size > len(text):
				text = text[:i]
			case size > len(`\n`):
				code = i
			}
			i += size - 1
		case char == '"':
			if inString = !inString; inString {
				isValue = last == ':' || len(ends) > 0 && ends[len(ends)-1] == ']'
			} else if isValue {
				whole, open = i+1, len(ends)
			}
		case inString:
		case char == '{':
			last, ends = char, append(ends, '}')
			whole, open = i+1, len(ends)
		case char == '[':
			last, ends = char, append(ends, ']')
			whole, open = i+1, len(ends)
		case (char == '}' || char == ']') && len(ends) > 0:
			last, ends = char, ends[:len(ends)-1]
			whole, open = i+1, len(ends)
		case char == ',':
			last, whole, open = char, i, len(ends)
		case char == ':':
			last = char
		}
	}
	if inString && isValue {
		if code >= 0 && code+len(`\u0000`) == len(text) && isHighSurrogate(text[code:]) { // which lacks the other
			text = text[:code]
		}
		text = append(text, '"')
	} else {
		text, ends = text[:whole], ends[:open]
	}
	slices.Reverse(ends)
	return append(text, ends...)
}

// isHighSurrogate reports whether an escape \u is the first one of two that make a character.
func isHighSurrogate(escape []byte) bool {
	code, err := strconv.ParseUint(string(escape[len(`\u`):]), 16, 16)
	return err == nil && code >= 0xD800 && code < 0xDC00
}

// Side is what is kept of one side of a request.
type Side struct {
	// Text has at most MaxSide bytes. It is JSON in UTF-8 if IsJSON is true.
	Text   jsontext.Value
	IsJSON bool
	// Cut tells that Text lacks an end, Files that it has images or files as their size, and Keys that
	// keys were masked in it.
	Cut, Files, Keys bool
}

// JSON returns Text as JSON, with the ends that a cut one lacks, or nil if it is none.
func (s Side) JSON() jsontext.Value {
	if s.IsJSON {
		return s.Text
	}
	closed := closeJSON(bytes.ToValidUTF8(bytes.Clone(s.Text), nil))
	if !s.Cut || rawjson.Check(closed) != nil {
		return nil
	}
	return closed
}
