package badger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// reserveLogs reserves disk space for the write-ahead logs in folder. Badger writes to them
// through memory maps, and the system kills a process whose write finds no space. With the
// reservation another process that fills the disk does no harm to the logs.
//
// With next, it also makes and reserves the log after the newest one. Badger uses an empty
// file under the name of its next log. reserveLogs fails if that file cannot be made, or if
// there is no space for a log. Some file systems reserve nothing, and some copy each block
// that is written again. There only the margin of free space protects a write.
func reserveLogs(folder string, next bool) error {
	logs, err := filepath.Glob(filepath.Join(folder, "*.mem"))
	for _, name := range logs {
		err = errors.Join(err, reserve(name, false))
	}
	if err != nil || len(logs) == 0 || !next {
		return err
	}
	newest := slices.MaxFunc(logs, compareLogs)
	if info, err := os.Stat(newest); err != nil || info.Size() == 0 {
		return nil //nolint:nilerror // it is gone, so there is a newer one
	}
	number, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(newest), ".mem"))
	if err != nil {
		return err
	}
	return reserve(filepath.Join(folder, fmt.Sprintf("%05d.mem", number+1)), true)
}

// allocate gives a file the length size and all its disk space. The error is
// errors.ErrUnsupported where the file system cannot do that.
func allocate(file *os.File, size int64) error { return fallocate(file, 0, size) }

// reserve reserves the disk space of a log, and makes the log if create is set. It keeps
// the log's length, so Badger may truncate or remove the log at the same time. It ignores
// a log that is gone, and a file system that cannot reserve.
func reserve(name string, create bool) error {
	flags := os.O_WRONLY
	if create {
		flags |= os.O_CREATE
	}
	file, err := os.OpenFile(name, flags, 0o600)
	if errors.Is(err, fs.ErrNotExist) && !create {
		return nil
	}
	if err != nil {
		return err
	}
	err = fallocate(file, unix.FALLOC_FL_KEEP_SIZE, reservedLog)
	if errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, file.Close())
}

// fallocate makes the system call, again after a signal.
func fallocate(file *os.File, mode uint32, size int64) error {
	for {
		err := unix.Fallocate(int(file.Fd()), mode, 0, size)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return &fs.PathError{Op: "fallocate", Path: file.Name(), Err: err}
		}
		return nil
	}
}

// freeSpace returns the bytes that this user can still write to the file system of folder.
func freeSpace(folder string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(s.Bsize), nil
}
