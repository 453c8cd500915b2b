package badger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"

	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

// wreck is what is found in the files of a damaged store. Tables are read block by block, and
// Badger opens a copy of each log. It opens no database in the folder, because that truncates and
// removes files.
type wreck struct {
	ctx    context.Context
	folder string
	o      Options
	key    *pb.DataKey // nil for a store that is not encrypted

	newest       map[string]records.FoundRecord // by their keys, without a record for a removal
	places       []storage.Place
	incomplete   bool   // a change of a key may be lost
	cut          bool   // the end of a log is damaged
	acknowledged uint64 // the number of the last commit that was acknowledged, 0 for unknown
	latest       uint64 // the highest version that a table or log has
}

func (w *wreck) bad(file, what string) {
	w.places = append(w.places, storage.Place{File: file, What: what})
}

// lose is bad for a part that may have held a change of a key.
func (w *wreck) lose(file, what string) {
	w.incomplete = true
	w.bad(file, what)
}

// read reads all files, and copies logs into a folder inside scratch. It fails if the system
// refuses to read, or if ctx ends.
func (w *wreck) read(scratch string) error {
	entries, err := os.ReadDir(w.folder)
	if err != nil {
		return err
	}
	var listed map[string]bool
	isWhole := false
	err = guarded(func() (err error) {
		listed, isWhole, err = listedTables(w.folder)
		return err
	})
	if err != nil && isRefusal(err) {
		return err
	}
	if !isWhole {
		w.lose(badgerdb.ManifestFilename, "it is missing or damaged: all tables were read, and others may be missing")
	}
	var logs []string
	for _, entry := range entries {
		switch name := entry.Name(); filepath.Ext(name) {
		case ".sst": // one that is not listed may have what is lost elsewhere
			delete(listed, name)
			if err := w.readTable(name); err != nil {
				return err
			}
		case ".mem":
			logs = append(logs, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		w.lose(name, "the table is missing")
	}
	for _, name := range slices.SortedFunc(slices.Values(logs), compareLogs) {
		if err := w.readLog(name, scratch); err != nil {
			return err
		}
	}
	if w.acknowledged, err = storedSequence(w.folder); err != nil || w.acknowledged == 0 {
		w.lose(sequenceName, "it is missing or damaged: the number of the last commit is unknown")
	}
	return w.ctx.Err()
}

// readTable takes the records of a table. A block whose checksum is wrong loses those of its
// records that are damaged, and the records that it removes.
func (w *wreck) readTable(name string) error {
	data, err := w.readFile(name)
	if err != nil {
		return err
	}
	o := &table.Options{DataKey: w.key}
	err = useTable(name, data, o, func(t *table.Table) error {
		w.latest = max(w.latest, t.MaxVersion())
		first := t.KeySplits(math.MaxInt, nil) // of each block
		for i := range first {
			from, to := []byte(first[i]), []byte(nil)
			if i+1 < len(first) {
				to = []byte(first[i+1])
			}
			o.ChkMode = options.OnBlockRead
			if guarded(func() error { return w.readBlock(t, from, to, true) }) == nil {
				continue
			}
			report := w.bad
			if mayHoldKeys(from, to) {
				report = w.lose
			}
			report(name, fmt.Sprintf("block %d of %d is damaged: its whole records were copied", i+1, len(first)))
			o.ChkMode = options.NoVerification
			_ = guarded(func() error { return w.readBlock(t, from, to, false) })
		}
		return nil
	})
	if err != nil {
		w.lose(name, "the table cannot be read: "+err.Error())
	}
	return nil
}

// readBlock takes the records of a table from one key up to another, which is nil for the end.
func (w *wreck) readBlock(t *table.Table, from, to []byte, isWhole bool) error {
	it := t.NewIterator(table.NOCACHE)
	defer it.Close()
	it.Seek(from)
	if !it.Valid() {
		return errors.New("it cannot be read")
	}
	for ; it.Valid() && (to == nil || y.CompareKeys(it.Key(), to) < 0); it.Next() {
		value := it.Value()
		if len(value.Value) == 0 && !isWhole {
			continue
		}
		if !w.take(y.ParseKey(it.Key()), y.ParseTs(it.Key()), value.Value, value.ExpiresAt) && isWhole {
			return errors.New("a record of it is damaged")
		}
	}
	return nil
}

// mayHoldKeys reports whether a block that begins with a key, and ends before another, may have
// records of issued keys.
func mayHoldKeys(from, to []byte) bool {
	for _, kind := range []records.Kind{records.KindKey, records.KindKeyHash} {
		prefix := kind.Prefix()
		if (to == nil || bytes.Compare(prefix, to) < 0) && (bytes.Compare(from, prefix) <= 0 || bytes.HasPrefix(from, prefix)) {
			return true
		}
	}
	return false
}

// readLog takes the records of a log up to its first damage. Badger does not report that, so readLog
// also reads the log without its last byte. That byte belongs to damage if no entry is lost with it.
func (w *wreck) readLog(name, scratch string) error {
	data, err := w.readFile(name)
	used := len(bytes.TrimRight(data, "\x00"))
	if err != nil || used == 0 {
		return err
	}
	const margin = 64 // zeros may end the last entry, and a log without entries is shorter
	var first uint64
	entries, latest, damaged, err := w.eachEntry(name, data[:min(len(data), used+margin)], scratch, func(key []byte, version uint64, record []byte, expires uint64) bool {
		if first == 0 || version < first {
			first = version
		}
		return w.take(key, version, record, expires)
	})
	if err != nil {
		return err
	}
	if first > w.latest+1 { // each commit has the next version
		w.lose(name, "commits before this log are lost: an earlier log is missing or damaged")
	}
	w.latest = max(w.latest, latest)
	if damaged != nil {
		w.lose(name, "the log cannot be read: "+damaged.Error())
		return nil
	}
	fewer, _, _, err := w.eachEntry(name, data[:used-1], scratch, func([]byte, uint64, []byte, uint64) bool { return true })
	if err == nil && fewer == entries && used > margin {
		w.cut = true
		w.bad(name, "its end is damaged, and the changes there are lost")
	}
	return err
}

// eachEntry calls take with the entries of a log that Badger can read, by opening a copy in a folder
// inside scratch. damaged is what Badger reports, or says that take returned false.
func (w *wreck) eachEntry(name string, content []byte, scratch string, take func(key []byte, version uint64, record []byte, expires uint64) bool) (
	entries int, latest uint64, damaged, err error,
) {
	copied, err := os.MkdirTemp(scratch, probePattern)
	if err != nil {
		return 0, 0, nil, err
	}
	defer os.RemoveAll(copied)
	if err := os.WriteFile(filepath.Join(copied, name), content, 0o600); err != nil {
		return 0, 0, nil, err
	}
	registry := badgerdb.KeyRegistryFileName
	if err := copyFile(filepath.Join(w.folder, registry), filepath.Join(copied, registry)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil, err
	}
	db, damaged := recoverOpen(withoutCompactions(settings(copied, w.o)))
	if damaged != nil {
		return 0, 0, damaged, nil
	}
	damaged = guarded(func() (damaged error) {
		txn := newest(db)
		defer txn.Discard()
		it := txn.NewIterator(badgerdb.IteratorOptions{AllVersions: true})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			entries++
			record, err := valueOf(it.Item())
			if err != nil {
				return err
			}
			if !take(it.Item().Key(), it.Item().Version(), record, it.Item().ExpiresAt()) {
				damaged = errors.New("a record of it is damaged")
			}
		}
		return damaged
	})
	return entries, db.MaxVersion(), errors.Join(damaged, guarded(db.Close)), nil
}

// take notes a copy of a record, or of its removal, which has none. Badger's checksums do not
// tell that in a block that is damaged, so the record's own decides whether it is whole: take
// returns false if it is not.
func (w *wreck) take(key []byte, version uint64, record []byte, expires uint64) bool {
	k := records.Key(key)
	if !k.Valid() {
		return false
	}
	if expires != 0 && expires <= uint64(time.Now().Unix()) {
		return true
	}
	if len(record) > 0 {
		if _, err := records.Unseal(k, record); err != nil {
			return false
		}
	}
	if known, ok := w.newest[string(k)]; !ok || known.Version < version {
		w.newest[string(k)] = records.FoundRecord{Record: bytes.Clone(record), Version: version}
	}
	return true
}

// readPiece is how much is lost of a file where the disk refuses to read.
const readPiece = 4 << 10

// readFile returns the content of a file. Zeros stand for what the disk cannot read.
func (w *wreck) readFile(name string) ([]byte, error) {
	if err := w.ctx.Err(); err != nil {
		return nil, err
	}
	file, err := os.Open(filepath.Join(w.folder, name))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	data := make([]byte, info.Size())
	if _, err := file.ReadAt(data, 0); err == nil || errors.Is(err, io.EOF) {
		return data, nil
	}
	for at := 0; at < len(data); at += readPiece {
		piece := data[at:min(at+readPiece, len(data))]
		if _, err := file.ReadAt(piece, int64(at)); err != nil && !errors.Is(err, io.EOF) {
			clear(piece)
			w.lose(name, fmt.Sprintf("the disk cannot read %d bytes at %d: %v", len(piece), at, err))
		}
	}
	return data, nil
}
