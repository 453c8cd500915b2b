package records

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
)

// A record of KindServed has two varints for each version, in the order of their numbers.
// The first is the number less the one before, the second the hour.

func encodeServed(s domain.Served) []byte {
	b := make([]byte, 0, 6*len(s))
	last := 0
	for _, n := range slices.Sorted(maps.Keys(s)) {
		b = binary.AppendUvarint(b, uint64(n-last))
		b = binary.AppendUvarint(b, uint64(s[n]))
		last = n
	}
	return b
}

var errServed = errors.New("its numbers cannot be read")

func decodeServed(b []byte) (domain.Served, error) {
	all := make(domain.Served, len(b)/5)
	n := 0
	for rest := b; len(rest) > 0; {
		step, size := binary.Uvarint(rest)
		hour, more := binary.Uvarint(rest[max(size, 0):])
		if size <= 0 || more <= 0 || step == 0 || step > uint64(math.MaxInt32-n) || hour > 1<<40 {
			return nil, errServed
		}
		n += int(step)
		all[n] = int64(hour)
		rest = rest[size+more:]
	}
	if !bytes.Equal(encodeServed(all), b) {
		return nil, errServed
	}
	return all, nil
}

// Served implements domain.Reader.
func (r *Reader) Served(workspaceID, slug string) (domain.Served, error) {
	s, err := load(r, servedKey(workspaceID, slug), decodeServed)
	if errors.Is(err, domain.ErrNotFound) {
		return nil, nil
	}
	return s, err
}

// PutServed implements domain.Tx.
func (t *Tx) PutServed(workspaceID, slug string, s domain.Served) error {
	k := servedKey(workspaceID, slug)
	if k == nil {
		return t.refuse(KindServed)
	}
	if err := t.checkWorkspace(workspaceID); err != nil {
		return err
	}
	return t.write(k, Seal(k, encodeServed(s)), nil)
}

// checkServed checks a record of KindServed, whose preset must be there.
func (c *Checker) checkServed(k Key, payload []byte) error {
	if err := decodes(k, payload, decodeServed); err != nil {
		return err
	}
	name := k[2:]
	if len(name) < len(uuid.UUID{}) {
		return wrong(KindServed, "its key is not that of a preset", nil)
	}
	workspace := uuid.UUID(name[:len(uuid.UUID{})])
	if c.deleted[workspace] {
		return nil
	}
	if _, err := load(&c.reader, PresetKey(workspace.String(), string(name[len(workspace):])), parsePreset); err != nil {
		return wrong(KindServed, "its preset is not there", err)
	}
	return nil
}
