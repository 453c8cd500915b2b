package records

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/caddy-presets/caddy-presets/domain"
)

// A list keeps objects in an order. Each object has a place, which is a number. An object
// that is added, or moved to the end, gets a higher place than any object before it. The
// object's record has its place, and the block of that place has its name.
//
// An object also has a state, which filters select by. The state of a preset is its status.
// The head of a list counts its objects by state, and a page's offset is skipped block by
// block. So a page costs a little more at a higher offset, but a change writes two blocks
// and the head at most.
//
// The value of a list is the kind of its objects and what their keys have in common.
type list []byte

// blockPlaces is the number of places of a block. A block of more would be skipped faster,
// but each change writes two of them.
const blockPlaces = 32

// spot is the place and the state of an object. The zero value is no place.
type spot struct {
	place uint64
	state byte
}

// counts are numbers of objects, by state.
type counts [len(storedStatuses)]uint64

// listHead describes a list as a whole.
type listHead struct {
	last uint64 // the highest place ever given, 0 if none was
	counts
}

// stateOf returns the state of a preset, and false for an unknown status. The state of a
// workspace is 0.
func stateOf(status domain.PresetStatus) (state byte, ok bool) {
	n := slices.Index(storedStatuses[:], status)
	return byte(n), n > 0
}

// selection is the set of states that a page shows.
type selection [len(storedStatuses)]bool

// selectionOf returns the states that a filter accepts.
func selectionOf(filter domain.PresetFilter) (s selection) {
	for state, status := range storedStatuses {
		s[state] = state > 0 && filter.Accepts(string(status))
	}
	return s
}

// count returns the sum of n over the selected states.
func (s selection) count(n counts) (sum int) {
	for state, selected := range s {
		if selected {
			sum += int(n[state])
		}
	}
	return sum
}

// workspaces is the list of all workspaces, in the order of their creation.
func workspaces() list { return list{byte(KindWorkspace)} }

// presetsOf is the list of a workspace's presets. The one that was put last comes first.
func presetsOf(workspaceID string) (list, bool) {
	id, ok := parseID(workspaceID)
	return append(list{byte(KindPreset)}, id[:]...), ok
}

// newestFirst reports whether the object with the highest place comes first.
func (l list) newestFirst() bool { return l[0] == byte(KindPreset) }

func (l list) headKey() Key { return append(newKey(KindListHead, len(l)), l...) }

// blockPrefix returns the prefix of the keys of l's blocks, with room for the number.
func (l list) blockPrefix() Key { return append(newKey(KindListBlock, len(l)+8), l...) }

// blockKey returns the key of the block of a place. The keys of the blocks are in the order
// of the list.
func (l list) blockKey(place uint64) Key {
	number := place / blockPlaces
	if l.newestFirst() {
		number = ^number
	}
	return binary.BigEndian.AppendUint64(l.blockPrefix(), number)
}

// objectKey returns the key of the object of a name, and nameOf is its inverse.
func (l list) objectKey(name []byte) Key {
	return append(append(newKey(Kind(l[0]), len(l)-1+len(name)), l[1:]...), name...)
}

func (l list) nameOf(k Key) []byte { return k[1+len(l):] }

// The head of a list has its last place and its counts, as varints. A block has its objects
// in the order of the list: the state, the length of the name (varint), and the name. An
// empty block has no record.

func encodeListHead(k Key, head listHead) []byte {
	record := binary.AppendUvarint(newRecord((1+len(head.counts))*binary.MaxVarintLen64), head.last)
	for _, n := range head.counts {
		record = binary.AppendUvarint(record, n)
	}
	return seal(k, record)
}

func decodeListHead(payload []byte) (head listHead, err error) {
	head.last, payload, err = CutNumber(payload)
	for state := range head.counts {
		if err == nil {
			head.counts[state], payload, err = CutNumber(payload)
		}
	}
	if err == nil && len(payload) > 0 {
		err = errLength
	}
	return head, err
}

