package convert

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/caddy-presets/caddy-presets/domain"
)

// outsideSlug are the characters that a slug cannot have.
var outsideSlug = regexp.MustCompile(`[^A-Za-z0-9._~-]+`)

const (
	// roomForNumber is the room for a number behind a slug.
	roomForNumber = 8
	// noSlug is the slug of a name without a letter or digit that a slug can have.
	noSlug = "prompt"
)

// slugOf returns the slug of a name. A valid one stays. Otherwise a hyphen stands for each
// run of other characters. The slug then begins and ends with a letter or digit.
func slugOf(name string) string {
	if domain.CheckPresetSlug(name) == nil {
		return name
	}
	slug := trimSlug(outsideSlug.ReplaceAllString(name, "-"))
	if len(slug) > domain.MaxPresetSlug {
		slug = trimSlug(slug[:domain.MaxPresetSlug])
	}
	if slug == "" {
		return noSlug
	}
	return slug
}

func trimSlug(slug string) string { return strings.Trim(slug, "._~-") }

// slugs gives the prompts of a conversion their slugs. Slugs that differ only in case
// cannot be files in one folder everywhere, so they count as equal.
func slugs(prompts []*prompt) []string {
	given := slugList{taken: make(map[string]bool), next: make(map[string]int)}
	all := make([]string, len(prompts))
	// Names that are slugs keep them, wherever they stand.
	for _, valid := range []bool{true, false} {
		for i, p := range prompts {
			if (domain.CheckPresetSlug(p.name) == nil) == valid {
				all[i] = given.free(slugOf(p.name))
			}
		}
	}
	return all
}

// slugList has the slugs that are given.
type slugList struct {
	taken map[string]bool
	// next are the first numbers that may be free, by the text before the number.
	next map[string]int
}

// free returns slug, or with a number behind it if it is taken. It takes the result.
func (l *slugList) free(slug string) string {
	free := slug
	base := slug[:min(len(slug), domain.MaxPresetSlug-roomForNumber)]
	folded := strings.ToLower(base)
	for l.taken[strings.ToLower(free)] {
		n := max(l.next[folded], 2)
		l.next[folded] = n + 1
		free = base + "-" + strconv.Itoa(n)
	}
	l.taken[strings.ToLower(free)] = true
	return free
}
