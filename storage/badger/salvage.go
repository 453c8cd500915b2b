package badger

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/fileowner"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

// ErrNothing is in the chain of Salvage's error if nothing in the folder can be read.
var ErrNothing = errors.New("nothing can be read")

// unchainedName is a file of a salvaged store that is not encrypted. It has the whole audit
// records that follow a lost one. The store does not read it.
const unchainedName = "SALVAGED-AUDIT.jsonl"

// Salvage copies the whole records of the damaged store in from into a new store. The folder
// to is missing or empty. Salvage names all that it does not copy: see records.Wreck. The new
// store has another id and the same encryption key, that of o. keepKeys copies live keys even
// if their revocation may be lost.
//
// Salvage opens no Badger database in from, and changes nothing there. It needs memory for all
// that is stored. After an error, and if ctx ends, the folder to is as it was. If the process
// ends meanwhile, Open refuses that folder. The error is ErrMisused for a wrong key and for a
// folder that is not a store. It is ErrMisused, too, while another process uses the store. It
// is ErrNothing if there is no whole record, for example because the KEYREGISTRY of an
// encrypted store is lost.
func Salvage(ctx context.Context, from, to string, o Options, keepKeys bool) (report storage.Salvage, err error) {
	if err := checkPlatform(); err != nil {
		return report, err
	}
	defer func() { err = fileowner.Explain(err, from) }()
	if from, err = filepath.Abs(from); err != nil {
		return report, err
	}
	if to, err = filepath.Abs(to); err != nil {
		return report, err
	}
	if err := checkTarget(from, to); err != nil {
		return report, err
	}
	unlock, err := lockIfStore(from)
	if err != nil {
		return report, err
	}
	defer unlock()
	w, marked, err := openWreck(ctx, from, o)
	if err != nil {
		return report, err
	}
	if marked != nil {
		w.bad(MarkerName, 0, 0, marked.Error())
	}
	if err := w.read(); err != nil {
		return report, err
	}
	if err := ctx.Err(); err != nil {
		return report, err
	}
	s := w.interpret(keepKeys)
	report = storage.Salvage{Commit: w.commit(), Acknowledged: w.acknowledged, Damaged: w.places, Lost: append(w.losses(), s.Lost...)}
	if w.acknowledged > report.Commit {
		report.Lost = append(report.Lost, storage.Loss{Kind: "commits", First: int(report.Commit) + 1, Last: int(w.acknowledged), What: "the last commits are lost, or a part of them"})
	}
	if report.Damaged == nil {
		report.Damaged = []storage.Place{}
	}
	if report.Lost == nil {
		report.Lost = []storage.Loss{}
	}
	if len(w.newest) == 0 {
		return report, fmt.Errorf("%w: no whole record was found in %s", ErrNothing, from)
	}
	err = buildSalvaged(ctx, to, o, s, &report)
	return report, fileowner.Explain(err, to)
}

// checkTarget fails unless a store can be made in to. It must be missing or empty, and not
// inside from.
func checkTarget(from, to string) error {
	if rest, err := filepath.Rel(from, to); err == nil && filepath.IsLocal(rest) {
		return fmt.Errorf("%s is in the damaged folder, and nothing is changed there", to)
	}
	if err := checkEmpty(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("salvaging into %s: %w", to, err)
	}
	return nil
}

// lockIfStore locks the store in a folder if it has a lock file. It makes none.
func lockIfStore(folder string) (release func(), err error) {
	name := filepath.Join(folder, lockName)
	if _, err := os.Stat(name); err != nil {
		return func() {}, nil //nolint:nilerror // without the file no process has the folder open
	}
	locked, err := lockExisting(name)
	if errors.Is(err, errLocked) {
		return nil, inUse(folder, err)
	}
	if err != nil { // a lock cannot be taken on some read-only file systems
		return func() {}, nil //nolint:nilerror // as above
	}
	return func() { _ = unlock(locked) }, nil
}

