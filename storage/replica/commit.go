// Package replica is what engines share whose store several nodes share: the chain of
// commits, the part of the store that a node keeps in memory, and how long that is known to
// be current. The engine reads the store, and tells of commits in their order.
package replica

import (
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/storage"
)

// Commit is one change of what is stored. Each adds one to the number of the one before, of
// which it has the id.
type Commit struct {
	Number    uint64
	ID, After uuid.UUID
	// Removed is how many records it is known to have removed.
	Removed uint32
	// Revision is the engine's own number of the state that it made. Later states have
	// higher ones.
	Revision int64
}

// Next returns a commit to be made on top of c.
func (c Commit) Next() Commit { return Commit{Number: c.Number + 1, ID: uuid.New(), After: c.ID} }

// Follows reports whether c is the one that was made on top of another.
func (c Commit) Follows(before Commit) bool {
	return c.Number == before.Number+1 && c.After == before.ID
}

// Contradicts reports whether c cannot have come after another commit, or be it, as when
// the cluster was restored from a backup. One that is made on top of what was restored may
// have any number and revision, so there is more to look at: see Follows.
func (c Commit) Contradicts(before Commit) bool {
	if c.Number == before.Number {
		return c.ID != before.ID
	}
	return c.Number < before.Number || c.Revision <= before.Revision
}

// EncodeCommit returns the record of a commit, without its revision: number, id, that of the
// one before, and Removed. Numbers are big endian.
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
