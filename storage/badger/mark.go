package badger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
)

const markName = "SEQUENCE"

// highWaterMark is the number of the last acknowledged commit, kept in a file
// beside the data. A damaged write-ahead log makes Badger drop all that follows
// the damage and say nothing; the store then ends before the mark.
//
// It is written after each commit and flushed only at the end, which would
// cost as much as the commit itself. So after a power cut it may be behind,
// and then finds less; it is never ahead of the data, which was flushed first.
type highWaterMark struct{ file *os.File }

// openMark opens the mark of the store in folder, whose last commit is number
// sequence.
func openMark(folder string, sequence uint64) (*highWaterMark, error) {
	name := filepath.Join(folder, markName)
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	m := &highWaterMark{file}
	var stored [8 + crc32.Size]byte
	_, err = file.ReadAt(stored[:], 0)
	marked := binary.BigEndian.Uint64(stored[:])
	switch {
	case err == nil && stored == markOf(marked) && marked > sequence:
		err = fmt.Errorf("%w: the store in %s came back older than it was: of %d commits the last %d are missing. "+
			"Restore a backup, or remove %s to go on without them", ErrDamaged, folder, marked, marked-sequence, name)
	case err == nil || errors.Is(err, io.EOF):
		// A power cut may leave a new file empty.
		err = errors.Join(m.set(sequence), file.Sync(), syncFolder(folder))
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return m, nil
}

func markOf(sequence uint64) (mark [8 + crc32.Size]byte) {
	binary.BigEndian.PutUint64(mark[:], sequence)
	binary.BigEndian.PutUint32(mark[8:], crc32.Checksum(mark[:8], castagnoli))
	return mark
}

func (m *highWaterMark) set(sequence uint64) error {
	if m == nil {
		return nil
	}
	mark := markOf(sequence)
	_, err := m.file.WriteAt(mark[:], 0)
	return err
}

func (m *highWaterMark) close() error {
	if m == nil {
		return nil
	}
	return errors.Join(m.file.Sync(), m.file.Close())
}
