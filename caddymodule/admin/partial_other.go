//go:build !unix

package admin

import (
	"errors"
	"io/fs"
	"os"
)

// hold does nothing here.
func hold(*os.File) (release func(), err error) { return func() {}, nil }

// removeLeftOver removes a file. Windows refuses that while a process has it open.
func removeLeftOver(name string) (isRemoved bool, err error) {
	err = os.Remove(name)
	if errors.Is(err, fs.ErrPermission) {
		return false, nil
	}
	return err == nil, err
}
