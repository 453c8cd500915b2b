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

	"github.com/caddy-presets/caddy-presets/storage/fileowner"
)

// MarkerName is the name of the file that makes a folder a store.
const MarkerName = "STORE"

const (
	// storeFormat is the layout of keys and records that this version writes.
	storeFormat = 1

	// stateNew lasts until the store was opened for the first time. Files that are
	// missing then never existed.
	stateNew = "new"
	// stateReady means that the folder holds data.
	stateReady = "ready"
	// stateRestoring lasts while a backup is being restored into the folder, or a store is
	// salvaged into it.
	stateRestoring = "restoring"

	// lostAndFound is a folder that an empty file system may have.
	lostAndFound = "lost+found"
)

// marker is the content of a folder's STORE file. Without it Badger would treat a folder
// that has lost its MANIFEST as an empty one, and delete its tables.
type marker struct {
	Format int    `json:"format"`
	ID     string `json:"id"`
	State  string `json:"state"`
	// Encrypted is set if everything in the folder is encrypted.
	Encrypted bool `json:"encrypted,omitempty"`
	// KeyCheck is the keyCheck of the store's key.
	KeyCheck string `json:"key_check,omitempty"`
}

// prepareFolder makes the folder if it is missing, and gives it mode 0700. It fails unless
// the folder is empty or is a store that can be opened with these options.
func prepareFolder(folder string, o Options) (err error) {
	if !o.Existing {
		err = fileowner.MkdirAll(folder, 0o700)
	}
	if err == nil {
		_, err = readMarker(folder, o)
	}
	if errors.Is(err, syscall.ENOTDIR) { // it is a file, or below one
		err = misuseError{err}
	}
	if err != nil {
		return err
	}
	info, err := os.Stat(folder)
	if err != nil {
		return err
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(folder, 0o700); err != nil {
			return fmt.Errorf("other users can look into %s and that cannot be changed; use a folder inside it: %w", folder, err)
		}
	}
	return nil
}

// readMarker returns the marker of a folder, or a new one. It fails for a store that cannot
// be opened with these options.
func readMarker(folder string, o Options) (m marker, err error) {
	text, err := os.ReadFile(filepath.Join(folder, MarkerName))
	if errors.Is(err, fs.ErrNotExist) {
		if o.Existing {
			return marker{}, fmt.Errorf("%w: there is no store in %s; is its file system mounted?", errUnavailable, folder)
		}
		m, err := createMarker(folder)
		m.Encrypted, m.KeyCheck = len(o.EncryptionKey) > 0, keyCheck(o.EncryptionKey, m.ID)
		return m, cmp.Or(err, m.checkKey(folder, o.EncryptionKey))
	}
	if err != nil {
		return m, err
	}
	if m, err = decodeMarker(text); err != nil {
		return m, fmt.Errorf("%w: the %s file in %s is damaged; restore a backup", ErrDamaged, MarkerName, folder)
	}
	if err := m.checkFormat(folder); err != nil {
		return m, err
	}
	if m.State == stateRestoring && !o.isClaimed {
		return m, fmt.Errorf("%w: a restore or salvage into %s is under way or was cut short; if it was cut short, empty the folder and begin again",
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

// checkFormat fails if the store in folder has a newer format.
func (m marker) checkFormat(folder string) error {
	if m.Format <= storeFormat {
		return nil
	}
	return misuseError{fmt.Errorf("the store in %s has format %d and needs a newer version of this module, which reads formats up to %d",
		folder, m.Format, storeFormat)}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encodeMarker returns the content of a STORE file. It is a line of JSON, and a line with
// the CRC-32C of the first in hexadecimal. This is the same in all formats.
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

// createMarker returns the marker of a folder that becomes a store. The folder must be
// empty. Badger would delete tables that it does not know. The mode of a folder that others
// use must stay.
func createMarker(folder string) (marker, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return marker{}, err
	}
	holds := func(name string) bool {
		return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == name })
	}
	switch {
	case holds(sequenceName), holds(ballastName): // only a store has these
		return marker{}, fmt.Errorf("%w: %s has lost its %s file; restore a backup", ErrDamaged, folder, MarkerName)
	case holds(badgerdb.ManifestFilename):
		return marker{}, misuseError{fmt.Errorf("%s holds a Badger database that is not a store of presets", folder)}
	}
	for _, entry := range entries {
		name := entry.Name()
		switch {
		case name == lostAndFound: // of a file system mounted here
		case strings.HasPrefix(name, MarkerName+"-"): // left by a first start that was killed
		default:
			return marker{}, misuseError{fmt.Errorf("%s is neither empty nor a store: it holds %s", folder, name)}
		}
	}
	return marker{Format: storeFormat, ID: uuid.NewString(), State: stateNew}, nil
}

// write replaces the folder's marker by m, durably and atomically.
func (m marker) write(folder string) error {
	text, err := encodeMarker(m)
	if err != nil {
		return err
	}
	if m.State == stateNew {
		syncParents(folder) // the folder and its parents may be new
	}
	return replaceFile(folder, MarkerName, MarkerName+"-*", text)
}

// replaceFile replaces a file of folder, or makes it, durably and atomically. It writes to
// a temporary file first, whose name has the given pattern.
func replaceFile(folder, name, pattern string, content []byte) error {
	file, err := os.CreateTemp(folder, pattern)
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // it is gone after the rename
	_, err = file.Write(content)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), filepath.Join(folder, name)); err != nil {
		return err
	}
	return SyncFolder(folder)
}

// syncParents makes the entries of a folder and its parents durable, as far as this
// process may read them.
func syncParents(folder string) {
	for parent := filepath.Dir(folder); parent != folder; parent = filepath.Dir(folder) {
		if SyncFolder(parent) != nil {
			return
		}
		folder = parent
	}
}

// SyncFolder makes the names in a folder durable. On Windows it does nothing.
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
