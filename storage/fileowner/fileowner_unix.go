//go:build unix

package fileowner

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Give gives a file or folder that this process has just made the owner of the folder that it is in, if
// this process runs as root. It ignores failures: some file systems have no owners. The owner is then
// in the error of whoever is denied access.
func Give(name string) {
	if os.Geteuid() == 0 {
		giveIn(filepath.Dir(name), func(*os.Root) []string { return []string{filepath.Base(name)} }, true)
	}
}

// Adopt is Give for all files of root in a folder, but not for folders in it.
func Adopt(folder string) {
	if os.Geteuid() != 0 {
		return
	}
	giveIn(folder, func(root *os.Root) (names []string) {
		entries, _ := fs.ReadDir(root.FS(), ".")
		for _, entry := range entries {
			if entry.Type().IsRegular() {
				names = append(names, entry.Name())
			}
		}
		return names
	}, false)
}

// giveIn gives files, and folders if set, in a folder its owner. Only those of root change hands.
func giveIn(folder string, names func(*os.Root) []string, folders bool) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return
	}
	defer root.Close()
	info, err := root.Stat(".")
	if err != nil {
		return
	}
	owner := info.Sys().(*syscall.Stat_t)
	if owner.Uid == 0 {
		return
	}
	isRoots := func(info fs.FileInfo) bool {
		of := info.Sys().(*syscall.Stat_t)
		return of.Uid == 0 && (info.Mode().IsRegular() && of.Nlink == 1 || folders && info.IsDir())
	}
	for _, name := range names(root) {
		if info, err := root.Lstat(name); err != nil || !isRoots(info) {
			continue
		}
		file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		if info, err := file.Stat(); err == nil && isRoots(info) { // another file may have taken its place
			_ = file.Chown(int(owner.Uid), int(owner.Gid))
		}
		_ = file.Close()
	}
}

// ownerOfDenying says who owns what denies access to a file or folder. It is empty if that is unknown.
func ownerOfDenying(name string) string {
	if absolute, err := filepath.Abs(name); err == nil {
		name = absolute
	}
	denied := denying(name)
	info, err := os.Lstat(denied)
	if err != nil {
		return ""
	}
	of := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%s has mode %04o and is owned by %s; this process runs as %s", denied, info.Mode().Perm(), nameOf(of.Uid), nameOf(uint32(os.Geteuid())))
}

// denying returns the path that denies access to a file or folder, or to the files in the folder. It is
// the first of these: a folder on the way, the file or folder itself, and a file in it. It is the last
// existing part of the path if none denies anything now.
func denying(name string) string {
	denies := func(path string, right uint32) bool {
		err := unix.Faccessat(unix.AT_FDCWD, path, right, unix.AT_EACCESS)
		return err == unix.EACCES || err == unix.EPERM
	}
	var way []string
	for at := name; at != filepath.Dir(at); at = filepath.Dir(at) {
		way = append(way, filepath.Dir(at))
	}
	for _, folder := range slices.Backward(way) {
		if denies(folder, unix.X_OK) {
			return folder
		}
	}
	info, err := os.Lstat(name)
	if err != nil { // it is missing, and so may be folders on the way
		for _, folder := range way {
			if _, err := os.Lstat(folder); err == nil {
				return folder
			}
		}
		return name
	}
	switch {
	case info.IsDir() && denies(name, unix.R_OK|unix.W_OK|unix.X_OK), !info.IsDir() && denies(name, unix.R_OK):
		return name
	case !info.IsDir() && denies(way[0], unix.W_OK): // to whoever would rename or remove the file
		return way[0]
	}
	entries, _ := os.ReadDir(name)
	for _, entry := range entries {
		if path := filepath.Join(name, entry.Name()); entry.Type().IsRegular() && denies(path, unix.R_OK|unix.W_OK) {
			return path
		}
	}
	return name
}

// nameOf returns "uid 1000 (caddy)", or "uid 1000" for a user without a name.
func nameOf(uid uint32) string {
	number := strconv.FormatUint(uint64(uid), 10)
	if of, err := user.LookupId(number); err == nil && strings.TrimSpace(of.Username) != "" {
		return fmt.Sprintf("uid %s (%s)", number, of.Username)
	}
	return "uid " + number
}