// openWreck returns the wreck in a folder. marked says that the STORE file is damaged.
func openWreck(ctx context.Context, folder string, o Options) (w *wreck, marked, err error) {
	text, err := os.ReadFile(filepath.Join(folder, MarkerName))
	var m marker
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if !looksLikeStore(folder) {
			return nil, nil, misuseError{fmt.Errorf("%s is not a store: %w", folder, err)}
		}
		marked = errors.New("it is missing")
	case err != nil:
		return nil, nil, err
	default:
		m, err = decodeMarker(text)
		if err != nil {
			marked = fmt.Errorf("it is damaged: %w", err)
		}
	}
	if marked == nil {
		if m.Format > storeFormat {
			_, err := readMarker(folder, o)
			return nil, nil, err
		}
		m.State = stateNew // without a look at the registry
		if err := m.checkKey(folder, o.EncryptionKey); err != nil {
			return nil, nil, err
		}
	}
	var with []byte
	if len(o.EncryptionKey) > 0 {
		key, err := dataKey(folder, o.EncryptionKey)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: the store is encrypted, and the key of its files is lost: %w", ErrNothing, err)
		}
		with = key.Data
	} else if marked != nil && isEncryptedRegistry(folder) {
		return nil, nil, misuseError{fmt.Errorf("the store in %s is encrypted: name the file of its key", folder)}
	}
	w, err = newWreck(ctx, folder, with, time.Now())
	return w, marked, err
}

// isEncryptedRegistry reports whether the KEYREGISTRY in a folder is of an encrypted store. One
// without encryption has the text as it is.
func isEncryptedRegistry(folder string) bool {
	text, err := os.ReadFile(filepath.Join(folder, badgerdb.KeyRegistryFileName))
	return err == nil && !bytes.Contains(text, []byte("Hello Badger"))
}

// looksLikeStore reports whether a folder has files that a store has.
func looksLikeStore(folder string) bool {
	for _, pattern := range []string{"*.sst", "*.mem", sequenceName} {
		if names, _ := filepath.Glob(filepath.Join(folder, pattern)); len(names) > 0 {
			return true
		}
	}
	return false
}

// interpret returns what of w can be stored again.
func (w *wreck) interpret(keepKeys bool) *records.Salvaged {
	in := records.Wreck{
		Records: make(map[string]records.FoundRecord, len(w.newest)), KeepKeys: keepKeys, Now: time.Unix(int64(w.now), 0),
		Incomplete: w.lost > 1 || w.acknowledged == 0 || w.commit() < w.acknowledged,
	}
	in.Undamaged = !in.Incomplete && len(w.places) == 0 && len(w.broken) == 0
	for text, f := range w.newest {
		if !f.isRemoval {
			in.Records[text] = records.FoundRecord{Record: f.record, Version: f.version}
		}
	}
	return in.Salvage()
}

// salvagePatience is how long a salvage waits for a disk that is busy.
const salvagePatience = 10 * time.Minute

// salvagePattern is the pattern of the name of the folder that a salvaged store is built in.
const salvagePattern = "SALVAGE-*"

// buildSalvaged makes the new store in a folder inside its own, which may be a mount point. It
// moves the files when all are complete. Until then Open refuses the folder.
func buildSalvaged(ctx context.Context, to string, o Options, s *records.Salvaged, report *storage.Salvage) (err error) {
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	_, undo, err := claimFolder(to, storeFormat, o.EncryptionKey, newGuard(to, freeSpace, o.Logger))
	if err != nil {
		return fmt.Errorf("salvaging into %s: %w", to, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, undo())
		}
	}()
	defer fileowner.Adopt(to)
	made, err := os.MkdirTemp(to, salvagePattern)
	if err != nil {
		return err
	}
	fileowner.Give(made)
	o.Existing = false
	store, err := Open(made, o)
	if err != nil {
		return err
	}
	store.committer.patience = salvagePatience // nobody waits for an answer
	m, err := readMarker(made, o)
	if err == nil {
		report.StoreID = m.ID
		report.Copied, err = s.Store(m.ID, time.Now(), func(fn func(domain.Tx) error) error { return store.Update(ctx, fn) })
	}
	if err := errors.Join(err, store.Close()); err != nil {
		return err
	}
	if len(o.EncryptionKey) == 0 { // all files of an encrypted store are encrypted
		if err := writeUnchained(made, s.Unchained); err != nil {
			return err
		}
	}
	return moveStore(made, to)
}

// moveStore moves all files of a store to its own folder, and removes the old folder. The marker
// comes last. It replaces the one that says that the store is not complete.
func moveStore(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if name := entry.Name(); name != MarkerName {
			if err := os.Rename(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
				return err
			}
		}
	}
	if err := SyncFolder(to); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(from, MarkerName), filepath.Join(to, MarkerName)); err != nil {
		return err
	}
	return cmp.Or(os.Remove(from), SyncFolder(to))
}

// writeUnchained writes the audit records that are not in the new store's trail.
func writeUnchained(folder string, lines [][]byte) error {
	if len(lines) == 0 {
		return nil
	}
	var text bytes.Buffer
	for _, line := range lines {
		if !json.Valid(line) {
			continue
		}
		text.Write(line)
		text.WriteByte('\n')
	}
	return replaceFile(folder, unchainedName, tempPattern, text.Bytes())
}
