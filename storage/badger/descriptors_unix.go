//go:build unix

package badger

import "golang.org/x/sys/unix"

// checkDescriptors returns an error if this process has nearly as many files open as it may.
// It opens one file, which gets the lowest free number.
func checkDescriptors(folder string) error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return nil // unknown
	}
	n, err := unix.Open(folder, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return errDescriptors
	}
	_ = unix.Close(n)
	most := uint64(limit.Cur) //nolint:unconvert // it has another type on FreeBSD
	if spare := min(spareDescriptors, most/4); uint64(n)+spare > most {
		return errDescriptors
	}
	return nil
}
