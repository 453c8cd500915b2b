package badger

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

// ErrBaseRefused is in the chain of what Backup returns, without having written
// anything, when no incremental backup can be made since a base.
var ErrBaseRefused = storage.ErrBaseRefused

func baseRefused(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrBaseRefused, fmt.Errorf(format, args...))
}

// Backup writes a backup of the store as it is at one moment, while others go on
// reading and writing. With a base, which an earlier backup said of itself, it is an
// incremental one: of what did not change since only the keys are in it. It is
// encrypted if the store is.
//
// Each record is checked, and the files before them: of a damaged store no backup is
// made. The error tells which kind of record is damaged, and no content. What was
// written to w until an error is no backup and cannot be restored. A few MiB of memory
// are enough for any store. Backup ends early with ctx, and soon once the store is
// being closed, with domain.ErrClosed.
func (s *Store) Backup(ctx context.Context, w io.Writer, base *BackupInfo) (BackupInfo, BackupEnd, error) {
	info, end, err := s.backup(ctx, w, base)
	if err != nil && !errors.Is(err, domain.ErrClosed) {
		err = fmt.Errorf("making a backup: %w", err)
	}
	return info, end, err
}

func (s *Store) backup(ctx context.Context, w io.Writer, base *BackupInfo) (info BackupInfo, end BackupEnd, err error) {
	err = s.view(ctx, func(txn *badgerdb.Txn, r *records.Reader) error {
		// Damage to what leads to the records would hide some of them.
		var files storage.Report
		if err := cmp.Or(s.checkFiles(&files, ctx.Err), files.Err()); err != nil {
			return err
		}
		if info, err = s.backupInfo(ctx, txn, r, base); err != nil {
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
		err = s.eachRecord(ctx, txn, func(item *badgerdb.Item, record []byte) error {
			d.add(item.Key(), record)
			if base != nil && item.Version() <= base.State.Version {
				return to.unchanged(item.Key())
			}
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

// backupInfo returns what a backup of what txn and r show says of itself, without its salt.
func (s *Store) backupInfo(ctx context.Context, txn *badgerdb.Txn, r *records.Reader, base *BackupInfo) (info BackupInfo, err error) {
	info = BackupInfo{Kind: FullBackup, Store: s.id, Format: storeFormat, CreatedAt: time.Now().UTC()}
	info.State.Version = txn.ReadTs()
	if info.State.Commit, err = r.LastCommit(); err != nil {
		return info, err
	}
	if info.Audit, err = r.AuditHead(); err != nil {
		return info, err
	}
	// A change that came later than the snapshot can only be made once all that is
	// in it is known to be durable.
	switch err := s.update(ctx, func(*records.Tx) error { return nil }); {
	case errors.Is(err, ErrStopped):
		info.Unsettled = true
	case errors.Is(err, errUnavailable): // its neighbours were refused, before they were tried
	case err != nil:
		return info, err
	}
	if base == nil {
		return info, nil
	}
	info.Kind, info.Base = IncrementalBackup, &base.State
	return info, s.checkBase(r, info, *base)
}

// checkBase fails unless what a base shows is what the store was.
func (s *Store) checkBase(r *records.Reader, info, base BackupInfo) error {
	switch {
	case base.Store != info.Store:
		return baseRefused("it is of another store; make a full one")
	case base.Unsettled, info.Unsettled:
		return baseRefused("writing has stopped, or had then, and what was written last may be gone when the store is opened again; make a full one")
	case base.State.Commit > info.State.Commit, base.State.Version > info.State.Version:
		return baseRefused("it is newer than the store, which must have come back older than it was; make a full one")
	case base.Format != info.Format:
		return baseRefused("it is of a store of format %d, which has format %d now; make a full one", base.Format, info.Format)
	case base.Audit.Count == 0:
		return nil
	}
	known, err := r.AuditRecord(base.Audit.Count)
	if err != nil && !errors.Is(err, domain.ErrNotFound) {
		return err
	}
	if known.Hash != base.Audit.Hash {
		return baseRefused("the store has another past than the one that it is of; make a full one")
	}
	return nil
}

// eachRecord calls fn with all records that txn shows, in the order of their keys,
// after it has checked each. It ends early with ctx and when the store is being
// closed.
func (s *Store) eachRecord(ctx context.Context, txn *badgerdb.Txn, fn func(item *badgerdb.Item, record []byte) error) error {
	return eachRecord(txn, func(item *badgerdb.Item, record []byte) error {
		if s.readers.isClosed() {
			return domain.ErrClosed
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		return fn(item, record)
	})
}

// eachRecord calls fn with all records that txn shows, in the order of their keys,
// after it has checked each.
func eachRecord(txn *badgerdb.Txn, fn func(item *badgerdb.Item, record []byte) error) error {
	var at records.Kind
	err := guarded(func() error {
		it := txn.NewIterator(badgerdb.IteratorOptions{})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			item := it.Item()
			k := records.Key(item.Key())
			if !k.Valid() {
				return fmt.Errorf("%w: a record has a key that none has", ErrDamaged)
			}
			at = k.Kind()
			err := item.Value(func(record []byte) error {
				if _, err := records.Unseal(k, record); err != nil {
					return err
				}
				return fn(item, record)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if _, ok := errors.AsType[*panicked](err); ok {
		return fmt.Errorf("%w: reading on from a %v record: %w", ErrDamaged, at, err)
	}
	return err
}

// digest is the hash of what is stored.
type digest struct {
	hash    hash.Hash
	records int
	lengths []byte
}

func newDigest() *digest { return &digest{hash: sha256.New()} }

// add adds a record, in the order of the keys, unless it is one of those that expire.
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

// Digest returns the hash of all that is stored at one moment, and of how many
// records that is: two stores with the same records have the same. Answers kept for
// those who ask again are not in it, as they expire. It reads and checks all of the
// store, and ends early as Backup does.
//
// It is "sha256:" and the SHA-256, in hexadecimal, of the records in the order of
// their keys, each as the lengths of its key and its content (unsigned varints), the
// key and the content.
func (s *Store) Digest(ctx context.Context) (digest string, count int, err error) {
	d := newDigest()
	err = s.view(ctx, func(txn *badgerdb.Txn, _ *records.Reader) error {
		return s.eachRecord(ctx, txn, func(item *badgerdb.Item, record []byte) error {
			d.add(item.Key(), record)
			return nil
		})
	})
	return d.text(), d.records, err
}
