package badger

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/y"

	"github.com/caddy-presets/caddy-presets/storage/records"
)

// A table of Badger's is a sequence of blocks, an index and a footer. A block has entries, and
// the offset of each (4 bytes, little endian in memory order). Their number, a checksum as
// protobuf and its length follow. The numbers are big endian. In an encrypted store a block is
// encrypted by AES-CTR, and its IV follows it. The index has the offset of each block. If
// it is damaged, the blocks are found by their checksums.

const (
	entryHeader = 4       // the lengths of the shared and the own part of a key
	maxChecksum = 32      // more than any checksum as protobuf has
	blockTail   = 4 + 4   // the number of entries, and the length of the checksum
	maxBlock    = 2 << 20 // of a block that is looked for: the largest record fits
)

// found is an entry of a table or a log.
type found struct {
	key       records.Key
	version   uint64
	record    []byte
	expires   uint64
	isRemoval bool
	damaged   string // the file, if the checksum of the entry's block is wrong
}

// wreckTable is a table that may be damaged.
type wreckTable struct {
	data []byte
	key  cipher.Block // nil for a table that is not encrypted
	// take is called for each entry. isWhole says that its block has the right checksum.
	take func(f found, isWhole bool)
	// bad is called for each part that cannot be read.
	bad func(offset, length int, what string)
}

// read reads all blocks that can be read, and returns the number of those that cannot. One
// that may have held all of a change of an issued key counts twice. isUnreferenced says that
// records may be lost that nothing else tells of.
func (t *wreckTable) read() (lost int, isUnreferenced bool) {
	index, begin, err := t.index()
	if err == nil {
		for i, b := range index {
			var next records.Key
			if i+1 < len(index) {
				next = index[i+1].first
			}
			missing, isGap := t.readBlock(int(b.offset), int(b.length))
			switch {
			case missing > 1 && mayHoldKey(b.first, next):
				lost += 2
			case missing > 0:
				lost++
			}
			isUnreferenced = isUnreferenced || isGap && mayHoldUnreferenced(b.first, next)
		}
		return lost, isUnreferenced
	}
	t.bad(begin, len(t.data)-begin, "its index: "+err.Error()+"; blocks were looked for")
	lost = t.search()
	return lost, lost > 0
}

type blockPlace struct {
	offset, length uint32
	first          records.Key // in it
}

// mayHoldKey reports whether a block may hold an issued key and its hash. A change of a key
// writes both. next is the first key of the next block, nil for none.
func mayHoldKey(first, next records.Key) bool {
	return !first.Valid() || first.Kind() <= records.KindKeyHash && (!next.Valid() || next.Kind() >= records.KindKey)
}

// mayHoldUnreferenced reports whether a block may hold a record that nothing else tells of. next
// is as for mayHoldKey.
func mayHoldUnreferenced(first, next records.Key) bool {
	for kind := range unreferencedKinds {
		if !first.Valid() || first.Kind() <= kind && (!next.Valid() || next.Kind() >= kind) {
			return true
		}
	}
	return false
}

var errIndex = errors.New("it is damaged or cut off")

// index returns the places of all blocks.
func (t *wreckTable) index() (blocks []blockPlace, begin int, err error) {
	end := len(t.data)
	if end < blockTail {
		return nil, 0, errIndex
	}
	length := int(binary.BigEndian.Uint32(t.data[end-4:]))
	if length > maxChecksum || length > end-blockTail {
		return nil, end, errIndex
	}
	want, ok := parseChecksum(t.data[end-4-length : end-4])
	if !ok {
		return nil, end, errIndex
	}
	end -= 4 + length + 4
	size := int(binary.BigEndian.Uint32(t.data[end:]))
	if size > end {
		return nil, end, errIndex
	}
	raw := t.data[end-size : end]
	if want != crc32.Checksum(raw, castagnoli) {
		return nil, end - size, errIndex
	}
	blocks, err = t.parseIndex(raw)
	return blocks, end - size, err
}

// parseIndex returns the places of the blocks in an index.
func (t *wreckTable) parseIndex(raw []byte) (blocks []blockPlace, err error) {
	err = guarded(func() error {
		if t.key != nil {
			raw = t.decrypt(raw)
		}
		all := fb.GetRootAsTableIndex(raw, 0)
		for i := range all.OffsetsLength() {
			var b fb.BlockOffset
			if !all.Offsets(&b, i) {
				return errIndex
			}
			first := b.KeyBytes()
			if len(first) <= 8 {
				return errIndex
			}
			blocks = append(blocks, blockPlace{b.Offset(), b.Len(), y.ParseKey(first)})
		}
		return nil
	})
	return blocks, err
}

