package records

import (
	"encoding/binary"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
)

// The history of an object is the list of the audit records that concern it, by number. It
// follows from the trail alone, and stays as the trail does. Each full block of numbers has
// a record that never changes. The end of the history counts all numbers and has those that
// fill no block yet. So a change writes one small record, and a page reads few.

// blockSize is how many numbers a block has.
const blockSize = 64

// historyEnd is the end of a history.
type historyEnd struct {
	count int      // of all numbers
	tail  []uint64 // the numbers behind the last block
}

// appendNumbers encodes ascending numbers as the differences between them.
func appendNumbers(record []byte, numbers []uint64) []byte {
	last := uint64(0)
	for _, n := range numbers {
		record = binary.AppendUvarint(record, n-last)
		last = n
	}
	return record
}

// cutNumbers decodes the ascending numbers that payload consists of.
func cutNumbers(payload []byte, count int) (numbers []uint64, err error) {
	numbers = make([]uint64, 0, blockSize)
	last := uint64(0)
	for range count {
		var step uint64
		if step, payload, err = CutNumber(payload); err != nil || step == 0 {
			return nil, errParts
		}
		last += step
		numbers = append(numbers, last)
	}
	if len(payload) > 0 {
		return nil, errLength
	}
	return numbers, nil
}

func encodeHistoryEnd(k Key, end historyEnd) []byte {
	record := newRecord((1 + len(end.tail)) * binary.MaxVarintLen32)
	return seal(k, appendNumbers(binary.AppendUvarint(record, uint64(end.count)), end.tail))
}

func decodeHistoryEnd(payload []byte) (end historyEnd, err error) {
	count, rest, err := CutNumber(payload)
	if err != nil {
		return end, err
	}
	end.count = int(count)
	end.tail, err = cutNumbers(rest, int(count%blockSize))
	return end, err
}

func decodeBlock(payload []byte) ([]uint64, error) { return cutNumbers(payload, blockSize) }

// concerned returns the ids of the objects that have a record in their history. The trail
// of an import may name objects by anything.
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
	for i, id := range concerned(a) {
		k := historyKey(id)
		var end historyEnd
		if i > 0 || !a.Begins() || !t.vacant(k) {
			var err error
			if end, err = loadOrZero(&t.Reader, k, decodeHistoryEnd); err != nil {
				return t.write(k, nil, err)
			}
		}
		end.count++
		end.tail = append(end.tail, uint64(a.Number))
		if len(end.tail) == blockSize {
			block := historyBlockKey(id, end.count/blockSize-1)
			record := seal(block, appendNumbers(newRecord(blockSize*binary.MaxVarintLen32), end.tail))
			if err := t.write(block, record, nil); err != nil {
				return err
			}
			end.tail = nil
		}
		if err := t.write(k, encodeHistoryEnd(k, end), nil); err != nil {
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
	end, err := loadOrZero(r, historyKey(object), decodeHistoryEnd)
	if err != nil {
		return nil, 0, err
	}
	from := end.count / blockSize * blockSize // the place of block's first number
	block := end.tail
	for place := end.count - 1 - page.Offset; place >= 0 && len(numbers) < page.Limit; place-- {
		if place < from || place >= from+len(block) {
			from = place / blockSize * blockSize
			if block, err = r.historyBlock(object, place/blockSize); err != nil {
				return nil, 0, err
			}
		}
		numbers = append(numbers, int(block[place-from]))
	}
	return numbers, end.count, nil
}

func (r *Reader) historyBlock(object uuid.UUID, n int) ([]uint64, error) {
	return loadExisting(r, historyBlockKey(object, n), decodeBlock)
}

// checkHistory checks the history of an object against the trail.
func (c *Checker) checkHistory(k Key, payload []byte) error {
	end, err := decodeHistoryEnd(payload)
	if err != nil || len(k) != 2+len(uuid.UUID{}) {
		return damaged(KindHistory, "its content cannot be decoded")
	}
	id := uuid.UUID(k[2:])
	last := uint64(0)
	take := func(numbers []uint64) error {
		for _, n := range numbers {
			if n <= last {
				return damaged(KindHistory, "its numbers are not in order")
			}
			last = n
			c.history += c.hashEntry(id, n)
		}
		return nil
	}
	blocks := end.count / blockSize
	c.wantBlocks += blocks
	for n := range blocks {
		block, err := c.reader.historyBlock(id, n)
		if err == nil {
			err = take(block)
		}
		if err != nil {
			return err
		}
	}
	return take(end.tail)
}

// hashEntry is the hash of an entry of a history.
func (c *Checker) hashEntry(id uuid.UUID, n uint64) uint64 {
	return c.hash(binary.BigEndian.AppendUint64(historyKey(id), n))
}
