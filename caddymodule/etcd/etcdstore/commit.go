package etcdstore

import (
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/storage"
)

// commit is one change of what is stored, as the record of the last commit has it: its
// number, its id, that of the one before, and how many records it is known to have
// removed; numbers are big endian. Each adds one to the number of the one before.
type commit struct {
	number    uint64
	id, after uuid.UUID
	removed   uint32
	revision  int64 // etcd's, at which it was made
}

// next returns a commit to be made on top of c.
func (c commit) next() commit { return commit{number: c.number + 1, id: uuid.New(), after: c.id} }

// follows reports whether c is the one that was made on top of another.
func (c commit) follows(before commit) bool {
	return c.number == before.number+1 && c.after == before.id
}

// contradicts reports whether c cannot have come after another commit, or be it, as when
// the cluster was restored from a backup. One that is made on top of what was restored may
// have any number and revision, so there is more to look at: see follows.
func (c commit) contradicts(before commit) bool {
	if c.number == before.number {
		return c.id != before.id
	}
	return c.number < before.number || c.revision <= before.revision
}

func encodeCommit(c commit) string {
	text := append(append(binary.BigEndian.AppendUint64(nil, c.number), c.id[:]...), c.after[:]...)
	return string(binary.BigEndian.AppendUint32(text, c.removed))
}

func decodeCommit(record []byte, revision int64) (commit, error) {
	const size = 8 + 2*len(uuid.UUID{}) + 4
	if len(record) != size {
		return commit{}, fmt.Errorf("%w: the record of the last commit cannot be read", storage.ErrDamaged)
	}
	return commit{
		number: binary.BigEndian.Uint64(record), id: uuid.UUID(record[8:24]), after: uuid.UUID(record[24:40]),
		removed: binary.BigEndian.Uint32(record[40:]), revision: revision,
	}, nil
}
