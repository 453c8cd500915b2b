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

// claimFolder marks a folder as one that a store is being made in. It makes the folder if that is
// missing, and fails if it is not empty. It returns the marker, and a function that restores the
// former state, but for parents that were missing.
func claimFolder(folder string, format int, key []byte, g *guard) (m marker, _ func() error, err error) {
	_, err = os.Lstat(folder) // a link whose target is missing is not ours to remove
	isNew := errors.Is(err, fs.ErrNotExist)
	undo := func() error { return nil }
	defer func() {
		if err == nil {
			return
		}
		err = errors.Join(err, undo())
		if isNew {
			_ = os.Remove(folder) // which fails if another process has begun to use it
		}
	}()
	if err := fileowner.MkdirAll(folder, 0o700); err != nil {
		return m, nil, err
	}
	before, err := os.Stat(folder)
	if err != nil {
		return m, nil, err
	}
	if err := checkEmpty(folder); err != nil {
		return m, nil, err
	}
	if err := g.checkOpening(); err != nil {
		return m, nil, err
	}
	// O_EXCL keeps two processes from using the same folder.
	file, err := os.OpenFile(filepath.Join(folder, MarkerName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return m, nil, err
	}
	private := os.Chmod(folder, 0o700)
	isForeign := !isNew && errors.Is(private, fs.ErrPermission) // such as the root of a volume
	if isForeign {
		private = nil
	}
	undo = func() error {
		unlock, err := lockIfStore(folder)
		if err != nil {
			return err // a server has begun to use it meanwhile, and what is there is its own
		}
		defer unlock()
		err = removeContent(folder)
		switch {
		case isNew:
			err = errors.Join(err, os.Remove(folder))
		case !isForeign:
			err = errors.Join(err, os.Chmod(folder, before.Mode()&(fs.ModePerm|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky)))
		}
		return err
	}
	m = marker{Format: format, ID: uuid.NewString(), State: stateRestoring, Encrypted: len(key) > 0}
	m.KeyCheck = keyCheck(key, m.ID)
	err = cmp.Or(
		file.Close(),
		private,
		m.checkKey(folder, key),
		m.write(folder),
	)
	if err != nil {
		return m, nil, err
	}
	syncParents(folder)
	return m, undo, nil
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
