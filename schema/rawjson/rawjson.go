// Package rawjson walks over JSON text in place. Names and values keep the bytes that
// they were sent with.
//
// The text must be JSON (RFC 8259). An error tells the first place where it is not, and
// never quotes the text. Text that is not read is not checked.
package rawjson

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/go-json-experiment/json/jsontext"
)

// ReadStrict returns the value of a text that is one value, in which no object repeats a name and
// strings are UTF-8 (RFC 7493). The value is a part of the text.
func ReadStrict(text []byte) (jsontext.Value, error) {
	decoder := jsontext.NewDecoder(bytes.NewBuffer(text)) // which it does not copy
	value, err := decoder.ReadValue()
	if err != nil {
		return nil, describe(err)
	}
	end := int(decoder.InputOffset())
	if scanSpace(text, end) != len(text) {
		return nil, errTextAfter(end)
	}
	return text[end-len(value) : end : end], nil
}

// Member is one member of an object.
type Member struct {
	Name  string
	Value jsontext.Value
	// Quoted is the name as it was sent, with quotes and escapes.
	Quoted jsontext.Value
}

// Names are names that members often have. A member with one of them shares it, and needs
// no memory for its own. They have no characters that JSON escapes. Other names are cut as
// Head cuts them at MaxName, unless there are no Names at all.
type Names map[string]string

// MaxName is how many bytes of a name are read where Names are given.
const MaxName = 1 << 10

// NewNames returns Names of a list.
func NewNames(list ...string) Names {
	names := make(Names, len(list))
	for _, name := range list {
		names[name] = name
	}
	return names
}

func (n Names) text(quoted jsontext.Value) (name string) {
	if name, ok := n[string(quoted[1:len(quoted)-1])]; ok {
		return name
	}
	if n == nil {
		name, _ = Text(quoted)
	} else {
		name, _ = Head(quoted, MaxName)
	}
	return name
}

// Object yields the members of text, an object. An error ends the loop.
func Object(text []byte) iter.Seq2[Member, error] { return Names(nil).Object(text) }

// Object yields the members of text, an object. An error ends the loop.
func (n Names) Object(text []byte) iter.Seq2[Member, error] {
	return func(yield func(Member, error) bool) { n.scan(text, yield) }
}

// scan yields the members of an object.
func (n Names) scan(text []byte, yield func(Member, error) bool) {
	i := scanMark(text, 0, '{')
	if i < 0 {
		yield(Member{}, cmp.Or(Check(text), errNoObject))
		return
	}
	isLast := false
	if end := scanMark(text, i, '}'); end >= 0 {
		i, isLast = end, true
	}
	for !isLast {
		var m Member
		if m, i, isLast = scanMember(text, i, maxDepth-1); m.Value != nil {
			m.Name = n.text(m.Quoted)
			if !yield(m, nil) {
				return
			}
		}
		if i < 0 {
			yield(Member{}, scanError(text, i))
			return
		}
	}
	if scanSpace(text, i) != len(text) {
		yield(Member{}, errTextAfter(i))
	}
}

// Check returns an error unless text is one value.
func Check(text []byte) error {
	begin := scanSpace(text, 0)
	if begin == len(text) {
		return errEndsAt(0)
	}
	end := scanValue(text, begin, maxDepth)
	switch {
	case end < 0:
		return scanError(text, end)
	case scanSpace(text, end) != len(text):
		return errTextAfter(end)
	}
	return nil
}

// Members returns the members of text, an object.
func Members(text []byte) (members []Member, err error) {
	for m, err := range Object(text) {
		if err != nil {
			return nil, err
		}
		members = append(members, m)
	}
	return members, nil
}

// Pairs yields the names, as they were sent, and the values of an object that was
// checked. Other values have none.
func Pairs(object jsontext.Value) iter.Seq2[jsontext.Value, jsontext.Value] {
	return func(yield func(name, value jsontext.Value) bool) {
		c := cursor{object}
		for more := c.enter('{'); more; {
			name := c.next()
			more = len(name) > 0 && yield(name, c.next())
		}
	}
}

// Items yields the items of an array that was checked, numbered. Other values have
// none.
func Items(array jsontext.Value) iter.Seq2[int, jsontext.Value] {
	return func(yield func(int, jsontext.Value) bool) {
		c := cursor{array}
		more := c.enter('[')
		for i := 0; more; i++ {
			item := c.next()
			more = len(item) > 0 && yield(i, item)
		}
	}
}

// FromFirst returns the text of an array that was checked from its first item on, for Pairs of that item. It saves
// a search for the item's end, which may be far. Other values and empty arrays have none.
func FromFirst(array jsontext.Value) jsontext.Value {
	if len(array) == 0 || array[0] != '[' {
		return nil
	}
	return bytes.TrimLeft(array[1:], " \n\t\r]")
}

// SplitItems splits an array that was checked. head has the first items for which
// leads is true, with commas between. tail has the other items and the closing bracket.
func SplitItems(array jsontext.Value, leads func(item jsontext.Value) bool) (head, tail jsontext.Value) {
	c := cursor{array}
	if !c.enter('[') {
		return nil, array
	}
	items, end := c.rest, 0
	for {
		item := c.next()
		begin := len(items) - len(c.rest) - len(item)
		if len(item) == 0 || !leads(item) {
			return items[:end:end], items[begin:]
		}
		if end == 0 {
			items, begin = items[begin:], 0
		}
		end = begin + len(item)
	}
}

// Offset returns where part is in whole. It must be one of the values that the functions of this
// package found in whole, whose memory it shares.
func Offset(whole, part jsontext.Value) int {
	for at := 0; ; at++ {
		at += bytes.Index(whole[at:], part)
		if &whole[at] == &part[0] {
			return at
		}
	}
}

