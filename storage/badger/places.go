package badger

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"math/bits"
	"slices"

	"github.com/caddy-presets/caddy-presets/domain"
)

// A list keeps objects in an order. Each object has a place, which is a number: what
// is added or moved to the end gets a higher one than all before it, and a place
// that was left stays empty for good. An object's record has its place, and at the
// place stands the object as clients see it in a list, so that a page is read in one
// go.
//
// Three small records find the places of a page whatever its offset. A leaf has a
// bit for each of leafPlaces places, which says whether it is taken. A node counts
// the taken places of each of nodeLeaves leaves. The end of the list counts those
// of each node that has any. They change with almost every commit, so they are
// looked up and never come across: until Badger compacts its tables it has all
// their earlier states, and who goes through keys in order passes by each of those.
//
// The value is what tells the keys of one list from those of another.
type list []byte

const (
	leafBits   = 9
	leafPlaces = 1 << leafBits
	nodeBits   = 8
	nodeLeaves = 1 << nodeBits
)

// leafOf and nodeOf return which leaf and which node a place is in.
func leafOf(place uint64) uint64 { return place >> leafBits }
func nodeOf(place uint64) uint64 { return place >> (leafBits + nodeBits) }

// leaf has a bit for each of its places, the lowest bit of the first word for the
// first.
type leaf [leafPlaces / 64]uint64

// count returns how many places are taken.
func (l *leaf) count() (n int) {
	for _, word := range l {
		n += bits.OnesCount64(word)
	}
	return n
}

// set takes a place of l, or gives it up. It returns false where that is so already.
func (l *leaf) set(place uint64, taken bool) bool {
	word, bit := &l[place%leafPlaces/64], uint64(1)<<(place%64)
	if *word&bit != 0 == taken {
		return false
	}
	*word ^= bit
	return true
}

// taken returns the places that are taken, of the leaf with a number.
func (l *leaf) taken(number uint64) []uint64 {
	places := make([]uint64, 0, leafPlaces)
	for i, word := range l {
		for ; word != 0; word &= word - 1 {
			places = append(places, number<<leafBits|uint64(i*64+bits.TrailingZeros64(word)))
		}
	}
	return places
}

// node has the number of places that are taken in each of its leaves.
type node [nodeLeaves]uint16

// bucket is how many places are taken in a leaf, or in a node.
type bucket struct {
	number uint64
	n      int
}

// listEnd is what is known of a list as a whole.
type listEnd struct {
	last  uint64   // the highest place ever given, 0 for none
	nodes []bucket // those that are not empty, by number
}

// total returns how many objects there are.
func (e listEnd) total() (n int) {
	for _, node := range e.nodes {
		n += node.n
	}
	return n
}

// add changes the count of a node, which it returns.
func (e *listEnd) add(number uint64, by int) int {
	i, found := slices.BinarySearchFunc(e.nodes, number, func(b bucket, number uint64) int { return cmp.Compare(b.number, number) })
	if !found {
		e.nodes = slices.Insert(e.nodes, i, bucket{number: number})
	}
	e.nodes[i].n += by
	n := e.nodes[i].n
	if n == 0 {
		e.nodes = slices.Delete(e.nodes, i, i+1)
	}
	return n
}

// workspaces is the list of all workspaces, in the order in which they were
// stored first.
func workspaces() list { return list{byte(kindWorkspace)} }

// presetsOf is the list of the presets of a workspace that are not archived, in
// the order in which they were put last.
func presetsOf(workspaceID string) (list, bool) {
	id, ok := parseID(workspaceID)
	return append(list{byte(kindPreset)}, id[:]...), ok
}

// listEnd returns the end of l. A list in which nothing ever was has none.
func (r *reader) listEnd(l list) (listEnd, error) {
	end, err := load(r, l.endKey(), decodeListEnd)
	if errors.Is(err, domain.ErrNotFound) {
		err = r.walk(l.placePrefix(), func(c *cursor) error {
			if c.key != nil {
				return damaged(kindListEnd, "it is missing")
			}
			return nil
		})
	}
	return end, err
}

// place gives an object a place at the end of l, instead of its former one unless
// that is 0, and returns it. text is what clients see of the object.
func (t *tx) place(l list, former uint64, text []byte) (uint64, error) {
	end, err := t.listEnd(l)
	if err != nil {
		return 0, t.write(l.endKey(), nil, err)
	}
	end.last++
	place := end.last
	if err := t.stand(l, place, text); err != nil {
		return 0, err
	}
	return place, t.move(l, end, former, place)
}

// stand puts what clients see of an object at its place in l.
func (t *tx) stand(l list, place uint64, text []byte) error {
	k := l.placeKey(place)
	return t.write(k, encodeBytes(k, text), nil)
}

// displace removes an object from its place in l.
func (t *tx) displace(l list, place uint64) error {
	end, err := t.listEnd(l)
	if err != nil {
		return t.write(l.endKey(), nil, err)
	}
	return t.move(l, end, place, 0)
}

