package caddymodule

import (
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// placeholderPrefix begins the names of our placeholders.
const placeholderPrefix = "http.presets."

// notes are the placeholders of ours that one request has, which access logs can
// name. They are one provider of values for its Replacer, shared by all handlers
// of ours that it passes: to set each value there costs more.
type notes struct {
	set []noted
	// rest makes those empty that have no value: in header_up and the like they
	// would go upstream by their name.
	rest bool
}

type noted struct{ name, value string }

// notesOf returns the notes of a request, which an earlier handler may have begun.
func notesOf(repl *caddy.Replacer) *notes {
	known, _ := repl.Get(placeholderPrefix) // a placeholder of no name gives the notes themselves
	if n, ok := known.(*notes); ok {
		return n
	}
	n := new(notes)
	repl.Map(n.get)
	return n
}

func (n *notes) get(key string) (any, bool) {
	name, ours := strings.CutPrefix(key, placeholderPrefix)
	if !ours {
		return nil, false
	}
	if name == "" {
		return n, true
	}
	for _, known := range n.set {
		if known.name == name {
			return known.value, true
		}
	}
	return "", n.rest
}

// String returns nothing, for who uses that placeholder.
func (*notes) String() string { return "" }

// note sets a placeholder of ours.
func (c *call) note(name, value string) {
	n := c.notes
	if n == nil {
		return
	}
	for i, known := range n.set {
		if known.name == name {
			n.set[i].value = value
			return
		}
	}
	if n.set == nil {
		n.set = make([]noted, 0, 6) // as many as there are
	}
	n.set = append(n.set, noted{name, value})
}
