package convert

import (
	"bytes"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// node is a JSON value of an input with its place. The zero value is a missing one.
type node struct {
	file  string // the name of the input's file, or the path of a request
	path  string // the JSON Pointer in it
	value jsontext.Value
	// left is how many parts of the whole input may still be read. When it gets to 0, values have no
	// more parts, and the conversion fails. It is nil for a value that was made.
	left *int
	// isMade is set if the source has the text of the value's content alone, at this place.
	isMade bool
}

// file returns the place of a file of the input, or of the response to a request.
func (c *conversion) file(name string) node { return node{file: name, left: &c.left} }

// parse reads the JSON text of a place strictly. Its errors never quote it.
func (n node) parse(text []byte) (node, error) {
	var err error
	if n.value, err = rawjson.ReadStrict(bytes.TrimPrefix(text, []byte("\ufeff"))); err != nil {
		return node{}, fmt.Errorf("is no JSON: %w", err)
	}
	return n, nil
}

// take counts a part that is read. It is not ok if there were too many.
func (n node) take() (ok bool) {
	if n.left != nil {
		*n.left = max(0, *n.left-1)
	}
	return n.left == nil || *n.left > 0
}

// exists reports whether there is a value other than null.
func (n node) exists() bool { return len(n.value) > 0 && n.value.Kind() != 'n' }

func (n node) kind() jsontext.Kind {
	if len(n.value) == 0 {
		return 0
	}
	return n.value.Kind()
}

// get returns a member. It is missing if n is no object, or if it is null.
func (n node) get(name string) node {
	at := n.at(name)
	if n.kind() == '{' {
		at.value = rawjson.Get(n.value, name)
	}
	return at
}

// at returns the place of a member without its value.
func (n node) at(name string) node {
	return node{file: n.file, path: string(jsontext.Pointer(n.path).AppendToken(name)), left: n.left}
}

// members yields the members of an object, in their order.
func (n node) members() iter.Seq2[string, node] {
	return func(yield func(string, node) bool) {
		if n.kind() != '{' {
			return
		}
		for quoted, value := range rawjson.Pairs(n.value) {
			name, _ := rawjson.Text(quoted)
			at := n.at(name)
			at.value = value
			if !n.take() || !yield(name, at) {
				return
			}
		}
	}
}

// items yields the items of an array.
func (n node) items() iter.Seq[node] {
	return func(yield func(node) bool) {
		if n.kind() != '[' {
			return
		}
		for i, value := range rawjson.Items(n.value) {
			if !n.take() || !yield(node{file: n.file, path: n.path + "/" + strconv.Itoa(i), value: value, left: n.left}) {
				return
			}
		}
	}
}

// text returns the text of a string. It is not ok for another value.
func (n node) text() (text string, ok bool) {
	if n.kind() != '"' {
		return "", false
	}
	text, _ = rawjson.Text(n.value) // with half of a surrogate pair there is none
	return text, true
}

// textOf returns the text of a member that is a string, or an empty text.
func (n node) textOf(name string) string {
	text, _ := n.get(name).text()
	return text
}

// maxNumber bounds the numbers of versions.
const maxNumber = 1 << 30

// number returns the positive integer of a value. It may be a string. 0 stands for none.
func (n node) number() int {
	text := string(n.value)
	if quoted, ok := n.text(); ok {
		text = quoted
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 || number > maxNumber {
		return 0
	}
	return number
}

// message returns a message of a role whose content is a text at a place of the source.
func message(at node, role, content string) node {
	at.isMade = true
	at.value = rawjson.ObjectOf(rawjson.Member{Name: "role", Value: rawjson.Quote(role)}, rawjson.Member{Name: "content", Value: rawjson.Quote(content)})
	return at
}

// without returns an object without some of its members.
func (n node) without(names ...string) node {
	n.value = rawjson.Without(n.value, func(quoted jsontext.Value) bool {
		return slices.ContainsFunc(names, func(name string) bool { return rawjson.IsText(quoted, name) })
	})
	return n
}

// with returns an object with another value for a member.
func (n node) with(name string, value jsontext.Value) node {
	n.value = rawjson.With(n.value, name, value)
	return n
}
