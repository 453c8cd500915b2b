// Package fileowner keeps root from locking others out of their files. A command or a server that
// runs as root gives new files and folders the owner and the group of the folder that they are in. So
// the service that owns a store or the folder of its backups can use them afterwards.
//
// An owner of a folder must not get a file of root by this. So only regular files without a second
// link and folders change hands, and none outside of the folder.
//
// Only on Unix do files have such owners. Elsewhere these functions change nothing, and add nothing to
// errors.
package fileowner

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// MkdirAll is os.MkdirAll. If root calls it, each new folder gets the owner of the one it is in.
func MkdirAll(folder string, permissions fs.FileMode) error {
	var missing []string // the innermost first
	for at := filepath.Clean(folder); ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			break
		}
		missing = append(missing, at)
	}
	if err := os.MkdirAll(folder, permissions); err != nil {
		return err
	}
	for i := range missing {
		Give(missing[len(missing)-1-i])
	}
	return nil
}

// Explain adds to an error that permission was denied who owns the path in it, or name for an error
// without one, or else the innermost folder of that path that can be seen. Explain returns other
// errors as they are.
func Explain(err error, name string) error {
	if err == nil || !errors.Is(err, fs.ErrPermission) && !strings.Contains(err.Error(), ": permission denied") {
		return err
	}
	if _, isExplained := errors.AsType[*deniedError](err); isExplained {
		return err
	}
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		name = of.Path
	} else if text := deniedText.FindStringSubmatch(err.Error()); text != nil {
		name = text[1]
	}
	if owner := ownerOf(name); owner != "" {
		return &deniedError{err, owner}
	}
	return err
}

// deniedText matches an error of Badger that has its cause as text only.
var deniedText = regexp.MustCompile(`open (/.+): permission denied`)

// deniedError is an error of Explain.
type deniedError struct {
	error
	owner string
}

func (d *deniedError) Error() string { return d.error.Error() + " (" + d.owner + ")" }

func (d *deniedError) Unwrap() error { return d.error }
