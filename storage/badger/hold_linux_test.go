package badger

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// compacting fills a folder with tables of level 0 and opens it, so that they are
// compacted. It returns the number of records before, and a function that counts the
// present ones.
func compacting(t *testing.T, folder string, hold func()) (n int, db *badgerdb.DB, count func() int) {
	t.Helper()
	db, err := badgerdb.Open(settings(folder, Options{}).WithNumCompactors(0).WithCompactL0OnClose(false))
	if err != nil {
		t.Fatal(err)
	}
	value := []byte(strings.Repeat("x", 32<<10))
	for n = 0; n < 1250; n += 25 { // five tables
		err := db.Update(func(txn *badgerdb.Txn) error {
			for i := range 25 {
				if err := txn.Set(fmt.Appendf(nil, "key-%08d", n+i), value); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	o := settings(folder, Options{}).WithNumLevelZeroTables(2).WithCompactL0OnClose(false)
	if db, err = badgerdb.OpenManaged(o.WithLogger(engineLog{zap.NewNop().Sugar(), hold})); err != nil {
		t.Fatal(err)
	}
	return n, db, func() (n int) {
		txn := newest(db)
		defer txn.Discard()
		it := txn.NewIterator(badgerdb.IteratorOptions{})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			n++
		}
		return n
	}
}

func compacted(db *badgerdb.DB) func() bool {
	return func() bool {
		levels := db.Levels()
		return levels[0].NumTables <= 2 && levels[len(levels)-1].NumTables > 0
	}
}

// Badger logs each table of a compaction. If it stopped doing that, nothing would hold a
// compaction that loses records.
func TestBadgerTellsOfTables(t *testing.T) {
	tier.Race(t)
	var held atomic.Int64
	_, db, _ := compacting(t, t.TempDir(), func() { held.Add(1) })
	defer db.Close()
	wait.Until(t, "compacted", compacted(db))
	levels := db.Levels()
	if tables := levels[len(levels)-1].NumTables; held.Load() < int64(tables) {
		t.Errorf("of %d tables only %d were told of", tables, held.Load())
	}
}

// TestHold holds a compaction while the disk is full.
func TestHold(t *testing.T) {
	tier.Race(t)
	d := &disk{folder: t.TempDir()}
	g := newGuard(d.folder, d.freeOf, zap.NewNop())
	n, db, count := compacting(t, d.folder, g.holdCompaction)
	defer db.Close()
	wait.Until(t, "held", func() bool { return g.heldCompactions.Load() > 0 })
	if err := g.checkWritesAllowed(); err == nil {
		t.Error("a write is accepted while a compaction is held")
	}
	tables := len(db.Tables())
	time.Sleep(3 * holdInterval)
	if now := len(db.Tables()); now != tables {
		t.Errorf("there are %d tables, %d before: the compaction goes on", now, tables)
	}
	if got := count(); got != n {
		t.Errorf("got %d records meanwhile, want %d", got, n)
	}
	d.free.Store(1 << 40)
	wait.Until(t, "compacted", compacted(db))
	if got := count(); got != n {
		t.Errorf("got %d records, want %d", got, n)
	}
	if err := g.checkWritesAllowed(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// While one compaction is held, another that may go on does not let writes pass.
func TestHoldOfTwo(t *testing.T) {
	var calls atomic.Int64
	blocked, goOn := make(chan struct{}), make(chan struct{})
	free := func(string) (uint64, error) {
		switch calls.Add(1) {
		case 1:
			return 0, nil // the first compaction is held
		case 2:
			close(blocked) // it looks again
			<-goOn
		}
		return 1 << 40, nil
	}
	g := newGuard(t.TempDir(), free, zap.NewNop())
	held := make(chan struct{})
	go func() {
		defer close(held)
		g.holdCompaction()
	}()
	<-blocked
	g.holdCompaction() // the second one
	if err := g.checkWritesAllowed(); !errors.Is(err, errHeld) {
		t.Errorf("while a compaction is held: got error %v, want %v", err, errHeld)
	}
	close(goOn)
	<-held
	if err := g.checkWritesAllowed(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestDescriptors exhausts the descriptors repeatedly during a compaction. A server does so
// under tens of thousands of short connections per second. Without a hold, many records are
// then lost.
func TestDescriptors(t *testing.T) {
	tier.Race(t)
	d := &disk{folder: t.TempDir()}
	d.free.Store(1 << 40)
	g := newGuard(d.folder, d.freeOf, zap.NewNop())
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	limitDescriptors(t, uint64(len(open)+4000))
	// It begins when there are no descriptors, however fast it is.
	begun := make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	n, db, count := compacting(t, d.folder, func() {
		<-begun
		g.holdCompaction()
	})
	defer db.Close()
	defer begin()
	var refused int
	for end := time.Now().Add(wait.Limit); !compacted(db)() && time.Now().Before(end); {
		var taken []int
		for {
			fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				break
			}
			if taken = append(taken, fd); len(taken)%8 == 0 {
				time.Sleep(100 * time.Microsecond)
			}
		}
		if g.checkWritesAllowed() != nil {
			refused++
			begin()
		}
		time.Sleep(50 * time.Millisecond)
		for _, fd := range taken {
			if err := unix.Close(fd); err != nil {
				t.Error(err)
			}
		}
	}
	if !compacted(db)() || refused == 0 {
		t.Fatalf("it was compacted: %v; %d writes were refused", compacted(db)(), refused)
	}
	if got := count(); got != n {
		t.Errorf("got %d records, want %d", got, n)
	}
}

// limitDescriptors limits the number of open files of this process, until the test ends or
// undo is called.
func limitDescriptors(t *testing.T, to uint64) (undo func()) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	set := func(limit unix.Rlimit) {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	}
	set(unix.Rlimit{Cur: min(to, old.Max), Max: old.Max})
	undo = func() { set(old) }
	t.Cleanup(undo)
	return undo
}

// A store that runs out of descriptors refuses writes and takes them again.
func TestRefusesWithoutDescriptors(t *testing.T) {
	s := mustOpen(t, t.TempDir())
	undo := limitDescriptors(t, 1)
	err := s.Update(t.Context(), put(newWorkspace("w")))
	undo()
	if domain.KindOf(err) != domain.Unavailable {
		t.Errorf("got %v, want ErrUnavailable", err)
	}
	if err := s.Update(t.Context(), put(newWorkspace("w"))); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
