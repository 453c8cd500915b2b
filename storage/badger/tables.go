package badger

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/ristretto/v2"
	"github.com/dgraph-io/ristretto/v2/z"
)

// listedTables returns the tables that the MANIFEST in folder names, by the
// names of their files. All others are gone once Badger has opened the folder.
func listedTables(folder string) (map[string]bool, error) {
	file, err := os.Open(filepath.Join(folder, badgerdb.ManifestFilename))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	manifest, _, err := badgerdb.ReplayManifestFile(file, 0, settings(folder, Options{}))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", badgerdb.ManifestFilename, err)
	}
	listed := make(map[string]bool, len(manifest.Tables))
	for id := range manifest.Tables {
		listed[table.IDToFilename(id)] = true
	}
	return listed, nil
}

// checkTables checks Badger's checksums of tables, before Badger opens them: that
// takes for granted that tables end as tables do, on goroutines of its own, where
// one that was cut short panics and takes the whole process with it. And its next
// compaction takes damaged records for missing ones and makes that true.
//
// It reads all of the tables, at the speed of the processors or of the disk.
func checkTables(folder string, listed map[string]bool, with *pb.DataKey) error {
	names := slices.Sorted(maps.Keys(listed))
	failed := make([]error, len(names))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(names)) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(names)); i = next.Add(1) - 1 {
				failed[i] = checkListedTable(folder, names[i], with)
			}
		})
	}
	wg.Wait()
	return cmp.Or(failed...)
}

// checkListed checks a table that the MANIFEST names.
func checkListedTable(folder, name string, with *pb.DataKey) error {
	path := filepath.Join(folder, name)
	err := checkTable(path, with)
	if err != nil {
		// Unless another process is just writing it, whose lock on the
		// folder Badger then tells of.
		time.Sleep(100 * time.Millisecond)
		err = checkTable(path, with)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // which Badger reports
		return fmt.Errorf("table %s: %w", name, err)
	}
	return nil
}

// checkTable reads a table and checks the checksums of its index and of all its
// blocks.
func checkTable(path string, with *pb.DataKey) error {
	return readTable(path, with, func(t *table.Table) error { return t.VerifyChecksum() })
}

// readTable calls fn with a table, good until that returns, which is encrypted with
// a key or, where that is nil, not at all. What Badger panics on is an error.
func readTable(path string, with *pb.DataKey, fn func(*table.Table) error) error {
	id, ok := table.ParseFileID(filepath.Base(path))
	if !ok {
		return errors.New("its name is not that of a table")
	}
	o := &table.Options{Compression: options.None, DataKey: with}
	if with != nil {
		// Badger panics without a place for the decrypted index.
		cache, err := ristretto.NewCache(&ristretto.Config[uint64, *fb.TableIndex]{NumCounters: 10, MaxCost: 64 << 20, BufferItems: 64})
		if err != nil {
			return err
		}
		defer cache.Close()
		o.IndexCache = cache
	}
	file, err := z.OpenMmapFile(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	err = guarded(func() error {
		// Another process that has the folder open may cut a table short to remove
		// it, and a disk may fail to read: neither is to take this process down.
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		t, err := table.OpenInMemoryTable(file.Data, id, o)
		if err != nil {
			return err
		}
		return fn(t)
	})
	if _, ok := errors.AsType[*panicError](err); ok {
		err = errors.New("it is cut short, cannot be read, or its index or a block is damaged")
	}
	return errors.Join(err, file.Close(-1))
}
