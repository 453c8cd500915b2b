//go:build unix

package badger

import "golang.org/x/sys/unix"

// checkDescriptors returns an error where this process has nearly as many files open
// as it may. The system gives out the lowest free number.
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
	if left := uint64(limit.Cur) - uint64(n); uint64(n) > uint64(limit.Cur) || left < min(spareDescriptors, uint64(limit.Cur)/4) {
		return errDescriptors
	}
	return nil
}
