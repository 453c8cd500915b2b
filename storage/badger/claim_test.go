package badger

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"go.uber.org/zap"
)

// TestClaimUndone checks that an error leaves a folder as it was, and a link whose target is
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
		if _, _, err := claimFolder(folder, storeFormat, nil, newGuard(home, freeSpace, zap.NewNop())); err == nil {
			t.Errorf("%s was claimed", folder)
		}
		if info, err := os.Lstat(link); err != nil || info.Mode().Type() != fs.ModeSymlink {
			t.Fatalf("%s: the link is gone: %v", folder, err)
		}
	}

	folder := filepath.Join(home, "shared")
	const rights = 0o770 | fs.ModeSetgid
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(folder, rights); err != nil {
		t.Fatal(err)
	}
	_, undo, err := claimFolder(folder, storeFormat, nil, newGuard(folder, freeSpace, zap.NewNop()))
	if err != nil {
		t.Fatal(err)
	}
	if err := undo(); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(folder); err != nil || info.Mode() != rights|fs.ModeDir || listFolder(folder) != "." {
		t.Errorf("got %v and %s, %v, want %v and nothing", info.Mode(), listFolder(folder), err, rights)
	}
}
