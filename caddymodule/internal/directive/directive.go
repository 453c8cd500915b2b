// Package directive reads blocks of subdirectives in a Caddyfile, for the handler and for
// the storage guests.
package directive

import (
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
		return "", d.Errf("%s %v", name, CheckWord(value, words...))
	}
	return value, err
}

// CheckWord returns an error unless value is one of some words.
func CheckWord(value string, words ...string) error {
	if slices.Contains(words, value) {
		return nil
	}
	return fmt.Errorf("must be %s, got %q", list(words), value)
}

// list returns words as "a, b or c".
func list(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
