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
	slug := cmp.Or(trimSlug(outsideSlug.ReplaceAllString(name, "-")), noSlug)
	lost := strings.ContainsFunc(name, func(r rune) bool {
		return r > unicode.MaxASCII && unicode.In(r, unicode.L, unicode.M, unicode.N)
	})
	if slug != noSlug && !lost && len(slug) <= domain.MaxPresetSlug {
		return slug
	}
	sum := sha256.Sum256([]byte(name))
	return trimSlug(slug[:min(len(slug), domain.MaxPresetSlug-hashDigits-1)]) + "-" + hex.EncodeToString(sum[:])[:hashDigits]
}

func trimSlug(slug string) string { return strings.Trim(slug, "._~-") }
