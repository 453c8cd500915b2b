package badger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/groupcommit"
)

const markName = "SEQUENCE"

// highWaterMark is a file with the number of the last acknowledged commit. When the
// write-ahead log is damaged, Badger silently drops everything behind the damage. The last
// commit of the store is then below the mark.
//
// The mark is written after each commit and flushed within markInterval. Commits do not
// wait for the flush, so after a power cut the mark may be that much too low. It is never
// too high, because the data are flushed first. It is written in place: its 12 bytes are
// in one sector, which a power cut leaves either old or new.
type highWaterMark struct {
	file *os.File

	dirty, quit, done chan struct{} // dirty holds a token when there is something to flush

	mu     sync.Mutex
	failed error // a flush
}

// markInterval is how long a mark may stay unflushed.
const markInterval = 100 * time.Millisecond

// openMark opens the mark of the store in folder, or makes one. sequence is the number of
// the store's last commit.
func openMark(folder string, sequence uint64) (*highWaterMark, error) {
	if err := checkMark(folder, sequence); err != nil {
		return nil, err
	}
	name := filepath.Join(folder, markName)
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		// Replacing is atomic, so that no power cut leaves an empty mark.
		mark := encodeMark(sequence)
		if err = replaceFile(folder, markName, tempPattern, mark[:]); err == nil {
			file, err = os.OpenFile(name, os.O_RDWR, 0)
		}
	}
	m := &highWaterMark{file: file, dirty: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	if err == nil {
		if err = errors.Join(m.set(sequence), file.Sync()); err != nil {
			err = errors.Join(err, file.Close())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the number of the last commit cannot be written: %w", errUnavailable, err)
	}
	go m.flush()
	return m, nil
}

// checkMark fails if the mark of the store in folder is damaged or above sequence, the
// number of its last commit. It accepts a store without a mark: an operator removes the
// mark to go on without the lost commits. It changes nothing.
func checkMark(folder string, sequence uint64) error {
	name := filepath.Join(folder, markName)
	stored, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return readError(err)
	}
	var marked uint64
	if len(stored) >= 8 {
		marked = binary.BigEndian.Uint64(stored)
	}
	if mark := encodeMark(marked); !bytes.Equal(stored, mark[:]) {
		return fmt.Errorf("%w: %s, which has the number of the last commit, is damaged. "+
			"Restore a backup, or remove that file to go on with what is there", ErrDamaged, name)
	}
	if marked > sequence {
		return fmt.Errorf("%w: it has lost commits: of %d commits the last %d are missing. "+
			"Restore a backup, or remove %s to go on without them", ErrDamaged, marked, marked-sequence, name)
	}
	return nil
}

func encodeMark(sequence uint64) (mark [8 + crc32.Size]byte) {
	binary.BigEndian.PutUint64(mark[:], sequence)
	binary.BigEndian.PutUint32(mark[8:], crc32.Checksum(mark[:8], castagnoli))
	return mark
}

// set writes the number of the last commit. It also returns the error of an earlier flush.
func (m *highWaterMark) set(sequence uint64) error {
	if m == nil {
		return nil
	}
	if err := m.write(sequence); err != nil {
		return err
	}
	groupcommit.Signal(m.dirty)
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.failed
}

// write writes the number of a commit. It does not flush the file.
func (m *highWaterMark) write(sequence uint64) error {
	if m == nil {
		return nil
	}
	mark := encodeMark(sequence)
	_, err := m.file.WriteAt(mark[:], 0)
	return err
}

// flush flushes the mark after each set, until quit.
func (m *highWaterMark) flush() {
	defer close(m.done)
	for {
		select {
		case <-m.quit:
			return
		case <-m.dirty:
		}
		// The system reports a failure once, and the next flush may succeed without the data.
		if err := m.file.Sync(); err != nil {
			m.mu.Lock()
			m.failed = err
			m.mu.Unlock()
		}
		select {
		case <-m.quit:
			return
		case <-time.After(markInterval):
		}
	}
}

func (m *highWaterMark) close() error {
	if m == nil {
		return nil
	}
	close(m.quit)
	<-m.done
	return errors.Join(m.file.Sync(), m.file.Close())
}
