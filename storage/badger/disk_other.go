//go:build !linux

package badger

import (
	"errors"
	"math"
	"os"
)

// reserveLogs fails where a file cannot be created in folder, with next. Disk space cannot be
// reserved here.
func reserveLogs(folder string, next bool) error {
	if !next {
		return nil
	}
	return checkFileCreation(folder)
}

// allocate reserves nothing here.
func allocate(*os.File, int64) error { return errors.ErrUnsupported }

// freeSpace reports unlimited space here, so nothing protects against a full disk.
func freeSpace(string) (uint64, error) { return math.MaxUint64, nil }
