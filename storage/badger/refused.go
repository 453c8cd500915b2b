package badger

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
)

// refusals are the system's errors that say nothing about the content of a file. Another
// user or process could read it, or this one later. EIO is not among them: a disk that
// cannot read counts as damaged.
var refusals = []error{
	syscall.EACCES, syscall.EPERM, syscall.EROFS,
	syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOSPC, syscall.EDQUOT,
	syscall.EAGAIN, syscall.EINTR, syscall.EBUSY,
	syscall.ESTALE, syscall.ETIMEDOUT, syscall.ENOTCONN, // of a file system elsewhere
}

// readError wraps an error of reading a store. If the system refused to read, the result is
// errUnavailable. The data may be intact, and restoring a backup would lose the latest
// changes. Otherwise it is ErrDamaged: for wrong data, a missing file and a failing disk.
func readError(err error) error {
	if isRefusal(err) {
		return fmt.Errorf("%w: the system refuses to read the store: %w", errUnavailable, err)
	}
	return fmt.Errorf("%w, restore a backup: %w", ErrDamaged, err)
}

// isRefusal reports whether err, which is not nil, is one of refusals. It also looks at the
// text, because Badger wraps most errors as text only.
func isRefusal(err error) bool {
	for _, refusal := range refusals {
		if errors.Is(err, refusal) || strings.Contains(err.Error(), ": "+refusal.Error()) {
			return true
		}
	}
	return false
}
