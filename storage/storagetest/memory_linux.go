package storagetest

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// UseMemory puts temporary files into a folder in memory, until undo is called. Stores
// there take a fraction of the time, because no disk flushes their writes. It does nothing
// if TMPDIR is set, or if tests try every case. It does nothing either if less than 4 GiB of
// memory are available for files.
func UseMemory() (undo func()) {
	undo = func() {}
	if tier.EveryCase() || os.Getenv("TMPDIR") != "" {
		return undo
	}
	const memory = "/dev/shm"
	var s unix.Statfs_t
	if err := unix.Statfs(memory, &s); err != nil || s.Type != unix.TMPFS_MAGIC || s.Bavail*uint64(s.Bsize) < 4<<30 {
		return undo
	}
	folder, err := os.MkdirTemp(memory, "caddy-presets-test-*")
	if err != nil || os.Setenv("TMPDIR", folder) != nil {
		return undo
	}
	return func() {
		_ = os.RemoveAll(folder)
		_ = os.Unsetenv("TMPDIR")
	}
}
