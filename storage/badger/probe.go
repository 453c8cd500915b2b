package badger

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	badgerdb "github.com/dgraph-io/badger/v4"
)

// probePattern is the pattern of the names of folders in which probes open what they have
// copied. Each has its own: one that was left behind by a server that was killed may
// still be at work.
const probePattern = "PROBE-*"

// Probe finds out whether the store in folder can be opened and is as it was left. It
// is for whoever has the lock of the folder, or works for them: VerifyQuickly takes
// it. It checks Badger's checksums of all tables, opens a copy of
// the logs with the tables, and compares what is there with the store's own marks:
// Badger itself takes a log that is damaged for one that ends there, and cuts it
// off. The error has ErrDamaged in its chain where something is damaged or missing, and
// domain.ErrUnavailable where the system refused to read it, as without the right to,
// or without descriptors.
//
// What is in folder stays as it is. The copy is in a folder in it, which is gone
// afterwards, and takes as much space as there is in the logs, at most some 50 MiB,
// and as much again. Reading the tables takes the time that it takes to read the
// files.
//
// On damage that nobody has foreseen Badger may end the process.
func Probe(folder string, o Options) error {
	m, err := readStore(folder, o)
	if err != nil || m.State == stateNew { // nothing was ever in it
		return err
	}
	return probeCopy(folder, o, func(*badgerdb.DB) error { return nil })
}

// VerifyQuickly is Probe for a folder that nobody has open. It fails where somebody
// has.
func VerifyQuickly(folder string, o Options) error {
	if _, err := readStore(folder, o); err != nil {
		return err
	}
	locked, err := lockStore(folder)
	if err != nil {
		return err
	}
	defer locked.Close()
	return Probe(folder, o)
}

// withProbe is Probe, and calls fn with the copy if nothing is wrong with it.
func probeCopy(folder string, o Options, fn func(*badgerdb.DB) error) error {
	listed, err := listedTables(folder)
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
	if err := copyStore(folder, copied); err != nil {
		return fmt.Errorf("%w: copying the logs: %w", errUnavailable, err)
	}
	o.Logger = nil // what it says will be said again
	db, err := recoverOpen(settings(copied, o).WithNumCompactors(0).WithCompactL0OnClose(false))
	if err != nil {
		return readError(err)
	}
	err = guarded(func() error {
		sequence, err := lastCommit(db)
		if err == nil {
			err = checkMark(folder, sequence)
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

// checkSpace returns an error where there is too little space for a copy: the system
// kills a process whose writes through a memory map find none.
func checkSpace(folder string, free func(folder string) (uint64, error)) error {
	if left, err := free(folder); err == nil && left < flushSpace {
		return fmt.Errorf("%w: %d MiB are free, %d are needed to look at the store", ErrDiskFull, left>>20, flushSpace>>20)
	}
	return nil
}

// copyStore puts into the empty folder to all that Badger needs of the one from: copies
// of what it writes to, and its tables under second names, which it only reads.
func copyStore(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		source, target := filepath.Join(from, entry.Name()), filepath.Join(to, entry.Name())
		switch filepath.Ext(entry.Name()) {
		case ".sst":
			err = linkOrCopy(source, target)
		case ".mem", ".vlog":
			err = copyFile(source, target)
		default:
			switch entry.Name() {
			case badgerdb.ManifestFilename, badgerdb.KeyRegistryFileName, "DISCARD":
				err = copyFile(source, target)
			}
		}
		if err != nil {
			return err
		}
	}
	return addLogHeaders(to)
}

// removeLeftovers removes what a process that was killed has left in folder, under
// names of a pattern.
func removeLeftovers(folder, pattern string) {
	names, _ := filepath.Glob(filepath.Join(folder, pattern)) // the pattern is right
	for _, name := range names {
		_ = os.RemoveAll(name)
	}
}

// linkOrCopy gives a file a second name, or on file systems that know no such
// thing makes a second file of it.
func linkOrCopy(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	return copyFile(from, to)
}

// copyFile makes to a copy of from that takes no space where there are but zeros,
// as in what is yet to be written of a log.
func copyFile(from, to string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	var zeros, block [64 << 10]byte
	for at := int64(0); ; {
		n, err := io.ReadFull(source, block[:])
		if n > 0 && !bytes.Equal(block[:n], zeros[:n]) {
			if _, err := target.WriteAt(block[:n], at); err != nil {
				return err
			}
		}
		at += int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return target.Truncate(at)
		}
		if err != nil {
			return err
		}
	}
}
