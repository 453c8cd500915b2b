package records

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/caddy-presets/caddy-presets/domain"
)

// A list keeps objects in an order. Each object has a place, which is a number. An object
// that is added, or moved to the end, gets a higher number than any before it. A place that
// an object left is never taken again. The object's record has the number of its place. The
// record of the place has a second copy of the object's JSON. A page is read from these
// copies with one iterator. Reading each object's own record instead takes two to five
// times as long.
//
// An object also has a state, which filters select by. The state of a preset is its status.
//
// Three small records find the places of a page, whatever its offset. A leaf has a bit for
// each of leafPlaces places and each state. A node counts the taken places of each of
// nodeLeaves leaves. The end of the list counts those of each node. Almost every commit
// changes these records, so they are looked up and no iterator passes them. Until Badger
// compacts its tables, an iterator visits each of their earlier states.
//
// The value of a list is the part of its keys that identifies it.
type list []byte

const (
	leafBits   = 9
	leafPlaces = 1 << leafBits
	nodeBits   = 8
	nodeLeaves = 1 << nodeBits
)

// leafOf and nodeOf return the leaf and the node that a place is in.
func leafOf(place uint64) uint64 { return place >> leafBits }
func nodeOf(place uint64) uint64 { return place >> (leafBits + nodeBits) }

// states is the number of states. The state of a preset is the index of its status in
// storedStatuses, less one. The state of a workspace is 0.
const states = len(storedStatuses) - 1

// stateOf returns the state of a preset, and false for an unknown status.
func stateOf(status domain.PresetStatus) (state int, ok bool) {
	state = slices.Index(storedStatuses[1:], status)
	return state, state >= 0
}

// spot is the place and the state of an object. The zero value is no place.
type spot struct {
	place uint64
	state int
}

// bitmap has a bit for each place of a leaf. The lowest bit of the first word is the first
// place.
type bitmap [leafPlaces / 64]uint64

// count returns the number of taken places.
func (m *bitmap) count() (n int) {
	for _, word := range m {
		n += bits.OnesCount64(word)
	}
	return n
}

// set takes a place or gives it up. It returns false if that changes nothing.
func (m *bitmap) set(place uint64, taken bool) bool {
	word, bit := &m[place%leafPlaces/64], uint64(1)<<(place%64)
	if *word&bit != 0 == taken {
		return false
	}
	*word ^= bit
	return true
}

// places returns the taken places of the leaf with a number.
func (m *bitmap) places(number uint64) []uint64 {
	places := make([]uint64, 0, leafPlaces)
	for i, word := range m {
		for ; word != 0; word &= word - 1 {
			places = append(places, number<<leafBits|uint64(i*64+bits.TrailingZeros64(word)))
		}
	}
	return places
}

// leaf has the taken places, by state.
type leaf [states]bitmap

// node has the number of taken places in each of its leaves, by state.
type node [states][nodeLeaves]uint16

// counts are numbers of places, by state.
type counts [states]int

// bucket is the number of taken places in a leaf or a node.
type bucket struct {
	number uint64
	counts
}

// listEnd describes a list as a whole.
type listEnd struct {
	last  uint64   // the highest place ever given, 0 if none was
	nodes []bucket // the nodes that are not empty, by number
}

// add changes a count of a node. It returns the node's counts.
func (e *listEnd) add(number uint64, state, by int) counts {
	i, found := slices.BinarySearchFunc(e.nodes, number, func(b bucket, number uint64) int { return cmp.Compare(b.number, number) })
	if !found {
		e.nodes = slices.Insert(e.nodes, i, bucket{number: number})
	}
	e.nodes[i].counts[state] += by
	n := e.nodes[i].counts
	if n == (counts{}) {
		e.nodes = slices.Delete(e.nodes, i, i+1)
	}
	return n
}

// workspaces is the list of all workspaces, in the order of their creation.
func workspaces() list { return list{byte(KindWorkspace)} }

// presetsOf is the list of a workspace's presets, in the order in which they were last put.
func presetsOf(workspaceID string) (list, bool) {
	id, ok := parseID(workspaceID)
	return append(list{byte(KindPreset)}, id[:]...), ok
}

