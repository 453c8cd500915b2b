// Package modelpattern has the patterns by which keys, policies and prices name models.
package modelpattern

import (
	"fmt"
	"strings"
)

const (
	// Max bounds a pattern, in bytes.
	Max      = 256
	maxStars = 4
)

// Check returns why a text is no pattern. A pattern has 1 to Max printable ASCII characters without spaces, and at most four *.
func Check(pattern string) error {
	unprintable := func(r rune) bool { return r <= ' ' || r > '~' }
	if pattern == "" || len(pattern) > Max || strings.ContainsFunc(pattern, unprintable) {
		return fmt.Errorf("must have 1 to %d printable ASCII characters and no space", Max)
	}
	if strings.Count(pattern, "*") > maxStars {
		return fmt.Errorf("must have at most %d *", maxStars)
	}
	return nil
}

// Match reports whether a model matches a pattern. A * in the pattern matches any
// characters except a colon and a comma. So a suffix like ":online" needs a pattern of its
// own. LiteLLM runs each model of a list with commas. Its time is linear in the model.
func Match(pattern, model string) bool {
	part, rest, star := strings.Cut(pattern, "*")
	model, ok := strings.CutPrefix(model, part)
	for ok && star {
		part, rest, star = strings.Cut(rest, "*")
		// The first place of a part is the best: any other leaves less to the next *.
		place := strings.Index(model, part)
		if !star {
			place = len(model) - len(part) // the pattern ends here
		}
		if place < 0 || model[place:place+len(part)] != part || strings.ContainsAny(model[:place], ":,") {
			return false
		}
		model = model[place+len(part):]
	}
	return ok && model == ""
}
