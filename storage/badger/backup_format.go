package badger

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
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
	maxChunk = 2*chunkSize + records.MaxRecord

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
