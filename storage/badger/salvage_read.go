package badger

import (
	"bytes"
	"cmp"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"

	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

// wreck is what was found in the files of a damaged store. It opens no Badger database, because
// that truncates and removes files.
type wreck struct {
	ctx    context.Context
	folder string
	key    cipher.Block // nil for a store that is not encrypted
	now    uint64       // Unix seconds

	newest       map[string]found      // whole records and removals, by their keys
	broken       map[string]brokenCopy // records that are not whole
	places       []storage.Place
	lost         int             // parts that are lost; one that may have held a whole change counts twice
	unreferenced map[string]bool // files where records may be lost or old that nothing else tells of
	acknowledged uint64          // the number of the last commit that was acknowledged, 0 for unknown
	latest       uint64          // the highest version of the whole records in tables
}

// unreferencedKinds are the kinds of records that nothing else tells of, with the kinds of their
// losses.
var unreferencedKinds = map[records.Kind]string{
	records.KindUsage: "usage", records.KindServed: "served", records.KindReplay: "answer", records.KindFeedback: "feedback",
}

// brokenCopy is a copy of a record whose checksum is wrong. Its key may be wrong, too.
type brokenCopy struct {
	version uint64
	file    string
}

func (w *wreck) bad(file string, offset, length int, what string) {
	w.places = append(w.places, storage.Place{File: file, Offset: int64(offset), Length: int64(length), What: what})
}

// lose counts the lost parts of a file: see lost and unreferenced.
func (w *wreck) lose(file string, parts int, isUnreferenced bool) {
	w.lost += parts
	if isUnreferenced {
		w.unreferenced[file] = true
	}
}

// read reads all files. It fails if the system refuses to read, or if ctx ends.
func (w *wreck) read() error {
	entries, err := os.ReadDir(w.folder)
	if err != nil {
		return err
	}
	w.newest, w.broken, w.unreferenced = make(map[string]found), make(map[string]brokenCopy), make(map[string]bool)
	listed, isWhole := w.readManifest()
	if !isWhole {
		w.loseManifest()
	}
	w.readSequence()
	unlisted, err := w.readListed(entries, listed)
	if err != nil {
		return err
	}
	logs, err := w.readLogs(entries)
	if err != nil {
		return err
	}
	if len(w.places) > 0 || !isWhole || w.lackLasting(unlisted) {
		for _, name := range unlisted { // they have records that are lost elsewhere, or did no harm
			if err := w.readTable(name); err != nil {
				return err
			}
		}
	}
	w.findLostLogs(logs)
	w.judgeLogEnds(logs)
	return nil
}

// readListed reads the tables that the MANIFEST lists. It returns the others.
func (w *wreck) readListed(entries []os.DirEntry, listed map[string]bool) (unlisted []string, err error) {
	for _, entry := range entries {
		switch name := entry.Name(); {
		case filepath.Ext(name) != ".sst":
		case listed[name]:
			delete(listed, name)
			if err := w.readTable(name); err != nil {
				return nil, err
			}
		default:
			unlisted = append(unlisted, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(listed)) {
		w.bad(name, 0, 0, "the table is missing")
		w.lose(name, 2, true)
	}
	return unlisted, nil
}

// logSummary is what readLogs knows of a log.
type logSummary struct {
	file        string
	size        int     // without the zeros at the end
	unread      int     // bytes at the end that are no entries
	tail        []found // entries of a commit without its end
	first, last uint64  // versions
}

// readLogs reads all logs, the oldest first.
func (w *wreck) readLogs(entries []os.DirEntry) (logs []logSummary, err error) {
	var names []string
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) == ".mem" {
			names = append(names, entry.Name())
		}
	}
	slices.SortFunc(names, compareLogs)
	for _, name := range names {
		data, err := w.readFile(name)
		if err != nil {
			return nil, err
		}
		l := wreckLog{data: data, key: w.key, take: func(f found) { w.take(name, f, true) }, bad: func(offset, length int, what string) { w.bad(name, offset, length, what) }}
		tail, unread, lost := l.read()
		w.lose(name, lost, lost > 0)
		logs = append(logs, logSummary{name, len(bytes.TrimRight(data, "\x00")), unread, tail, l.first, l.last})
	}
	return logs, nil
}

// findLostLogs looks for gaps between the logs and what is before them: each commit has the
// next version.
func (w *wreck) findLostLogs(logs []logSummary) {
	last := w.latest
	for _, l := range logs {
		if l.first > last+1 {
			w.lose(l.file, 2, true)
			w.bad(l.file, 0, 0, "commits before this log are lost: an earlier log is missing or damaged")
		}
		last = max(last, l.last)
	}
}

// judgeLogEnds decides whether the logs have lost their ends. A crash leaves a commit
// without its end, or a torn one, at the end of the last log. It was not acknowledged.
func (w *wreck) judgeLogEnds(logs []logSummary) {
	isShort := w.acknowledged == 0 || w.commit() < w.acknowledged
	for i, l := range logs {
		isLast := !slices.ContainsFunc(logs[i+1:], func(later logSummary) bool { return later.size > logHeader })
		if isShort {
			for _, f := range l.tail {
				w.take(l.file, f, true)
			}
		}
		switch {
		case l.unread > 0 && (isShort || !isLast):
			w.lose(l.file, 2, true)
			w.bad(l.file, l.size-l.unread, l.unread, "the end of the log is damaged")
		case isShort && len(l.tail) > 0: // cut between two entries
			w.lose(l.file, 2, true)
			w.bad(l.file, l.size, 0, "the end of the last commit is missing")
		}
	}
}

// readManifest returns the tables that the MANIFEST names, and whether it is whole.
func (w *wreck) readManifest() (listed map[string]bool, isWhole bool) {
	name := badgerdb.ManifestFilename
	data, err := w.readFile(name)
	if err == nil {
		err = guarded(func() (err error) {
			listed, err = listedTables(w.folder)
			return err
		})
	}
	switch {
	case err != nil && errors.Is(err, fs.ErrNotExist):
		w.bad(name, 0, 0, "it is missing: all tables were read")
	case err != nil:
		w.bad(name, 0, len(data), "it is damaged: all tables were read")
	default:
		if end, err := manifestEnd(w.folder); err != nil || end != int64(len(data)) {
			w.bad(name, int(end), len(data)-int(end), "its end is damaged: all tables were read")
			return listed, false
		}
		return listed, true
	}
	return nil, false
}

// loseManifest counts what a MANIFEST that is not whole may hide: tables that are missing, too.
// Nothing else names them.
func (w *wreck) loseManifest() { w.lose("tables that "+badgerdb.ManifestFilename+" named", 2, true) }

// manifestEnd returns the end of the part of the MANIFEST that can be read.
func manifestEnd(folder string) (int64, error) {
	file, err := os.Open(filepath.Join(folder, badgerdb.ManifestFilename))
	if err != nil {
		return 0, err
	}
	defer file.Close()
	_, end, err := badgerdb.ReplayManifestFile(file, 0, settings(folder, Options{}))
	return end, err
}

// readSequence reads the number of the last commit from SEQUENCE.
func (w *wreck) readSequence() {
	text, err := os.ReadFile(filepath.Join(w.folder, sequenceName))
	if err == nil && len(text) >= 8 {
		last := binary.BigEndian.Uint64(text)
		if want := encodeSequence(last); bytes.Equal(text, want[:]) {
			w.acknowledged = last
			return
		}
	}
	what := "it is damaged: the number of the last commit is unknown"
	if errors.Is(err, fs.ErrNotExist) {
		what = "it is missing: the number of the last commit is unknown"
	}
	w.bad(sequenceName, 0, len(text), what)
}

// commit returns the number of the last commit that was found.
func (w *wreck) commit() uint64 {
	k := records.CommitWrite(1).Key
	f, ok := w.newest[string(k)]
	if !ok || f.isRemoval {
		return 0
	}
	payload, err := records.Unseal(k, f.record)
	if err != nil || len(payload) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(payload)
}

func (w *wreck) readTable(name string) error {
	data, err := w.readFile(name)
	if err != nil {
		return err
	}
	lost, isUnreferenced := w.tableOf(name, data, func(f found, isWhole bool) {
		if f.key.Valid() && (isWhole || isSealed(f)) {
			w.latest = max(w.latest, f.version)
		}
		w.take(name, f, isWhole)
	}).read()
	w.lose(name, lost, isUnreferenced)
	return nil
}

func (w *wreck) tableOf(name string, data []byte, take func(found, bool)) *wreckTable {
	return &wreckTable{data: data, key: w.key, take: take, bad: func(offset, length int, what string) { w.bad(name, offset, length, what) }}
}

// lackLasting reports whether a table that is not listed has a record that is never removed
// and was not found. The MANIFEST has lost its end then: see checkOrphans.
func (w *wreck) lackLasting(tables []string) (lack bool) {
	for _, name := range tables {
		data, err := w.readFile(name)
		if err != nil {
			continue
		}
		look := &wreckTable{data: data, key: w.key, bad: func(int, int, string) {}, take: func(f found, isWhole bool) {
			if isWhole && f.key.Valid() && f.key.Kind().Lasting() && w.newest[string(f.key)].version < f.version {
				lack = true
			}
		}}
		look.read()
		if lack {
			w.bad(badgerdb.ManifestFilename, 0, 0, "it has lost its end, with the table "+name+": all tables were read")
			w.loseManifest()
			return true
		}
	}
	return false
}

// take notes a copy of a record. In a block with a wrong checksum only records count: their
// own checksums tell whether they are whole. These do not cover the version and the expiry.
// So it is unknown which of two copies is newer, and nothing has expired.
func (w *wreck) take(file string, f found, isWhole bool) {
	hasExpired := f.expires != 0 && f.expires <= w.now
	if w.ctx.Err() != nil || !f.key.Valid() || f.isRemoval && !isWhole || hasExpired && (isWhole || !isSealed(f)) {
		return
	}
	if !f.isRemoval && !isSealed(f) {
		if known, ok := w.broken[string(f.key)]; !ok || known.version < f.version {
			w.broken[string(f.key)] = brokenCopy{f.version, file}
		}
		return
	}
	if !isWhole {
		f.damaged = file
	}
	known, ok := w.newest[string(f.key)]
	if damaged := cmp.Or(f.damaged, known.damaged); ok && known.version != f.version && damaged != "" && !f.key.Kind().Lasting() && !f.key.Kind().Derived() {
		w.lose(damaged, 0, true)
	}
	if !ok || known.version < f.version {
		w.newest[string(f.key)] = f
	}
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
			w.bad(name, at, len(piece), fmt.Sprintf("the disk cannot read this: %v", err))
		}
	}
	return data, w.ctx.Err()
}

// losses names the records that nothing else tells of, if they were read but are not whole.
// It names the files where more of them may be lost or old.
func (w *wreck) losses() (lost []storage.Loss) {
	for _, text := range slices.Sorted(maps.Keys(w.broken)) {
		k, copied := records.Key(text), w.broken[text]
		if known, ok := w.newest[text]; ok && known.version >= copied.version {
			continue
		}
		if kind, ok := unreferencedKinds[k.Kind()]; ok {
			lost = append(lost, storage.Loss{Kind: kind, ID: hex.EncodeToString(k), What: "the record is damaged"})
		}
	}
	if len(w.unreferenced) > 0 {
		files := strings.Join(slices.Sorted(maps.Keys(w.unreferenced)), ", ")
		lost = append(lost, storage.Loss{Kind: "records", What: "records in " + files + " may be lost or old, for example of usage, and nothing else tells of them"})
	}
	return lost
}

// newWreck returns a wreck that nothing was read of.
func newWreck(ctx context.Context, folder string, dataKey []byte, now time.Time) (*wreck, error) {
	w := &wreck{ctx: ctx, folder: folder, now: uint64(now.Unix())}
	var err error
	if dataKey != nil {
		w.key, err = aes.NewCipher(dataKey)
	}
	return w, err
}