// move empties the place from, takes the place to instead, and stores the end of l.
// Either place may be 0 for none.
func (t *tx) move(l list, end listEnd, from, to uint64) error {
	if from != 0 {
		if err := t.write(l.placeKey(from), nil, nil); err != nil {
			return err
		}
		if err := t.mark(l, &end, from, false); err != nil {
			return err
		}
	}
	if to != 0 {
		if err := t.mark(l, &end, to, true); err != nil {
			return err
		}
	}
	k := l.endKey()
	return t.write(k, encodeListEnd(k, end), nil)
}

// mark notes in a place's leaf and node, and in end, whether it is taken.
func (t *tx) mark(l list, end *listEnd, place uint64, taken bool) error {
	by := 1
	if !taken {
		by = -1
	}
	leafKey, nodeKey := l.leafKey(leafOf(place)), l.nodeKey(nodeOf(place))
	leaf, err := loadOrZero(&t.reader, leafKey, decodeLeaf)
	if err != nil {
		return t.write(leafKey, nil, err)
	}
	node, err := loadOrZero(&t.reader, nodeKey, decodeNode)
	if err != nil {
		return t.write(nodeKey, nil, err)
	}
	counted := &node[leafOf(place)%nodeLeaves]
	if !leaf.set(place, taken) || int(*counted)+by != leaf.count() {
		return t.write(leafKey, nil, damaged(kindLeaf, "it does not have what is counted"))
	}
	*counted = uint16(leaf.count())
	n := end.add(nodeOf(place), by)
	if n < 0 {
		return t.write(nodeKey, nil, damaged(kindNode, "it does not have what is counted"))
	}
	// What is empty is not stored.
	var leafRecord, nodeRecord []byte
	if *counted > 0 {
		leafRecord = encodeLeaf(leafKey, &leaf)
	}
	if n > 0 {
		nodeRecord = encodeNode(nodeKey, &node)
	}
	if err := t.write(leafKey, leafRecord, nil); err != nil {
		return err
	}
	return t.write(nodeKey, nodeRecord, nil)
}

// page returns a page of l as a JSON array, and how many objects there are.
func (r *reader) page(l list, page domain.Page, newestFirst bool) (text []byte, total int, err error) {
	end, err := r.listEnd(l)
	if err != nil {
		return nil, 0, err
	}
	places, err := r.places(l, end, page, newestFirst)
	if err != nil {
		return nil, 0, err
	}
	text, err = r.standing(l, places, newestFirst)
	return text, end.total(), err
}

// places returns the places of a page of l, the lowest first.
func (r *reader) places(l list, end listEnd, page domain.Page, newestFirst bool) (places []uint64, err error) {
	if newestFirst { // the same page, counted from the other end
		before := max(0, end.total()-page.Offset)
		page.Offset = max(0, before-page.Limit)
		page.Limit = before - page.Offset
	}
	err = covering(end.nodes, page, func(b bucket, page domain.Page) error {
		leaves, err := r.leaves(l, b)
		if err != nil {
			return err
		}
		return covering(leaves, page, func(b bucket, page domain.Page) error {
			taken, err := r.taken(l, b)
			if err == nil {
				places = append(places, taken[page.Offset:][:page.Limit]...)
			}
			return err
		})
	})
	return places, err
}

// covering calls fn for each of buckets that a page of what they count has a part
// of, with that part as a page of the bucket's own.
func covering(buckets []bucket, page domain.Page, fn func(b bucket, page domain.Page) error) error {
	for _, b := range buckets {
		if page.Limit <= 0 {
			break
		}
		if page.Offset >= b.n {
			page.Offset -= b.n
			continue
		}
		inside := domain.Page{Offset: page.Offset, Limit: min(page.Limit, b.n-page.Offset)}
		if err := fn(b, inside); err != nil {
			return err
		}
		page = domain.Page{Limit: page.Limit - inside.Limit}
	}
	return nil
}

// leaves returns the leaves of a node, which must have as many places together as
// are counted for it, or else pages would be wrong without a sign.
func (r *reader) leaves(l list, of bucket) ([]bucket, error) {
	node, err := loadExisting(r, l.nodeKey(of.number), decodeNode)
	if err != nil {
		return nil, err
	}
	leaves, sum := make([]bucket, len(node)), 0
	for i, n := range node {
		leaves[i] = bucket{of.number<<nodeBits | uint64(i), int(n)}
		sum += int(n)
	}
	if sum != of.n {
		return nil, damaged(kindNode, "it does not have what is counted")
	}
	return leaves, nil
}

// taken returns the places that are taken in a leaf, as many as are counted for it.
func (r *reader) taken(l list, of bucket) ([]uint64, error) {
	leaf, err := loadExisting(r, l.leafKey(of.number), decodeLeaf)
	if err == nil && leaf.count() != of.n {
		err = damaged(kindLeaf, "it does not have what is counted")
	}
	return leaf.taken(of.number), err
}

