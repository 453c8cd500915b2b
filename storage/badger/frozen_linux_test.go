package badger

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// frozen mounts an ext4 file system, and returns its folder and what freezes and thaws it.
// If it cannot, it skips the test, or fails it with PRESETS_E2E=required.
func frozen(t *testing.T) (folder string, freeze, thaw func()) {
	t.Helper()
	servertest.AsRoot(t, "mount a file system")
	servertest.Tool(t, "mkfs.ext4", "e2fsprogs")
	servertest.Tool(t, "mount", "mount")
	image, mounted := filepath.Join(t.TempDir(), "image"), t.TempDir()
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 1<<30)); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"mkfs.ext4", "-q", image}, {"mount", "-o", "loop", image, mounted}} {
		if text, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			servertest.Lack(t, "mount", "%q: %v: %s", command, err, text)
		}
	}
	root, err := os.Open(mounted)
	if err != nil {
		t.Fatal(err)
	}
	is := false
	set := func(to bool, request uint) func() {
		return func() {
			t.Helper()
			if is == to {
				return
			}
			if err := unix.IoctlSetInt(int(root.Fd()), request, 0); err != nil {
				t.Fatal(err)
			}
			is = to
		}
	}
	const fiFreeze, fiThaw = 0xc0045877, 0xc0045878
	freeze, thaw = set(true, fiFreeze), set(false, fiThaw)
	t.Cleanup(func() {
		thaw()
		root.Close()
		if text, err := exec.Command("umount", mounted).CombinedOutput(); err != nil {
			t.Errorf("unmounting: %v: %s", err, text)
		}
	})
	return filepath.Join(mounted, "store"), freeze, thaw
}

// TestFrozenDisk freezes the file system: reads go on, writes are refused after a while, and
// made again once it thaws.
func TestFrozenDisk(t *testing.T) {
	folder, freeze, thaw := frozen(t)
	s, err := Open(folder, testOptions)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Update(t.Context(), put(newWorkspace("before"))); err != nil {
		t.Fatal(err)
	}
	for _, slug := range []string{"first", "second"} {
		freeze()
		begun := time.Now()
		for range 2 {
			if err := s.Update(t.Context(), put(newWorkspace(slug))); !errors.Is(err, domain.ErrUnavailable) || errors.Is(err, domain.ErrUnknown) {
				t.Errorf("a write: got error %v, want that it is unavailable", err)
			}
		}
		refused := time.Since(begun)
		runtime.GC() // stops all threads, unless one is stuck in a memory map
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		err := s.View(ctx, func(r domain.Reader) error {
			_, err := r.WorkspaceID("before")
			return err
		})
		cancel()
		if s.Status().Writable {
			t.Error("the store says that it is writable")
		}
		if took := time.Since(begun); err != nil || took > 30*time.Second {
			t.Errorf("a read: got error %v after %v, want none soon", err, took)
		}
		thaw()
		wait.Until(t, "writes are made again", func() bool {
			return s.Update(t.Context(), put(newWorkspace("after "+slug))) == nil
		})
		if !s.Status().Writable {
			t.Error("the store says that it is not writable, though it is again")
		}
		if _, err := workspace(s, slug); !errors.Is(err, domain.ErrNotFound) {
			t.Errorf("the refused change: got error %v, want ErrNotFound", err)
		}
		t.Logf("RESULT frozen disk: two writes refused after %v", refused)
	}
}
