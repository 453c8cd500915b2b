package badger

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"regexp"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

// Backup writes a backup of the store as it is at one moment. Reads and writes go on
// meanwhile. The backup is encrypted if the store is.
//
// Backup checks the tables and each record, and refuses a damaged store. The error names
// the kind of the damaged record and shows no content. A store with an unfinished import is
// domain.ErrUnavailable. After an error, the output in w cannot be restored. A few MiB of
// memory are enough for any store. Backup ends early with ctx. It ends soon with
// domain.ErrClosed when the store is being closed.
func (s *Store) Backup(ctx context.Context, w io.Writer) (BackupInfo, BackupEnd, error) {
	info, end, err := s.backup(ctx, w)
	if err != nil && !errors.Is(err, domain.ErrClosed) {
		err = fmt.Errorf("making a backup: %w", err)
	}
	return info, end, err
}

func (s *Store) backup(ctx context.Context, w io.Writer) (info BackupInfo, end BackupEnd, err error) {
	until, cancel := s.untilClosed(ctx)
	defer cancel()
	ended := func() error { return context.Cause(until) }
	err = s.view(ctx, func(txn *badgerdb.Txn, r *records.Reader) error {
		// A backup of an unfinished import would look complete.
		if err := domain.CheckImported(r); err != nil {
			return err
		}
		// A damaged index would hide some of the records.
		var files storage.Report
		if err := s.checkFiles(&files, ended); err != nil {
			return err
		}
		if err := files.Err(); err != nil {
			return err
		}
		info = BackupInfo{Format: storeFormat, CreatedAt: time.Now().UTC()}
		if info.Commit, err = r.LastCommit(); err != nil {
			return err
		}
		if info.Size, err = backupSize(txn, ended); err != nil {
			return err
		}
		key := s.db.Opts().EncryptionKey
		if len(key) > 0 {
			if err := info.newSalt(key); err != nil {
				return err
			}
		}
		to, err := newBackupWriter(w, info, key)
		if err != nil {
			return err
		}
		d := newDigest()
		err = eachRecord(txn, func(item *badgerdb.Item, record []byte) error {
			if err := ended(); err != nil {
				return err
			}
			d.add(item.Key(), record)
			return to.record(item.Key(), item.ExpiresAt(), record)
		})
		if err != nil {
			return err
		}
		end = BackupEnd{Entries: to.entries, Records: d.records, Digest: d.text()}
		return to.end(end)
	})
	return info, end, err
}

// backupSize returns the Size of a backup of what txn shows. It reads the keys alone, and ends
// with the error of ended.
func backupSize(txn *badgerdb.Txn, ended func() error) (size int64, err error) {
	err = eachItem(txn, func(item *badgerdb.Item) error {
		size += backupEntrySize(len(item.Key()), item.ExpiresAt(), int(item.ValueSize()))
		return ended()
	})
	return size, err
}

// eachRecord calls fn with each record that txn shows, in the order of their keys. It
// checks each record first.
func eachRecord(txn *badgerdb.Txn, fn func(item *badgerdb.Item, record []byte) error) error {
	return eachItem(txn, func(item *badgerdb.Item) error {
		return item.Value(func(record []byte) error {
			if _, err := records.Unseal(item.Key(), record); err != nil {
				return err
			}
			return fn(item, record)
		})
	})
}

// eachItem calls fn with each item that txn shows, in the order of their keys.
func eachItem(txn *badgerdb.Txn, fn func(item *badgerdb.Item) error) error {
	var at records.Kind
	err := guarded(func() error {
		it := txn.NewIterator(badgerdb.IteratorOptions{})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			k := records.Key(it.Item().Key())
			if !k.Valid() {
				return fmt.Errorf("%w: a record has an unknown key", ErrDamaged)
			}
			at = k.Kind()
			if err := fn(it.Item()); err != nil {
				return err
			}
		}
		return nil
	})
	if _, ok := errors.AsType[*panicError](err); ok {
		return fmt.Errorf("%w: reading on after a %v record: %w", ErrDamaged, at, err)
	}
	return err
}

// digest is the hash of what is stored: two stores with the same records have the same.
// It is "sha256:" and a SHA-256, in hexadecimal, of the records in the order of their
// keys. Each record is hashed as the lengths of its key and its content (unsigned
// varints), the key and the content.
type digest struct {
	hash    hash.Hash
	records int
	lengths []byte
}

func newDigest() *digest { return &digest{hash: sha256.New()} }

// add adds a record. The caller keeps the order of the keys. Records that expire are
// left out.
func (d *digest) add(k records.Key, record []byte) {
	if k.Kind() == records.KindReplay {
		return
	}
	d.records++
	d.lengths = binary.AppendUvarint(d.lengths[:0], uint64(len(k)))
	d.lengths = binary.AppendUvarint(d.lengths, uint64(len(record)))
	d.hash.Write(d.lengths)
	d.hash.Write(k)
	d.hash.Write(record)
}

func (d *digest) text() string { return "sha256:" + hex.EncodeToString(d.hash.Sum(nil)) }

// digestText matches what digest.text returns.
var digestText = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
