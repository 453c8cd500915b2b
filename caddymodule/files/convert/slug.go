package convert

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/caddy-presets/caddy-presets/domain"
)

// outsideSlug are the characters that a slug cannot have.
var outsideSlug = regexp.MustCompile(`[^A-Za-z0-9._~-]+`)

const (
	// hashDigits is the length of a name's hash behind a slug: 40 bits.
	hashDigits = 10
	// noSlug is the slug of a name without a letter or digit that a slug can have.
	noSlug = "prompt"
)

// slugOf returns the slug of a name. A valid one stays. Otherwise a hyphen stands for each
// run of other characters, and the slug begins and ends with a letter or digit. A hash of the
// name follows where letters are missing, since other names have the same remaining ones.
func slugOf(name string) string {
	if domain.CheckPresetSlug(name) == nil {
		return name
	}
	slug := trimSlug(outsideSlug.ReplaceAllString(name, "-"))
	lost := strings.ContainsFunc(name, func(r rune) bool {
		return r > unicode.MaxASCII && unicode.In(r, unicode.L, unicode.M, unicode.N)
	})
	if slug == "" || lost || len(slug) > domain.MaxPresetSlug {
		return hashedSlug(name)
	}
	return slug
}

// hashedSlug returns the slug of a name that no other name has.
func hashedSlug(name string) string {
	slug := cmp.Or(trimSlug(outsideSlug.ReplaceAllString(name, "-")), noSlug)
	if most := domain.MaxPresetSlug - hashDigits - 1; len(slug) > most {
		slug = trimSlug(slug[:most])
	}
	sum := sha256.Sum256([]byte(name))
	return slug + "-" + hex.EncodeToString(sum[:])[:hashDigits]
}

func trimSlug(slug string) string { return strings.Trim(slug, "._~-") }

// slugs gives the prompts of a conversion their slugs, whatever the order of the prompts. Slugs
// that differ only in case cannot be files in one folder everywhere, so they count as equal.
// Of equal ones each gets the hash of its name, except for the only one whose name is a slug, or else
// the one with small letters alone.
func slugs(prompts []*prompt) []string {
	all := make([]string, len(prompts))
	equal := make(map[string][]int)
	for i, p := range prompts {
		all[i] = slugOf(p.name)
		folded := strings.ToLower(all[i])
		equal[folded] = append(equal[folded], i)
	}
	isSlug := func(i int) bool { return domain.CheckPresetSlug(prompts[i].name) == nil }
	for folded, group := range equal {
		named := slices.DeleteFunc(slices.Clone(group), func(i int) bool { return !isSlug(i) })
		for _, i := range group {
			keeps := isSlug(i) && (len(named) == 1 || prompts[i].name == folded)
			if len(group) > 1 && !keeps {
				all[i] = hashedSlug(prompts[i].name)
			}
		}
	}
	return all
}
