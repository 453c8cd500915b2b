package badger

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math/bits"

	"github.com/klauspost/compress/zstd"

	"github.com/caddy-presets/caddy-presets/storage/records"
)

// backupWriter writes a backup. It needs a few MiB.
type backupWriter struct {
	to      io.Writer
	sealer  *sealer
	encoder *zstd.Encoder
	entries int

	// The next chunk, its compressed form, and the sealed form. The buffers are reused.
	chunk, compressed, out []byte
}

// newBackupWriter writes the first lines of a backup.
func newBackupWriter(to io.Writer, info BackupInfo, key []byte) (*backupWriter, error) {
	text, err := json.Marshal(info)
	if err != nil {
		return nil, err
	}
	lines := append(fmt.Appendf(nil, "%s%d\n%s", BackupMagic, backupFormat, text), '\n')
	w := &backupWriter{to: to}
	if w.sealer, err = newSealer(info, lines, key); err != nil {
		return nil, err
	}
	w.encoder, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(chunkSize), zstd.WithEncoderCRC(false))
	if err != nil {
		return nil, err
	}
	_, err = to.Write(lines)
	return w, err
}

// backupEntrySize is the length of an entry, before compression.
func backupEntrySize(key int, expires uint64, record int) int64 {
	return int64(varintSize(uint64(key)) + key + varintSize(expires) + varintSize(uint64(record)) + record)
}

// varintSize is the length of an unsigned varint: 7 bits take a byte.
func varintSize(n uint64) int { return (bits.Len64(n|1) + 6) / 7 }

// record adds a record.
func (w *backupWriter) record(k records.Key, expires uint64, record []byte) error {
	w.entries++
	w.chunk = binary.AppendUvarint(w.chunk, uint64(len(k)))
	w.chunk = append(w.chunk, k...)
	w.chunk = binary.AppendUvarint(w.chunk, expires)
	w.chunk = binary.AppendUvarint(w.chunk, uint64(len(record)))
	w.chunk = append(w.chunk, record...)
	return w.flushAt(chunkSize)
}

// flushAt writes the chunk if it has so many bytes.
func (w *backupWriter) flushAt(size int) error {
	if len(w.chunk) < size {
		return nil
	}
	w.compressed = w.encoder.EncodeAll(w.chunk, w.compressed[:0])
	w.out = w.sealer.seal(append(w.out[:0], 0, 0, 0, 0), w.compressed, false, nil)
	binary.BigEndian.PutUint32(w.out, uint32(len(w.out)-4))
	w.chunk = w.chunk[:0]
	_, err := w.to.Write(w.out)
	return err
}

// end writes what is left, and the end.
func (w *backupWriter) end(e BackupEnd) error {
	if err := w.flushAt(1); err != nil {
		return err
	}
	e.Entries = w.entries
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	w.out = binary.BigEndian.AppendUint32(append(w.out[:0], 0, 0, 0, 0), uint32(len(text)))
	w.out = append(w.out, text...)
	w.out = w.sealer.seal(w.out, nil, true, text)
	_, err = w.to.Write(w.out)
	return err
}
