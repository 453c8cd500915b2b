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

// highWaterMark is the number of the last acknowledged commit, kept in a file
// beside the data. A damaged write-ahead log makes Badger drop all that follows
// the damage and say nothing; the store then ends before the mark.
//
// It is written after each commit and flushed within markInterval, which other
// commits do not wait for. So after a power cut it may be that far behind, and then
// finds less; it is never ahead of the data, which was flushed first. It is written in
// place: its 12 bytes are the first of the file and so in one sector, of which a power cut
// leaves either what was there or what was written.
type highWaterMark struct {
	file *os.File

	dirty, quit, done chan struct{} // dirty holds a token when there is something to flush

	mu     sync.Mutex
	failed error // the last flush
}

// markInterval is how long a mark may stay unflushed.
const markInterval = 100 * time.Millisecond

// openMark opens the mark of the store in folder, whose last commit is number
// sequence. It makes one where there is none.
func openMark(folder string, sequence uint64) (*highWaterMark, error) {
	if err := checkMark(folder, sequence); err != nil {
		return nil, err
	}
	name := filepath.Join(folder, markName)
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		// Whole and durable before it has its name, so that no power cut leaves an empty one.
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
		return nil, fmt.Errorf("%w: the number of the last commit cannot be noted: %w", errUnavailable, err)
	}
	go m.flush()
	return m, nil
}

// checkMark fails when the store in folder, whose last commit is number sequence,
// was further than that, or when its mark is not what was written. It changes nothing.
// Without a mark it is content: whoever removes one goes on with what is there.
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
		return fmt.Errorf("%w: %s, which tells how many commits there were, is not what it was written as. "+
			"Restore a backup, or remove that file to go on with what is there", ErrDamaged, name)
	}
	if marked > sequence {
		return fmt.Errorf("%w: it came back older than it was: of %d commits the last %d are missing. "+
			"Restore a backup, or remove %s to go on without them", ErrDamaged, marked, marked-sequence, name)
	}
	return nil
}

func encodeMark(sequence uint64) (mark [8 + crc32.Size]byte) {
	binary.BigEndian.PutUint64(mark[:], sequence)
	binary.BigEndian.PutUint32(mark[8:], crc32.Checksum(mark[:8], castagnoli))
	return mark
}

// set notes the number of the last commit. It tells of a flush that failed, too.
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

// write writes the number of a commit without having it flushed.
func (m *highWaterMark) write(sequence uint64) error {
	if m == nil {
		return nil
	}
	mark := encodeMark(sequence)
	_, err := m.file.WriteAt(mark[:], 0)
	return err
}

// flush flushes what was set, until quit.
func (m *highWaterMark) flush() {
	defer close(m.done)
	for {
		select {
		case <-m.quit:
			return
		case <-m.dirty:
		}
		err := m.file.Sync()
		m.mu.Lock()
		m.failed = err
		m.mu.Unlock()
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
