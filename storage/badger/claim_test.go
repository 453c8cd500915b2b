package badger

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"go.uber.org/zap"
)

// TestClaimUndone checks that an error leaves a folder empty, and a link whose target is
// missing.
func TestClaimUndone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("folders have no rights there")
	}
	home := t.TempDir()
	link := filepath.Join(home, "link")
	if err := os.Symlink(filepath.Join(home, "absent"), link); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{link, filepath.Join(link, "below")} {
		if _, err := claimFolder(folder, nil, newGuard(home, freeSpace, zap.NewNop())); err == nil {
			t.Errorf("%s was claimed", folder)
		}
		if info, err := os.Lstat(link); err != nil || info.Mode().Type() != fs.ModeSymlink {
			t.Fatalf("%s: the link is gone: %v", folder, err)
		}
	}

	folder := filepath.Join(home, "shared")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	c, err := claimFolder(folder, nil, newGuard(folder, freeSpace, zap.NewNop()))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.end(errDeliberate); !errors.Is(err, errDeliberate) || err.Error() != errDeliberate.Error() {
		t.Errorf("got error %v, want only the one before", err)
	}
	if info, err := os.Stat(folder); err != nil || listFolder(folder) != "." {
		t.Errorf("got %v and %s, %v, want nothing", info, listFolder(folder), err)
	}
}

// TestClaimBesideStart claims a folder that a server begins to use meanwhile. The claim or the start
// fails, and does not touch what the other one made.
func TestClaimBesideStart(t *testing.T) {
	if !locks {
		t.Skip("nothing locks a folder here")
	}
	full, _ := small(t, Options{})
	folder := filepath.Join(t.TempDir(), "store")
	begun, goOn, opened := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var start, claimed sync.Once
	s := new(Store)
	err := restore(t.Context(), folder, Options{}, reading(t, full, nil), func(string) (uint64, error) {
		claimed.Do(func() { // the restore has seen that the folder is empty
			go func() {
				var err error
				s, err = openFolder(folder, testOptions, func(string) (uint64, error) {
					start.Do(func() { // the start has the lock, and has written nothing
						close(begun)
						<-goOn
					})
					return ample("")
				})
				opened <- err
			}()
			select {
			case <-begun:
			case err := <-opened:
				opened <- err
			}
		})
		return ample("")
	})
	_, marked := os.Stat(filepath.Join(folder, MarkerName))
	close(goOn)
	if failed := <-opened; err != nil {
		if failed != nil || marked == nil {
			t.Errorf("the claim failed with %v and the start with %v; the claim left its marker: %t", err, failed, marked == nil)
		} else if err := s.Close(); err != nil {
			t.Error(err)
		}
	} else if !errors.Is(failed, ErrInUse) {
		t.Errorf("the claim succeeded, and the start got %v", failed)
	}
	mustOpen(t, folder)
}
