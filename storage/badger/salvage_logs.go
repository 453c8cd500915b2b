package badger

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"hash/crc32"

	"github.com/dgraph-io/badger/v4/y"
)

// A write-ahead log of Badger's has a header. It is the number of the log's key (8 bytes) and
// the begin of all IVs (12 bytes). Entries follow. An entry begins with two bytes of bits. The
// lengths of its key and its value and its expiry follow as varints. Then come the key, the
// value, and a CRC-32C of all. In an encrypted store key and value are encrypted. The last
// entry of a commit has a bit.

const (
	commitBit    = 1 << 6 // the entry is one of a commit
	commitEndBit = 1 << 7 // it ends a commit, and has no record
	maxLogKey    = 2 + 16 + 16 + 1024 + 64
)

// wreckLog is a log that may be damaged.
type wreckLog struct {
	data []byte
	key  cipher.Block // nil for a log that is not encrypted
	iv   []byte       // the begin of all IVs
	take func(f found)
	bad  func(offset, length int, what string)
	// read sets first and last: the versions of the first entry that it finds, and of the last
	// commit that it takes. They are 0 if there is none.
	first, last uint64
}

// read reads all entries that can be read. tail are those of a last commit without its end.
// After that the rest of the log may be damaged: the caller knows whether there should be
// more. lost is the number of gaps. One that is larger than an entry may have held a whole
// change, and counts twice.
func (l *wreckLog) read() (tail []found, rest, lost int) {
	used := len(bytes.TrimRight(l.data, "\x00"))
	end := min(len(l.data), used+crc32.Size)
	if end <= logHeader {
		return nil, 0, 0
	}
	l.iv = l.data[8:logHeader]
	if !l.repairHeader() {
		return nil, 0, 2
	}
	var commit []found
	var version uint64
	finish := func() {
		for _, f := range commit {
			l.last = f.version
			l.take(f)
		}
		commit = nil
	}
	gap := -1
	for at := logHeader; at < end; {
		f, bits, length := l.entryAt(at)
		if length == 0 {
			if gap < 0 {
				gap = at
			}
			at++
			continue
		}
		if gap >= 0 {
			if l.declaredLength(gap) == at-gap {
				l.bad(gap, at-gap, "an entry of the log is damaged")
				lost++
			} else {
				l.bad(gap, at-gap, "entries of the log are damaged: whole changes may be lost")
				lost += 2
			}
			gap = -1
		}
		at += length
		if l.first == 0 {
			l.first = f.version
		}
		if f.version != version {
			finish() // the entry that ended the commit is lost
			version = f.version
		}
		switch {
		case bits&commitEndBit != 0:
			finish()
		case bits&commitBit != 0:
			commit = append(commit, f)
		default:
			l.last = f.version
			l.take(f)
		}
	}
	if gap >= 0 && gap < used {
		rest = used - gap
	}
	return commit, rest, lost
}

// declaredLength returns the length that an entry has by its header, or 0.
func (l *wreckLog) declaredLength(at int) int {
	length, body := 2, 0
	for i := range 3 { // of the key, of the value, the expiry
		if length > len(l.data)-at {
			return 0
		}
		n, size := binary.Uvarint(l.data[at+length:])
		if size <= 0 || i < 2 && n > valueThreshold {
			return 0
		}
		if length += size; i < 2 {
			body += int(n)
		}
	}
	return length + body + crc32.Size
}

// entryAt returns the entry at a place, its bits and its length, which is 0 if none is there.
func (l *wreckLog) entryAt(at int) (f found, bits byte, length int) {
	data := l.data[at:]
	if len(data) < 6 || data[0]&^(removalBit|commitBit|commitEndBit|1<<1|1<<2|1<<3) != 0 {
		return f, 0, 0
	}
	rest := data[2:]
	var numbers [3]uint64
	for i := range numbers {
		n, size := binary.Uvarint(rest)
		if size <= 0 {
			return f, 0, 0
		}
		numbers[i], rest = n, rest[size:]
	}
	keyLength, valueLength := numbers[0], numbers[1]
	if keyLength <= 8 || keyLength > maxLogKey || valueLength > valueThreshold || keyLength+valueLength+crc32.Size > uint64(len(rest)) {
		return f, 0, 0
	}
	body := rest[:keyLength+valueLength]
	end := len(data) - len(rest) + len(body)
	if binary.BigEndian.Uint32(data[end:]) != crc32.Checksum(data[:end], castagnoli) {
		return f, 0, 0
	}
	if l.key != nil {
		body = l.decrypt(body, at)
	}
	key := body[:keyLength]
	f = found{
		key: y.ParseKey(key), version: y.ParseTs(key), record: body[keyLength:],
		expires: numbers[2], isRemoval: data[0]&removalBit != 0,
	}
	return f, data[0], end + crc32.Size
}

func (l *wreckLog) decrypt(body []byte, at int) []byte {
	var iv [aes.BlockSize]byte
	copy(iv[:], l.iv)
	binary.BigEndian.PutUint32(iv[len(l.iv):], uint32(at))
	plain := make([]byte, len(body))
	cipher.NewCTR(l.key, iv[:]).XORKeyStream(plain, body)
	return plain
}

// repairHeader looks for a flipped bit in the begin of all IVs. It returns false if the log
// cannot be decrypted. It does not need the number of the key: a store has one key for all
// logs, or none.
func (l *wreckLog) repairHeader() bool {
	number := uint64(0)
	if l.key != nil {
		number = theDataKey
	}
	if binary.BigEndian.Uint64(l.data) != number {
		l.bad(0, 8, "the header is damaged: its number of a key is wrong, and was set right")
	}
	if l.key == nil {
		return true
	}
	at := logHeader
	for ; at < len(l.data); at++ { // to the first record that has a checksum, which padding lacks
		if f, bits, length := l.entryAt(at); length > 0 && bits&(commitEndBit|removalBit) == 0 && f.expires == 0 {
			break
		}
	}
	reads := func() bool {
		f, _, length := l.entryAt(at)
		return length > 0 && isSealed(f)
	}
	if at == len(l.data) || reads() {
		return true
	}
	l.iv = bytes.Clone(l.iv)
	for bit := range 8 * len(l.iv) {
		l.iv[bit/8] ^= 1 << (bit % 8)
		if reads() {
			l.bad(8+bit/8, 1, "the header is damaged: a bit of it was set right")
			return true
		}
		l.iv[bit/8] ^= 1 << (bit % 8)
	}
	l.bad(0, logHeader, "the header is damaged: nothing in the log can be decrypted")
	return false
}
