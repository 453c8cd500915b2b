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
// returns, they are durable, and from.End is set. After an error the folder is as it was. An
// error about the dump has dump.ErrUnusable in its chain. If the process ends meanwhile, Open
// refuses the folder.
func Restore(ctx context.Context, folder string, o Options, from *dump.Reader) error {
	if err := checkPlatform(); err != nil {
		return err
	}
	r := restore{ctx: ctx, o: o, from: from, free: freeSpace}
	return fileowner.Explain(r.writeStore(folder), folder)
}

// RestoreInMemory makes a store in memory of a dump, for tests: see OpenInMemory.
func RestoreInMemory(from *dump.Reader) (*Store, error) {
	db, err := badgerdb.OpenManaged(settings("", Options{}).WithInMemory(true))
	if err != nil {
		return nil, err
	}
	if err := writeRecords(db, from, func() error { return nil }); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	c := &committer{db: db, logger: zap.NewNop(), sequence: from.Info.Commit}
	return newStore(db, c, nil), nil
}

// restore is one call of Restore.
type restore struct {
	ctx  context.Context
	o    Options
	from *dump.Reader
	free func(folder string) (uint64, error)

	folder string
	guard  *guard
	marker marker
	db     *badgerdb.DB
}

// writeStore makes the store in folder. After an error it removes what it made.
func (r *restore) writeStore(folder string) (err error) {
	if r.o.Logger == nil {
		r.o.Logger = zap.NewNop()
	}
	if r.folder, err = filepath.Abs(folder); err != nil {
		return err
	}
	r.guard = newGuard(r.folder, r.free, r.o.Logger)
	m, undo, err := claimFolder(r.folder, storeFormat, r.o.EncryptionKey, r.guard)
	if err != nil {
		return fmt.Errorf("restoring into %s: %w", r.folder, err)
	}
	defer fileowner.Adopt(r.folder)
	r.marker = m
	if err := r.run(); err != nil {
		return errors.Join(err, r.closeBadger(), undo())
	}
	return nil
}

// closeBadger closes the database if it is open. It fails without the space for that.
func (r *restore) closeBadger() error {
	r.guard.stop()
	if r.db == nil {
		return nil
	}
	db := r.db
	r.db = nil
	if err := r.guard.checkClosing(db); err != nil {
		return err
	}
	return guarded(db.Close)
}

// run writes the records of the dump and makes a store of the folder.
func (r *restore) run() (err error) {
	if r.db, err = openBadger(settings(r.folder, r.o)); err != nil {
		return err
	}
	if err := checkEncrypts(r.folder, r.o.EncryptionKey); err != nil {
		return err
	}
	r.guard.watch(r.db)
	reserve := reserver(r.folder)
	err = writeRecords(r.db, r.from, func() error {
		return cmp.Or(r.ctx.Err(), r.guard.checkWritesAllowed(), reserve())
	})
	if err != nil {
		return err
	}
	if err := r.closeBadger(); err != nil {
		return err
	}
	return r.finish()
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

// finish reads the records back from the disk, compares them with the dump's end, and marks
// the store as ready.
func (r *restore) finish() error {
	err := probeCopy(r.folder, r.o, func(db *badgerdb.DB) error {
		txn := newest(db)
		defer txn.Discard()
		var stored dump.Summary
		err := records.EachRecord(snapshot{txn}, func(k records.Key, record []byte) error {
			stored.Add(k, record)
			return r.ctx.Err()
		})
		return cmp.Or(err, r.from.End.Check(&stored))
	})
	if err != nil {
		return err
	}
	file, err := openSequence(r.folder, r.from.Info.Commit)
	if err != nil {
		return err
	}
	if err := file.close(); err != nil {
		return err
	}
	r.marker.State = stateReady
	return r.marker.write(r.folder)
}
