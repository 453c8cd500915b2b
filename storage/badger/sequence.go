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
	"syscall"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/groupcommit"
)

const sequenceName = "SEQUENCE"

// sequenceFile is a file with the number of the last acknowledged commit. When the
// write-ahead log is damaged, Badger silently drops everything behind the damage. The last
// commit of the store is then below that number.
//
// The number is written after each commit and flushed within sequenceInterval. Commits do
// not wait for the flush, so after a power cut the number may be that much too low. It is never
// too high, because the data are flushed first. It is written in place. Its 12 bytes are
// in one sector, which a power cut leaves either old or new.
type sequenceFile struct {
	file *os.File

	dirty, quit, done chan struct{} // dirty holds a token when there is something to flush

	mu     sync.Mutex
	failed error // a flush
}

// sequenceInterval is how long a number may stay unflushed.
const sequenceInterval = 100 * time.Millisecond

// openSequence opens the sequence file of the store in folder, or makes one. sequence is the
// number of the store's last commit.
func openSequence(folder string, sequence uint64) (*sequenceFile, error) {
	if err := checkSequence(folder, sequence); err != nil {
		return nil, err
	}
	name := filepath.Join(folder, sequenceName)
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		// Replacing is atomic, so that no power cut leaves an empty file.
		content := encodeSequence(sequence)
		if err = replaceFile(folder, sequenceName, tempPattern, content[:]); err == nil {
			file, err = os.OpenFile(name, os.O_RDWR, 0)
		}
	}
	f := &sequenceFile{file: file, dirty: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	if err == nil {
		if err = errors.Join(f.set(sequence), file.Sync()); err != nil {
			err = errors.Join(err, file.Close())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the number of the last commit cannot be written: %w", errUnavailable, err)
	}
	go f.flush()
	return f, nil
}

// checkSequence fails if the sequence file of the store in folder is damaged. It also fails
// if the file's number is higher than sequence, the number of the last commit. It accepts a
// store without the file: an operator removes it to go on without the lost commits.
// checkSequence changes nothing.
func checkSequence(folder string, sequence uint64) error {
	recorded, err := storedSequence(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case recorded > sequence:
		return fmt.Errorf("%w: it has lost commits: of %d commits the last %d are missing. "+
			"Restore a backup, or remove %s to go on without them", ErrDamaged, recorded, recorded-sequence, filepath.Join(folder, sequenceName))
	}
	return nil
}

// storedSequence returns the number in the sequence file of the store in folder.
func storedSequence(folder string) (uint64, error) {
	name := filepath.Join(folder, sequenceName)
	stored, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	if err != nil {
		return 0, readError(err)
	}
	var recorded uint64
	if len(stored) >= 8 {
		recorded = binary.BigEndian.Uint64(stored)
	}
	if content := encodeSequence(recorded); !bytes.Equal(stored, content[:]) {
		return 0, fmt.Errorf("%w: %s, which has the number of the last commit, is damaged. "+
			"Restore a backup, or remove that file to go on with what is there", ErrDamaged, name)
	}
	return recorded, nil
}

func encodeSequence(sequence uint64) (content [8 + crc32.Size]byte) {
	binary.BigEndian.PutUint64(content[:], sequence)
	binary.BigEndian.PutUint32(content[8:], crc32.Checksum(content[:8], castagnoli))
	return content
}

// set writes the number of the last commit. It also returns the error of an earlier flush. A full
// disk is no error, because the commit is safe and the next one begins by writing this number: Btrfs
// needs space for each write to a file.
func (f *sequenceFile) set(sequence uint64) error {
	if f == nil {
		return nil
	}
	if err := f.write(sequence); err != nil && !isFull(err) {
		return err
	}
	groupcommit.Signal(f.dirty)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// write writes the number of a commit. It does not flush the file.
func (f *sequenceFile) write(sequence uint64) error {
	if f == nil {
		return nil
	}
	content := encodeSequence(sequence)
	_, err := f.file.WriteAt(content[:], 0)
	return err
}

// isFull reports whether err is that of a full disk.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// flush flushes the file after each set, until quit.
func (f *sequenceFile) flush() {
	defer close(f.done)
	for {
		select {
		case <-f.quit:
			return
		case <-f.dirty:
		}
		// The system reports a failure once, and the next flush may succeed without the data.
		if err := f.file.Sync(); err != nil && !isFull(err) {
			f.mu.Lock()
			f.failed = err
			f.mu.Unlock()
		}
		select {
		case <-f.quit:
			return
		case <-time.After(sequenceInterval):
		}
	}
}

func (f *sequenceFile) close() error {
	if f == nil {
		return nil
	}
	close(f.quit)
	<-f.done
	return errors.Join(f.file.Sync(), f.file.Close())
}
