package files

import (
	"fmt"
	"strings"
)

// maxListed bounds the names in one message.
const maxListed = 50

// ShortList returns names for a message: the first 50, and how many more there are.
func ShortList(names []string) string {
	if more := len(names) - maxListed; more > 0 {
		return fmt.Sprintf("%s, and %d more", strings.Join(names[:maxListed], ", "), more)
	}
	return strings.Join(names, ", ")
}
