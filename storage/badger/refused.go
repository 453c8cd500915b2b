package badger

import (
	"errors"
	"fmt"
	"strings"
)

// unreadable returns the error of a store that err kept from being read. Where the
// system refused to read it that is errUnavailable: nothing is known of what is stored,
// and whoever restored a backup would lose what came after that. All else is ErrDamaged:
// what was read and is wrong, a file that is missing, and one that the disk fails to read.
func readError(err error) error {
	if isRefusal(err) {
		return fmt.Errorf("%w: the system refuses to read the store: %w", errUnavailable, err)
	}
	return fmt.Errorf("%w, restore a backup: %w", ErrDamaged, err)
}

// refused reports whether err, which is not nil, is one of refusals. Of most of its
// errors Badger keeps nothing but the text.
func isRefusal(err error) bool {
	for _, refusal := range refusals {
		if errors.Is(err, refusal) || strings.Contains(err.Error(), ": "+refusal.Error()) {
			return true
		}
	}
	return false
}
