package caddymodule

import (
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// placeholderPrefix is the prefix of our placeholders.
const placeholderPrefix = "http.presets."

// placeholders are the values of our placeholders for one request, which access logs can
// use. All our handlers on the way of the request share them. They are one provider for
// the Replacer, because to set each value there costs more.
type placeholders struct {
	set []placeholder
	// emptyByDefault makes placeholders without a value empty. Otherwise header_up and
	// the like would send their names upstream.
	emptyByDefault bool
}

type placeholder struct{ name, value string }

// placeholdersOf returns the placeholders of a request. It makes them for the first of our
// handlers.
func placeholdersOf(repl *caddy.Replacer) *placeholders {
	known, _ := repl.Get(placeholderPrefix) // the empty name stands for the placeholders themselves
	if p, ok := known.(*placeholders); ok {
		return p
	}
	p := new(placeholders)
	repl.Map(p.get)
	return p
}

func (p *placeholders) get(key string) (any, bool) {
	name, ours := strings.CutPrefix(key, placeholderPrefix)
	if !ours {
		return nil, false
	}
	if name == "" {
		return p, true
	}
	for _, known := range p.set {
		if known.name == name {
			return known.value, true
		}
	}
	return "", p.emptyByDefault
}

// String returns the value of the placeholder with the empty name: nothing.
func (*placeholders) String() string { return "" }

// setPlaceholder sets the value of one of our placeholders.
func (c *call) setPlaceholder(name, value string) {
	p := c.placeholders
	if p == nil {
		return
	}
	for i, known := range p.set {
		if known.name == name {
			p.set[i].value = value
			return
		}
	}
	if p.set == nil {
		p.set = make([]placeholder, 0, 6) // as many as there are
	}
	p.set = append(p.set, placeholder{name, value})
}
