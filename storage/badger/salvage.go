package badger

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"

	badgerdb "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/fileowner"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

// ErrNothing is in the chain of Salvage's error if nothing in the folder can be read.
var ErrNothing = errors.New("nothing can be read")

// Salvage copies the whole records of the damaged store in from into a new store. The folder
// to is missing or empty. Salvage names all that it does not copy: see records.Wreck. The new
// store has another id and the same encryption key, that of o. All keys in it are revoked.
//
// Salvage opens no Badger database in from, and changes nothing there. It needs memory for all
// that is stored. After an error, and if ctx ends, the folder to is empty or missing. If the process
// ends meanwhile, Open refuses that folder. The error is ErrMisused for a wrong key, and while
// another process uses the store. It is ErrNothing if there is no whole record, for example
// because the KEYREGISTRY of an encrypted store is lost.
func Salvage(ctx context.Context, from, to string, o Options) (report storage.Salvage, err error) {
	if err := checkPlatform(); err != nil {
		return report, err
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	if from, err = filepath.Abs(from); err != nil {
		return report, err
	}
	if to, err = filepath.Abs(to); err != nil {
		return report, err
	}
	if rest, err := filepath.Rel(from, to); err == nil && filepath.IsLocal(rest) {
		return report, fmt.Errorf("%s is in the damaged folder, and nothing is changed there", to)
	}
	locked, err := lockExisting(from)
	if errors.Is(err, errLocked) {
		return report, inUse(from, err)
	}
	if err == nil { // some read-only file systems lock nothing
		defer func() { _ = unlock(locked) }()
	}
	w := &wreck{ctx: ctx, folder: from, o: o}
	w.Records, w.Lost = make(map[string]records.FoundRecord), []storage.Loss{}
	if err := w.readKey(); err != nil {
		return report, fileowner.Explain(err, from)
	}
	c, err := claimFolder(to, o.EncryptionKey, newGuard(to, freeSpace, o.Logger))
	if err != nil {
		return report, fileowner.Explain(fmt.Errorf("salvaging into %s: %w", to, err), to)
	}
	defer fileowner.Adopt(to)
	defer func() { err = c.end(err) }()
	if err := w.read(to); err != nil {
		return report, err
	}
	maps.DeleteFunc(w.Records, func(_ string, f records.FoundRecord) bool { return len(f.Record) == 0 }) // it was removed
	if len(w.Records) == 0 {
		return report, fmt.Errorf("%w: no whole record was found in %s; the file of its key must be named if it is encrypted", ErrNothing, from)
	}
	o.isClaimed = true
	store, err := Open(to, o)
	if err != nil {
		return report, err
	}
	w.StoreID, w.Update = c.ID, func(fn func(*records.Tx) error) error { return store.update(ctx, fn) }
	if err := errors.Join(w.Copy(), store.Close()); err != nil {
		return report, err
	}
	c.State = stateReady
	return w.Salvage, cmp.Or(ctx.Err(), c.write(to))
}

// wreck reads the files of a damaged store: the tables block by block, and each log in a copy that
// Badger opens. It opens no database in the folder, because that truncates and removes files.
type wreck struct {
	records.Wreck
	ctx    context.Context
	folder string
	o      Options
	key    *pb.DataKey // nil for a store that is not encrypted
}

// lose names a damaged file.
func (w *wreck) lose(file, what string) {
	w.Lose(storage.Loss{Kind: "file", Name: file, What: what + ": records of it may be lost, and older copies of them may be there"})
}

// readKey reads the key of the files.
func (w *wreck) readKey() error {
	text, err := os.ReadFile(filepath.Join(w.folder, MarkerName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if m, err := decodeMarker(text); err != nil {
		w.lose(MarkerName, "it is missing or damaged")
	} else if err := cmp.Or(m.checkFormat(w.folder), m.checkKey(w.folder, w.o.EncryptionKey)); err != nil && !errors.Is(err, ErrDamaged) {
		return err
	}
	if w.key, err = dataKey(w.folder, w.o.EncryptionKey); err != nil {
		return fmt.Errorf("%w: the store is encrypted, and the key of its files is lost: %w", ErrNothing, err)
	}
	return nil
}

// read reads all files, and copies logs into a folder inside scratch. It fails if the system
// refuses to read, or if ctx ends.
func (w *wreck) read(scratch string) error {
	entries, err := os.ReadDir(w.folder)
	if err != nil {
		return err
	}
	listed, isWhole, err := listedTables(w.folder)
	if err != nil && isRefusal(err) {
		return err
	}
	if !isWhole {
		w.lose(badgerdb.ManifestFilename, "it is missing or damaged, and other tables than those that were read may be missing")
	}
	for _, entry := range entries {
		name, isTable := entry.Name(), filepath.Ext(entry.Name()) == ".sst"
		if !isTable && filepath.Ext(name) != ".mem" {
			continue
		}
		delete(listed, name) // a table that is not listed may have what is lost elsewhere
		data, err := os.ReadFile(filepath.Join(w.folder, name))
		switch {
		case err != nil:
		case isTable:
			err = w.readTable(name, data)
		default:
			err = w.readLog(data, scratch)
		}
		if err != nil && isRefusal(err) || w.ctx.Err() != nil {
			return cmp.Or(w.ctx.Err(), err)
		}
		if err != nil {
			w.lose(name, err.Error())
		}
	}
	for name := range listed {
		w.lose(name, "it is missing")
	}
	if w.Acknowledged, err = storedSequence(w.folder); err != nil || w.Acknowledged == 0 {
		w.lose(sequenceName, "it is missing or damaged, and the number of the last commit is unknown")
	}
	return nil
}

// readTable takes the records of a table. A damaged block loses those of its records that are
// damaged, and a damaged table the removals of records, which have no checksum of their own.
func (w *wreck) readTable(name string, data []byte) error {
	return useTable(name, data, w.key, func(t *table.Table) error {
		damaged := t.VerifyChecksum()
		first := append(t.KeySplits(math.MaxInt, nil), "") // of each block
		for i, from := range first[:len(first)-1] {
			_ = guarded(func() error {
				it := t.NewIterator(table.NOCACHE)
				defer it.Close()
				for it.Seek([]byte(from)); it.Valid() && (first[i+1] == "" || y.CompareKeys(it.Key(), []byte(first[i+1])) < 0); it.Next() {
					if value := it.Value(); len(value.Value) > 0 || damaged == nil {
						damaged = cmp.Or(w.take(y.ParseKey(it.Key()), y.ParseTs(it.Key()), value.Value), damaged)
					}
				}
				return nil
			})
		}
		return damaged
	})
}

// readLog takes the records of a log up to its first damage, by opening a copy in a folder inside
// scratch. Badger does not report the damage: the records that follow leave a gap in the audit trail,
// or the last commits are missing.
func (w *wreck) readLog(log []byte, scratch string) error {
	copied, err := os.MkdirTemp(scratch, probePattern)
	if err != nil {
		return err
	}
	defer os.RemoveAll(copied)
	const margin = 64 // zeros may end the last entry
	used := len(bytes.TrimRight(log, "\x00"))
	if used == 0 {
		return nil
	}
	if err := os.WriteFile(filepath.Join(copied, "00001.mem"), log[:min(len(log), used+margin)], 0o600); err != nil {
		return err
	}
	registry := badgerdb.KeyRegistryFileName
	if err := copyFile(filepath.Join(w.folder, registry), filepath.Join(copied, registry)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	db, err := recoverOpen(withoutCompactions(settings(copied, w.o)))
	if err != nil {
		return err
	}
	err = guarded(func() (damaged error) {
		txn := newest(db)
		defer txn.Discard()
		it := txn.NewIterator(badgerdb.IteratorOptions{AllVersions: true})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			record, err := valueOf(it.Item())
			damaged = cmp.Or(damaged, err, w.take(it.Item().Key(), it.Item().Version(), record))
		}
		return damaged
	})
	return errors.Join(err, guarded(db.Close))
}

// take notes a copy of a record, or of its removal, which has none. Badger's checksums do not tell
// which records of a damaged block are whole, so the record's own does.
func (w *wreck) take(key []byte, version uint64, record []byte) error {
	k := records.Key(key)
	if !k.Valid() {
		return errors.New("the key of a record is damaged")
	}
	if len(record) > 0 {
		if _, err := records.Unseal(k, record); err != nil {
			return err
		}
	}
	if known, ok := w.Records[string(k)]; !ok || known.Version < version {
		w.Records[string(k)] = records.FoundRecord{Record: bytes.Clone(record), Version: version}
	}
	return nil
}
