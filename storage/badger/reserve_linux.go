package badger

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// reserver returns a function that gives the write-ahead logs in folder the disk
// space that they will grow into, which Badger leaves to chance: with that, another
// process that fills the disk does not make our next write fatal. That goes for the
// log after the newest, too: Badger takes an empty file under its name for a new one,
// and what it has beyond its end stays its own. Where the file system cannot do it,
// only the margin of free space is left. An error says that the next log could not be
// made, which would be Badger's end.
func reserver(folder string) func() error {
	known := make(map[string]bool)
	return func() error {
		logs, err := filepath.Glob(filepath.Join(folder, "*.mem"))
		if err != nil || len(logs) == 0 {
			return err
		}
		found := make(map[string]bool, len(logs))
		for _, name := range logs {
			if !known[name] {
				_ = reserve(name, false) // it may be gone
			}
			found[name] = true
		}
		newest := slices.Max(logs) // they are numbered, with as many digits
		if info, err := os.Stat(newest); err == nil && info.Size() > 0 {
			number, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(newest), ".mem"))
			if err != nil {
				return err
			}
			next := filepath.Join(folder, fmt.Sprintf("%05d.mem", number+1))
			if err := reserve(next, true); err != nil {
				return err
			}
			found[next] = true
		}
		known = found
		return nil
	}
}

// reserveLogs gives the write-ahead logs that there are in folder all their space.
func reserveLogs(folder string) {
	logs, _ := filepath.Glob(filepath.Join(folder, "*.mem")) // the pattern is right
	for _, name := range logs {
		_ = reserve(name, false)
	}
}

// allocate makes a file one of size bytes that has all its space. On some file
// systems that is not supported.
func allocate(file *os.File, size int64) error {
	return unix.Fallocate(int(file.Fd()), 0, 0, size)
}

// reserve gives a log, which it may have to make, all its space. Keeping the size
// makes that harmless to a log that Badger is truncating or removing at this moment.
func reserve(name string, create bool) error {
	flags := os.O_WRONLY
	if create {
		flags |= os.O_CREATE
	}
	file, err := os.OpenFile(name, flags, 0o600)
	if err != nil {
		return err
	}
	_ = unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, logSize)
	return file.Close()
}
