package badger

import (
	"bufio"
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/caddy-presets/caddy-presets/domain"
)

// A backup is
//
//	caddy-presets backup 1          a line: what it is, and the version of this format
//	{"kind":"full",…}               a line: the JSON of a BackupInfo
//	<length> <sealed chunk>         any number of them
//	0 <length> {"entries":…} <seal> the JSON of a BackupEnd
//
// Lengths are 4 bytes, big endian. A chunk is entries, one behind the other,
// compressed with zstd. An entry is
//
//	1 <key> <expiry> <record>       a record as it is stored; the expiry is in Unix seconds, 0 for never
//	2 <key>                         in an incremental backup: the record is the one that the base has
//
// in the order of the keys, of which none comes twice. The expiry and the lengths of
// keys and records, before them, are unsigned varints. What is not listed was not in
// the store.
//
// Chunks of an encrypted backup are sealed with AES-256-GCM, under a key that is
// derived from the store's and the salt in the first lines. The nonce is the chunk's
// number. The additional data are the SHA-256 of the first two lines, that number and
// a byte that is 1 for the end, whose JSON follows it. Other chunks are followed by
// the SHA-256 of the same data and the chunk. So no chunk can be changed, left out,
// moved or taken from another backup, and neither can the lines before them or the
// end.
const (
	backupFormat = 1
	backupMagic  = "caddy-presets backup "

	// maxInfo bounds the lines before the chunks and the JSON of the end, in bytes.
	maxInfo = 4 << 10

	// chunkSize is what a chunk holds, or one entry less than that much more.
	chunkSize = 1 << 20
	// maxChunk bounds a chunk before and after its compression, in bytes.
	maxChunk = 2*chunkSize + maxRecord

	entryRecord    = 1
	entryUnchanged = 2
)

// ErrNotRestorable is in the chain of every error about a backup that cannot be
// read, was cut short or changed, needs another key or does not continue the one
// before it.
var ErrNotRestorable = errors.New("the backup cannot be used")

func notRestorable(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrNotRestorable, fmt.Errorf(format, args...))
}

// BackupKind is what a backup holds.
type BackupKind string

// What a backup holds: all of a store, or what is new since an earlier backup.
const (
	FullBackup        BackupKind = "full"
	IncrementalBackup BackupKind = "incremental"
)

// BackupState is a moment in the life of a store.
type BackupState struct {
	// Commit is the number of the last commit.
	Commit uint64 `json:"commit"`
	// Version is Badger's: what was written later has a higher one.
	Version uint64 `json:"version"`
}

