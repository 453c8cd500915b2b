package badger

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"
	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/storage/records"
)

// BackupFile is a backup to be restored.
type BackupFile struct {
	Name    string // in errors
	Content io.Reader
}

// Restore makes a store of a full backup and the incremental ones that continue it,
// in order, in a folder that is missing or empty. o are those that the store is to be
// opened with: it is encrypted if they have a key, whatever the backups are.
// backupKey is the one that the backups were encrypted with. If it is nil that of o
// is tried, and the backups need not be encrypted; otherwise they must be.
//
// It returns what the last backup says of itself once all of it is durable and what
// was stored has been read back and has the digest that the backup promises. The
// store has an id of its own, so no incremental backup of it continues the ones
// restored. After an error the folder is as it was, and in the chain of one about a
// backup is ErrNotRestorable. A process that ends meanwhile leaves a folder that Open
// refuses.
func Restore(ctx context.Context, folder string, o Options, backupKey []byte, full BackupFile, incremental ...BackupFile) (BackupInfo, BackupEnd, error) {
	r := restore{ctx: ctx, o: o, backupKey: backupKey, free: freeSpace}
	err := r.into(folder, append([]BackupFile{full}, incremental...))
	return r.info, r.end, err
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
	info    BackupInfo // of the last backup that was opened
	end     BackupEnd  // of the last one that was applied
}

func (r *restore) into(folder string, backups []BackupFile) (err error) {
	if r.o.Logger == nil {
		r.o.Logger = zap.NewNop()
	}
	if r.folder, err = filepath.Abs(folder); err != nil {
		return err
	}
	readers := make([]*backupReader, len(backups))
	for i, file := range backups { // all of them, before anything is changed
		if readers[i], err = r.open(file.Content); err != nil {
			return fmt.Errorf("%s: %w", file.Name, err)
		}
	}
	leave, err := r.claim()
	if err != nil {
		return fmt.Errorf("restoring into %s: %w", r.folder, err)
	}
	if err := r.run(readers, backups); err != nil {
		return errors.Join(err, r.closeEngine(), leave())
	}
	return nil
}

// closeEngine closes the database, if it is open and there is the space for that.
func (r *restore) closeEngine() error {
	r.guard.stop()
	if r.db == nil {
		return nil
	}
	db := r.db
	r.db = nil
	if err := r.guard.forClosing(db); err != nil {
		return err
	}
	return guarded(db.Close)
}

// open returns the reader of a backup that may come next.
func (r *restore) open(from io.Reader) (*backupReader, error) {
	key := r.backupKey
	if key == nil {
		key = r.o.EncryptionKey
	}
	b, err := openBackup(from, key)
	if err == nil {
		err = r.follows(b.info)
	}
	if err != nil {
		return nil, err
	}
	r.info = b.info
	return b, nil
}

// follows fails unless a backup may come after those that were opened.
func (r *restore) follows(next BackupInfo) error {
	switch first := r.info.Kind == ""; {
	case len(r.backupKey) > 0 && !next.Encrypted():
		return notRestorable("it is not encrypted, though the key of the backups was named")
	case first && next.Kind != FullBackup:
		return notRestorable("it is an incremental backup, and must follow the one that it continues; the first must be a full one")
	case first:
		return nil
	case next.Kind != IncrementalBackup:
		return notRestorable("it is a full backup, and none can follow another backup")
	case next.Store != r.info.Store, next.Format != r.info.Format:
		return notRestorable("it is of another store than the backup before it")
	case *next.Base != r.info.State:
		return notRestorable("it continues a backup of commit %d, and the one before it is of commit %d", next.Base.Commit, r.info.State.Commit)
	default:
		return nil
	}
}

// claim makes the folder one that is being restored into, unless there is something
// in it. leave makes it what it was.
func (r *restore) claim() (leave func() error, err error) {
	first, err := firstMissing(r.folder)
	if err != nil {
		return nil, err
	}
	undo := func() error { return removeMade(r.folder, first) }
	defer func() {
		if err != nil {
			err = errors.Join(err, undo())
		}
	}()
	if err := os.MkdirAll(r.folder, 0o700); err != nil {
		return nil, err
	}
	before, err := os.Stat(r.folder)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(r.folder)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() != "lost+found" }) { // of a file system mounted here
		return nil, errors.New("the folder is not empty; a store is restored into a new one")
	}
	r.guard = newGuard(r.folder, r.free, r.o.Logger)
	if err := r.guard.withBallast(); err != nil {
		return nil, err
	}
	// Two at a time must not take the folder for theirs.
	file, err := os.OpenFile(filepath.Join(r.folder, MarkerName), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	undo = func() error {
		return errors.Join(empty(r.folder), os.Chmod(r.folder, before.Mode().Perm()), removeMade(r.folder, first))
	}
	r.marker = marker{Format: r.info.Format, ID: uuid.NewString(), State: stateRestoring, Encrypted: len(r.o.EncryptionKey) > 0}
	r.marker.KeyCheck = keyCheck(r.o.EncryptionKey, r.marker.ID)
	err = cmp.Or(
		file.Close(),
		os.Chmod(r.folder, 0o700),
		r.marker.checkKey(r.folder, r.o.EncryptionKey),
		r.marker.write(r.folder),
	)
	if err != nil {
		return nil, err
	}
	syncParents(r.folder)
	return undo, nil
}

