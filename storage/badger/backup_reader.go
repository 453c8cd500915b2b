package badger

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/caddy-presets/caddy-presets/storage/records"
)

// frames reads the sealed chunks of a backup.
type frames struct {
	from     *bufio.Reader
	overhead int // of a sealed chunk
	buffer   []byte
}

// next returns the next sealed chunk. After the last one it returns the JSON of the end, and
// its seal as the chunk. Both are valid until the next call.
func (f *frames) next() (sealed, end []byte, err error) {
	length, err := f.length()
	if err != nil {
		return nil, nil, err
	}
	if length == 0 {
		if length, err = f.length(); err != nil {
			return nil, nil, err
		}
		if length < 2 || length > maxInfo {
			return nil, nil, broken("it was changed or damaged")
		}
		whole := make([]byte, length+f.overhead)
		if _, err := io.ReadFull(f.from, whole); err != nil {
			return nil, nil, truncated(err)
		}
		switch _, err := f.from.ReadByte(); {
		case err == nil:
			return nil, nil, broken("something follows its end")
		case !errors.Is(err, io.EOF):
			return nil, nil, err
		}
		return whole[length:], whole[:length], nil
	}
	if length <= f.overhead || length > maxChunk {
		return nil, nil, broken("it was changed or damaged")
	}
	if cap(f.buffer) < length {
		f.buffer = make([]byte, length)
	}
	sealed = f.buffer[:length]
	if _, err := io.ReadFull(f.from, sealed); err != nil {
		return nil, nil, truncated(err)
	}
	return sealed, nil, nil
}

func (f *frames) length() (int, error) {
	var b [4]byte
	if _, err := io.ReadFull(f.from, b[:]); err != nil {
		return 0, truncated(err)
	}
	return int(binary.BigEndian.Uint32(b[:])), nil
}

// parseEnd reads the JSON of the end.
func parseEnd(text []byte) (e BackupEnd, err error) {
	if err := json.Unmarshal(text, &e); err != nil || !digestText.MatchString(e.Digest) {
		return e, broken("it was changed or damaged")
	}
	return e, nil
}

// CheckBackup reads a whole backup, without its key. It finds out whether the backup was cut
// short or has something behind its end. It also finds changes and damage, unless the
// backup is encrypted: only Restore finds those. An error about the backup has
// ErrNotRestorable in its chain.
//
// It calls progress, unless that is nil, after each chunk. done is the bytes so far, and size
// the BackupInfo.Size, both before compression. Of an encrypted backup only the number of
// chunks is known. Their bytes are then a little too few, because most chunks are longer than
// chunkSize.
func CheckBackup(r io.Reader, progress func(done, size int64)) (info BackupInfo, end BackupEnd, err error) {
	if progress == nil {
		progress = func(done, size int64) {}
	}
	from := bufio.NewReaderSize(r, 64<<10)
	info, lines, err := readInfo(from)
	if err != nil {
		return info, end, err
	}
	if !info.Encrypted() {
		b, err := newBackupReader(info, lines, from, nil)
		if err != nil {
			return info, end, err
		}
		var done int64
		for b.next() {
			done += backupEntrySize(len(b.key), b.expires, len(b.record))
			if len(b.rest) == 0 {
				progress(done, info.Size)
			}
		}
		return info, b.end, b.err
	}
	f := &frames{from: from, overhead: info.overhead()}
	for done := int64(0); ; done += chunkSize {
		progress(min(done, info.Size), info.Size)
		_, text, err := f.next()
		if err != nil {
			return info, end, err
		}
		if text != nil {
			end, err = parseEnd(text)
			return info, end, err
		}
	}
}

// backupReader reads the entries of a backup.
type backupReader struct {
	info    BackupInfo
	frames  frames
	sealer  *sealer
	decoder *zstd.Decoder
	rest    []byte // of the chunk
	entries int

	// The entry that next found. The caller may keep key and record.
	key     records.Key
	expires uint64
	record  []byte
	// end is set once next has returned false without an error.
	end BackupEnd
	err error
}

func newBackupReader(info BackupInfo, lines []byte, from *bufio.Reader, key []byte) (*backupReader, error) {
	s, err := newSealer(info, lines, key)
	if err != nil {
		return nil, err
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxChunk))
	return &backupReader{info: info, frames: frames{from: from, overhead: info.overhead()}, sealer: s, decoder: decoder}, err
}

// openBackup reads the first lines of a backup and returns a reader of the rest. An encrypted
// backup needs its store's key.
func openBackup(r io.Reader, key []byte) (*backupReader, error) {
	from := bufio.NewReaderSize(r, 64<<10)
	info, lines, err := readInfo(from)
	if err != nil {
		return nil, err
	}
	return newBackupReader(info, lines, from, key)
}

// next moves to the next entry. It returns false at an error, and at the end of a backup
// that is in order.
func (b *backupReader) next() bool {
	for b.err == nil && len(b.rest) == 0 {
		if ended := b.fill(); ended {
			return false
		}
	}
	if b.err == nil {
		b.err = b.parse()
	}
	return b.err == nil
}

// fill reads the next chunk. It returns true at the end.
func (b *backupReader) fill() (ended bool) {
	sealed, end, err := b.frames.next()
	if err != nil {
		b.err = err
		return false
	}
	chunk, err := b.sealer.unseal(sealed, end != nil, end)
	if err != nil {
		b.err = err
		return false
	}
	if end != nil {
		b.end, b.err = parseEnd(end)
		if b.err == nil && b.end.Entries != b.entries {
			b.err = broken("it holds %d entries, not the %d of its end", b.entries, b.end.Entries)
		}
		return b.err == nil
	}
	if b.rest, err = b.decoder.DecodeAll(chunk, nil); err != nil {
		b.err = broken("it was changed or damaged")
	}
	return false
}

// parse reads the next entry of the chunk.
func (b *backupReader) parse() error {
	b.entries++
	name, rest, ok1 := cutBytes(b.rest)
	expires, rest, err := records.CutNumber(rest)
	record, rest, ok2 := cutBytes(rest)
	if !ok1 || err != nil || !ok2 || !records.Key(name).Valid() || bytes.Compare(name, b.key) <= 0 || len(record) > records.MaxRecord {
		return broken("entry %d is not that of a backup", b.entries)
	}
	if _, err := records.Unseal(name, record); err != nil {
		return broken("%w", err)
	}
	b.key, b.expires, b.record, b.rest = name, expires, record, rest
	return nil
}

// cutBytes returns the bytes behind their length, an unsigned varint, and the rest.
func cutBytes(from []byte) (b, rest []byte, ok bool) {
	n, rest, err := records.CutNumber(from)
	if err != nil || n > uint64(len(rest)) {
		return nil, nil, false
	}
	return rest[:n:n], rest[n:], true
}
