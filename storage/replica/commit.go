// Package replica is for engines whose store several nodes share. It has the chain of
// commits, and the part of the store that a node keeps in memory. It also knows since when
// that part is known to be current. The engine reads the store, and reports commits in order.
package replica

import (
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/storage"
)

// Commit is one change of the store. Its number is the previous commit's number plus one.
// After is the previous commit's id.
type Commit struct {
	Number    uint64
	ID, After uuid.UUID
	// Removed is the number of records that it is known to have removed.
	Removed uint32
	// Revision is the engine's own number of the state after the commit. Later states have
	// higher numbers.
	Revision int64
}

// Next returns a commit to be made on top of c.
func (c Commit) Next() Commit { return Commit{Number: c.Number + 1, ID: uuid.New(), After: c.ID} }

// Follows reports whether c was made on top of the commit before.
func (c Commit) Follows(before Commit) bool {
	return c.Number == before.Number+1 && c.After == before.ID
}

// Contradicts reports whether c is neither the same commit as before nor a later one. Such
// commits appear when the cluster is restored from a backup. A commit on top of restored
// content may have any number and revision, so callers must check Follows, too.
func (c Commit) Contradicts(before Commit) bool {
	if c.Number == before.Number {
		return c.ID != before.ID
	}
	return c.Number < before.Number || c.Revision <= before.Revision
}

// EncodeCommit returns the record of a commit: Number, ID, After and Removed. The revision
// is not part of it. Numbers are big endian.
func EncodeCommit(c Commit) string {
	text := append(append(binary.BigEndian.AppendUint64(nil, c.Number), c.ID[:]...), c.After[:]...)
	return string(binary.BigEndian.AppendUint32(text, c.Removed))
}

// DecodeCommit returns the commit of a record that was written at a revision. The error has
// storage.ErrDamaged in its chain.
func DecodeCommit(record []byte, revision int64) (Commit, error) {
	const size = 8 + 2*len(uuid.UUID{}) + 4
	if len(record) != size {
		return Commit{}, fmt.Errorf("%w: the record of the last commit cannot be read", storage.ErrDamaged)
	}
	return Commit{
		Number: binary.BigEndian.Uint64(record), ID: uuid.UUID(record[8:24]), After: uuid.UUID(record[24:40]),
		Removed: binary.BigEndian.Uint32(record[40:]), Revision: revision,
	}, nil
}
