package badger

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
)

// compareLogs compares the numbers of two logs of a folder. They have five digits or more.
func compareLogs(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// removeEmptyLogs removes the logs in folder without content, with which Badger does not open
// it. A reserver makes them, and a kill leaves one that Badger has just made.
func removeEmptyLogs(folder string) error {
	entries, err := os.ReadDir(folder)
	for _, entry := range entries {
		switch filepath.Ext(entry.Name()) {
		case ".mem", ".vlog":
			if info, gone := entry.Info(); gone == nil && info.Size() == 0 {
				err = errors.Join(err, os.Remove(filepath.Join(folder, entry.Name())))
			}
		}
	}
	return err
}
