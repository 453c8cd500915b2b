package transcript

import (
	"bytes"
	"slices"
	"strconv"
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

	// maxRun is the longest run of base64 digits that is text. A longer one is an image or a file, and is
	// kept as its size.
	maxRun = 256
	// maxDataRun is the same for the value of a member that has a file in some API.
	maxDataRun = 64
)

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
	digits   int     // how many base64 digits the text ends with, and how many of them were left out
	left     int
	most     int // of them that are kept
}

// Add reads the next piece of the text, and keeps no part of its memory.
func (c *Copy) Add(piece []byte) {
	for i := 0; i < len(piece) && !c.cut; i++ {
		if c.left > 0 && c.escaped == 0 {
			begin := i
			for i < len(piece) && isDigit[piece[i]] {
				i++
			}
			if c.left += i - begin; i == len(piece) {
				return
			}
		}
		switch char := piece[i]; {
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
		c.cut = len(c.text) > MaxSide+slack
	}
}

// between reads a character outside of strings.
func (c *Copy) between(char byte) {
	c.text = append(c.text, char)
	switch char {
	case '"':
		c.inString, c.begin, c.most = true, len(c.text), maxRun
		if c.name != "" {
			c.most = maxDataRun
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
	if escape[1] == '/' {
		c.add('/')
		return
	}
	if escape[1] == 'u' {
		if code, err := strconv.ParseUint(string(escape[2:]), 16, 16); err == nil && code >= ' ' && code < 0x7F && code != '"' && code != '\\' {
			c.add(byte(code))
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

// add adds a character of a string.
func (c *Copy) add(char byte) {
	switch {
	case !isDigit[char]:
		c.endRun()
		if c.text = append(c.text, char); char == ',' && endsWith(c.text, ";base64,") {
			c.most = 0
		}
	case c.left > 0:
		c.left++
	case c.digits == c.most:
		c.text = c.text[:len(c.text)-c.digits]
		c.left = c.digits + 1
	default:
		c.text = append(c.text, char)
		c.digits++
	}
}

func endsWith(text []byte, end string) bool {
	return len(text) >= len(end) && string(text[len(text)-len(end):]) == end
}

// endRun ends a run of base64 digits.
func (c *Copy) endRun() {
	if c.left > 0 {
		c.text = append(c.text, '[')
		c.text = strconv.AppendInt(c.text, int64(c.left)*3/4, 10)
		c.text = append(c.text, " bytes]"...)
		c.files = true
	}
	c.digits, c.left, c.most = 0, 0, maxRun
}

// Size is how much memory the copy takes, about, in bytes.
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
