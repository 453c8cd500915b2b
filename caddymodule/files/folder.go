package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	return "cannot be read: " + err.Error()
}
