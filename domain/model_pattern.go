package domain

import (
	"fmt"
	"strings"
)

// MaxModelPattern bounds a model pattern, in bytes.
const MaxModelPattern = 256

const maxPatternStars = 4

// CheckModelPattern returns why a text is no model pattern. A pattern has 1 to
// MaxModelPattern printable ASCII characters without spaces, and at most four *.
func CheckModelPattern(pattern string) error {
	unprintable := func(r rune) bool { return r <= ' ' || r > '~' }
	if pattern == "" || len(pattern) > MaxModelPattern || strings.ContainsFunc(pattern, unprintable) {
		return fmt.Errorf("must have 1 to %d printable ASCII characters and no space", MaxModelPattern)
	}
	if strings.Count(pattern, "*") > maxPatternStars {
		return fmt.Errorf("must have at most %d *", maxPatternStars)
	}
	return nil
}

// MatchModel reports whether a model matches a pattern. A * in the pattern matches any
// characters except a colon and a comma. So a suffix like ":online" needs a pattern of its
// own. LiteLLM runs each model of a list with commas. Its time is linear in the model.
func MatchModel(pattern, model string) bool {
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
