package badger

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	badgerdb "github.com/dgraph-io/badger/v4"

	"github.com/caddy-presets/caddy-presets/domain"
)

// A file that another user may not read is not damaged.
func TestNotDamagedWithoutRight(t *testing.T) {
	folder := t.TempDir()
	furnish(t, folder)
	for _, pattern := range []string{"*.sst", badgerdb.ManifestFilename, sequenceName} {
		paths, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("there is no %s (%v)", pattern, err)
		}
		path := paths[len(paths)-1]
		if err := os.Chmod(path, 0); err != nil {
			t.Fatal(err)
		}
		if file, err := os.Open(path); err == nil {
			_ = file.Close()
			t.Skip("SKIPPED: this user may read all files")
		}
		err = VerifyQuickly(folder, testOptions)
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
		if domain.KindOf(err) != domain.Unavailable || errors.Is(err, ErrDamaged) || !isRefusal(err) {
			t.Errorf("%s: got %v, want ErrUnavailable and why", pattern, err)
		}
	}
	if err := VerifyQuickly(folder, testOptions); err != nil {
		t.Error(err)
	}
}
