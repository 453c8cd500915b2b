package badger

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	badgerdb "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"
)

// orphansName is where tables are kept that the MANIFEST does not name.
const orphansName = "ORPHANS"

// keepOrphans sets aside the tables in folder that Badger is about to delete.
//
// A crash leaves such tables behind in good order: what they hold is still in
// the write-ahead log or in the tables that they were made from. But a MANIFEST
// that lost its end, which Badger does not notice, makes orphans of tables that
// hold the only copy. checkOrphans tells the two apart.
func keepOrphans(folder string, listed map[string]bool) error {
	tables, err := filepath.Glob(filepath.Join(folder, "*.sst"))
	if err != nil {
		return err
	}
	aside := filepath.Join(folder, orphansName)
	for _, path := range tables {
		name := filepath.Base(path)
		if listed[name] {
			continue
		}
		if err := os.MkdirAll(aside, 0o700); err != nil {
			return err
		}
		if err := linkOrCopy(path, filepath.Join(aside, name)); err != nil {
			return err
		}
	}
	return nil
}

// linkOrCopy gives a file a second name, or on file systems that know no such
// thing makes a second file of it. It leaves alone what is there already, and
// does nothing when from is gone: another process uses the folder then.
func linkOrCopy(from, to string) error {
	err := os.Link(from, to)
	if err == nil || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return copyFile(from, to)
}

// copyFile makes to a copy of from, all of it or nothing: half a table under
// its own name would pass for one that was set aside before.
func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	partial := to + ".partial"
	target, err := os.Create(partial)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	if err := errors.Join(err, target.Sync(), target.Close()); err != nil {
		return err
	}
	return os.Rename(partial, to)
}

// checkOrphans fails when db lacks what a table that was set aside holds, and
// otherwise removes such tables. A table that cannot be read was never
// finished, so nothing relies on it.
func checkOrphans(db *badgerdb.DB, folder string) error {
	aside := filepath.Join(folder, orphansName)
	tables, err := filepath.Glob(filepath.Join(aside, "*.sst"))
	if err != nil {
		return err
	}
	for _, path := range tables {
		if missing, err := missingFrom(db, path); err == nil && missing > 0 {
			return fmt.Errorf("%w: the store in %s lacks %d records of table %s, which its %s has lost. "+
				"Restore a backup, or remove %s to go on without them",
				ErrDamaged, folder, missing, filepath.Base(path), badgerdb.ManifestFilename, aside)
		}
	}
	return os.RemoveAll(aside)
}

// missingFrom returns how many records of a table db has neither as they are
// there nor in a later state. It is about such as are never removed: of others a
// compaction leaves no trace. But each change of the Service adds to the audit
// trail, so whatever else is lost, some of that is lost with it.
func missingFrom(db *badgerdb.DB, path string) (missing int, err error) {
	err = readTable(path, func(t *table.Table) error {
		if err := t.VerifyChecksum(); err != nil {
			return err
		}
		txn := db.NewTransaction(false)
		defer txn.Discard()
		it := t.NewIterator(0)
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			if k := key(y.ParseKey(it.Key())); len(k) > 1 && k[0] == keyVersion && k.kind().lasting() && !hasSince(txn, k, y.ParseTs(it.Key())) {
				missing++
			}
		}
		return nil
	})
	return missing, err
}

// hasSince reports whether k was written, or deleted, at a time of Badger's or
// later.
func hasSince(txn *badgerdb.Txn, k key, at uint64) bool {
	it := txn.NewKeyIterator(k, badgerdb.IteratorOptions{AllVersions: true})
	defer it.Close()
	it.Seek(k)
	return it.Valid() && bytes.Equal(it.Item().Key(), k) && it.Item().Version() >= at
}
