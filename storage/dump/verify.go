package dump

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"sort"

	"github.com/klauspost/compress/zstd"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

// Verify reads a whole dump and makes no store of it. It finds what a restore refuses. It also
// finds records that are missing, or do not agree with each other, as the check of a store does.
//
// An error about the dump has ErrUnusable in its chain. If the dump was changed, cut short or
// damaged, the error has storage.ErrDamaged, too. Other damage is in the report. key is that of
// an encrypted dump: see NewReader.
//
// Verify reads the dump twice, the second time in the order in which the records lead to each
// other. It keeps up to 64 MiB of the records in memory, and some bytes for each 128 KiB.
// progress is called often, with the records that were read and about how many there are. Then it
// is called with those that were compared.
func Verify(ctx context.Context, file io.ReaderAt, key []byte, progress func(doing string, records, about int)) (info Info, end End, report storage.Report, err error) {
	whole := func() io.Reader { return io.NewSectionReader(file, 0, math.MaxInt64) }
	if info, err = ReadInfo(whole()); err != nil {
		return info, end, report, err
	}
	from, err := NewReader(whole(), key, false)
	if err != nil {
		return info, end, report, err
	}
	s := &archive{file: file, sealer: from.frames.sealer, decoder: from.decoder}
	from.each = func(c chunk) { s.chunks = append(s.chunks, c) }
	for read := 0; from.Next(); read++ {
		if read%checkedBetweenPauses == 0 {
			progress("read", read, max(read, from.Info.Records))
			if err := ctx.Err(); err != nil {
				return info, end, report, err
			}
		}
	}
	if from.Err != nil {
		return info, end, report, from.Err
	}
	c := records.Checker{Report: &report, Pause: func() error {
		progress("compared", report.Records, from.End.Entries)
		return ctx.Err()
	}}
	err = c.Check(s)
	if s.failed != nil { // which says nothing about the records
		err = s.failed
	}
	return info, from.End, report, err
}

// checkedBetweenPauses is the number of records between two looks at the context.
const checkedBetweenPauses = 256

const (
	// maxCached bounds the records that an archive keeps in memory, in bytes.
	maxCached = 64 << 20
	// cachedChunks is how many chunks it keeps. One with large records is larger than chunkSize.
	cachedChunks = maxCached / chunkSize
)

// archive is a Snapshot of the records in a dump that was read before. It is not safe for
// concurrent use.
type archive struct {
	file    io.ReaderAt
	sealer  *sealer
	decoder *zstd.Decoder
	chunks  []chunk
	cached  [cachedChunks]struct {
		number  int
		records []byte // nil for none
	}
	size   int   // of the records in cached
	failed error // the first error of reading the file again
}

// read returns a chunk with all its records.
func (a *archive) read(n int) (chunk, error) {
	c := a.chunks[n]
	slot := &a.cached[n%cachedChunks]
	if slot.records == nil || slot.number != n {
		content := make([]byte, c.length)
		_, err := a.file.ReadAt(content, c.offset)
		var all []byte
		if err == nil {
			all, err = decode(a.sealer, a.decoder, c.place, content)
		}
		if err != nil {
			if a.failed == nil {
				a.failed = fmt.Errorf("reading the backup again: %w", err)
			}
			return c, fmt.Errorf("%w: %w", domain.ErrUnavailable, a.failed) // so that a Checker ends
		}
		if a.size += len(all) - len(slot.records); a.size > maxCached {
			clear(a.cached[:])
			a.size = len(all)
		}
		slot.number, slot.records = n, all
	}
	c.rest = slot.records
	return c, nil
}

// Get implements records.Snapshot.
func (a *archive) Get(k records.Key) ([]byte, error) {
	i := &iterator{archive: a}
	i.Seek(k)
	switch {
	case i.err != nil:
		return nil, i.err
	case !i.Valid() || !bytes.Equal(i.key, k):
		return nil, domain.ErrNotFound
	}
	return i.record, nil
}

// Iterate implements records.Snapshot.
func (a *archive) Iterate(prefix records.Key) records.Iterator {
	return &iterator{archive: a, prefix: prefix}
}

// iterator implements records.Iterator. Its zero position is not valid.
type iterator struct {
	*archive
	prefix records.Key
	number int   // of the chunk
	at     chunk // with the records behind the current one
	key    records.Key
	record []byte
	err    error
}

func (i *iterator) Seek(k records.Key) {
	if bytes.Compare(k, i.prefix) < 0 {
		k = i.prefix
	}
	after := sort.Search(len(i.chunks), func(n int) bool { return bytes.Compare(i.chunks[n].first, k) > 0 })
	i.number, i.at = max(after-1, 0)-1, chunk{}
	for i.Next(); i.key != nil && bytes.Compare(i.key, k) < 0; {
		i.Next()
	}
}

func (i *iterator) Next() {
	i.key, i.record = nil, nil
	if len(i.at.rest) == 0 {
		if i.number++; i.err != nil || i.number >= len(i.chunks) {
			return
		}
		i.at, i.err = i.read(i.number)
	}
	if i.err == nil {
		i.key, i.record, i.err = i.at.next()
	}
}

func (i *iterator) Valid() bool            { return i.key != nil && bytes.HasPrefix(i.key, i.prefix) }
func (i *iterator) Key() records.Key       { return i.key }
func (i *iterator) Value() ([]byte, error) { return i.record, nil }
func (i *iterator) Err() error             { return i.err }
func (i *iterator) Close()                 {}