// parseChecksum reads a CRC-32C as protobuf: the tag of field 2, and a varint.
func parseChecksum(b []byte) (sum uint32, ok bool) {
	if len(b) < leastChecksum || b[0] != 2<<3 {
		return 0, false
	}
	n, length := binary.Uvarint(b[1:])
	return uint32(n), length == len(b)-1
}

// decrypt decrypts data, whose IV follows it.
func (t *wreckTable) decrypt(data []byte) []byte {
	if len(data) < aes.BlockSize {
		return nil
	}
	plain := make([]byte, len(data)-aes.BlockSize)
	cipher.NewCTR(t.key, data[len(plain):]).XORKeyStream(plain, data[:len(plain)])
	return plain
}

// allMissing is more records than a block has.
const allMissing = maxBlock

// readBlock reads the block at a place. It returns how many of its entries are missing. That
// is at least 1 for a block that is not whole. isGap says that one of them may be a record.
// The others are removals.
func (t *wreckTable) readBlock(offset, length int) (missing int, isGap bool) {
	if offset > len(t.data) || length > len(t.data)-offset {
		t.bad(offset, length, "a block is cut off")
		return allMissing, true
	}
	block := t.data[offset : offset+length]
	if t.key != nil {
		block = t.decrypt(block)
	}
	entries, ok := parseBlock(block)
	isWhole := ok && entries.isWhole
	if !isWhole {
		t.bad(offset, length, "a block is damaged: its whole records were copied")
	}
	if !ok {
		return allMissing, true
	}
	missing = len(entries.offsets)
	removals := 0
	entries.each(func(f found) {
		t.take(f, isWhole)
		switch {
		case isWhole || !f.isRemoval && isSealed(f):
			missing--
		case f.isRemoval && len(f.record) == 0 && f.key.Valid():
			removals++
		}
	})
	if isWhole {
		return 0, false
	}
	return max(missing, 1), missing > removals
}

// isSealed reports whether the record of an entry is whole.
func isSealed(f found) bool {
	if !f.key.Valid() {
		return false
	}
	_, err := records.Unseal(f.key, f.record)
	return err == nil
}

// search finds blocks without the index. It counts what is missing as read does. A gap may
// have held anything, and so may what is cut off with the index.
func (t *wreckTable) search() (lost int) {
	at, gap := 0, -1
	flush := func(end int) {
		if gap >= 0 {
			lost += 2
			t.bad(gap, end-gap, "no block is found here")
			gap = -1
		}
	}
	for at < len(t.data) {
		if length := t.blockAt(at); length > 0 {
			flush(at)
			t.readBlock(at, length)
			at += length
			continue
		}
		if gap < 0 {
			gap = at
		}
		next := t.nextBlock(at)
		if next <= at {
			break
		}
		at = next
	}
	switch {
	case gap < 0: // nothing is left of the index
		lost += 2
	case t.isIndex(gap):
		gap = -1 // the rest is the index, which was reported
	}
	flush(len(t.data))
	return lost
}

// isIndex reports whether an index begins at a place, although its checksum may be wrong.
// Its last block then ends there.
func (t *wreckTable) isIndex(at int) bool {
	for length := leastChecksum; length <= mostChecksum; length++ {
		end := len(t.data) - blockTail - length
		if end <= at {
			break
		}
		blocks, err := t.parseIndex(t.data[at:end])
		if n := len(blocks); err == nil && n > 0 && int(blocks[n-1].offset+blocks[n-1].length) == at {
			return true
		}
	}
	return false
}

// blockAt returns the length of the whole block that begins at a place, or 0.
func (t *wreckTable) blockAt(at int) int {
	most := min(len(t.data)-at, maxBlock)
	for end := blockTail + entryHeader; end <= most; end++ {
		if t.mayEnd(at, at+end) {
			block := t.data[at : at+end]
			if t.key != nil {
				block = t.decrypt(block)
			}
			if b, ok := parseBlock(block); ok && b.isWhole {
				return end
			}
		}
	}
	return 0
}

// nextBlock returns the place of the next whole block behind a damaged one, or 0. The end of
// the damaged one looks like that of a block.
func (t *wreckTable) nextBlock(at int) int {
	for end := at + blockTail; end < min(len(t.data), at+maxBlock); end++ {
		if t.mayEnd(at, end) && t.blockAt(end) > 0 {
			return end
		}
	}
	return 0
}

