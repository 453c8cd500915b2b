package admin

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/caddy-presets/caddy-presets/storage/badger"
	"github.com/caddy-presets/caddy-presets/storage/fileowner"
)

// partialSuffix ends the name of a file that is being written.
const partialSuffix = ".partial"

// newFile creates a file with the output of write, which may read it as name with the suffix
// partialSuffix. Only its owner can read it: the owner of its folder, if root creates it. It gets
// its name once it is complete and synced to the disk.
func newFile(name string, write func(io.Writer) error) (err error) {
	partial := name + partialSuffix
	file, err := os.OpenFile(partial, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists: it is being written, or was cut short; if so, remove it", partial)
	}
	if err != nil {
		return fileowner.Explain(err, partial)
	}
	fileowner.Give(partial)
	defer func() {
		if err != nil {
			if gone := os.Remove(partial); !errors.Is(gone, fs.ErrNotExist) {
				err = errors.Join(err, gone)
			}
		}
	}()
	// From here on only this call renames partial. Another one may have done so before.
	switch _, gone := os.Lstat(name); {
	case gone == nil:
		err = fmt.Errorf("%s exists already, and is not overwritten", name)
	case errors.Is(gone, fs.ErrNotExist):
		err = write(file)
	default:
		err = gone
	}
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := os.Rename(partial, name); err != nil {
		return err
	}
	return badger.SyncFolder(filepath.Dir(name))
}
