//go:build !linux

package badger

import (
	"errors"
	"math"
	"os"
)

// reserver returns a function that fails where a file cannot be created in folder. Disk
// space cannot be reserved here.
func reserver(folder string) func() error { return func() error { return checkFileCreation(folder) } }

// reserveLogs reserves nothing here.
func reserveLogs(string) error { return nil }

// allocate reserves nothing here.
func allocate(*os.File, int64) error { return errors.ErrUnsupported }

// freeSpace reports unlimited space here, so nothing protects against a full disk.
func freeSpace(string) (uint64, error) { return math.MaxUint64, nil }
