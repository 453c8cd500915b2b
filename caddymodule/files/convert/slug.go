package convert

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
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
// Of equal ones each gets the hash of its name, except for the keeper of them.
func slugs(prompts []*prompt) []string {
	all := make([]string, len(prompts))
	equal := make(map[string][]int)
	for i, p := range prompts {
		all[i] = slugOf(p.name)
		folded := strings.ToLower(all[i])
		equal[folded] = append(equal[folded], i)
	}
	for folded, group := range equal {
		if len(group) == 1 {
			continue
		}
		keeper := keeperOf(prompts, group, folded)
		for _, i := range group {
			if i != keeper {
				all[i] = hashedSlug(prompts[i].name)
			}
		}
	}
	return all
}

// keeperOf returns which of a group of prompts with equal slugs keeps its name as the slug, -1 for
// none. It is the only one whose name is a slug, or else the one with small letters alone.
func keeperOf(prompts []*prompt, group []int, folded string) int {
	keeper, valid := -1, 0
	for _, i := range group {
		if domain.CheckPresetSlug(prompts[i].name) != nil {
			continue
		}
		if valid++; valid == 1 || prompts[i].name == folded {
			keeper = i
		}
	}
	if valid > 1 && prompts[keeper].name != folded {
		return -1
	}
	return keeper
}
