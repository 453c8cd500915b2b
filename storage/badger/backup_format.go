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

	"github.com/caddy-presets/caddy-presets/storage/records"
)

// A backup is
//
//	caddy-presets backup 1          a line: what it is, and the version of this format
//	{"store_format":1,…}            a line: the JSON of a BackupInfo
//	<length> <sealed chunk>         any number of them
//	0 <length> {"entries":…} <seal> the JSON of a BackupEnd
//
// Lengths are 4 bytes, big endian. A chunk is a sequence of entries, compressed with
// zstd. An entry is a record as it is stored:
//
//	<length> <key> <expiry> <length> <record>
//
// Entries are in the order of their keys, and no key comes twice. Lengths and the expiry
// are unsigned varints. The expiry is in Unix seconds, 0 for never.
//
// An encrypted backup seals its chunks with AES-256-GCM. The key is derived from the
// store's key and the salt in the first lines. The nonce is the chunk's number. The
// additional data are the SHA-256 of the first two lines, the number and one byte. The byte
// is 1 for the end, and the end's JSON follows it. In other backups the SHA-256 of the same
// data and the chunk follows each chunk. So a reader finds a chunk that was changed, left
// out, moved or taken from another backup. It also finds a change of the lines or the end.
const (
	backupFormat = 1

	// BackupMagic has the first bytes of every backup, in all versions of the format.
	BackupMagic = "caddy-presets backup "

	// maxInfo bounds the lines before the chunks and the JSON of the end, in bytes.
	maxInfo = 4 << 10

	// chunkSize is the size from which a chunk is written, before compression.
	chunkSize = 1 << 20
	// maxChunk bounds a chunk before and after its compression, in bytes.
	maxChunk = 2*chunkSize + records.MaxRecord
)

// ErrNotRestorable is in the chain of every error about an unusable backup. It cannot be
// read, was cut short or changed, or needs another key.
var ErrNotRestorable = errors.New("the backup cannot be used")

func notRestorable(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrNotRestorable, fmt.Errorf(format, args...))
}

// broken returns an error about a backup that was changed, cut short or damaged. It has
// ErrNotRestorable and ErrDamaged in its chain.
func broken(format string, args ...any) error {
	return &brokenError{fmt.Errorf(format, args...)}
}

type brokenError struct{ reason error }

func (e *brokenError) Error() string { return ErrNotRestorable.Error() + ": " + e.reason.Error() }

func (e *brokenError) Unwrap() []error { return []error{ErrNotRestorable, ErrDamaged, e.reason} }

// BackupInfo is the description at the beginning of a backup, in plain text. It holds no
// content and no secret.
type BackupInfo struct {
	// Format is the format of the records.
	Format int `json:"store_format"`
	// Commit is the number of the last commit in the backup.
	Commit    uint64    `json:"commit"`
	CreatedAt time.Time `json:"created_at"`
	// Size is the length of all chunks before their compression, in bytes. Answers that
	// expire while the backup is made are not in it.
	Size int64 `json:"size"`
	// Salt and KeyCheck are set in an encrypted backup. The salt is 32 random bytes
	// and makes the backup's key unique. KeyCheck tells whether a key is the right one.
	Salt     []byte `json:"salt,omitempty"`
	KeyCheck []byte `json:"key_check,omitempty"`
}

// BackupEnd is the summary at the end of a backup, in plain text.
type BackupEnd struct {
	// Entries is the number of records in it, with those that expire.
	Entries int `json:"entries"`
	// Records and Digest describe the store without the records that expire. The
	// digest is "sha256:" and a SHA-256 in hexadecimal.
	Records int    `json:"records"`
	Digest  string `json:"digest"`
}

// Encrypted reports whether the backup's content is encrypted.
func (i BackupInfo) Encrypted() bool { return i.Salt != nil }

// checkEncrypted fails if a key was named for a backup that is not encrypted.
func (i BackupInfo) checkEncrypted(key []byte) error {
	if len(key) > 0 && !i.Encrypted() {
		return notRestorable("it is not encrypted, but a key was named for it")
	}
	return nil
}

// checkCommit fails if a commit is not the last one of the backup.
func (i BackupInfo) checkCommit(commit uint64) error {
	if commit != i.Commit {
		return broken("its last commit is number %d, not %d", commit, i.Commit)
	}
	return nil
}

// check fails if the records of the backup are others than those in d.
func (e BackupEnd) check(d *digest) error {
	if text := d.text(); text != e.Digest || d.records != e.Records {
		return broken("it leads to %d records with the digest %s, not to %d with %s", d.records, text, e.Records, e.Digest)
	}
	return nil
}

// overhead is the number of bytes that sealing adds to a chunk.
func (i BackupInfo) overhead() int {
	if i.Encrypted() {
		return 16 // of AES-GCM
	}
	return sha256.Size
}

// check fails if this is not the info of a backup that can be read.
func (i BackupInfo) check() error {
	switch {
	case i.Format < 1, i.CreatedAt.IsZero(), (i.Salt == nil) != (i.KeyCheck == nil):
		return broken("its first lines are not those of a backup")
	case i.Format > storeFormat:
		return notRestorable("it is of a store of format %d and needs a newer version of this module, which reads formats up to %d", i.Format, storeFormat)
	default:
		return nil
	}
}

// ReadBackupInfo reads the description at the beginning of a backup. It reads no record and
// checks nothing else. An error about the backup has ErrNotRestorable in its chain.
func ReadBackupInfo(r io.Reader) (BackupInfo, error) {
	info, _, err := readInfo(bufio.NewReaderSize(r, maxInfo))
	return info, err
}

// readInfo reads the first lines of a backup, and returns them too.
func readInfo(r *bufio.Reader) (info BackupInfo, lines []byte, err error) {
	switch begin, err := r.Peek(len(BackupMagic)); {
	case err != nil && !errors.Is(err, io.EOF):
		return info, nil, err // the next read would not repeat it
	case !strings.HasPrefix(BackupMagic, string(begin)):
		return info, nil, notRestorable("it is no backup of presets")
	}
	first, err := readLine(r)
	if err != nil {
		return info, nil, err
	}
	version := first[len(BackupMagic):]
	switch version, err := strconv.Atoi(string(bytes.TrimSuffix(version, []byte("\n")))); {
	case err != nil || version < 1:
		return info, nil, broken("its first lines are damaged")
	case version > backupFormat:
		return info, nil, notRestorable("it has version %d of the format and needs a newer version of this module, which reads versions up to %d", version, backupFormat)
	}
	second, err := readLine(r)
	if err != nil {
		return info, nil, err
	}
	if json.Unmarshal(second, &info) != nil {
		return info, nil, broken("its first lines are damaged")
	}
	return info, append(first, second...), info.check()
}

func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	switch {
	case err == nil && len(line) <= maxInfo:
		return bytes.Clone(line), nil
	case err == nil || errors.Is(err, bufio.ErrBufferFull):
		return nil, broken("its first lines are damaged")
	default:
		return nil, truncated(err)
	}
}

// truncated explains the end of a file within a backup.
func truncated(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return broken("it was cut short")
	}
	return err
}
