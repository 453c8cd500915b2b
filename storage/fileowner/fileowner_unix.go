//go:build unix

package fileowner

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
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

// ownerOf says who owns a file or folder, or the folder on its way that denies access. It is empty if
// that is unknown.
func ownerOf(name string) string {
	absolute, err := filepath.Abs(name)
	if err != nil {
		return ""
	}
	info, err := os.Lstat(absolute)
	for ; err != nil; info, err = os.Lstat(absolute) {
		if absolute == filepath.Dir(absolute) {
			return ""
		}
		absolute = filepath.Dir(absolute)
	}
	of := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%s has mode %04o and is owned by %s; this process runs as %s", absolute, info.Mode().Perm(), nameOf(of.Uid), nameOf(uint32(os.Geteuid())))
}

// nameOf returns "uid 1000 (caddy)", or "uid 1000" for a user without a name.
func nameOf(uid uint32) string {
	number := strconv.FormatUint(uint64(uid), 10)
	if of, err := user.LookupId(number); err == nil && strings.TrimSpace(of.Username) != "" {
		return fmt.Sprintf("uid %s (%s)", number, of.Username)
	}
	return "uid " + number
}
