// Package directive reads blocks of subdirectives in a Caddyfile, for the handler and for
// the storage guests.
package directive

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// MaybeUnset ends errors about an argument that is missing or empty. Caddy replaces
// environment variables before it parses a Caddyfile. So an unset one looks like a missing
// argument.
const MaybeUnset = " (a {$NAME} may not be set in the environment)"

// Block describes the subdirectives of a block.
type Block struct {
	Place    string   // stands before names in errors
	Repeated []string // names that may be given more than once
	Nested   []string // names that take a block of their own
}

// Each calls read for each subdirective of the block at d.
func (b Block) Each(d *caddyfile.Dispenser, read func(d *caddyfile.Dispenser, name string) error) error {
	seen := make(map[string]bool)
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		name := d.Val()
		if seen[name] && !slices.Contains(b.Repeated, name) {
			return d.Errf("%s%s is given more than once", b.Place, name)
		}
		seen[name] = true
		if err := read(d, name); err != nil {
			return err
		}
		if !slices.Contains(b.Nested, name) && d.NextBlock(nesting+1) {
			return d.Errf("%s%s takes no block", b.Place, name)
		}
	}
	return nil
}

// Reader reads the arguments of a subdirective, and its block if it has one. Errors name it by its
// place, which has the names of the blocks around it.
type Reader func(d *caddyfile.Dispenser, place string) error

// Read is Each with a reader for each name. Other names are errors.
func (b Block) Read(d *caddyfile.Dispenser, readers map[string]Reader) error {
	return b.Each(d, func(d *caddyfile.Dispenser, name string) error {
		read, ok := readers[name]
		if !ok {
			return d.Errf("%sunrecognized subdirective %q", b.Place, name)
		}
		return read(d, b.Place+name)
	})
}

// Text returns the reader of a text, which is its one argument. Errors call it what.
func Text(into *string, what string) Reader {
	return func(d *caddyfile.Dispenser, place string) (err error) {
		*into, err = OnlyArg(d, place, what)
		return err
	}
}

// Flag returns the reader of a setting that is on where it stands.
func Flag(into *bool) Reader {
	return func(d *caddyfile.Dispenser, place string) error {
		if d.NextArg() {
			return d.Errf("%s takes no arguments, got %q", place, d.Val())
		}
		*into = true
		return nil
	}
}

// Choice is a setting that is one of some words. The first one is its default.
type Choice struct {
	Name  string
	Value *string
	Words []string
}

// Read is the setting's Reader.
func (c Choice) Read(d *caddyfile.Dispenser, place string) (err error) {
	*c.Value, err = OnlyWord(d, place, c.Words...)
	return err
}

// Provision sets the default, and returns an error for another value than the words.
func (c Choice) Provision() error {
	if *c.Value = cmp.Or(*c.Value, c.Words[0]); !slices.Contains(c.Words, *c.Value) {
		return fmt.Errorf("%s: %w", c.Name, errWord(*c.Value, c.Words))
	}
	return nil
}

// List is a setting of values that Check allows.
type List struct {
	Name   string
	Values *[]string
	What   string // in the error of an empty list
	Check  func(string) error
}

// Read is the setting's Reader.
func (l List) Read(d *caddyfile.Dispenser, place string) error {
	if *l.Values = d.RemainingArgs(); len(*l.Values) == 0 {
		return d.Errf("%s wants %s%s", place, l.What, MaybeUnset)
	}
	if err := l.check(); err != nil {
		return d.Errf("%s: %v", place, err)
	}
	return nil
}

// Provision returns an error if Check refuses a value.
func (l List) Provision() error {
	if err := l.check(); err != nil {
		return fmt.Errorf("%s: %w", l.Name, err)
	}
	return nil
}

func (l List) check() error {
	for _, value := range *l.Values {
		if err := l.Check(value); err != nil {
			return err
		}
	}
	return nil
}

// OnlyArg returns the one argument of a subdirective. Errors call it what, and never show
// it, because it may be a secret.
func OnlyArg(d *caddyfile.Dispenser, name, what string) (string, error) {
	args := d.RemainingArgs()
	switch {
	case len(args) == 0:
		return "", d.Errf("%s wants one argument, %s, got 0%s", name, what, MaybeUnset)
	case len(args) > 1:
		return "", d.Errf("%s wants one argument, %s, got %d", name, what, len(args))
	case args[0] == "":
		return "", d.Errf("%s wants %s, got nothing between the quotes%s", name, what, MaybeUnset)
	}
	return args[0], nil
}

// OnlyWord is OnlyArg for an argument that must be one of some words.
func OnlyWord(d *caddyfile.Dispenser, name string, words ...string) (string, error) {
	value, err := OnlyArg(d, name, list(words))
	if err == nil && !slices.Contains(words, value) {
		return "", d.Errf("%s %v", name, errWord(value, words))
	}
	return value, err
}

func errWord(value string, words []string) error {
	return fmt.Errorf("must be %s, got %q", list(words), value)
}

// list returns words as "a, b or c".
func list(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
