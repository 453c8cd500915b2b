//go:build unix

package badger

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// checkUnused returns an error if another process holds the lock that Badger takes
// on a folder.
func checkUnused(folder string) error {
	file, err := os.Open(folder)
	if err != nil {
		return nil // which others will tell better
	}
	defer file.Close() // which gives the lock up again
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return errors.New("another process holds its lock")
	}
	return nil
}
