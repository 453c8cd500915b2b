package badger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/caddy-presets/caddy-presets/storage/fileowner"
)

// lockName is the file that a process locks before it reads a store, and while it uses the
// store. While a Store is open it has the number of the process, for people.
const lockName = MarkerName + "-LOCK"

var errLocked = errors.New("another process has its lock")

// storeLock holds the locks of a store: lockName, and the folder, which is Badger's lock. It is
// empty for a folder that is claimed.
type storeLock struct{ file, folder *os.File }

// lockStore locks the store in folder. It takes Badger's lock, too. Badger would release that by
// closing it, which may take effect later: see unlock.
func lockStore(folder string) (l storeLock, err error) {
	if l.file, err = lock(filepath.Join(folder, lockName)); err == nil {
		if l.folder, err = lockExisting(folder); err != nil {
			err = errors.Join(err, unlock(l.file))
		}
	}
	if errors.Is(err, errLocked) {
		return storeLock{}, inUse(folder, err)
	}
	if err != nil { // a file system that cannot be written, say
		return storeLock{}, fmt.Errorf("%w: locking the store in %s: %w", errUnavailable, folder, err)
	}
	return l, nil
}

// LockFolder keeps other callers of LockFolder out of a folder until release is called, if its file
// system has such locks. The error is ErrInUse if another process or call has it.
func LockFolder(name string) (release func(), err error) {
	file, err := lockExisting(name)
	if errors.Is(err, errLocked) {
		return nil, fmt.Errorf("%s: %w", name, ErrInUse)
	}
	if err != nil {
		return func() {}, nil //nolint:nilerror // it has no locks, or whoever reads it next meets the error
	}
	return func() { _ = unlock(file) }, nil
}

// release unlocks the store. Others can use what root has made in the folder.
func (l storeLock) release() error {
	if l.file == nil {
		return nil
	}
	fileowner.Adopt(l.folder.Name())
	return errors.Join(unlock(l.folder), unlock(l.file))
}

// setHolder writes the number of a process into the lock, or none. There may be no space for it.
func (l storeLock) setHolder(text string) {
	if l.file != nil && l.file.Truncate(0) == nil {
		_, _ = l.file.WriteAt([]byte(text), 0)
	}
}

// inUse returns the error of a folder that another process has open.
func inUse(folder string, err error) error {
	return misuseError{fmt.Errorf("the store in %s is in use: only one process at a time can open it (%w: %w)", folder, ErrInUse, err)}
}
