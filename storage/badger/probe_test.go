package badger

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

func TestCheckSpace(t *testing.T) {
	for free, full := range map[uint64]bool{0: true, flushSpace - 1: true, flushSpace: false} {
		err := checkSpace(t.TempDir(), func(string) (uint64, error) { return free, nil })
		if errors.Is(err, ErrDiskFull) != full {
			t.Errorf("%d bytes are free: got %v, want a full disk: %t", free, err, full)
		}
	}
}

// withLevelZero opens a folder without compactions, and writes until level 0 has this many tables.
func withLevelZero(t *testing.T, folder string, tables int) *badgerdb.DB {
	t.Helper()
	// Small memtables make tables of few bytes.
	db, err := openBadger(withoutCompactions(settings(folder, testOptions)).WithMemTableSize(128 << 10).WithValueThreshold(16 << 10))
	if err != nil {
		t.Fatal(err)
	}
	for version := db.MaxVersion() + 1; db.Levels()[0].NumTables < tables; version++ {
		k := records.ReplayKey(domain.ReplayID{byte(version), byte(version >> 8)})
		txn := db.NewTransactionAt(version-1, true)
		if err := errors.Join(txn.Set(k, records.Seal(k, make([]byte, 15<<10))), txn.CommitAt(version, nil)); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// TestProbeStalled probes a store that was killed while writes waited for compactions. Level 0 is
// full, and there are as many logs as Badger holds memtables.
func TestProbeStalled(t *testing.T) {
	folder, killed := t.TempDir(), filepath.Join(t.TempDir(), "killed")
	seed(t, folder)
	db := withLevelZero(t, folder, stallTables)
	copyFolder(t, folder, killed)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	logs, err := filepath.Glob(filepath.Join(killed, "*.mem"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("got %d logs, %v", len(logs), err)
	}
	for n := range numMemtables + 2 { // the same commits again
		if err := copyFile(logs[0], filepath.Join(killed, fmt.Sprintf("9%04d.mem", n))); err != nil {
			t.Fatal(err)
		}
	}
	probed := make(chan error, 1)
	go func() { probed <- VerifyQuickly(killed, testOptions) }()
	select {
	case err := <-probed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(wait.Limit):
		t.Error("the probe does not end")
	}
}
