package records

import (
	"cmp"
	"encoding/binary"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
)

// The history of an object has an entry for each audit record that concerns it, and the
// number of its entries. It follows from the trail alone, and stays as the trail does. The
// key of an entry says all, so its record is empty. The keys of the newest entries come first.

func historyKey(id uuid.UUID) Key { return KindHistory.under(id) }

// entryKey returns the key of the entry of an audit record.
func entryKey(id uuid.UUID, number int) Key {
	return binary.BigEndian.AppendUint64(KindHistoryEntry.under(id), ^uint64(number))
}

func decodeEntry(payload []byte) (struct{}, error) {
	if len(payload) > 0 {
		return struct{}{}, errLength
	}
	return struct{}{}, nil
}

// concerned returns the ids of the objects that have a record in their history.
func concerned(a domain.AuditRecord) (ids []uuid.UUID) {
	for _, text := range a.Concerns() {
		if id, ok := parseID(text); ok && (len(ids) == 0 || ids[0] != id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// putHistory adds a record of the audit trail to the histories of its objects. It guesses
// that a new preset has no history.
func (t *Tx) putHistory(a domain.AuditRecord) error {
	for _, id := range concerned(a) {
		k, entry := historyKey(id), entryKey(id, a.Number)
		n, err := loadOrZero(&t.Reader, k, decodeNumber)
		if err != nil {
			return t.write(k, nil, err)
		}
		if err := cmp.Or(t.write(k, encodeNumber(k, n+1), nil), t.write(entry, Seal(entry, nil), nil)); err != nil {
			return err
		}
	}
	return nil
}

// History implements domain.Reader.
func (r *Reader) History(id string, page domain.Page) (numbers []int, total int, err error) {
	object, ok := parseID(id)
	if !ok {
		return nil, 0, nil
	}
	n, err := loadOrZero(r, historyKey(object), decodeNumber)
	total = int(n)
	size := min(page.Limit, max(0, total-page.Offset))
	if err != nil || size == 0 {
		return nil, total, err
	}
	prefix := KindHistoryEntry.under(object)
	err = r.walk(prefix, func(c *cursor) error {
		for skip := page.Offset; c.key != nil && len(numbers) < size; c.next() {
			if skip > 0 {
				skip--
				continue
			}
			if _, err := decodeAt(c, decodeEntry); err != nil {
				return err
			}
			numbers = append(numbers, int(^binary.BigEndian.Uint64(c.key[len(prefix):])))
		}
		if len(numbers) < size {
			return errMissing(KindHistoryEntry)
		}
		return nil
	})
	return numbers, total, err
}
