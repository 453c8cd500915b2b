//go:build !linux

package badger

import (
	"errors"
	"os"
)

// reserver returns nil: there is no way to reserve a file's space here.
func reserver(string) func() { return nil }

// allocate would give a file all its space.
func allocate(*os.File, int64) error { return errors.ErrUnsupported }
