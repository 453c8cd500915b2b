//go:build linux || darwin || freebsd || dragonfly

package badger

import "golang.org/x/sys/unix"

// freeSpace returns the bytes that this user can still write to the file system of folder.
func freeSpace(folder string) (uint64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return 0, err
	}
	// On the BSDs the number is signed, and negative once root has used its reserve.
	return uint64(max(int64(s.Bavail), 0)) * uint64(s.Bsize), nil
}
