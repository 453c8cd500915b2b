package etcd

import (
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/storage/internal/records"
)

// commit is one change of what is stored, as the record of the last commit has it: its
// number, big endian, and its id. Each adds one to the number of the one before.
type commit struct {
	number   uint64
	id       uuid.UUID
	revision int64 // etcd's, at which it was made
}

// contradicts reports whether c cannot have come after another commit, or be it, as when
// the cluster was restored from a backup.
func (c commit) contradicts(before commit) bool {
	if c.number == before.number {
		return c.id != before.id
	}
	return c.number < before.number || c.revision <= before.revision
}

func encodeCommit(c commit) string {
	return string(append(binary.BigEndian.AppendUint64(nil, c.number), c.id[:]...))
}

func decodeCommit(record []byte, revision int64) (commit, error) {
	if len(record) != 8+len(uuid.UUID{}) {
		return commit{}, fmt.Errorf("%w: the record of the last commit cannot be read", records.ErrDamaged)
	}
	return commit{binary.BigEndian.Uint64(record), uuid.UUID(record[8:]), revision}, nil
}
