package badger

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	badgerdb "github.com/dgraph-io/badger/v4"

	"github.com/caddy-presets/caddy-presets/storage/fileowner"
)

// probePattern is the pattern of the names of the folders with a probe's copy. Each probe
// has its own folder: the probe of a server that was killed may still be running.
const probePattern = "PROBE-*"

// VerifyQuickly locks a folder, and checks whether the store in it can be opened and is complete, as
// Open does. It fails if another process has the folder open.
//
// The error is ErrDamaged if something is damaged or missing. It is domain.ErrUnavailable if the
// system refused to read, for want of a right or of descriptors. On unforeseen damage Badger may end
// the process.
func VerifyQuickly(folder string, o Options) error { return verify(folder, o, ignore) }

func ignore(*badgerdb.DB) error { return nil }

// verify locks a folder, and probes the store in it.
func verify(folder string, o Options, fn func(*badgerdb.DB) error) (err error) {
	if folder, err = filepath.Abs(folder); err != nil {
		return err
	}
	defer func() { err = fileowner.Explain(err, folder) }()
	if _, err := os.Stat(filepath.Join(folder, MarkerName)); errors.Is(err, fs.ErrNotExist) {
		if _, lost := createMarker(folder); lost != nil && !errors.Is(lost, fs.ErrNotExist) {
			return lost
		}
		return misuseError{fmt.Errorf("%s is not a store: %w", folder, err)}
	}
	m, err := readMarker(folder, o)
	if err != nil || m.State == stateNew { // nothing was ever stored
		return err
	}
	locked, err := lockStore(folder)
	if err != nil {
		return err
	}
	defer func() { _ = locked.release() }()
	return probe(folder, o, fn)
}

// probe checks a store, whose folder is locked, and calls fn with a copy of it if that is in order.
//
// It checks Badger's checksums of all tables. Then it opens the tables with a copy of the logs, and
// compares the last commit with the number in SEQUENCE: Badger silently cuts off a log where it is
// damaged. The copy is in a folder inside the store's, and takes twice the space of the logs' content,
// which is at most some 50 MiB. Nothing else is changed.
func probe(folder string, o Options, fn func(*badgerdb.DB) error) error {
	listed, _, err := listedTables(folder)
	if err != nil {
		return readError(err)
	}
	with, err := dataKey(folder, o.EncryptionKey)
	if err != nil {
		return err
	}
	if err := checkTables(folder, listed, with); err != nil {
		return readError(err)
	}
	removeLeftovers(folder, probePattern)
	if err := checkSpace(folder, freeSpace); err != nil {
		return err
	}
	copied, err := os.MkdirTemp(folder, probePattern)
	if err != nil {
		return fmt.Errorf("%w: copying the logs: %w", errUnavailable, err)
	}
	defer os.RemoveAll(copied)
	fileowner.Give(copied) // so that others can remove what a killed probe leaves
	if err := copyStore(folder, copied); err != nil {
		return fmt.Errorf("%w: copying the logs: %w", errUnavailable, err)
	}
	o.Logger = nil // Open logs the same again
	db, err := recoverOpen(withoutCompactions(settings(copied, o)))
	if err != nil {
		return readError(err)
	}
	err = guarded(func() error {
		sequence, err := lastCommit(db)
		if err == nil {
			err = checkSequence(folder, sequence)
		}
		if err == nil {
			err = checkOrphans(db, folder, listed, with)
		}
		if err == nil {
			err = fn(db)
		}
		return err
	})
	return errors.Join(err, guarded(db.Close))
}

// checkSpace returns an error if there is too little space for a copy. The system kills a
// process whose write to a memory map finds no space.
func checkSpace(folder string, free func(folder string) (uint64, error)) error {
	if left, err := free(folder); err == nil && left < flushSpace {
		return fmt.Errorf("%w: %d MiB are free, %d are needed to look at the store", ErrDiskFull, left>>20, flushSpace>>20)
	}
	return nil
}

// copyStore fills the empty folder to with the files of from that Badger needs. It copies
// the files that Badger writes to, and links the tables, which Badger only reads.
func copyStore(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		source, target := filepath.Join(from, entry.Name()), filepath.Join(to, entry.Name())
		switch name, kind := entry.Name(), filepath.Ext(entry.Name()); {
		case kind == ".sst":
			if err = os.Link(source, target); err != nil { // some file systems have no links
				err = copyFile(source, target)
			}
		case kind == ".mem", kind == ".vlog", name == badgerdb.ManifestFilename, name == badgerdb.KeyRegistryFileName, name == "DISCARD":
			err = copyFile(source, target)
		}
		if err != nil {
			return err
		}
	}
	return removeEmptyLogs(to)
}

// removeLeftovers removes the files of a pattern that a killed process has left in folder.
func removeLeftovers(folder, pattern string) {
	names, _ := filepath.Glob(filepath.Join(folder, pattern)) // fails for a wrong pattern only
	for _, name := range names {
		_ = os.RemoveAll(name)
	}
}

// copyFile copies a file. The copy takes no space for zeros at its end, as in the unwritten
// part of a log.
func copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, bytes.TrimRight(content, "\x00"), 0o600); err != nil {
		return err
	}
	return os.Truncate(to, int64(len(content)))
}
