package badger

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	badgerdb "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"

	"github.com/caddy-presets/caddy-presets/storage/records"
)

// checkOrphans fails if a table in folder that is not listed has records that db lacks. db
// was opened on a copy of folder. Badger is about to delete such tables.
//
// A crash leaves orphans that are harmless: their records are still in the write-ahead log
// or in the source tables. But Badger does not notice that a MANIFEST has lost its end.
// Tables with the only copy of records are orphans then. An incomplete table was never in
// use. A table that the system refuses to read may hold anything.
func checkOrphans(db *badgerdb.DB, folder string, listed map[string]bool, with *pb.DataKey) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return readError(err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if filepath.Ext(name) != ".sst" || listed[name] {
			continue
		}
		missing, err := countMissing(db, filepath.Join(folder, name), with)
		if err != nil && isRefusal(err) {
			return readError(err)
		}
		if err == nil && missing > 0 {
			return fmt.Errorf("%w: the store lacks %d records of table %s, which its %s has lost. "+
				"Restore a backup, or remove that table to go on without them",
				ErrDamaged, missing, name, badgerdb.ManifestFilename)
		}
	}
	return nil
}

// countMissing counts the records of a table that db has neither in that version nor in a
// later one. It counts only kinds of records that are never removed, since a compaction
// leaves no trace of the others. That is enough: each change of the Service adds an audit
// record.
func countMissing(db *badgerdb.DB, path string, with *pb.DataKey) (missing int, err error) {
	err = readTable(path, with, func(t *table.Table) error {
		if err := t.VerifyChecksum(); err != nil {
			return err
		}
		txn := newest(db)
		defer txn.Discard()
		it := t.NewIterator(0)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if k := records.Key(y.ParseKey(it.Key())); k.Valid() && k.Kind().Lasting() && !hasVersionSince(txn, k, y.ParseTs(it.Key())) {
				missing++
			}
		}
		return nil
	})
	return missing, err
}

// hasVersionSince reports whether k was written or deleted at a version of Badger's or later.
func hasVersionSince(txn *badgerdb.Txn, k records.Key, at uint64) bool {
	it := txn.NewKeyIterator(k, badgerdb.IteratorOptions{AllVersions: true})
	defer it.Close()
	it.Seek(k)
	return it.Valid() && bytes.Equal(it.Item().Key(), k) && it.Item().Version() >= at
}
