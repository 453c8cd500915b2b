package records

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/caddy-presets/caddy-presets/domain"
)

// A list keeps objects in an order. Each object has a place, which is a number: what
// is added or moved to the end gets a higher one than all before it, and a place
// that was left stays empty for good. An object's record has its place, and the place has
// a second copy of the object's JSON. A page is read from these copies with one
// iterator. Reading each object's own record instead takes two to three times as long.
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
func workspaces() list { return list{byte(KindWorkspace)} }

// presetsOf is the list of the presets of a workspace that are not archived, in
// the order in which they were put last.
func presetsOf(workspaceID string) (list, bool) {
	id, ok := parseID(workspaceID)
	return append(list{byte(KindPreset)}, id[:]...), ok
}

// A preset of any status has a place of presetsOf, so that places tell in which order
// presets of all statuses were put. Each list counts its own part of those places.
const (
	archivedPart byte = 'a'
	disabledPart byte = 'd'
)

// presetParts begin the lists that have places of a workspace's presets.
var presetParts = [...]byte{byte(KindPreset), archivedPart, disabledPart}

// part returns the list that begins with one of presetParts, for the workspace of l.
func (l list) part(of byte) list { return append(list{of}, l[1:]...) }

// isPart reports whether l, which bytes may follow, has places of a workspace's presets.
func (l list) isPart() bool { return len(l) > 0 && bytes.IndexByte(presetParts[:], l[0]) >= 0 }

// inPart reports whether presets of a status have their places in a part.
func inPart(of byte, status domain.PresetStatus) bool {
	switch of {
	case archivedPart:
		return status == domain.PresetArchived
	case disabledPart:
		return status == domain.PresetDisabled
	default:
		return status != domain.PresetArchived
	}
}

// selection is some of the places of a list: those of one part, and those of another
// added or left out.
type selection struct {
	list    list // whose objects stand there
	part    list
	other   list // nil for none
	without bool // those of other are left out, which are all in part; else none is
}

// selected returns the presets of l that a filter lets through.
func (l list) selected(filter domain.PresetFilter) selection {
	switch filter {
	case domain.ActivePresets:
		return selection{list: l, part: l, other: l.part(disabledPart), without: true}
	case domain.DisabledPresets:
		return selection{list: l, part: l.part(disabledPart)}
	case domain.ArchivedPresets:
		return selection{list: l, part: l.part(archivedPart)}
	case domain.AllPresets:
		return selection{list: l, part: l, other: l.part(archivedPart)}
	default:
		return selection{list: l, part: l}
	}
}

// buckets are those of one number in the two parts of a selection.
type buckets struct {
	number      uint64
	part, other int // how many places are taken in each
}

// count returns how many places of b are selected.
func (s selection) count(b buckets) int {
	if s.without {
		return b.part - b.other
	}
	return b.part + b.other
}

// joined returns the buckets of a selection, by number, given those of its two parts.
func joined(part, other []bucket) []buckets {
	all := make([]buckets, 0, len(part)+len(other))
	for len(part)+len(other) > 0 {
		var b buckets
		switch {
		case len(other) == 0 || len(part) > 0 && part[0].number < other[0].number:
			b.number = part[0].number
		default:
			b.number = other[0].number
		}
		if len(part) > 0 && part[0].number == b.number {
			b.part, part = part[0].n, part[1:]
		}
		if len(other) > 0 && other[0].number == b.number {
			b.other, other = other[0].n, other[1:]
		}
		all = append(all, b)
	}
	return all
}

func (l list) endKey() Key { return append(newKey(KindListEnd, len(l)), l...) }

func (l list) placePrefix() Key          { return l.prefix(KindPlace) }
func (l list) placeKey(place uint64) Key { return l.numbered(KindPlace, place) }
func (l list) leafKey(number uint64) Key { return l.numbered(KindLeaf, number) }
func (l list) nodeKey(number uint64) Key { return l.numbered(KindNode, number) }

// prefix begins the keys of a kind in l, with room for the number that follows.
func (l list) prefix(of Kind) Key { return append(newKey(of, len(l)+8), l...) }

func (l list) numbered(of Kind, n uint64) Key { return binary.BigEndian.AppendUint64(l.prefix(of), n) }

// The records of a list have numbers, big endian, one after another: a leaf its
// words, a node its counts, the end of the list its last place, and then a number
// and a count for each node.

func encodeLeaf(k Key, l *leaf) []byte {
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

func encodeNode(k Key, n *node) []byte {
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

func encodeListEnd(k Key, end listEnd) []byte {
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