// BackupInfo is what a backup says at its beginning, in plain text. It holds no
// content and no secret.
type BackupInfo struct {
	Kind BackupKind `json:"kind"`
	// Store is the id of the store that it was made of, and Format the format of
	// its records.
	Store  string `json:"store"`
	Format int    `json:"store_format"`
	// State is the moment that the backup shows.
	State BackupState `json:"state"`
	// Base is the state of the backup that an incremental one continues, and else
	// nil.
	Base *BackupState `json:"base,omitempty"`
	// Audit is the end of the audit trail, by which the store knows its own past.
	Audit domain.AuditHead `json:"audit"`
	// Unsettled tells that the last commit may be gone when the store is opened
	// again, after a failed write: no incremental backup can continue this one.
	Unsettled bool      `json:"unsettled,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	// Salt and KeyCheck are set in an encrypted backup: 32 random bytes that make
	// its key different from all others, and bytes that only that key leads to.
	Salt     []byte `json:"salt,omitempty"`
	KeyCheck []byte `json:"key_check,omitempty"`
}

// BackupEnd is what a backup says at its end, in plain text.
type BackupEnd struct {
	// Entries is the number of keys in it.
	Entries int `json:"entries"`
	// Records and Digest are of the state that the backup, restored on top of those
	// before it, leads to: see Store.Digest.
	Records int    `json:"records"`
	Digest  string `json:"digest"`
}

// Encrypted reports whether the backup's content is encrypted.
func (i BackupInfo) Encrypted() bool { return i.Salt != nil }

// overhead is how much longer a chunk is once it is sealed.
func (i BackupInfo) overhead() int {
	if i.Encrypted() {
		return 16 // of AES-GCM
	}
	return sha256.Size
}

// check fails if no backup says this of itself.
func (i BackupInfo) check() error {
	switch {
	case i.Store == "", i.Format < 1, i.CreatedAt.IsZero(),
		i.Kind != FullBackup && i.Kind != IncrementalBackup,
		(i.Base != nil) != (i.Kind == IncrementalBackup),
		(i.Salt == nil) != (i.KeyCheck == nil):
		return notRestorable("its first lines are not those of a backup")
	case i.Format > storeFormat:
		return notRestorable("it is of a store of format %d and needs a newer version of this module, which reads formats up to %d", i.Format, storeFormat)
	case i.Base != nil && (i.Base.Commit > i.State.Commit || i.Base.Version > i.State.Version):
		return notRestorable("it is older than the one that it continues")
	default:
		return nil
	}
}

// ParseBackupInfo reads the JSON of a BackupInfo, as it stands in the second line of
// a backup. An error is about what is wrong with it, and in the chain of it is
// ErrNotRestorable.
func ParseBackupInfo(text []byte) (info BackupInfo, err error) {
	if err := json.Unmarshal(text, &info); err != nil {
		return BackupInfo{}, notRestorable("its first lines are damaged")
	}
	return info, info.check()
}

// readInfo reads the first lines of a backup. It returns them, too.
func readInfo(r *bufio.Reader) (info BackupInfo, lines []byte, err error) {
	if begin, _ := r.Peek(len(backupMagic)); !strings.HasPrefix(backupMagic, string(begin)) {
		return info, nil, notRestorable("it is no backup of presets")
	}
	first, err := readLine(r)
	if err != nil {
		return info, nil, err
	}
	version := first[len(backupMagic):]
	switch version, err := strconv.Atoi(string(bytes.TrimSuffix(version, []byte("\n")))); {
	case err != nil || version < 1:
		return info, nil, notRestorable("its first lines are damaged")
	case version > backupFormat:
		return info, nil, notRestorable("it has version %d of the format and needs a newer version of this module, which reads versions up to %d", version, backupFormat)
	}
	second, err := readLine(r)
	if err != nil {
		return info, nil, err
	}
	info, err = ParseBackupInfo(second)
	return info, append(first, second...), err
}

func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	switch {
	case err == nil && len(line) <= maxInfo:
		return bytes.Clone(line), nil
	case err == nil || errors.Is(err, bufio.ErrBufferFull):
		return nil, notRestorable("its first lines are damaged")
	default:
		return nil, cut(err)
	}
}

// cut makes a plain word of the end of a file where it should go on.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return notRestorable("it was cut short")
	}
	return err
}

// sealer seals chunks, one after another, or unseals them.
type sealer struct {
	aead   cipher.AEAD // nil in a backup that is not encrypted
	lines  [sha256.Size]byte
	number uint64
}

// newSalt prepares info for an encrypted backup of a store with a key.
func (i *BackupInfo) newSalt(key []byte) (err error) {
	i.Salt = make([]byte, 32)
	rand.Read(i.Salt) // it never fails
	i.KeyCheck, err = hkdf.Key(sha256.New, key, i.Salt, "caddy-presets backup 1 check", 16)
	return err
}

// newSealer returns the sealer of a backup whose first lines are given. An encrypted
// one needs its store's key.
func newSealer(info BackupInfo, lines, key []byte) (*sealer, error) {
	s := &sealer{lines: sha256.Sum256(lines)}
	if !info.Encrypted() {
		return s, nil
	}
	if len(key) == 0 {
		return nil, notRestorable("it is encrypted, and needs the key of the store that it was made of")
	}
	check, err := hkdf.Key(sha256.New, key, info.Salt, "caddy-presets backup 1 check", 16)
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare(check, info.KeyCheck) != 1 {
		return nil, notRestorable("the key is not the one that it was encrypted with, or its first lines are damaged")
	}
	derived, err := hkdf.Key(sha256.New, key, info.Salt, "caddy-presets backup 1 chunks", KeySize)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(derived)
	if err != nil {
		return nil, err
	}
	s.aead, err = cipher.NewGCM(block)
	return s, err
}

// bound returns what the next chunk is bound to.
func (s *sealer) bound(end bool, clear []byte) []byte {
	b := append(make([]byte, 0, len(s.lines)+9+len(clear)), s.lines[:]...)
	b = binary.BigEndian.AppendUint64(b, s.number)
	b = append(b, 0)
	if end {
		b[len(b)-1] = 1
	}
	return append(b, clear...)
}

func (s *sealer) nonce() []byte {
	return binary.BigEndian.AppendUint64(make([]byte, s.aead.NonceSize()-8, s.aead.NonceSize()), s.number)
}

// seal appends the sealed chunk to b. clear is part of the end, which is not in it.
func (s *sealer) seal(b, chunk []byte, end bool, clear []byte) []byte {
	defer func() { s.number++ }()
	bound := s.bound(end, clear)
	if s.aead != nil {
		return s.aead.Seal(b, s.nonce(), chunk, bound)
	}
	b = append(b, chunk...)
	sum := sha256.Sum256(append(bound, chunk...))
	return append(b, sum[:]...)
}

// unseal returns the chunk, which takes the place of the sealed one.
func (s *sealer) unseal(sealed []byte, end bool, clear []byte) (chunk []byte, err error) {
	defer func() { s.number++ }()
	bound := s.bound(end, clear)
	if s.aead != nil {
		chunk, err = s.aead.Open(sealed[:0], s.nonce(), sealed, bound)
	} else {
		var sum []byte
		chunk, sum = sealed[:len(sealed)-sha256.Size], sealed[len(sealed)-sha256.Size:]
		if sha256.Sum256(append(bound, chunk...)) != [sha256.Size]byte(sum) {
			err = errors.New("wrong checksum")
		}
	}
	if err != nil {
		return nil, notRestorable("it was changed or damaged")
	}
	return chunk, nil
}

// backupWriter writes a backup. It needs a few MiB.
type backupWriter struct {
	to      io.Writer
	sealer  *sealer
	encoder *zstd.Encoder
	entries int

	// These are reused: what the next chunk is made of, and what becomes of it.
	chunk, compressed, out []byte
}

// newBackupWriter writes the first lines of a backup.
func newBackupWriter(to io.Writer, info BackupInfo, key []byte) (*backupWriter, error) {
	text, err := json.Marshal(info)
	if err != nil {
		return nil, err
	}
	lines := append(fmt.Appendf(nil, "%s%d\n%s", backupMagic, backupFormat, text), '\n')
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

// record adds a record.
func (w *backupWriter) record(k key, expires uint64, record []byte) error {
	w.begin(entryRecord, k)
	w.chunk = binary.AppendUvarint(w.chunk, expires)
	w.chunk = binary.AppendUvarint(w.chunk, uint64(len(record)))
	w.chunk = append(w.chunk, record...)
	return w.flushAt(chunkSize)
}

// unchanged adds a key whose record is that of the base.
func (w *backupWriter) unchanged(k key) error {
	w.begin(entryUnchanged, k)
	return w.flushAt(chunkSize)
}

func (w *backupWriter) begin(as byte, k key) {
	w.entries++
	w.chunk = append(w.chunk, as)
	w.chunk = binary.AppendUvarint(w.chunk, uint64(len(k)))
	w.chunk = append(w.chunk, k...)
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

// frames reads the chunks of a backup, still sealed.
type frames struct {
	from     *bufio.Reader
	overhead int // of a sealed chunk
	buffer   []byte
}

// next returns the next sealed chunk or, after the last one, the text of the end and
// its seal. Neither is good for longer than until the next call.
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
			return nil, nil, notRestorable("it was changed or damaged")
		}
		whole := make([]byte, length+f.overhead)
		if _, err := io.ReadFull(f.from, whole); err != nil {
			return nil, nil, cut(err)
		}
		switch _, err := f.from.ReadByte(); {
		case err == nil:
			return nil, nil, notRestorable("something follows its end")
		case !errors.Is(err, io.EOF):
			return nil, nil, err
		}
		return whole[length:], whole[:length], nil
	}
	if length <= f.overhead || length > maxChunk {
		return nil, nil, notRestorable("it was changed or damaged")
	}
	if cap(f.buffer) < length {
		f.buffer = make([]byte, length)
	}
	sealed = f.buffer[:length]
	if _, err := io.ReadFull(f.from, sealed); err != nil {
		return nil, nil, cut(err)
	}
	return sealed, nil, nil
}

func (f *frames) length() (int, error) {
	var b [4]byte
	if _, err := io.ReadFull(f.from, b[:]); err != nil {
		return 0, cut(err)
	}
	return int(binary.BigEndian.Uint32(b[:])), nil
}

// parseEnd reads the JSON of the end.
func parseEnd(text []byte) (e BackupEnd, err error) {
	if err := json.Unmarshal(text, &e); err != nil {
		return e, notRestorable("it was changed or damaged")
	}
	return e, nil
}

// ReadBackupInfo returns what a backup says of itself at its beginning, of which it
// reads some more. In the chain of an error about the backup is ErrNotRestorable.
func ReadBackupInfo(r io.Reader) (BackupInfo, error) {
	info, _, err := readInfo(bufio.NewReaderSize(r, 2*maxInfo))
	return info, err
}

// CheckBackup reads a whole backup, for which it needs no key. It finds one that was
// cut short or goes on behind its end, and one that was changed or damaged unless it
// is encrypted: that only Restore finds. In the chain of an error about the backup is
// ErrNotRestorable.
func CheckBackup(r io.Reader) (info BackupInfo, end BackupEnd, err error) {
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
		for b.next() {
		}
		return info, b.end, b.err
	}
	f := &frames{from: from, overhead: info.overhead()}
	for {
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
	before  key    // of the entry before
	entries int

	// What next found. key and record stay as they are; record is nil for one that
	// is unchanged.
	key     key
	expires uint64
	record  []byte
	// end is set, and complete, once next has returned false without an error.
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

// openBackup returns a reader of a backup, whose first lines it reads. An encrypted
// one needs its store's key.
func openBackup(r io.Reader, key []byte) (*backupReader, error) {
	from := bufio.NewReaderSize(r, 64<<10)
	info, lines, err := readInfo(from)
	if err != nil {
		return nil, err
	}
	return newBackupReader(info, lines, from, key)
}

// next moves to the next entry. It returns false at the end, of which all has been
// checked then, and at an error.
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
			b.err = notRestorable("it holds %d entries, not the %d of its end", b.entries, b.end.Entries)
		}
		return b.err == nil
	}
	if b.rest, err = b.decoder.DecodeAll(chunk, nil); err != nil {
		b.err = notRestorable("it was changed or damaged")
	}
	return false
}

// parse takes an entry off the chunk.
func (b *backupReader) parse() error {
	as := b.rest[0]
	name, rest, ok := cutBytes(b.rest[1:])
	if !ok || len(name) < 2 || name[0] != keyVersion || bytes.Compare(name, b.before) <= 0 ||
		as != entryRecord && (as != entryUnchanged || b.info.Kind != IncrementalBackup) {
		return notRestorable("entry %d is none of a backup", b.entries+1)
	}
	b.key, b.before, b.expires, b.record = name, name, 0, nil
	if as == entryRecord {
		expires, more, err := cutNumber(rest)
		if err != nil {
			return notRestorable("entry %d is none of a backup", b.entries+1)
		}
		b.expires = expires
		if b.record, rest, ok = cutBytes(more); !ok || len(b.record) > maxRecord {
			return notRestorable("entry %d is none of a backup", b.entries+1)
		}
		if _, err := unseal(b.key, b.record); err != nil {
			return notRestorable("%w", err)
		}
	}
	b.rest = rest
	b.entries++
	return nil
}

// cutBytes returns as many bytes as the unsigned varint before them says, and what
// comes behind them.
func cutBytes(from []byte) (b, rest []byte, ok bool) {
	n, rest, err := cutNumber(from)
	if err != nil || n > uint64(len(rest)) {
		return nil, nil, false
	}
	return rest[:n:n], rest[n:], true
}
