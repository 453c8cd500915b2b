package files

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxErrors bounds the mistakes in Errors. If there are more, a last one says how many.
const MaxErrors = 100

// mistakes collects mistakes. It keeps enough of them to show the first ones in order.
type mistakes struct {
	list Errors
	lost int
}

func (m *mistakes) add(e *Error) {
	if len(m.list) == 10*MaxErrors {
		m.lost++
		return
	}
	m.list = append(m.list, e)
}

// err returns the mistakes in order, nil if there are none.
func (m *mistakes) err() error {
	if len(m.list) == 0 {
		return nil
	}
	slices.SortStableFunc(m.list, func(a, b *Error) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), strings.Compare(a.Path, b.Path), strings.Compare(a.Message, b.Message))
	})
	all := slices.CompactFunc(m.list, func(a, b *Error) bool { return *a == *b })
	if lost := m.lost + len(all) - MaxErrors; lost > 0 {
		all = append(all[:MaxErrors:MaxErrors], &Error{Message: fmt.Sprintf("and %d more mistakes", lost)})
	}
	return all
}

// pointer returns the JSON Pointer (RFC 6901) of the names and indexes of a path.
func pointer(path []string) string {
	var text strings.Builder
	for _, segment := range path {
		text.WriteByte('/')
		_, _ = pointerEscapes.WriteString(&text, segment)
	}
	return text.String()
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

// segments returns the names and indexes of a JSON Pointer.
func segments(pointer string) []string {
	if pointer == "" {
		return nil
	}
	all := strings.Split(pointer[1:], "/")
	for i, segment := range all {
		all[i] = strings.ReplaceAll(strings.ReplaceAll(segment, "~1", "/"), "~0", "~")
	}
	return all
}

// printable returns a name that a message shows: its first characters, with quotes and
// escapes where a terminal could take them for something else.
func printable(name string) string {
	const most = 64
	if runes := []rune(name); len(runes) > most {
		name = string(runes[:most]) + "…"
	}
	if quoted := strconv.QuoteToGraphic(name); quoted != `"`+name+`"` || name == "" {
		return quoted
	}
	return name
}
