package records

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
)

// usageKey has the fields of the key of a row of usage.
type usageKey struct {
	workspace, preset uuid.UUID // the preset is zero for requests without one
	day               bool
	hour              uint64 // since 1970
	node              uuid.UUID
}

const secondsOfHour = 3600

// newUsageKey returns the fields of a key. They are not ok if there is no such key.
func newUsageKey(id domain.UsageID, node string) (k usageKey, ok bool) {
	workspace, ok1 := parseID(id.WorkspaceID)
	preset, ok2 := parseID(cmp.Or(id.PresetID, uuid.Nil.String()))
	writer, ok3 := parseID(node)
	start := id.Start.Unix()
	k = usageKey{workspace, preset, id.Day, uint64(start / secondsOfHour), writer}
	return k, ok1 && ok2 && ok3 && start >= 0 && start%secondsOfHour == 0 && (!id.Day || k.hour%24 == 0)
}

// key returns the key of the record.
func (k usageKey) key() Key {
	return append(k.from(k.hour), k.node[:]...)
}

// from returns the lowest key of the same workspace, preset and step that starts at an hour.
func (k usageKey) from(hour uint64) Key {
	step := byte('h')
	if k.day {
		step = 'd'
	}
	return binary.BigEndian.AppendUint64(append(k.ofPreset(), step), hour)
}

// ofPreset returns the prefix of the keys of the same workspace and preset.
func (k usageKey) ofPreset() Key {
	key := append(newKey(KindUsage, 3*len(k.workspace)+1+8), k.workspace[:]...)
	return append(key, k.preset[:]...)
}

// cutUsageKey is the inverse of key.
func cutUsageKey(key Key) (k usageKey, ok bool) {
	const id = len(uuid.UUID{})
	if len(key) != 2+3*id+1+8 {
		return k, false
	}
	fields := key[2:]
	copy(k.workspace[:], fields)
	copy(k.preset[:], fields[id:])
	fields = fields[2*id:]
	k.day = fields[0] == 'd'
	k.hour = binary.BigEndian.Uint64(fields[1:])
	copy(k.node[:], fields[9:])
	return k, (k.day || fields[0] == 'h') && k.hour <= math.MaxInt64/secondsOfHour && (!k.day || k.hour%24 == 0)
}

// row returns the row of a key, without its content.
func (k usageKey) row() domain.UsageRow {
	r := domain.UsageRow{Node: k.node.String()}
	r.WorkspaceID, r.Day, r.Start = k.workspace.String(), k.day, time.Unix(int64(k.hour)*secondsOfHour, 0).UTC()
	if k.preset != uuid.Nil {
		r.PresetID = k.preset.String()
	}
	return r
}

// Usage implements domain.Reader.
func (r *Reader) Usage(id domain.UsageID, node string) ([]byte, error) {
	k, ok := newUsageKey(id, node)
	if !ok {
		return nil, domain.ErrNotFound
	}
	return load(r, k.key(), decodeBytes)
}

// UsageRows implements domain.Reader. It sees the writes that were staged when the iteration
// began.
func (r *Reader) UsageRows(of domain.UsageRange) iter.Seq2[domain.UsageRow, error] {
	prefix := KindUsage.Prefix()
	if of.WorkspaceID != "" {
		only, ok := parseID(of.WorkspaceID)
		prefix = append(prefix, only[:]...)
		if of.PresetID != nil && ok {
			only, ok = parseID(cmp.Or(*of.PresetID, uuid.Nil.String()))
			prefix = append(prefix, only[:]...)
		}
		if !ok {
			prefix = nil
		}
	}
	from, to := hourFrom(of.From), hourFrom(of.To)
	wanted := func(at Key) (next Key) {
		k, ok := cutUsageKey(at)
		switch {
		case !ok:
			return nil // its decoding fails
		case k.day == of.Day && from <= k.hour && k.hour < to:
			return nil
		}
		k.day = of.Day
		if next := k.from(from); bytes.Compare(next, at) > 0 {
			return next
		}
		return append(k.ofPreset(), 0xff) // behind the last step of the preset
	}
	decode := func(c *cursor) (row domain.UsageRow, err error) {
		k, ok := cutUsageKey(c.key)
		if !ok {
			return row, damaged(KindUsage, "its key is not that of a row")
		}
		row = k.row()
		row.Content, err = decodeAt(c, decodeBytes)
		return row, err
	}
	return pages[domain.UsageRow]{r: r, prefix: prefix, next: prefix, wanted: wanted, decode: decode}.each
}

// hourFrom returns the first hour that does not begin before t, since 1970.
func hourFrom(t time.Time) uint64 {
	seconds := t.Unix()
	if t.Nanosecond() > 0 {
		seconds++
	}
	if seconds <= 0 {
		return 0
	}
	return (uint64(seconds) + secondsOfHour - 1) / secondsOfHour
}

// PutUsage implements domain.Tx.
func (t *Tx) PutUsage(r domain.UsageRow) error {
	k, ok := newUsageKey(r.UsageID, r.Node)
	if !ok {
		return t.refuse(KindUsage)
	}
	if len(r.Content) > domain.MaxUsageSize {
		return t.write(nil, nil, fmt.Errorf("%w: a row of usage of %d bytes", domain.ErrTooLarge, len(r.Content)))
	}
	if err := t.checkWorkspace(r.WorkspaceID); err != nil {
		return err
	}
	key := k.key()
	return t.write(key, Seal(key, r.Content), nil)
}

// checkWorkspace returns ErrNotFound without a workspace: nothing is added to one that is being
// purged. Another error fails the Tx.
func (t *Tx) checkWorkspace(id string) error {
	_, err := load(&t.Reader, WorkspaceKey(id), parseWorkspace)
	if err != nil && !errors.Is(err, domain.ErrNotFound) {
		return t.write(nil, nil, err)
	}
	return err
}

// RemoveUsage implements domain.Tx.
func (t *Tx) RemoveUsage(id domain.UsageID, node string) error {
	k, ok := newUsageKey(id, node)
	if !ok {
		return nil
	}
	return t.write(k.key(), nil, nil)
}
