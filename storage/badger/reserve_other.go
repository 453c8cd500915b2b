//go:build !linux

package badger

import (
	"errors"
	"os"
)

// reserver returns a function that finds out whether a file can be created in folder.
// There is no way to reserve a file's space here.
func reserver(folder string) func() error { return func() error { return tryFile(folder) } }

// reserveLogs would give the write-ahead logs that there are all their space.
func reserveLogs(string) {}

// allocate would give a file all its space.
func allocate(*os.File, int64) error { return errors.ErrUnsupported }