// cursor goes through an object or array that was checked. It only looks for the
// ends of values. The decoder would check them again, which takes three times as long.
type cursor struct {
	rest jsontext.Value
}

func (c *cursor) enter(bracket byte) bool {
	if len(c.rest) == 0 || c.rest[0] != bracket {
		return false
	}
	c.rest = c.rest[1:]
	return true
}

// next returns the next name or value. It returns none at the end.
func (c *cursor) next() jsontext.Value {
	start := 0
	for start < len(c.rest) && isBetween(c.rest[start]) {
		start++
	}
	text := c.rest[start:]
	end := endOf(text)
	c.rest = text[end:]
	return text[:end:end]
}

// isBetween reports whether a character may stand between two values.
func isBetween(char byte) bool {
	return char == ',' || char == ':' || char == ' ' || char == '\n' || char == '\t' || char == '\r'
}

// endOf returns where the value that begins text ends, 0 if text begins with a closing
// bracket.
func endOf(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch char := text[i]; {
		case char == '"':
			i += endOfString(text[i:])
		case char == '{' || char == '[':
			depth++
			continue
		case char == '}' || char == ']':
			if depth--; depth < 0 {
				return i // the bracket of the parent ends a number or a word
			}
		case depth > 0 || !isBetween(char):
			continue
		default:
			return i
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(text)
}

// endOfString returns where the closing quote of the string that begins text is. Text with one escaped
// quote often has many, which are skipped in blocks.
func endOfString(text []byte) int {
	for i := 1; ; {
		length := bytes.IndexByte(text[i:], '"')
		if length < 0 {
			return len(text) - 1
		}
		i += length
		backslashes := 0
		for text[i-1-backslashes] == '\\' {
			backslashes++
		}
		if backslashes%2 == 0 {
			return i
		}
		i++
		i += skipSimple(text[i:min(i+maxSkip, len(text))])
	}
}

// Get returns the first member of a name that is not null, of an object that was
// checked. It returns nil if there is none.
func Get(object jsontext.Value, name string) jsontext.Value {
	for quoted, value := range Pairs(object) {
		if value.Kind() != 'n' && IsText(quoted, name) {
			return value
		}
	}
	return nil
}

// Pick sets found to what Get finds by each of names, which are as many, in one pass. found is empty before.
func Pick(object jsontext.Value, names []string, found []jsontext.Value) {
	for quoted, value := range Pairs(object) {
		inside := insideOf(quoted)
		isPlain := bytes.IndexByte(inside, '\\') < 0
		for i, name := range names {
			if found[i] == nil && (isPlain && string(inside) == name || !isPlain && IsText(quoted, name)) && value.Kind() != 'n' {
				found[i] = value
			}
		}
	}
}

// At returns what Get finds by a path of names, or nil. An empty path leads to value itself.
func At(value jsontext.Value, path ...string) jsontext.Value {
	for _, name := range path {
		value = Get(value, name)
	}
	return value
}

// Find returns the value of the first of members that has a name and is not null, or nil.
func Find(members []Member, name string) jsontext.Value {
	for _, m := range members {
		if m.Name == name && m.Value.Kind() != 'n' {
			return m.Value
		}
	}
	return nil
}

// ArrayOf returns an array of items.
func ArrayOf(items ...jsontext.Value) jsontext.Value {
	size := len("[]") + len(items)
	for _, item := range items {
		size += len(item)
	}
	text := append(make(jsontext.Value, 0, size), '[')
	for i, item := range items {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(text, item...)
	}
	return append(text, ']')
}

// NewMember returns a member of an object that is to be made.
func NewMember(name string, value jsontext.Value) Member { return Member{name, value, Quote(name)} }

// ObjectOf returns an object of members.
func ObjectOf(members ...Member) jsontext.Value {
	text := jsontext.Value{'{'}
	for _, m := range members {
		text = AppendMember(text, Quote(m.Name), m.Value)
	}
	return append(text, '}')
}

// Quote returns text as a JSON string. Text that is not UTF-8 gets replacement characters.
func Quote(text string) jsontext.Value {
	quoted, _ := jsontext.AppendQuote(nil, text)
	return quoted
}

// QuotedSize returns how many bytes a text of UTF-8 has as Quote writes it.
func QuotedSize(text []byte) int {
	size := len(`""`) + len(text)
	for _, b := range text {
		switch b {
		case '"', '\\', '\b', '\f', '\n', '\r', '\t':
			size++
		default:
			if b < ' ' {
				size += len(`\u001f`) - 1
			}
		}
	}
	return size
}

// maxDepth is how deep the decoder lets JSON nest.
const maxDepth = 10_000

var (
	errNoObject = errors.New("must be an object")
	errTooDeep  = fmt.Errorf("must not nest deeper than %d levels", maxDepth)
)

func errEndsAt(i int) error    { return fmt.Errorf("ends too early, at byte %d", i) }
func errInvalidAt(i int) error { return fmt.Errorf("not valid JSON at byte %d", i) }
func errTextAfter(i int) error { return fmt.Errorf("has text after its end at byte %d", i) }

// describe returns an error with the place where text stops being JSON. The decoder's own
// message may quote the text.
func describe(err error) error {
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case !ok: // there is no value at all
		return errEndsAt(0)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errEndsAt(int(syntax.ByteOffset))
	case syntax.Err.Error() == "exceeded max depth": // the package exports no such error
		return errTooDeep
	}
	return errInvalidAt(int(syntax.ByteOffset))
}
