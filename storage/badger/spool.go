package badger

import (
	"bytes"
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

const (
	// spoolBlock is the size from which a block of a spool ends, in bytes.
	spoolBlock = 64 << 10
	// spoolCache is how many blocks of a file a spool keeps in memory.
	spoolCache = 64
)

// spool is a snapshot of records that come in the order of their keys. It holds them in
// memory or in a file. It is not safe for concurrent use.
type spool struct {
	blocks []block
	open   []byte      // the entries of the block that is being made
	first  records.Key // of that block
	cached [spoolCache]struct {
		number int
		data   []byte // nil for none
	}

	// file is nil if the blocks are in memory. Each is sealed by aead there. Its nonce is its
	// number.
	file *os.File
	end  int64
	aead cipher.AEAD
	// failed is the first error of the file. It says nothing about the records.
	failed error
}

// block is a sequence of entries. An entry is a key and a record, each after its length
// (unsigned varints).
type block struct {
	first  records.Key
	data   []byte // nil if it is in the file
	offset int64
	length int
}

// newScratch makes a temporary file in a folder, or in the system's. It returns the folder,
// too. The file has no name where the system allows that, so a killed process leaves none.
func newScratch(folder string) (*os.File, string, error) {
	file, err := os.CreateTemp(folder, "presets-verify-*.tmp")
	if err != nil {
		return nil, "", err
	}
	_ = os.Remove(file.Name()) // Windows refuses: remove does it there
	return file, filepath.Dir(file.Name()), nil
}

// newSpool returns an empty spool that writes to a file, or to memory if file is nil.
func newSpool(file *os.File) *spool {
	s := &spool{file: file}
	if file == nil {
		return s
	}
	key := make([]byte, KeySize)
	_, _ = rand.Read(key)        // never fails
	b, _ := aes.NewCipher(key)   // fails for other sizes only
	s.aead, _ = cipher.NewGCM(b) // fails for other block sizes only
	return s
}

// remove closes and removes the file. The result does not depend on whether that succeeds.
func (s *spool) remove() {
	_ = s.file.Close()
	_ = os.Remove(s.file.Name())
}

// entrySize is about how many bytes an entry takes.
func entrySize(k records.Key, record []byte) int64 {
	return int64(len(k) + len(record) + 2*binary.MaxVarintLen16)
}

// add adds a record behind all others.
func (s *spool) add(k records.Key, record []byte) error {
	if len(s.open) == 0 {
		s.first = k
	}
	s.open = binary.AppendUvarint(s.open, uint64(len(k)))
	s.open = append(s.open, k...)
	s.open = binary.AppendUvarint(s.open, uint64(len(record)))
	s.open = append(s.open, record...)
	if len(s.open) < spoolBlock {
		return nil
	}
	return s.flush()
}

// flush ends the block that is being made.
func (s *spool) flush() error {
	if len(s.open) == 0 {
		return nil
	}
	b := block{first: bytes.Clone(s.first), offset: s.end}
	if s.file == nil {
		b.data, s.open = bytes.Clone(s.open), s.open[:0]
	} else {
		sealed := s.aead.Seal(nil, s.nonce(len(s.blocks)), s.open, nil)
		if _, err := s.file.Write(sealed); err != nil {
			return fmt.Errorf("writing the temporary file: %w", err)
		}
		b.length, s.open = len(sealed), s.open[:0]
		s.end += int64(len(sealed))
	}
	s.blocks = append(s.blocks, b)
	return nil
}

func (s *spool) nonce(n int) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, s.aead.NonceSize()-8, s.aead.NonceSize()), uint64(n))
}

// read returns the entries of a block. They do not change.
func (s *spool) read(n int) ([]byte, error) {
	b := s.blocks[n]
	if b.data != nil {
		return b.data, nil
	}
	at := &s.cached[n%spoolCache]
	if at.data != nil && at.number == n {
		return at.data, nil
	}
	sealed := make([]byte, b.length)
	_, err := s.file.ReadAt(sealed, b.offset)
	var data []byte
	if err == nil {
		data, err = s.aead.Open(sealed[:0], s.nonce(n), sealed, nil)
	}
	if err != nil {
		s.failed = cmp.Or(s.failed, fmt.Errorf("reading the temporary file: %w", err))
		return nil, fmt.Errorf("%w: %w", domain.ErrUnavailable, err) // so that a Checker ends
	}
	at.number, at.data = n, data
	return data, nil
}

// Get implements records.Snapshot.
func (s *spool) Get(k records.Key) ([]byte, error) {
	it := &spoolIterator{spool: s}
	it.Seek(k)
	switch {
	case it.err != nil:
		return nil, it.err
	case !it.Valid() || !bytes.Equal(it.key, k):
		return nil, domain.ErrNotFound
	}
	return it.record, nil
}

// Iterate implements records.Snapshot.
func (s *spool) Iterate(prefix records.Key) records.Iterator {
	return &spoolIterator{spool: s, prefix: prefix}
}

// spoolIterator implements records.Iterator. Its zero position is not valid.
type spoolIterator struct {
	*spool
	prefix records.Key

	number int    // of the block
	rest   []byte // of the block, behind the entry
	key    records.Key
	record []byte
	err    error
}

var errSpool = errors.New("a block of the temporary file has a wrong entry")

// Seek implements records.Iterator.
func (i *spoolIterator) Seek(k records.Key) {
	if bytes.Compare(k, i.prefix) < 0 {
		k = i.prefix
	}
	after := sort.Search(len(i.blocks), func(n int) bool { return bytes.Compare(i.blocks[n].first, k) > 0 })
	i.number, i.rest = max(after-1, 0)-1, nil
	for i.Next(); i.key != nil && bytes.Compare(i.key, k) < 0; {
		i.Next()
	}
}

// Next implements records.Iterator.
func (i *spoolIterator) Next() {
	i.key, i.record = nil, nil
	for len(i.rest) == 0 {
		if i.number++; i.err != nil || i.number >= len(i.blocks) {
			return
		}
		i.rest, i.err = i.read(i.number)
	}
	key, rest, ok1 := cutBytes(i.rest)
	record, rest, ok2 := cutBytes(rest)
	if !ok1 || !ok2 {
		i.err, i.rest = errSpool, nil
		return
	}
	i.key, i.record, i.rest = key, record, rest
}

// Valid implements records.Iterator.
func (i *spoolIterator) Valid() bool { return i.key != nil && bytes.HasPrefix(i.key, i.prefix) }

// Key implements records.Iterator.
func (i *spoolIterator) Key() records.Key { return i.key }

// Size implements records.Iterator.
func (i *spoolIterator) Size() int { return len(i.record) }

// Value implements records.Iterator.
func (i *spoolIterator) Value() ([]byte, error) { return i.record, nil }

// Err implements records.Iterator.
func (i *spoolIterator) Err() error { return i.err }

// Close implements records.Iterator.
func (i *spoolIterator) Close() {}
