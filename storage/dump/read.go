package dump

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/caddy-presets/caddy-presets/storage/records"
)

// frames reads the frames of a dump and checks their checksums.
type frames struct {
	from      *bufio.Reader
	encrypted bool
	sealer    *sealer
	at        place // of the last frame that was read
	entries   int   // records in the frames that were read
	offset    int64 // where the content of that frame begins
	content   []byte
}

// openFrames reads the first line of a dump. Nothing is decrypted yet.
func openFrames(r io.Reader) (f *frames, info Info, err error) {
	f = &frames{from: bufio.NewReaderSize(r, 64<<10), at: place{number: -1}}
	info, line, err := readLine(f.from)
	f.encrypted, f.offset, f.sealer = info.Encrypted(), int64(len(line)), newSealer(line)
	return f, info, err
}

// next reads the next frame. It returns the End after the last one.
func (f *frames) next() (end *End, err error) {
	f.offset += int64(len(f.content)) + headSize
	var head [headSize]byte
	if _, err := io.ReadFull(f.from, head[:]); err != nil {
		return nil, truncated(err)
	}
	length := int(binary.BigEndian.Uint32(head[:]))
	f.at = place{f.at.number + 1, int(binary.BigEndian.Uint32(head[4:]))}
	if length > maxChunk || f.at.records == 0 && length > maxInfo || f.at.records > maxChunk {
		return nil, errChanged
	}
	if cap(f.content) < length {
		f.content = make([]byte, length)
	}
	f.content = f.content[:length]
	if _, err := io.ReadFull(f.from, f.content); err != nil {
		return nil, truncated(err)
	}
	if f.sealer.checksum(f.at, f.content) != binary.BigEndian.Uint32(head[8:]) {
		return nil, errChanged
	}
	f.entries += f.at.records
	if f.at.records > 0 {
		return nil, nil
	}
	last, err := f.sealer.openLast(f.at, f.content, f.encrypted)
	if err == nil && last.Entries != f.entries {
		err = broken("it holds %d records, not the %d of its end", f.entries, last.Entries)
	}
	if err != nil {
		return nil, err
	}
	switch _, err := f.from.ReadByte(); {
	case err == nil:
		return nil, broken("something follows its end")
	case !errors.Is(err, io.EOF):
		return nil, err
	}
	return &last, nil
}

// Follow reads a whole dump without its key. It finds out whether the dump was damaged, cut
// short or rearranged, by its checksums. An error about the dump has ErrUnusable in its chain.
// progress is called after each frame with the number of records that were read so far, and of
// about how many.
func Follow(r io.Reader, progress func(records, about int)) (Info, End, error) {
	f, info, err := openFrames(r)
	if err != nil {
		return info, End{}, err
	}
	for {
		end, err := f.next()
		if err != nil {
			return info, End{}, err
		}
		if end != nil {
			return info, *end, nil
		}
		progress(f.entries, max(f.entries, info.Records))
	}
}

// Reader reads the records of a dump. It is not safe for concurrent use.
type Reader struct {
	Info Info
	// Key and Record are those that Next found. The caller may keep them.
	Key    records.Key
	Record []byte
	// End is set when Next has returned false without an error.
	End End
	// Err is the error that ended Next. About the dump it has ErrUnusable in its chain.
	Err error

	frames  *frames
	decoder *zstd.Decoder
	summary Summary
	chunk   chunk
	left    int         // records in the chunk
	each    func(chunk) // is called with every chunk, if it is not nil
}

// NewReader reads the first line of a dump and returns a Reader of the rest. key is nil for one
// that is not encrypted. Such a dump is an error with any other key, unless the key is optional.
// An error about the dump has ErrUnusable in its chain.
func NewReader(r io.Reader, key []byte, optional bool) (*Reader, error) {
	f, info, err := openFrames(r)
	if err != nil {
		return nil, err
	}
	if optional && !info.Encrypted() {
		key = nil
	}
	if err := f.sealer.unlock(info, key); err != nil {
		return nil, err
	}
	decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxChunk))
	return &Reader{Info: info, frames: f, decoder: decoder}, err
}

// Next moves to the next record. It returns false at an error, and at the end of a dump that is
// whole.
func (r *Reader) Next() bool {
	if r.Err == nil && r.left == 0 {
		if ended := r.fill(); ended {
			return false
		}
	}
	if r.Err == nil {
		r.Err = r.parse()
	}
	return r.Err == nil
}

// fill reads the next frame with records. It returns true at the end.
func (r *Reader) fill() (ended bool) {
	f := r.frames
	end, err := f.next()
	if err != nil {
		r.Err = err
		return false
	}
	if end != nil {
		r.End = *end
		r.Err = r.End.Check(&r.summary)
		return r.Err == nil
	}
	at := chunk{place: f.at, offset: f.offset, length: len(f.content)}
	at.rest, r.Err = decode(f.sealer, r.decoder, f.at, f.content)
	r.chunk, r.left = at, f.at.records
	return false
}

// decode returns the records of a frame with this content, which it overwrites.
func decode(s *sealer, decoder *zstd.Decoder, at place, content []byte) ([]byte, error) {
	compressed, err := s.open(at, content)
	if err != nil {
		return nil, err
	}
	decoded, err := decoder.DecodeAll(compressed, nil)
	if err != nil {
		return nil, errChanged
	}
	return decoded, nil
}

// chunk is where the records of a frame are, and those that were not read yet.
type chunk struct {
	place  place
	first  records.Key
	offset int64 // of the frame's content in the dump
	length int   // of that content
	rest   []byte
}

// next cuts the next record off the rest.
func (c *chunk) next() (k records.Key, record []byte, err error) {
	k, rest, err1 := cut(c.rest)
	record, rest, err2 := cut(rest)
	if err1 != nil || err2 != nil {
		return nil, nil, errChanged
	}
	c.rest = rest
	return k, record, nil
}

// cut returns the bytes behind their length, and the rest.
func cut(from []byte) (b, rest []byte, err error) {
	n, rest, err := records.CutNumber(from)
	if err != nil || n > uint64(len(rest)) {
		return nil, nil, errChanged
	}
	return rest[:n:n], rest[n:], nil
}

// parse reads the next record of the chunk.
func (r *Reader) parse() error {
	isFirst := r.left == r.chunk.place.records
	k, record, err := r.chunk.next()
	switch r.left--; {
	case err != nil:
		return err
	case !k.Valid() || k.Kind() == records.KindSequence || bytes.Compare(k, r.Key) <= 0 || len(record) > records.MaxRecord || r.left == 0 && len(r.chunk.rest) > 0:
		return broken("a record is not that of a backup")
	}
	if _, err := records.Unseal(k, record); err != nil {
		return broken("%w", err)
	}
	r.Key, r.Record = k, record
	r.summary.Add(k, record)
	if isFirst && r.each != nil {
		at := r.chunk
		at.first, at.rest = bytes.Clone(k), nil // k would keep all of the chunk in memory
		r.each(at)
	}
	return nil
}