// addName returns a block with one more object, the last one.
func (l list) addName(block []byte, state byte, name []byte) []byte {
	entry := append(binary.AppendUvarint([]byte{state}, uint64(len(name))), name...)
	if l.newestFirst() {
		return append(entry, block...)
	}
	return append(slices.Clip(block), entry...)
}

// cutName returns the first object of a block, and the rest of the block.
func cutName(block []byte) (state byte, name, rest []byte, err error) {
	if int(block[0]) >= len(storedStatuses) {
		return 0, nil, nil, errParts
	}
	length, rest, err := CutNumber(block[1:])
	if err != nil || length > uint64(len(rest)) {
		return 0, nil, nil, errParts
	}
	return block[0], rest[:length], rest[length:], nil
}

// removeName returns a block without an object.
func removeName(block []byte, state byte, name []byte) ([]byte, error) {
	for rest := block; len(rest) > 0; {
		before := block[:len(block)-len(rest)]
		itsState, its, after, err := cutName(rest)
		switch {
		case err != nil:
			return nil, err
		case bytes.Equal(its, name) && itsState == state:
			return slices.Concat(before, after), nil
		}
		rest = after
	}
	return nil, errParts
}

// listHead returns the head of l. A list that never had an object has no head.
func (r *Reader) listHead(l list) (listHead, error) {
	head, err := load(r, l.headKey(), decodeListHead)
	if errors.Is(err, domain.ErrNotFound) {
		err = r.walk(l.blockPrefix(), func(c *cursor) error {
			if c.key != nil {
				return errMissing(KindListHead)
			}
			return nil
		})
	}
	return head, err
}

// putLast moves the object under k from a spot to the end of l, and returns its place. An
// object at the end stays there.
func (t *Tx) putLast(l list, k Key, from spot, state byte) (uint64, error) {
	head, err := t.listHead(l)
	if err != nil {
		return 0, t.write(l.headKey(), nil, err)
	}
	if from.place > 0 && from == (spot{head.last, state}) {
		return from.place, nil
	}
	if err := t.removeFrom(l, &head, k, from); err != nil {
		return 0, err
	}
	head.last++
	head.counts[state]++
	at := l.blockKey(head.last)
	block, err := loadOrZero(&t.Reader, at, decodeBytes)
	if err != nil {
		return 0, t.write(at, nil, err)
	}
	return head.last, cmp.Or(t.write(at, Seal(at, l.addName(block, state, l.nameOf(k))), nil), t.putListHead(l, head))
}

// removeFrom removes the object under k from its spot in l, if it has one. The caller puts
// the head.
func (t *Tx) removeFrom(l list, head *listHead, k Key, from spot) error {
	if from.place == 0 {
		return nil
	}
	at := l.blockKey(from.place)
	block, err := loadExisting(&t.Reader, at, func(block []byte) ([]byte, error) { return removeName(block, from.state, l.nameOf(k)) })
	if err == nil && head.counts[from.state] == 0 {
		err = damaged(KindListHead, "it does not count an object")
	}
	head.counts[from.state]--
	if len(block) == 0 {
		return t.write(at, nil, err)
	}
	return t.write(at, Seal(at, block), err)
}

func (t *Tx) putListHead(l list, head listHead) error {
	return t.write(l.headKey(), encodeListHead(l.headKey(), head), nil)
}

// removeListed removes the object under k from l.
func (t *Tx) removeListed(l list, k Key, from spot) error {
	head, err := t.listHead(l)
	if err != nil {
		return t.write(l.headKey(), nil, err)
	}
	return cmp.Or(t.removeFrom(l, &head, k, from), t.putListHead(l, head))
}

// appendSelected appends to keys those of a block's selected objects, without the first
// skip of them. It returns how many are still to skip.
func (l list) appendSelected(keys []Key, block []byte, s selection, skip int) ([]Key, int, error) {
	for len(block) > 0 {
		state, name, rest, err := cutName(block)
		switch {
		case err != nil:
			return nil, 0, err
		case !s[state]:
		case skip > 0:
			skip--
		default:
			keys = append(keys, l.objectKey(name))
		}
		block = rest
	}
	return keys, skip, nil
}