// selection is the set of states that a page shows.
type selection [states]bool

// everything selects all states.
var everything = selection{true, true, true}

// selectionOf returns the states that a filter accepts.
func selectionOf(filter domain.PresetFilter) (s selection) {
	for state, status := range storedStatuses[1:] {
		s[state] = filter.Accepts(status)
	}
	return s
}

// count returns the sum of n over the selected states.
func (s selection) count(n counts) (sum int) {
	for state, selected := range s {
		if selected {
			sum += n[state]
		}
	}
	return sum
}

func (l list) endKey() Key { return append(newKey(KindListEnd, len(l)), l...) }

func (l list) placePrefix() Key          { return l.prefix(KindPlace) }
func (l list) placeKey(place uint64) Key { return l.numbered(KindPlace, place) }
func (l list) leafKey(number uint64) Key { return l.numbered(KindLeaf, number) }
func (l list) nodeKey(number uint64) Key { return l.numbered(KindNode, number) }

// prefix returns the prefix of l's keys of a kind, with room for the number that follows.
func (l list) prefix(of Kind) Key { return append(newKey(of, len(l)+8), l...) }

func (l list) numbered(of Kind, n uint64) Key { return binary.BigEndian.AppendUint64(l.prefix(of), n) }

// The numbers in the records of a list are big endian. A leaf and a node have a byte for
// each state in use, followed by the numbers of that state. The end of a list has its last
// place, and the number and counts of each node. An empty leaf or node has no record.

func encodeLeaf(k Key, l *leaf) []byte {
	if *l == (leaf{}) {
		return nil
	}
	record := newRecord(len(l) * (1 + leafPlaces/8))
	for state := range l {
		if l[state] != (bitmap{}) {
			record = append(record, byte(state))
			for _, word := range l[state] {
				record = binary.BigEndian.AppendUint64(record, word)
			}
		}
	}
	return seal(k, record)
}

func decodeLeaf(payload []byte) (l leaf, err error) {
	return l, decodeStates(payload, func(state int) any { return l[state][:] })
}

func encodeNode(k Key, n *node) []byte {
	if *n == (node{}) {
		return nil
	}
	record := newRecord(len(n) * (1 + 2*nodeLeaves))
	for state := range n {
		if n[state] != ([nodeLeaves]uint16{}) {
			record = append(record, byte(state))
			for _, count := range n[state] {
				record = binary.BigEndian.AppendUint16(record, count)
			}
		}
	}
	return seal(k, record)
}

func decodeNode(payload []byte) (n node, err error) {
	return n, decodeStates(payload, func(state int) any { return n[state][:] })
}

// decodeStates decodes the numbers of each state into the slice that of returns for it.
func decodeStates(payload []byte, of func(state int) any) error {
	for len(payload) > 0 {
		if int(payload[0]) >= states {
			return errParts
		}
		n, err := binary.Decode(payload[1:], binary.BigEndian, of(int(payload[0])))
		if err != nil {
			return errLength
		}
		payload = payload[1+n:]
	}
	return nil
}

// bucketSize is the length of a node's number and counts.
const bucketSize = 8 * (1 + states)

func encodeListEnd(k Key, end listEnd) []byte {
	record := binary.BigEndian.AppendUint64(newRecord(8+bucketSize*len(end.nodes)), end.last)
	for _, b := range end.nodes {
		record = binary.BigEndian.AppendUint64(record, b.number)
		for _, n := range b.counts {
			record = binary.BigEndian.AppendUint64(record, uint64(n))
		}
	}
	return seal(k, record)
}

func decodeListEnd(payload []byte) (end listEnd, err error) {
	if len(payload)%bucketSize != 8 {
		return end, errLength
	}
	end.last = binary.BigEndian.Uint64(payload)
	for rest := payload[8:]; len(rest) > 0; rest = rest[bucketSize:] {
		b := bucket{number: binary.BigEndian.Uint64(rest)}
		for state := range b.counts {
			b.counts[state] = int(binary.BigEndian.Uint64(rest[8*(1+state):]))
		}
		end.nodes = append(end.nodes, b)
	}
	return end, nil
}
