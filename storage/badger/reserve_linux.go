package badger

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// reserver returns a function that gives each new write-ahead log in folder
// the disk space that it will grow into, which Badger leaves to chance: with
// that, another process that fills the disk does not make our next write fatal.
// Where the file system cannot do it, only the margin of free space is left.
func reserver(folder string) func() {
	var known map[string]bool
	return func() {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return
		}
		found := make(map[string]bool)
		for _, entry := range entries {
			name := entry.Name()
			if filepath.Ext(name) != ".mem" {
				continue
			}
			if !known[name] {
				reserve(filepath.Join(folder, name))
			}
			found[name] = true
		}
		known = found
	}
}

// allocate makes a file one of size bytes that has all its space. On some file
// systems that is not supported.
func allocate(file *os.File, size int64) error {
	return unix.Fallocate(int(file.Fd()), 0, 0, size)
}

func reserve(name string) {
	file, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || info.Size() == 0 {
		return
	}
	// Keeping the size makes this harmless to a log that Badger is truncating
	// or removing at this moment.
	_ = unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, info.Size())
}
