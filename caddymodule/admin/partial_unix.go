//go:build unix

package admin

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// hold keeps removeLeftOver from removing a new file until release is called, also once the
// file is closed. The kernel calls release for a process that is killed. hold fails if
// removeLeftOver was first.
func hold(file *os.File) (release func(), err error) {
	number, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	same := os.NewFile(uintptr(number), file.Name())
	release = func() { _ = same.Close() }
	// A file system without locks gives another error. removeLeftOver gets it, too.
	err = unix.Flock(number, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || !hasItsName(same) {
		release()
		return nil, nameTakenError(file.Name() + " was removed by another run")
	}
	return release, nil
}

// removeLeftOver removes a file unless a live process holds it.
func removeLeftOver(name string) (isRemoved bool, err error) {
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return false, err
	}
	defer file.Close()
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || err == nil && !hasItsName(file) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, os.Remove(name)
}

// hasItsName reports whether the name of an open file still leads to it.
func hasItsName(file *os.File) bool {
	opened, err := file.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(file.Name())
	return err == nil && os.SameFile(opened, named)
}
