package files

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"

	"github.com/caddy-presets/caddy-presets/storage/fileowner"
)

// MaxFileSize bounds each file, in bytes.
const MaxFileSize = 1 << 20

// folder is a folder whose files are read, and never a file outside of it.
type folder struct {
	*os.Root
	// planned is a file that is not written yet.
	planned prompt
}

// prompt is a file beside the YAML file, and the text that it is to stand for.
type prompt struct{ name, text string }

// read returns the content of a regular file, or a problem.
func (f folder) read(name string) (text []byte, problem string) {
	if name == f.planned.name {
		return boundedFile([]byte(f.planned.text + "\n"))
	}
	// Opening a pipe must not wait for a writer.
	file, err := f.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, f.problem(name, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, f.problem(name, err)
	}
	if !info.Mode().IsRegular() {
		return nil, "must be a regular file"
	}
	if text, err = io.ReadAll(io.LimitReader(file, MaxFileSize+1)); err != nil {
		return nil, f.problem(name, err)
	}
	return boundedFile(text)
}

// boundedFile returns the content of a file, or the problem of one that is too large.
func boundedFile(text []byte) (_ []byte, problem string) {
	if len(text) > MaxFileSize {
		return nil, fmt.Sprintf("the file has more than %d bytes", MaxFileSize)
	}
	return text, ""
}

// problem describes an error of a file or folder. It has no path.
func (f folder) problem(name string, err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "is not there, or is a link to nothing"
	}
	return "cannot be read: " + f.causeOf(name, err).Error()
}

// causeOf returns the cause of an error of a file or folder, without its path. It has one only to name
// the owner of what may not be used.
func (f folder) causeOf(name string, err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	} else if link, ok := errors.AsType[*os.LinkError](err); ok {
		err = link.Err
	}
	return fileowner.Explain(err, filepath.Join(f.Name(), filepath.FromSlash(name)))
}

// replace writes a file and puts it in the place of another one, whose permissions it keeps.
// Those of a new file depend on the umask. A link of the name is replaced, and not followed.
func (f folder) replace(name string, text []byte) (err error) {
	permissions, isThere := fs.FileMode(0o666), false
	if info, err := f.Lstat(name); err == nil && info.Mode().IsRegular() {
		permissions, isThere = info.Mode().Perm(), true
	}
	temporary := path.Join(path.Dir(name), "."+path.Base(name)+"."+rand.Text()+".tmp")
	file, err := f.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, permissions)
	if err != nil {
		return err
	}
	fileowner.Give(filepath.Join(f.Name(), filepath.FromSlash(temporary)))
	_, err = file.Write(text)
	if isThere {
		err = errors.Join(err, file.Chmod(permissions)) // in spite of the umask
	}
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = f.Rename(temporary, name)
	}
	if err != nil {
		_ = f.Remove(temporary)
	}
	return err
}