// standing returns what stands at places of l, which are in order, as a JSON array.
func (r *reader) standing(l list, places []uint64, newestFirst bool) ([]byte, error) {
	text, ends := make([]byte, 0, len(places)*expectedObject), make([]int, 0, len(places))
	take := func(payload []byte) (_ struct{}, err error) {
		text = append(text, payload...)
		ends = append(ends, len(text))
		return struct{}{}, checkObject(payload)
	}
	for i := 0; i < len(places); {
		next := i + runLength(places[i:])
		if err := r.takeRun(l, places[i:next], take); err != nil {
			return nil, err
		}
		i = next
	}
	if len(places) == 0 {
		return []byte("[]"), nil
	}
	array := make([]byte, 0, len(text)+len(places)+1)
	for i := range places {
		if newestFirst {
			i = len(places) - 1 - i
		}
		start := 0
		if i > 0 {
			start = ends[i-1]
		}
		array = append(append(array, ','), text[start:ends[i]]...)
	}
	array[0] = '['
	return append(array, ']'), nil
}

// nearby is how many places on the next object of a run is at most, and shortRun
// how long a run is at least that a cursor pays for.
const (
	nearby   = 8
	shortRun = 4
)

// runLength returns how many of places, of which there is one, are near each other.
func runLength(places []uint64) int {
	n := 1
	for n < len(places) && places[n]-places[n-1] <= nearby {
		n++
	}
	return n
}

// takeRun calls take with what stands at the places of a run. Badger's iterator
// always looks for the object after the one it is at, by way of all that ever stood
// between the two: so it stays within the run, and the last is looked up.
func (r *reader) takeRun(l list, places []uint64, take func([]byte) (struct{}, error)) error {
	if len(places) >= shortRun {
		last := len(places) - 1
		err := r.walkFrom(l.placeKey(places[0]), l.placePrefix(), func(c *cursor) error {
			for i, place := range places[:last] {
				if i > 0 {
					c.next()
				}
				if !bytes.Equal(c.key, l.placeKey(place)) {
					return damaged(kindPlace, "it is missing")
				}
				if _, err := decodeAt(c, take); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		places = places[last:]
	}
	for _, place := range places {
		if _, err := loadExisting(r, l.placeKey(place), take); err != nil {
			return err
		}
	}
	return nil
}

// expectedObject is how long what stands at a place may be expected to be.
const expectedObject = 768

func (l list) endKey() key { return append(newKey(kindListEnd, len(l)), l...) }

func (l list) placePrefix() key          { return l.prefix(kindPlace) }
func (l list) placeKey(place uint64) key { return l.numbered(kindPlace, place) }
func (l list) leafKey(number uint64) key { return l.numbered(kindLeaf, number) }
func (l list) nodeKey(number uint64) key { return l.numbered(kindNode, number) }

// prefix begins the keys of a kind in l, with room for the number that follows.
func (l list) prefix(of kind) key { return append(newKey(of, len(l)+8), l...) }

func (l list) numbered(of kind, n uint64) key { return binary.BigEndian.AppendUint64(l.prefix(of), n) }

// The records of a list have numbers, big endian, one after another: a leaf its
// words, a node its counts, the end of the list its last place, and then a number
// and a count for each node.

func encodeLeaf(k key, l *leaf) []byte {
	record := newRecord(8 * len(l))
	for _, word := range l {
		record = binary.BigEndian.AppendUint64(record, word)
	}
	return seal(k, record)
}

func decodeLeaf(payload []byte) (l leaf, err error) {
	if len(payload) != 8*len(l) {
		return l, errLength
	}
	for i := range l {
		l[i] = binary.BigEndian.Uint64(payload[8*i:])
	}
	return l, nil
}

func encodeNode(k key, n *node) []byte {
	record := newRecord(2 * len(n))
	for _, count := range n {
		record = binary.BigEndian.AppendUint16(record, count)
	}
	return seal(k, record)
}

func decodeNode(payload []byte) (n node, err error) {
	if len(payload) != 2*len(n) {
		return n, errLength
	}
	for i := range n {
		n[i] = binary.BigEndian.Uint16(payload[2*i:])
	}
	return n, nil
}

func encodeListEnd(k key, end listEnd) []byte {
	record := binary.BigEndian.AppendUint64(newRecord(8+16*len(end.nodes)), end.last)
	for _, b := range end.nodes {
		record = binary.BigEndian.AppendUint64(record, b.number)
		record = binary.BigEndian.AppendUint64(record, uint64(b.n))
	}
	return seal(k, record)
}

func decodeListEnd(payload []byte) (end listEnd, err error) {
	if len(payload)%16 != 8 {
		return end, errLength
	}
	end.last = binary.BigEndian.Uint64(payload)
	for rest := payload[8:]; len(rest) > 0; rest = rest[16:] {
		end.nodes = append(end.nodes, bucket{binary.BigEndian.Uint64(rest), int(binary.BigEndian.Uint64(rest[8:]))})
	}
	return end, nil
}
