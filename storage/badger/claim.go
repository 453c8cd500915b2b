package badger

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/storage/fileowner"
)

// claim is a folder that a store is being made in, and the marker that says so. No other process
// opens or claims the folder until end.
type claim struct {
	marker
	folder string
	lock   *os.File
	// isNew says that the folder was missing, and isEmpty that it had nothing when it was locked.
	isNew, isEmpty bool
}

// claimFolder claims a folder for a store with a key. It makes the folder if that is missing, and
// fails if it is not empty.
func claimFolder(folder string, key []byte, g *guard) (_ *claim, err error) {
	_, err = os.Lstat(folder) // a link whose target is missing is not ours to remove
	c := &claim{folder: folder, isNew: errors.Is(err, fs.ErrNotExist)}
	defer func() {
		if err != nil {
			err = c.end(err)
		}
	}()
	if err := fileowner.MkdirAll(folder, 0o700); err != nil {
		return nil, err
	}
	if err := checkEmpty(folder); err != nil {
		return nil, err
	}
	if c.lock, err = lockExisting(folder); errors.Is(err, errLocked) {
		return nil, inUse(folder, err)
	} else if err != nil {
		return nil, err
	}
	if err := cmp.Or(checkEmpty(folder), g.checkOpening()); err != nil {
		return nil, err
	}
	c.isEmpty = true
	err = os.Chmod(folder, 0o700)
	if !c.isNew && errors.Is(err, fs.ErrPermission) { // such as the root of a volume
		err = nil
	}
	if err != nil {
		return nil, err
	}
	c.marker = marker{Format: storeFormat, ID: uuid.NewString(), State: stateRestoring, Encrypted: len(key) > 0}
	c.KeyCheck = keyCheck(key, c.ID)
	if err := cmp.Or(c.checkKey(folder, key), c.write(folder)); err != nil {
		return nil, err
	}
	syncParents(folder)
	return c, nil
}

// end unlocks the folder. With an error it empties the folder first, and removes one that was missing.
func (c *claim) end(err error) error {
	failed := err != nil
	if failed && c.isEmpty {
		err = errors.Join(err, removeContent(c.folder))
	}
	if c.lock == nil {
		return err // another process may have it
	}
	err = errors.Join(err, unlock(c.lock))
	if failed && c.isNew {
		_ = os.Remove(c.folder) // which fails if another process has begun to use it
	}
	return err
}

// checkEmpty fails if a folder has anything but the lost+found of a file system mounted here.
func checkEmpty(folder string) error {
	entries, err := os.ReadDir(folder)
	if err == nil && slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() != lostAndFound }) {
		err = errors.New("the folder is not empty; a new store needs an empty one")
	}
	return err
}

// removeContent removes the content of a folder.
func removeContent(folder string) error {
	entries, err := os.ReadDir(folder)
	for _, entry := range entries {
		if entry.Name() != lostAndFound {
			err = errors.Join(err, os.RemoveAll(filepath.Join(folder, entry.Name())))
		}
	}
	return err
}
