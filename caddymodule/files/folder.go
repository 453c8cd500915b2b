package files

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
)

// MaxFileSize bounds each file, in bytes.
const MaxFileSize = 1 << 20

// folder is a folder whose files are read, and never a file outside of it.
type folder interface {
	// read returns the content of a regular file, or a problem.
	read(name string) (text []byte, problem string)
}

// rootFolder is a folder on a disk.
type rootFolder struct{ *os.Root }

func (f rootFolder) read(name string) ([]byte, string) {
	info, err := f.Stat(name)
	if err != nil {
		return nil, f.problem(name, err)
	}
	if problem := problemOf(info); problem != "" {
		return nil, problem
	}
	// Another file may have taken its place: opening a pipe must not wait for a writer.
	file, err := f.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, f.problem(name, err)
	}
	defer file.Close()
	if info, err = file.Stat(); err != nil {
		return nil, f.problem(name, err)
	}
	if problem := problemOf(info); problem != "" {
		return nil, problem
	}
	text := make([]byte, 0, info.Size()+1)
	for {
		n, err := file.Read(text[len(text):cap(text)])
		text = text[:len(text)+n]
		switch {
		case len(text) > MaxFileSize:
			return nil, tooLarge
		case errors.Is(err, io.EOF):
			return text, ""
		case err != nil:
			return nil, f.problem(name, err)
		case len(text) == cap(text):
			text = append(text, 0)[:len(text)]
		}
	}
}

var tooLarge = fmt.Sprintf("the file has more than %d bytes", MaxFileSize)

// problemOf returns why a file is not read, empty if it is.
func problemOf(info fs.FileInfo) string {
	switch {
	case !info.Mode().IsRegular():
		return "must be a regular file"
	case info.Size() > MaxFileSize:
		return tooLarge
	}
	return ""
}

// problem describes an error of a file or folder. It has no path.
func (f rootFolder) problem(name string, err error) string {
	if info, failed := f.Lstat(name); failed == nil && info.Mode()&fs.ModeSymlink != 0 {
		return "is a link out of the folder, or to nothing"
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "there is no such file"
	}
	return "cannot be read: " + withoutPath(err).Error()
}

// withoutPath returns the cause of an error of a file.
func withoutPath(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	if link, ok := errors.AsType[*os.LinkError](err); ok {
		return link.Err
	}
	return err
}

// replace writes a file and puts it in the place of another one. A link of the name is
// replaced, and not followed.
func (f rootFolder) replace(name string, text []byte) (err error) {
	temporary := path.Join(path.Dir(name), "."+path.Base(name)+"."+rand.Text()+".tmp")
	file, err := f.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	err = errors.Join(err, file.Chmod(0o644), file.Sync(), file.Close())
	if err == nil {
		err = f.Rename(temporary, name)
	}
	if err != nil {
		_ = f.Remove(temporary)
	}
	return err
}
