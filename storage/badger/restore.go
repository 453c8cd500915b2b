package badger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/storage/dump"
	"github.com/caddy-presets/caddy-presets/storage/fileowner"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

// Restore makes a store of a dump of any engine, in a folder that is missing or empty. o are
// the options of the new store. If they have a key, the store is encrypted, whether the dump is
// or not.
//
// Restore reads the stored records back and compares their digest with the dump's. When it
// returns, they are durable, and from.End is set. After an error the folder is empty, or missing as before. An
// error about the dump has dump.ErrUnusable in its chain. If the process ends meanwhile, Open
// refuses the folder.
func Restore(ctx context.Context, folder string, o Options, from *dump.Reader) error {
	if err := checkPlatform(); err != nil {
		return err
	}
	return fileowner.Explain(restore(ctx, folder, o, from, freeSpace), folder)
}

// restore is Restore on a file system with so much free space.
func restore(ctx context.Context, folder string, o Options, from *dump.Reader, free func(folder string) (uint64, error)) (err error) {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return err
	}
	g := newGuard(folder, free, o.Logger)
	c, err := claimFolder(folder, o.EncryptionKey, g)
	if err != nil {
		return fmt.Errorf("restoring into %s: %w", folder, err)
	}
	defer fileowner.Adopt(folder)
	defer func() { err = c.end(err) }()
	if err := fillFolder(ctx, folder, o, from, g); err != nil {
		return err
	}
	if err := probe(folder, o, func(db *badgerdb.DB) error { return compareRecords(ctx, db, from) }); err != nil {
		return err
	}
	file, err := openSequence(folder, from.Info.Commit)
	if err != nil {
		return err
	}
	if err := file.close(); err != nil {
		return err
	}
	c.State = stateReady
	return c.write(folder)
}

// fillFolder makes a database of a dump in a folder that is claimed.
func fillFolder(ctx context.Context, folder string, o Options, from *dump.Reader, g *guard) (err error) {
	db, err := openBadger(settings(folder, o).WithBypassLockGuard(locks))
	if err != nil {
		return err
	}
	g.watch(db)
	defer func() {
		g.stop()
		full := g.checkClosing(db)
		if err = errors.Join(err, full); full == nil {
			err = errors.Join(err, guarded(db.Close))
		}
	}()
	if err := checkEncrypts(folder, o.EncryptionKey); err != nil {
		return err
	}
	return writeRecords(db, from, func() error {
		return cmp.Or(ctx.Err(), g.checkWritesAllowed(), reserveLogs(folder, true))
	})
}

// compareRecords compares the records in db with the dump's end.
func compareRecords(ctx context.Context, db *badgerdb.DB, from *dump.Reader) error {
	txn := newest(db)
	defer txn.Discard()
	var stored dump.Summary
	err := records.EachRecord(snapshot{txn}, func(k records.Key, record []byte) error {
		stored.Add(k, record)
		return ctx.Err()
	})
	return cmp.Or(err, from.End.Check(&stored))
}

// writeRecords writes the records of a dump, except those that have expired, and the number of
// the last commit. It calls check now and then, whose error ends it.
func writeRecords(db *badgerdb.DB, from *dump.Reader, check func() error) error {
	out := db.NewWriteBatchAt(db.MaxVersion() + 1)
	defer out.Cancel()
	now := uint64(time.Now().Unix())
	size := 0 // since the last check
	for from.Next() {
		k, record := from.Key, from.Record
		if size += len(k) + len(record); size >= memTableSize/4 {
			if err := check(); err != nil {
				return err
			}
			size = 0
		}
		expires, err := records.Expires(k, record)
		if err != nil {
			return err
		}
		if expires != 0 && expires <= now {
			continue
		}
		if err := out.SetEntry(&badgerdb.Entry{Key: k, Value: record, ExpiresAt: expires}); err != nil {
			return err
		}
	}
	if from.Err != nil {
		return from.Err
	}
	last := records.CommitWrite(from.Info.Commit)
	if err := out.Set(last.Key, last.Record); err != nil {
		return err
	}
	return out.Flush()
}
