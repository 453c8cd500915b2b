package badger

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	badgerdb "github.com/dgraph-io/badger/v4"
	"github.com/google/uuid"
)

// MarkerName is the name of the file that makes a folder a store.
const MarkerName = "STORE"

const (
	// storeFormat is the layout of keys and records that this version writes.
	storeFormat = 1

	// stateNew lasts from before Badger first sees the folder until the store
	// is first open: whatever is missing then was never there.
	stateNew = "new"
	// stateReady promises that the folder holds data.
	stateReady = "ready"
	// stateRestoring lasts while a backup is being restored into the folder.
	stateRestoring = "restoring"
)

// marker is the content of a folder's STORE file. Without it Badger would take
// a folder whose MANIFEST was lost for an empty one, and delete its tables.
type marker struct {
	Format int    `json:"format"`
	ID     string `json:"id"`
	State  string `json:"state"`
	// Encrypted tells that all that was ever stored in the folder is encrypted.
	Encrypted bool `json:"encrypted,omitempty"`
	// KeyCheck is keyCheck of the key that it is encrypted with.
	KeyCheck string `json:"key_check,omitempty"`
}

// enter makes sure that folder is a store that can be opened with these options,
// or empty, and that nobody but the user of this process can look into it. It
// returns the folder's marker, a new one if it has none.
func enter(folder string, o Options) (marker, error) {
	var m marker
	var err error
	if !o.Existing {
		err = os.MkdirAll(folder, 0o700)
	}
	if err == nil {
		m, err = readMarker(folder, o)
	}
	if errors.Is(err, syscall.ENOTDIR) { // it is a file, or below one
		err = misused{err}
	}
	if err != nil {
		return marker{}, err
	}
	info, err := os.Stat(folder)
	if err != nil {
		return marker{}, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(folder, 0o700); err != nil {
			return marker{}, fmt.Errorf("other users can look into %s and that cannot be changed; use a folder inside it: %w", folder, err)
		}
	}
	return m, nil
}

// readStore returns the marker of a folder that has one.
func readStore(folder string, o Options) (marker, error) {
	_, err := os.Stat(filepath.Join(folder, MarkerName))
	if errors.Is(err, fs.ErrNotExist) {
		if _, lost := newMarker(folder); lost != nil && !errors.Is(lost, fs.ErrNotExist) {
			return marker{}, lost
		}
		return marker{}, misused{fmt.Errorf("%s is not a store: %w", folder, err)}
	}
	return readMarker(folder, o)
}

// readMarker returns the marker of a folder, a new one if it has none. It fails for a
// store that cannot be opened with these options.
func readMarker(folder string, o Options) (m marker, err error) {
	text, err := os.ReadFile(filepath.Join(folder, MarkerName))
	if errors.Is(err, fs.ErrNotExist) {
		if o.Existing {
			return marker{}, fmt.Errorf("%w: there is no store in %s; is its file system mounted?", errUnavailable, folder)
		}
		m, err := newMarker(folder)
		m.Encrypted, m.KeyCheck = len(o.EncryptionKey) > 0, keyCheck(o.EncryptionKey, m.ID)
		return m, cmp.Or(err, m.checkKey(folder, o.EncryptionKey))
	}
	if err != nil {
		return m, err
	}
	if m, err = decodeMarker(text); err != nil {
		return m, fmt.Errorf("%w: the %s file in %s is not what it was written as; restore a backup", ErrDamaged, MarkerName, folder)
	}
	if m.Format > storeFormat {
		return m, misused{fmt.Errorf("the store in %s has format %d and needs a newer version of this module, which reads formats up to %d",
			folder, m.Format, storeFormat)}
	}
	if m.State == stateRestoring {
		return m, fmt.Errorf("%w: a restore into %s is under way or was cut short; if it was cut short, empty the folder and restore again",
			errUnavailable, folder)
	}
	if m.State == stateReady {
		_, err := os.Stat(filepath.Join(folder, badgerdb.ManifestFilename))
		if errors.Is(err, fs.ErrNotExist) {
			return m, fmt.Errorf("%w: %s holds a store whose data files are gone (there is no %s); restore a backup", ErrDamaged, folder, badgerdb.ManifestFilename)
		}
		if err != nil {
			return m, err
		}
	}
	return m, m.checkKey(folder, o.EncryptionKey)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encodeMarker returns the content of a STORE file: a line of JSON, and one with the
// CRC-32C of that, in hexadecimal. It holds in all formats.
func encodeMarker(m marker) ([]byte, error) {
	text, err := json.Marshal(m)
	return fmt.Appendf(text, "\n%08x\n", crc32.Checksum(text, castagnoli)), err
}

func decodeMarker(text []byte) (m marker, err error) {
	text, sum, _ := bytes.Cut(text, []byte("\n"))
	err = json.Unmarshal(text, &m)
	switch {
	case err != nil:
	case string(sum) != fmt.Sprintf("%08x\n", crc32.Checksum(text, castagnoli)):
		err = errors.New("its checksum is wrong")
	}
	if err == nil && (m.Format < 1 || m.State != stateNew && m.State != stateReady && m.State != stateRestoring) {
		err = errors.New("its content is unknown")
	}
	return m, err
}

// newMarker returns the marker of a folder that becomes a store, which must be
// empty: Badger deletes tables that it does not know, and the mode of a folder
// that others use is not ours to change.
func newMarker(folder string) (marker, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return marker{}, err
	}
	holds := func(name string) bool {
		return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == name })
	}
	switch {
	case holds(markName), holds(ballastName): // which no one else has
		return marker{}, fmt.Errorf("%w: %s has lost its %s file; restore a backup", ErrDamaged, folder, MarkerName)
	case holds(badgerdb.ManifestFilename):
		return marker{}, misused{fmt.Errorf("%s holds a Badger database that is not a store of presets", folder)}
	}
	for _, entry := range entries {
		name := entry.Name()
		switch {
		case name == "lost+found": // of a file system mounted here
		case strings.HasPrefix(name, MarkerName+"-"): // of a first start that was cut short
		default:
			return marker{}, misused{fmt.Errorf("%s is neither empty nor a store: it holds %s", folder, name)}
		}
	}
	return marker{Format: storeFormat, ID: uuid.NewString(), State: stateNew}, nil
}

// write replaces the folder's marker by m, durably and all at once.
func (m marker) write(folder string) error {
	text, err := encodeMarker(m)
	if err != nil {
		return err
	}
	if m.State == stateNew {
		syncParents(folder) // it may be new itself, and so may those it is in
	}
	return replaceFile(folder, MarkerName, MarkerName+"-*", text)
}

// replaceFile gives folder a file of a name and content, instead of the former one, durably
// and all at once. Until then it has a name of pattern.
func replaceFile(folder, name, pattern string, content []byte) error {
	file, err := os.CreateTemp(folder, pattern)
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // gone already if all went well
	_, err = file.Write(content)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), filepath.Join(folder, name)); err != nil {
		return err
	}
	return SyncFolder(folder)
}

// syncParents makes a folder's own existence durable, as far as it is allowed
// to look.
func syncParents(folder string) {
	for parent := filepath.Dir(folder); parent != folder; parent = filepath.Dir(folder) {
		if SyncFolder(parent) != nil {
			return
		}
		folder = parent
	}
}

// SyncFolder makes the names in a folder durable. Windows has no such thing.
func SyncFolder(folder string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