// leastChecksum and mostChecksum are the lengths of a CRC-32C as protobuf. It has a tag, and a
// varint of 1 to 5 bytes.
const leastChecksum, mostChecksum = 2, 6

// mayEnd is a quick look whether a block from a place may end at another.
func (t *wreckTable) mayEnd(from, end int) bool {
	var tail [4]byte
	if t.key == nil {
		copy(tail[:], t.data[end-4:end])
	} else {
		plainEnd := end - aes.BlockSize
		if plainEnd-from < blockTail {
			return false
		}
		t.decryptAt(tail[:], from, plainEnd-4, plainEnd)
	}
	n := binary.BigEndian.Uint32(tail[:])
	return n >= leastChecksum && n <= mostChecksum
}

// decryptAt decrypts 4 bytes at a place of a block that begins at from and whose IV is at iv.
func (t *wreckTable) decryptAt(into []byte, from, at, iv int) {
	var counter, stream [2 * aes.BlockSize]byte
	copy(counter[:], t.data[iv:iv+aes.BlockSize])
	first := uint64((at - from) / aes.BlockSize)
	for i := range 2 {
		c := addCounter(counter[:aes.BlockSize], first+uint64(i))
		t.key.Encrypt(stream[i*aes.BlockSize:], c[:])
	}
	skip := (at - from) % aes.BlockSize
	for i := range into {
		into[i] = t.data[at+i] ^ stream[skip+i]
	}
}

// addCounter adds n to a big-endian counter.
func addCounter(counter []byte, n uint64) (sum [aes.BlockSize]byte) {
	copy(sum[:], counter)
	low := binary.BigEndian.Uint64(sum[8:])
	binary.BigEndian.PutUint64(sum[8:], low+n)
	if low+n < low {
		binary.BigEndian.PutUint64(sum[:8], binary.BigEndian.Uint64(sum[:8])+1)
	}
	return sum
}

// tableBlock is a parsed block of a table.
type tableBlock struct {
	entries []byte   // up to the offsets
	offsets []uint32 // ascending, from 0
	isWhole bool     // its checksum is right
}

// parseBlock returns a block. It is not ok if its parts do not add up.
func parseBlock(data []byte) (b tableBlock, ok bool) {
	if len(data) < blockTail {
		return b, false
	}
	end := len(data) - 4
	length := int(binary.BigEndian.Uint32(data[end:]))
	if length > maxChecksum || length > end-4 {
		return b, false
	}
	sum := data[end-length : end]
	end -= length
	body := data[:end]
	count := int(binary.BigEndian.Uint32(data[end-4:]))
	if count < 1 || count > (end-4)/4 {
		return b, false
	}
	b.entries = data[:end-4-4*count]
	raw := data[len(b.entries) : end-4]
	for i := range count {
		b.offsets = append(b.offsets, binary.NativeEndian.Uint32(raw[4*i:]))
	}
	if b.offsets[0] != 0 {
		return b, false
	}
	want, known := parseChecksum(sum)
	b.isWhole = known && want == crc32.Checksum(body, castagnoli)
	return b, true
}

// each calls take for each entry whose parts add up.
func (b tableBlock) each(take func(found)) {
	var base []byte
	for i, at := range b.offsets {
		end := uint32(len(b.entries))
		if i+1 < len(b.offsets) {
			end = b.offsets[i+1]
		}
		if end > uint32(len(b.entries)) || at > end || end-at < entryHeader {
			continue
		}
		entry := b.entries[at:end]
		shared, own := int(binary.NativeEndian.Uint16(entry)), int(binary.NativeEndian.Uint16(entry[2:]))
		entry = entry[entryHeader:]
		if own > len(entry) || shared > len(base) {
			continue
		}
		key := append(bytes.Clone(base[:shared]), entry[:own]...)
		if i == 0 {
			base = key
		}
		if f, ok := parseValue(key, entry[own:]); ok {
			take(f)
		}
	}
}

const removalBit = 1 // in the first byte of a value

// parseValue returns the entry of a key with its version, and a value as tables have it.
func parseValue(key, value []byte) (f found, ok bool) {
	if len(key) <= 8 || len(value) < 3 {
		return f, false
	}
	f.key, f.version = y.ParseKey(key), y.ParseTs(key)
	expires, n := binary.Uvarint(value[2:])
	if n <= 0 {
		return f, false
	}
	f.record, f.expires, f.isRemoval = value[2+n:], expires, value[0]&removalBit != 0
	return f, true
}
