//go:build faults

package faults

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"unsafe"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// volume is a separate file system, in memory or in a mounted file.
type volume struct {
	t      *testing.T
	kind   string
	folder string
	image  string // "" for a tmpfs
	size   int64
}

// newVolume mounts a new file system (ext4, Btrfs or tmpfs) of size bytes.
func newVolume(t *testing.T, kind string, size int64) *volume {
	t.Helper()
	servertest.AsRoot(t, "mount a file system")
	v := &volume{t: t, kind: kind, folder: filepath.Join(t.TempDir(), "volume"), size: size}
	if err := os.Mkdir(v.folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if kind != "tmpfs" {
		servertest.Tool(t, "mkfs."+kind, map[string]string{"ext4": "e2fsprogs", "btrfs": "btrfs-progs"}[kind])
		servertest.Tool(t, "mount", "mount")
		v.image = filepath.Join(t.TempDir(), "image")
		if err := errors.Join(os.WriteFile(v.image, nil, 0o600), os.Truncate(v.image, size)); err != nil {
			t.Fatal(err)
		}
		if kind == "ext4" { // without reserved blocks, so that root meets a full disk, too
			run(t, "mkfs.ext4", "-q", "-m", "0", v.image)
		} else {
			run(t, "mkfs."+kind, "-q", v.image)
		}
	}
	if err := v.mount(); err != nil {
		servertest.Lack(t, "mount", "a file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := v.unmount(); err != nil {
			t.Errorf("unmounting: %v", err)
		}
	})
	return v
}

func (v *volume) mount() error {
	if v.image == "" {
		return syscall.Mount("tmpfs", v.folder, "tmpfs", 0, "mode=0700,size="+strconv.FormatInt(v.size, 10))
	}
	// The command also sets up the loop device. The unmount removes it.
	out, err := exec.CommandContext(wait.Command(v.t), "mount", "-o", "loop", v.image, v.folder).CombinedOutput()
	if err != nil {
		return errors.Join(err, errors.New(string(out)))
	}
	return nil
}

// unmount waits until a killed process has closed its files.
func (v *volume) unmount() (err error) {
	wait.Eventually(func() bool { err = syscall.Unmount(v.folder, 0); return !errors.Is(err, syscall.EBUSY) })
	return err
}

// cut simulates a power failure of an ext4 volume. No more data reaches the device. Data
// that was only in memory is lost, and so is the end of the journal.
func (v *volume) cut() error {
	const (
		shutdown   = 0x8004587d // EXT4_IOC_SHUTDOWN, _IOR('X', 125, __u32)
		noLogFlush = 2          // EXT4_GOING_FLAGS_NOLOGFLUSH
	)
	folder, err := os.Open(v.folder)
	if err != nil {
		return err
	}
	defer folder.Close()
	flags := uint32(noLogFlush)
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, folder.Fd(), shutdown, uintptr(unsafe.Pointer(&flags))); errno != 0 {
		return errno
	}
	return nil
}

// free returns the number of free bytes.
func (v *volume) free() int64 {
	v.t.Helper()
	var s syscall.Statfs_t
	if err := syscall.Statfs(v.folder, &s); err != nil {
		v.t.Fatal(err)
	}
	return int64(s.Bavail) * s.Bsize
}

// fill takes all the remaining space, as another program on the disk would. It uses
// fallocate first, and then writes to the last byte. It may be called again after space was
// freed.
func (v *volume) fill() {
	v.t.Helper()
	file := v.fillUpTo(0)
	defer file.Close()
	block := make([]byte, 4096)
	for range 1024 {
		if _, err := file.Write(block); err != nil {
			return // full
		}
	}
}

// fillUpTo leaves at least so many bytes free, and not many more. It returns the file that takes the
// others, which the caller closes.
func (v *volume) fillUpTo(left int64) *os.File {
	v.t.Helper()
	file, err := os.OpenFile(filepath.Join(v.folder, "other-program"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		v.t.Fatal(err)
	}
	info, err := file.Stat()
	if err != nil {
		v.t.Fatal(err)
	}
	size := info.Size()
	for step := v.free() - left; step >= 4096; {
		if syscall.Fallocate(int(file.Fd()), 0, size, step) == nil {
			size += step
			step = min(step, v.free()-left)
		} else {
			step /= 2 // other programs write, too
		}
	}
	return file
}

// empty frees the space that fill took.
func (v *volume) empty() {
	v.t.Helper()
	if err := os.Remove(filepath.Join(v.folder, "other-program")); err != nil {
		v.t.Fatal(err)
	}
	if v.kind == "btrfs" { // Btrfs frees space at its commits, every 30 s by default
		run(v.t, "sync", "--file-system", v.folder)
	}
}
