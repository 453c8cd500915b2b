package badger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/storage/fileowner"
)

// BackupFile is a backup to be restored.
type BackupFile struct {
	Name    string // in errors
	Content io.Reader
}

// Restore makes a store of a backup, in a folder that is missing or empty. o are the options
// of the new store. If they have a key, the store is encrypted, whether the backup is or not.
// backupKey is the key of the backup. If it is nil, Restore tries the key of o, and accepts a
// backup that is not encrypted. With any other backupKey it refuses such a backup.
//
// Restore reads the stored records back and compares their digest with the backup's. When
// it returns, they are durable. It returns the backup's description and summary. After an
// error the folder is as it was. An error about the backup has ErrNotRestorable in its
// chain. If the process ends meanwhile, Open refuses the folder.
func Restore(ctx context.Context, folder string, o Options, backupKey []byte, backup BackupFile) (BackupInfo, BackupEnd, error) {
	if err := checkPlatform(); err != nil {
		return BackupInfo{}, BackupEnd{}, err
	}
	r := restore{ctx: ctx, o: o, backupKey: backupKey, free: freeSpace}
	err := r.writeStore(folder, backup)
	return r.info, r.end, fileowner.Explain(err, folder)
}

// restore is one call of Restore.
type restore struct {
	ctx       context.Context
	o         Options
	backupKey []byte
	free      func(folder string) (uint64, error)

	folder  string
	guard   *guard
	marker  marker
	db      *badgerdb.DB
	reserve func() error
	info    BackupInfo
	end     BackupEnd
}

// writeStore makes the store in folder. After an error it removes what it made.
func (r *restore) writeStore(folder string, backup BackupFile) (err error) {
	if r.o.Logger == nil {
		r.o.Logger = zap.NewNop()
	}
	if r.folder, err = filepath.Abs(folder); err != nil {
		return err
	}
	from, err := r.open(backup.Content) // before anything is changed
	if err != nil {
		return fmt.Errorf("%s: %w", backup.Name, err)
	}
	r.guard = newGuard(r.folder, r.free, r.o.Logger)
	m, undo, err := claimFolder(r.folder, r.info.Format, r.o.EncryptionKey, r.guard)
	if err != nil {
		return fmt.Errorf("restoring into %s: %w", r.folder, err)
	}
	defer fileowner.Adopt(r.folder)
	r.marker = m
	if err := r.run(from, backup.Name); err != nil {
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

// open returns the reader of the backup.
func (r *restore) open(from io.Reader) (*backupReader, error) {
	key := r.backupKey
	if key == nil {
		key = r.o.EncryptionKey
	}
	b, err := openBackup(from, key)
	if err != nil {
		return nil, err
	}
	if err := b.info.checkEncrypted(r.backupKey); err != nil {
		return nil, err
	}
	r.info = b.info
	return b, nil
}

// run writes the records of the backup and makes a store of the folder.
func (r *restore) run(from *backupReader, name string) (err error) {
	if r.db, err = openBadger(settings(r.folder, r.o)); err != nil {
		return err
	}
	if err := checkEncrypts(r.folder, r.o.EncryptionKey); err != nil {
		return err
	}
	r.guard.watch(r.db)
	r.reserve = reserver(r.folder)
	if err := r.write(from); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r.end = from.end
	if err := r.closeBadger(); err != nil {
		return err
	}
	return r.finish()
}

// write writes the records of the backup, except those that have expired.
func (r *restore) write(from *backupReader) error {
	out := r.db.NewWriteBatchAt(r.db.MaxVersion() + 1)
	defer out.Cancel()
	size := 0 // since the last check
	for from.next() {
		if size += len(from.key) + len(from.record); size >= memTableSize/4 {
			if err := cmp.Or(r.ctx.Err(), r.guard.checkWritesAllowed(), r.reserve()); err != nil {
				return err
			}
			size = 0
		}
		if from.expires != 0 && from.expires <= uint64(time.Now().Unix()) {
			continue
		}
		if err := out.SetEntry(&badgerdb.Entry{Key: from.key, Value: from.record, ExpiresAt: from.expires}); err != nil {
			return err
		}
	}
	if from.err != nil {
		return from.err
	}
	return out.Flush()
}

// finish reads the records back from the disk, compares them with the backup's end, and
// marks the store as ready.
func (r *restore) finish() error {
	err := probeCopy(r.folder, r.o, func(db *badgerdb.DB) error {
		txn := newest(db)
		defer txn.Discard()
		d := newDigest()
		err := eachRecord(txn, func(item *badgerdb.Item, record []byte) error {
			d.add(item.Key(), record)
			return r.ctx.Err()
		})
		if err != nil {
			return err
		}
		if err := r.end.check(d); err != nil {
			return err
		}
		commit, err := lastCommit(db)
		return cmp.Or(err, r.info.checkCommit(commit))
	})
	if err != nil {
		return err
	}
	file, err := openSequence(r.folder, r.info.Commit)
	if err != nil {
		return err
	}
	if err := file.close(); err != nil {
		return err
	}
	r.marker.State = stateReady
	return r.marker.write(r.folder)
}
