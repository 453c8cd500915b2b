package badger

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// compareLogs compares the numbers of two logs of a folder. They have five digits or more.
func compareLogs(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// logHeader is the length of the header of Badger's logs. A header of zeros marks a log
// that is not encrypted. An empty log may have one in any store, because Badger does not
// append to the logs that it finds.
const logHeader = 20

// removeUnusedLogs removes the empty logs in folder, which a reserver has made.
func removeUnusedLogs(folder string) error {
	logs, err := filepath.Glob(filepath.Join(folder, "*.mem"))
	if err != nil {
		return err
	}
	for _, name := range logs {
		if info, err := os.Stat(name); err == nil && info.Size() == 0 {
			if err := os.Remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// addLogHeaders adds a header to the empty logs in folder. Badger does not open a folder
// with an empty log. A kill leaves one when Badger has just made it, or is about to remove
// it. If another process has the folder open, the header at the end of its log is harmless.
func addLogHeaders(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		switch filepath.Ext(entry.Name()) {
		case ".mem", ".vlog":
		default:
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() > 0 {
			continue
		}
		if err != nil {
			return err
		}
		file, err := os.OpenFile(filepath.Join(folder, entry.Name()), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		_, err = file.Write(make([]byte, logHeader))
		if err := errors.Join(err, file.Close()); err != nil {
			return err
		}
	}
	return nil
}
