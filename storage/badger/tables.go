package badger

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	badgerdb "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/ristretto/v2"
	"golang.org/x/sync/errgroup"
)

// listedTables returns the file names of the tables in folder's MANIFEST, and whether all of it
// can be read. A crash can leave half an entry at its end. Badger deletes all other tables when it
// opens the folder.
func listedTables(folder string) (listed map[string]bool, isWhole bool, err error) {
	file, err := os.Open(filepath.Join(folder, badgerdb.ManifestFilename))
	if err != nil {
		return nil, false, err
	}
	defer file.Close()
	var manifest badgerdb.Manifest
	var end int64
	err = guarded(func() (err error) {
		manifest, end, err = badgerdb.ReplayManifestFile(file, 0, settings(folder, Options{}))
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", badgerdb.ManifestFilename, err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, false, err
	}
	listed = make(map[string]bool, len(manifest.Tables))
	for id := range manifest.Tables {
		listed[table.IDToFilename(id)] = true
	}
	return listed, end == info.Size(), nil
}

// checkTables checks Badger's checksums of tables before Badger opens them. A table that was
// cut short would panic on one of Badger's goroutines and end the process. And the next
// compaction would treat damaged records as missing, and drop them.
//
// It reads all tables, at the speed of the processors or of the disk.
func checkTables(folder string, listed map[string]bool, with *pb.DataKey) error {
	var checks errgroup.Group
	checks.SetLimit(runtime.GOMAXPROCS(0))
	for name := range listed {
		checks.Go(func() error { return checkTable(folder, name, with) })
	}
	return checks.Wait()
}

// checkTable reads a table that the MANIFEST names, and checks the checksums of its index and of
// all its blocks.
func checkTable(folder, name string, with *pb.DataKey) error {
	err := readTable(filepath.Join(folder, name), with, func(t *table.Table) error { return t.VerifyChecksum() })
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // Badger reports a missing table
		return fmt.Errorf("table %s: %w", name, err)
	}
	return nil
}

// readTable calls fn with a table, which is valid until fn returns. with is the key of an
// encrypted table, else nil. A panic of Badger is returned as an error.
func readTable(path string, with *pb.DataKey, fn func(*table.Table) error) error {
	data, err := os.ReadFile(path) // a few MiB; a disk that fails gives an error, not a fault as of a map
	if err != nil {
		return err
	}
	return useTable(path, data, with, fn)
}

// useTable calls fn with the table that data is the content of.
func useTable(path string, data []byte, with *pb.DataKey, fn func(*table.Table) error) error {
	id, ok := table.ParseFileID(filepath.Base(path))
	if !ok {
		return errors.New("its name is not that of a table")
	}
	o := &table.Options{DataKey: with, Compression: options.None}
	if with != nil {
		// Badger panics without a cache for the decrypted index.
		cache, err := ristretto.NewCache(&ristretto.Config[uint64, *fb.TableIndex]{NumCounters: 10, MaxCost: 64 << 20, BufferItems: 64})
		if err != nil {
			return err
		}
		defer cache.Close()
		o.IndexCache = cache
	}
	err := guarded(func() error {
		t, err := table.OpenInMemoryTable(data, id, o)
		if err != nil {
			return err
		}
		return fn(t)
	})
	if _, ok := errors.AsType[*panicError](err); ok {
		err = errors.New("it is cut short, or its index or a block is damaged")
	}
	return err
}
