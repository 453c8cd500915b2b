//go:build unix

package badger

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// locks reports whether lock locks anything here.
const locks = true

// lock locks a file against other processes and calls, until unlock is called with the returned
// file. The error is errLocked if it is locked already.
func lock(name string) (*os.File, error) { return lockFile(name, os.O_RDWR|os.O_CREATE) }

// lockExisting is lock for a file or a folder that exists, which it does not change.
func lockExisting(name string) (*os.File, error) { return lockFile(name, os.O_RDONLY) }

// lockFile opens a file with flags, and locks it.
func lockFile(name string, flags int) (*os.File, error) {
	file, err := os.OpenFile(name, flags, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = errLocked
		}
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// unlock unlocks and closes a file that lock returned. A process that another goroutine is starting
// has the file until it executes its program, so closing alone would unlock it later.
func unlock(file *os.File) error {
	return errors.Join(unix.Flock(int(file.Fd()), unix.LOCK_UN), file.Close())
}

// checkDescriptors returns an error if this process has nearly as many files open as it may.
// It opens one file, which gets the lowest free number.
func checkDescriptors(folder string) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return nil // unknown
	}
	n, err := unix.Open(folder, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return errDescriptors
	}
	_ = unix.Close(n)
	most := uint64(limit.Cur) //nolint:unconvert // it has another type on FreeBSD
	if spare := min(spareDescriptors, most/4); uint64(n)+spare > most {
		return errDescriptors
	}
	return nil
}
