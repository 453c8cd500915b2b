package files

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/schema"
)

type mistakes struct{ list Errors }

func (m *mistakes) add(e *Error) { m.list = append(m.list, e) }

// err returns the mistakes in order, one of each value, nil if there are none.
func (m *mistakes) err() error {
	if len(m.list) == 0 {
		return nil
	}
	slices.SortStableFunc(m.list, func(a, b *Error) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), strings.Compare(a.Path, b.Path), strings.Compare(a.Message, b.Message))
	})
	return slices.CompactFunc(m.list, func(a, b *Error) bool { // a value that cannot be read fits no rule either
		return a.File == b.File && a.Line == b.Line && a.Column == b.Column && a.Path == b.Path
	})
}

// pointer returns the JSON Pointer (RFC 6901) of the names and indexes of a path. Like
// those of the schemas, it ends in an ellipsis if it is too long.
func pointer(path []string) string {
	var text jsontext.Pointer
	for _, segment := range path {
		text = text.AppendToken(segment)
		if len(text) > 4*schema.MaxPathLength {
			break
		}
	}
	if all := []rune(text); len(all) > schema.MaxPathLength {
		return string(all[:schema.MaxPathLength-1]) + "…"
	}
	return string(text)
}

// maxListed bounds the names in one message.
const maxListed = 50

// ShortList returns names for a message: the first 50, and how many more there are.
func ShortList(names []string) string {
	if more := len(names) - maxListed; more > 0 {
		return fmt.Sprintf("%s, and %d more", strings.Join(names[:maxListed], ", "), more)
	}
	return strings.Join(names, ", ")
}
