// Package dump writes all records of a store as one stream, and reads such streams. A dump
// shows the store at one moment. It is checked, compressed, and encrypted if there is a key.
// It is the same for every engine, so a dump moves a store from one engine to another.
//
// A dump is
//
//	caddy-presets backup 1 {"commit":…}   a line: the version of this format, and the JSON of an Info
//	<frame> …                             the records
//	<frame>                               the JSON of the End
//
// A frame is a head of three numbers (4 bytes each, big endian) and a content:
//
//	<length of the content> <number of its records> <CRC-32C> <content>
//
// The content of a frame with records is compressed with zstd. Before that it is a sequence of
// records, each as the length of its key, its key, its own length, and itself. Lengths are
// unsigned varints. The records are those of package records, in the order of their keys. The
// last frame has no records. Its content is the JSON of the End, in plain text.
//
// The checksum covers the SHA-256 of the line, the number of the frame, the number of its
// records and the content. So a reader without the key finds a frame that is damaged, missing or
// in another place.
//
// In an encrypted dump each frame with records is sealed with AES-256-GCM. The key is derived
// from the store's key and the salt in the line. The nonce is the number of the frame.
// The additional data are what the checksum covers, without the content. Behind the JSON of the
// End is a seal with that JSON as additional data, too. So nobody without the key can change,
// leave out, move or add a frame.
package dump

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

const (
	// Version is the version of the format, and of the records in a dump.
	Version = 1
	// Magic begins every dump, of any version.
	Magic = "caddy-presets backup "

	// maxInfo bounds the line and the JSON of the End, in bytes.
	maxInfo = 4 << 10
	// chunkSize is the size from which a frame is written, before compression. A verification
	// reads single records, so it is small.
	chunkSize = 128 << 10
	// maxChunk bounds the content of a frame, before and after compression, in bytes.
	maxChunk = 2*chunkSize + records.MaxRecord
	// headSize is the size of a frame's head.
	headSize = 12
)

// ErrUnusable is in the chain of every error about a dump that cannot be used. It is none, was
// cut short or changed, has a newer version, or needs another key.
var ErrUnusable = errors.New("the backup cannot be used")

// ErrNotNew is in the chain of an engine's error for a store that holds something. A dump is
// restored into a new store only.
var ErrNotNew = errors.New("a backup is restored into a new store only")

func unusable(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrUnusable, fmt.Errorf(format, args...))
}

// broken returns an error about a dump that was changed, cut short or damaged. It has
// ErrUnusable and storage.ErrDamaged in its chain.
func broken(format string, args ...any) error { return &brokenError{fmt.Errorf(format, args...)} }

type brokenError struct{ reason error }

func (e *brokenError) Error() string { return ErrUnusable.Error() + ": " + e.reason.Error() }

func (e *brokenError) Unwrap() []error { return []error{ErrUnusable, storage.ErrDamaged, e.reason} }

// Info is the description at the beginning of a dump, in plain text. It holds no content and no
// secret.
type Info struct {
	// Commit is the number of the last commit in the dump.
	Commit    uint64    `json:"commit"`
	CreatedAt time.Time `json:"created_at"`
	// Records is about how many records follow.
	Records int `json:"records"`
	// Salt and KeyCheck are set in an encrypted dump. The salt is 32 random bytes, which make
	// the dump's key unique. KeyCheck tells whether a key is the right one.
	Salt     []byte `json:"salt,omitempty"`
	KeyCheck []byte `json:"key_check,omitempty"`
}

// Encrypted reports whether the records are encrypted.
func (i Info) Encrypted() bool { return i.Salt != nil }

// End is the summary at the end of a dump, in plain text.
type End struct {
	// Entries is the number of records in the dump, with those that expire.
	Entries int `json:"entries"`
	// Records and Digest describe the store without the records that expire. Stores with the
	// same Digest have the same records. It is "sha256:" and a SHA-256 in hexadecimal.
	Records int    `json:"records"`
	Digest  string `json:"digest"`
}

// Summary sums up records that are added in the order of their keys. The zero value is ready.
type Summary struct {
	hash             hash.Hash
	entries, records int
	lengths          []byte
}

// Add adds a record, unless it is the commit number, which no End counts.
func (s *Summary) Add(k records.Key, record []byte) {
	if k.Kind() == records.KindSequence {
		return
	}
	if s.entries++; k.Kind() == records.KindReplay { // it expires
		return
	}
	s.records++
	s.lengths = appendLength(appendLength(s.lengths[:0], k), record)
	h := s.sum()
	h.Write(s.lengths)
	h.Write(k)
	h.Write(record)
}

func (s *Summary) sum() hash.Hash {
	if s.hash == nil {
		s.hash = sha256.New()
	}
	return s.hash
}

func appendLength(b, of []byte) []byte { return binary.AppendUvarint(b, uint64(len(of))) }

// End returns the End of a dump of these records.
func (s *Summary) End() End {
	return End{s.entries, s.records, "sha256:" + hex.EncodeToString(s.sum().Sum(nil))}
}

// Check returns an error with ErrUnusable in its chain if the records of a dump with this end
// are others than those of s. Both are without the records that expire.
func (e End) Check(s *Summary) error {
	if is := s.End(); is.Digest != e.Digest || is.Records != e.Records {
		return broken("it leads to %d records with the digest %s, not to %d with %s", is.Records, is.Digest, e.Records, e.Digest)
	}
	return nil
}

// digestText matches the digest of an End.
var digestText = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// parseEnd reads the JSON of an End.
func parseEnd(text []byte) (e End, err error) {
	if json.Unmarshal(text, &e) != nil || !digestText.MatchString(e.Digest) {
		return e, errChanged
	}
	return e, nil
}

// line returns the first line of a dump.
func (i Info) line() ([]byte, error) {
	text, err := json.Marshal(i)
	return fmt.Appendf(nil, "%s%d %s\n", Magic, Version, text), err
}

// ReadInfo reads the description at the beginning of a dump, and checks nothing else. An error
// about the dump has ErrUnusable in its chain.
func ReadInfo(r io.Reader) (Info, error) {
	info, _, err := readLine(bufio.NewReaderSize(r, 2*maxInfo))
	return info, err
}

// readLine reads the first line of a dump, and returns it too. It is valid until r is read.
func readLine(r *bufio.Reader) (info Info, line []byte, err error) {
	line, err = r.ReadSlice('\n')
	rest, ours := strings.CutPrefix(string(line), Magic)
	switch {
	case !ours && !strings.HasPrefix(Magic, string(line)):
		return info, nil, unusable("it is no backup of presets")
	case errors.Is(err, bufio.ErrBufferFull) || len(line) > maxInfo:
		return info, nil, errChanged
	case err != nil:
		return info, nil, truncated(err)
	}
	number, text, _ := strings.Cut(rest, " ")
	switch version, err := strconv.Atoi(number); {
	case err != nil || version < 1:
		return info, nil, errChanged
	case version > Version:
		return info, nil, unusable("it has version %d of the format and needs a newer version of this module, which reads versions up to %d", version, Version)
	}
	if json.Unmarshal([]byte(text), &info) != nil || info.CreatedAt.IsZero() || (info.Salt == nil) != (info.KeyCheck == nil) {
		return info, nil, broken("its first line is not that of a backup")
	}
	return info, line, nil
}

var errChanged = broken("it was changed or damaged")

// truncated explains the end of a file within a dump.
func truncated(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return broken("it was cut short")
	}
	return err
}
