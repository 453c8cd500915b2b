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
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/fileowner"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

// ErrNothing is in the chain of Salvage's error if nothing in the folder can be read.
var ErrNothing = errors.New("nothing can be read")

const (
	// unchainedName is a file of a salvaged store that is not encrypted. It has the whole audit
	// records that follow a lost one. The store does not read it.
	unchainedName = "SALVAGED-AUDIT.jsonl"

	// salvagePatience is how long a salvage waits for a disk that is busy.
	salvagePatience = 10 * time.Minute
)

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
	w := &wreck{ctx: ctx, folder: from, o: o, newest: make(map[string]records.FoundRecord), places: []storage.Place{}}
	if err := w.readMarker(); err != nil {
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
	return w.build(c, keepKeys)
}

// readMarker checks that the folder is a store, and reads the key of its files.
func (w *wreck) readMarker() error {
	text, err := os.ReadFile(filepath.Join(w.folder, MarkerName))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	tables, _ := filepath.Glob(filepath.Join(w.folder, "*.sst"))
	logs, _ := filepath.Glob(filepath.Join(w.folder, "*.mem"))
	if err != nil && len(tables)+len(logs) == 0 {
		return misuseError{fmt.Errorf("%s is not a store: %w", w.folder, err)}
	}
	switch m, err := decodeMarker(text); {
	case err != nil:
		w.bad(MarkerName, "it is missing or damaged")
	case m.Format > storeFormat:
		_, err := readMarker(w.folder, w.o)
		return err
	default:
		m.State = stateNew // without a look at the registry
		if err := m.checkKey(w.folder, w.o.EncryptionKey); err != nil {
			return err
		}
	}
	if w.key, err = dataKey(w.folder, w.o.EncryptionKey); err != nil {
		return fmt.Errorf("%w: the store is encrypted, and the key of its files is lost: %w", ErrNothing, err)
	}
	return nil
}

// build makes the new store in a folder that is claimed.
func (w *wreck) build(c *claim, keepKeys bool) (report storage.Salvage, err error) {
	in := records.Wreck{Records: w.newest, Acknowledged: w.acknowledged, Incomplete: w.incomplete, Cut: w.cut, KeepKeys: keepKeys, Now: time.Now()}
	for key, f := range in.Records {
		if len(f.Record) == 0 {
			delete(in.Records, key) // it was removed
		}
	}
	if len(in.Records) == 0 {
		return report, fmt.Errorf("%w: no whole record was found in %s; the file of its key must be named if it is encrypted", ErrNothing, w.folder)
	}
	o := w.o
	o.isClaimed = true
	store, err := Open(c.folder, o)
	if err != nil {
		return report, err
	}
	store.committer.patience = salvagePatience // nobody waits for an answer
	report, unchained, err := in.Salvage(c.ID, func(fn func(domain.Tx) error) error { return store.Update(w.ctx, fn) })
	if err := errors.Join(err, store.Close()); err != nil {
		return report, err
	}
	if len(o.EncryptionKey) == 0 && len(unchained) > 0 { // all files of an encrypted store are encrypted
		lines := slices.DeleteFunc(unchained, func(line []byte) bool { return !json.Valid(line) })
		if err := replaceFile(c.folder, unchainedName, tempPattern, append(bytes.Join(lines, []byte("\n")), '\n')); err != nil {
			return report, err
		}
	}
	c.State, report.Damaged = stateReady, w.places
	if len(w.places) > 0 {
		var files []string
		for _, p := range w.places {
			files = append(files, p.File)
		}
		files = slices.Compact(files)
		report.Lost = append(report.Lost, storage.Loss{Kind: "records", What: "records in " + strings.Join(files, ", ") + " may be lost, and older copies of them may be there; nothing else tells of usage, for example"})
	}
	return report, cmp.Or(w.ctx.Err(), c.write(c.folder))
}