// page returns a page of the selected objects of l as a JSON array. total is the number of
// all selected objects.
func (r *Reader) page(l list, s selection, page domain.Page) (text []byte, total int, err error) {
	head, err := r.listHead(l)
	if err != nil {
		return nil, 0, err
	}
	total = s.count(head.counts)
	size := min(page.Limit, max(0, total-page.Offset))
	if size == 0 {
		return []byte("[]"), total, nil
	}
	keys, err := r.selected(l, s, page.Offset, size)
	if err != nil {
		return nil, 0, err
	}
	if len(keys) > size && page.Offset+size == total {
		return nil, 0, damaged(KindListHead, "it does not count all objects")
	}
	keys = keys[:size]
	r.prefetch(keys)
	text = append(make([]byte, 0, len(keys)*expectedObject), '[')
	for _, k := range keys {
		_, err := r.loadListed(l, s, k, func(object []byte) []byte {
			text = append(append(text, object...), ',')
			return nil
		})
		if err != nil {
			return nil, 0, err
		}
	}
	text[len(text)-1] = ']'
	return text, total, nil
}

// expectedObject is the expected length of an object in a list, in bytes.
const expectedObject = 768

// selected returns the keys of a number of selected objects of l behind an offset, and of
// those that follow in the last one's block. It reports damage if there are fewer, because
// the head of the list counts them.
func (r *Reader) selected(l list, s selection, offset, number int) (keys []Key, err error) {
	err = r.walk(l.blockPrefix(), func(c *cursor) error {
		for ; c.key != nil; c.next() {
			_, err := decodeAt(c, func(block []byte) (_ struct{}, err error) {
				keys, offset, err = l.appendSelected(keys, block, s, offset)
				return struct{}{}, err
			})
			if err != nil || len(keys) >= number {
				return err
			}
		}
		return errMissing(KindListBlock)
	})
	return keys, err
}

// loadListed returns what take returns for the JSON of the object under k in l. It reports
// damage if the object has a state that is not selected, since l has it with another.
func (r *Reader) loadListed(l list, s selection, k Key, take func([]byte) []byte) ([]byte, error) {
	return loadExisting(r, k, func(payload []byte) ([]byte, error) {
		text, at, err := l.parse(payload)
		if err != nil || !s[at.state] {
			return nil, cmp.Or(err, errParts)
		}
		return take(text), nil
	})
}

// parse returns the JSON of an object of l, and its spot.
func (l list) parse(payload []byte) ([]byte, spot, error) {
	if l[0] == byte(KindWorkspace) {
		w, err := parseWorkspace(payload)
		return w.json, spot{place: w.place}, err
	}
	p, err := parsePreset(payload)
	return p.json, p.spot, err
}

// eachListed yields the JSON of all selected objects of l, in its order. It reports damage
// if their number is not that of the list's head.
func (r *Reader) eachListed(l list, s selection, yield func([]byte, error) bool) {
	head, err := r.listHead(l)
	total := s.count(head.counts)
	var keys []Key
	if err == nil && total > 0 {
		keys, err = r.selected(l, s, 0, total)
	}
	if err == nil && len(keys) > total {
		err = damaged(KindListHead, "it does not count what is there")
	}
	if err != nil {
		yield(nil, err)
		return
	}
	for some := range slices.Chunk(keys, blockPlaces) {
		r.prefetch(some)
		for _, k := range some {
			text, err := r.loadListed(l, s, k, bytes.Clone)
			if !yield(text, err) || err != nil {
				return
			}
		}
	}
}

// prefetch has the snapshot read the records under keys at once. It does so in a view only:
// an update runs again for each record that is not in memory.
func (r *Reader) prefetch(keys []Key) {
	if p, ok := r.snapshot.(Prefetcher); ok && r.stage == nil && len(keys) > 1 {
		p.Prefetch(keys)
	}
}
