package dump

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/caddy-presets/caddy-presets/storage/records"
)

// Write writes a dump of a snapshot, whose last commit has a number. key encrypts it, unless
// it is nil. Damage is an error with storage.ErrDamaged in its chain. After any error, what is
// in to cannot be used. Write ends early with the cause of ctx. It needs less than 2 MiB.
func Write(ctx context.Context, to io.Writer, s records.Snapshot, commit uint64, key []byte) error {
	about, err := records.Count(s)
	if err != nil {
		return err
	}
	w, err := NewWriter(to, Info{Commit: commit, CreatedAt: time.Now().UTC(), Records: about}, key)
	if err != nil {
		return err
	}
	err = records.EachRecord(s, func(k records.Key, record []byte) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		return w.Add(k, record)
	})
	if err != nil {
		return err
	}
	return w.Close()
}

// Copy writes a dump again, with another key, or with none for nil. progress is called now and
// then: see Follow.
func Copy(to io.Writer, from *Reader, key []byte, progress func(records, about int)) error {
	w, err := NewWriter(to, from.Info, key)
	if err != nil {
		return err
	}
	for from.Next() {
		if err := w.Add(from.Key, from.Record); err != nil {
			return err
		}
		if n := w.summary.entries; w.at.records == 0 {
			progress(n, max(n, from.Info.Records))
		}
	}
	if from.Err != nil {
		return from.Err
	}
	return w.Close()
}

// Writer writes a dump. It is not safe for concurrent use.
type Writer struct {
	to      io.Writer
	sealer  *sealer
	encoder *zstd.Encoder
	summary Summary
	at      place // of the next frame

	chunk, compressed, frame []byte // of the next frame; the buffers are reused
}

// NewWriter writes the first line of a dump, and returns a Writer of the rest. key encrypts the
// dump, unless it is nil. The salt and the KeyCheck of info are replaced.
func NewWriter(to io.Writer, info Info, key []byte) (*Writer, error) {
	info.Salt, info.KeyCheck = nil, nil
	if len(key) > 0 {
		if err := info.newSalt(key); err != nil {
			return nil, err
		}
	}
	line, err := info.line()
	if err != nil {
		return nil, err
	}
	w := &Writer{to: to, sealer: newSealer(line)}
	if err := w.sealer.unlock(info, key); err != nil {
		return nil, err
	}
	w.encoder, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, err
	}
	_, err = to.Write(line)
	return w, err
}

// Add adds a record whose key is higher than the last one's. The commit number is left out,
// because the Info has it.
func (w *Writer) Add(k records.Key, record []byte) error {
	if k.Kind() == records.KindSequence {
		return nil
	}
	w.summary.Add(k, record)
	w.chunk = append(appendLength(w.chunk, k), k...)
	w.chunk = append(appendLength(w.chunk, record), record...)
	if w.at.records++; len(w.chunk) < chunkSize {
		return nil
	}
	return w.flush()
}

// flush writes the records that were added since the last frame.
func (w *Writer) flush() error {
	if w.at.records == 0 {
		return nil
	}
	w.compressed = w.encoder.EncodeAll(w.chunk, w.compressed[:0])
	w.frame = w.sealer.frame(w.frame, w.at, w.compressed)
	w.chunk, w.at = w.chunk[:0], place{number: w.at.number + 1}
	_, err := w.to.Write(w.frame)
	return err
}

// Close writes what is left, and the End. It does not close the writer below.
func (w *Writer) Close() error {
	if err := w.flush(); err != nil {
		return err
	}
	text, err := json.Marshal(w.summary.End())
	if err != nil {
		return err
	}
	_, err = w.to.Write(w.sealer.lastFrame(w.at, text))
	return err
}