// firstMissing returns the uppermost folder that MkdirAll would make, "" for none.
func firstMissing(folder string) (missing string, err error) {
	for {
		_, err := os.Stat(folder)
		if !errors.Is(err, fs.ErrNotExist) {
			return missing, err
		}
		missing, folder = folder, filepath.Dir(folder)
	}
}

// removeMade removes what was made of the path to folder, from first on, which is ""
// if nothing was. There is nothing in it.
func removeMade(folder, first string) error {
	if first == "" {
		return nil
	}
	for ; ; folder = filepath.Dir(folder) {
		if err := os.Remove(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if folder == first {
			return nil
		}
	}
}

// empty removes what is in a folder that a store was restored into.
func empty(folder string) error {
	entries, err := os.ReadDir(folder)
	for _, entry := range entries {
		if entry.Name() != "lost+found" {
			err = errors.Join(err, os.RemoveAll(filepath.Join(folder, entry.Name())))
		}
	}
	return err
}

// run restores the backups and makes a store of the folder once it has the right
// content.
func (r *restore) run(backups []*backupReader, files []BackupFile) (err error) {
	if r.db, err = openEngine(settings(r.folder, r.o)); err != nil {
		return err
	}
	if err := checkEncrypts(r.folder, r.o.EncryptionKey); err != nil {
		return err
	}
	r.guard.watch(r.db)
	r.reserve = reserver(r.folder)
	for i, b := range backups {
		if err := r.apply(b); err != nil {
			return fmt.Errorf("%s: %w", files[i].Name, err)
		}
		r.end = b.end
	}
	if err := r.closeEngine(); err != nil {
		return err
	}
	return r.finish()
}

// apply makes what is stored what a backup shows.
func (r *restore) apply(b *backupReader) error {
	base := r.db.NewTransaction(false)
	defer base.Discard()
	stored := base.NewIterator(badgerdb.IteratorOptions{})
	defer stored.Close()
	stored.Rewind()
	out := batch{restore: r, WriteBatch: r.db.NewWriteBatch()}
	defer out.Cancel()
	for b.next() {
		for stored.Valid() && bytes.Compare(stored.Item().Key(), b.key) < 0 {
			if err := out.remove(stored); err != nil {
				return err
			}
		}
		known := stored.Valid() && bytes.Equal(stored.Item().Key(), b.key)
		switch {
		case b.record != nil:
			if err := out.set(&badgerdb.Entry{Key: b.key, Value: b.record, ExpiresAt: b.expires}); err != nil {
				return err
			}
		case !known && b.key.Kind() != records.KindReplay: // which may have expired
			return notRestorable("it continues another backup: a %v record that it does not change is missing", b.key.Kind())
		}
		if known {
			stored.Next()
		}
	}
	if b.err != nil {
		return b.err
	}
	for stored.Valid() {
		if err := out.remove(stored); err != nil {
			return err
		}
	}
	return out.Flush()
}

// batch writes many records, with an eye on the space that they take.
type batch struct {
	*badgerdb.WriteBatch
	restore *restore
	size    int // written since the last look
}

func (b *batch) set(e *badgerdb.Entry) error {
	if err := b.look(len(e.Key) + len(e.Value)); err != nil {
		return err
	}
	if e.ExpiresAt != 0 && e.ExpiresAt <= uint64(time.Now().Unix()) {
		return b.Delete(e.Key)
	}
	return b.SetEntry(e)
}

// remove removes the record that an iterator stands at, which moves on.
func (b *batch) remove(at *badgerdb.Iterator) error {
	k := at.Item().KeyCopy(nil)
	at.Next()
	if err := b.look(len(k)); err != nil {
		return err
	}
	return b.Delete(k)
}

// look sees to the space, and to whether to go on at all, before so many bytes more
// are written.
func (b *batch) look(size int) error {
	if b.size += size; b.size < memTableSize/4 {
		return nil
	}
	b.size = 0
	return cmp.Or(b.restore.ctx.Err(), b.restore.guard.forWriting(), b.restore.reserve())
}

// finish reads back what was stored, from the disk, and makes it a store.
func (r *restore) finish() error {
	err := withProbe(r.folder, r.o, func(db *badgerdb.DB) error {
		txn := db.NewTransaction(false)
		defer txn.Discard()
		d := newDigest()
		err := eachRecord(txn, func(item *badgerdb.Item, record []byte) error {
			d.add(item.Key(), record)
			return r.ctx.Err()
		})
		if err != nil {
			return err
		}
		if d.text() != r.end.Digest || d.records != r.end.Records {
			return notRestorable("what it leads to are %d records with the digest %s, not %d with %s", d.records, d.text(), r.end.Records, r.end.Digest)
		}
		sequence, err := lastCommit(db)
		if err == nil && sequence != r.info.State.Commit {
			err = notRestorable("its last commit is number %d, not %d", sequence, r.info.State.Commit)
		}
		return err
	})
	if err != nil {
		return err
	}
	mark, err := openMark(r.folder, r.info.State.Commit)
	if err != nil {
		return err
	}
	if err := mark.close(); err != nil {
		return err
	}
	r.marker.State = stateReady
	return r.marker.write(r.folder)
}
