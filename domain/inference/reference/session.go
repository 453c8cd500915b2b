package reference

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/caddy-presets/caddy-presets/domain"
)

// maxSessionID bounds a session id, in characters (specification, "Limits").
const maxSessionID = 256

func isShortSession(id string) bool { return utf8.RuneCountInString(id) <= maxSessionID }

// CheckSessionID returns an Invalid error at place if id has more than 256 characters
// (specification, "Limits").
func CheckSessionID(place, id string) error {
	if !isShortSession(id) {
		return domain.InvalidAt(place, fmt.Sprintf("must be at most %d characters", maxSessionID))
	}
	return nil
}

// UsableSession returns id. It returns an empty text if id is too long, or if a header
// cannot hold it.
func UsableSession(id string) string {
	unusable := func(r rune) bool { return r == utf8.RuneError || unicode.IsControl(r) }
	if !isShortSession(id) || strings.ContainsFunc(id, unusable) {
		return ""
	}
	return id
}
