package modelpattern

import (
	"strings"
	"testing"
)

func TestMatchModel(t *testing.T) {
	for _, tc := range []struct {
		pattern, model string
		want           bool
	}{
		{"a/b", "a/b", true},
		{"a/b", "a/b:online", false},
		{"a/b", "a/", false},
		{"a/*", "a/b", true},
		{"a/*", "a/", true},
		{"a/*", "a/b/c", true},
		{"a/*", "a/b:online", false},
		{"a/*:online", "a/b:online", true},
		{"a/*:*", "a/b:online", true},
		{"a/*:*", "a/b:free:online", false},
		{"a/*", "a/b,c/d", false},
		{"a/*", "a/b,a/c", false},
		{"*", "a,b", false},
		{"a/*,a/*", "a/b,a/c", true},
		{"a/b,c", "a/b,c", true},
		{"*", "", true},
		{"*", "a:b", false},
		{"*b*", "abc", true},
		{"*b*", "ac", false},
		{"*b*c", "abbcbc", true},
		{"*b*c", "abbcb", false},
		{"a*a", "a", false},
		{"", "a", false},
		{"****b", strings.Repeat("a", 1<<20), false},
		{"*ab*ab*ab*c", strings.Repeat("ab", 1<<19), false},
	} {
		if got := Match(tc.pattern, tc.model); got != tc.want {
			t.Errorf("%s and %.40s: got %t", tc.pattern, tc.model, got)
		}
	}
}

// TestMatchModelTriesEveryPlace compares MatchModel with a search that tries every place, for
// all short patterns and models.
func TestMatchModelTriesEveryPlace(t *testing.T) {
	var search func(pattern, model string) bool
	search = func(pattern, model string) bool {
		if pattern == "" || model == "" {
			return strings.Trim(pattern, "*") == "" && model == ""
		}
		if pattern[0] == '*' {
			return search(pattern[1:], model) || !strings.ContainsAny(model[:1], ":,") && search(pattern, model[1:])
		}
		return pattern[0] == model[0] && search(pattern[1:], model[1:])
	}
	words := func(characters string, longest int) []string {
		all := []string{""}
		for shorter := all; longest > 0; longest-- {
			var longer []string
			for _, word := range shorter {
				for _, c := range characters {
					longer = append(longer, word+string(c))
				}
			}
			all, shorter = append(all, longer...), longer
		}
		return all
	}
	models := words("ab:,", 5)
	for _, pattern := range words("*ab:,", 4) {
		for _, model := range models {
			if got, want := Match(pattern, model), search(pattern, model); got != want {
				t.Fatalf("%q and %q: got %t, want %t", pattern, model, got, want)
			}
		}
	}
}
