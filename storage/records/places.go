package records

import (
	"bytes"
	"errors"

	"github.com/caddy-presets/caddy-presets/domain"
)

// listEnd returns the end of l. A list that never had an object has no end.
func (r *Reader) listEnd(l list) (listEnd, error) {
	end, err := load(r, l.endKey(), decodeListEnd)
	if errors.Is(err, domain.ErrNotFound) {
		err = r.walk(l.placePrefix(), func(c *cursor) error {
			if c.key != nil {
				return errMissing(KindListEnd)
			}
			return nil
		})
	}
	return end, err
}

// place moves an object from a spot to the end of l and returns its place. An object at the
// end stays there. text is the object as clients see it.
func (t *Tx) place(l list, from spot, state int, text []byte) (uint64, error) {
	end, err := t.listEnd(l)
	if err != nil {
		return 0, t.write(l.endKey(), nil, err)
	}
	to := spot{from.place, state}
	if from.place == 0 || from.place != end.last {
		end.last++
		to.place = end.last
		if from.place != 0 {
			if err := t.write(l.placeKey(from.place), nil, nil); err != nil {
				return 0, err
			}
		}
	}
	if err := t.putAt(l, to.place, text); err != nil || to == from {
		return to.place, err
	}
	return to.place, t.move(l, &end, from, to)
}

// putAt stores an object, as clients see it, at its place in l.
func (t *Tx) putAt(l list, place uint64, text []byte) error {
	k := l.placeKey(place)
	return t.write(k, Seal(k, text), nil)
}

// removePlace removes an object from l.
func (t *Tx) removePlace(l list, from spot) error {
	end, err := t.listEnd(l)
	if err != nil {
		return t.write(l.endKey(), nil, err)
	}
	if err := t.write(l.placeKey(from.place), nil, nil); err != nil {
		return err
	}
	return t.move(l, &end, from, spot{})
}

// move gives up one spot of l, takes another and stores the end of l. Either spot may have
// no place.
func (t *Tx) move(l list, end *listEnd, from, to spot) error {
	if from.place != 0 {
		if err := t.count(l, end, from, -1); err != nil {
			return err
		}
	}
	if to.place != 0 {
		if err := t.count(l, end, to, 1); err != nil {
			return err
		}
	}
	k := l.endKey()
	return t.write(k, encodeListEnd(k, *end), nil)
}

// count takes a spot if by is 1, and gives it up if by is -1. It changes the leaf, the node
// and end.
func (t *Tx) count(l list, end *listEnd, s spot, by int) error {
	leafKey, nodeKey := l.leafKey(leafOf(s.place)), l.nodeKey(nodeOf(s.place))
	leaf, err := loadOrZero(&t.Reader, leafKey, decodeLeaf)
	if err != nil {
		return t.write(leafKey, nil, err)
	}
	nodes, err := loadOrZero(&t.Reader, nodeKey, decodeNode)
	if err != nil {
		return t.write(nodeKey, nil, err)
	}
	places, counted := &leaf[s.state], &nodes[s.state][leafOf(s.place)%nodeLeaves]
	if !places.set(s.place, by > 0) || int(*counted)+by != places.count() {
		return t.write(leafKey, nil, damaged(KindLeaf, "it does not have what is counted"))
	}
	*counted = uint16(places.count())
	n := end.add(nodeOf(s.place), s.state, by)
	if n[s.state] < 0 || (n == counts{}) != (nodes == node{}) {
		return t.write(nodeKey, nil, damaged(KindNode, "it does not have what is counted"))
	}
	if err := t.write(leafKey, encodeLeaf(leafKey, &leaf), nil); err != nil {
		return err
	}
	return t.write(nodeKey, encodeNode(nodeKey, &nodes), nil)
}

// page returns a page of the selected objects of l as a JSON array. total is the number of
// all selected objects.
func (r *Reader) page(l list, s selection, page domain.Page, newestFirst bool) (text []byte, total int, err error) {
	places, total, err := r.places(l, s, page, newestFirst)
	if err != nil {
		return nil, 0, err
	}
	text, err = r.readObjects(l, places, newestFirst)
	return text, total, err
}

// places returns the places of a page of the selected objects of l, the lowest first. total
// is the number of all selected objects.
func (r *Reader) places(l list, s selection, page domain.Page, newestFirst bool) (places []uint64, total int, err error) {
	end, err := r.listEnd(l)
	if err != nil {
		return nil, 0, err
	}
	for _, b := range end.nodes {
		total += s.count(b.counts)
	}
	if newestFirst { // the same page, counted from the other end
		before := max(0, total-page.Offset)
		page.Offset = max(0, before-page.Limit)
		page.Limit = before - page.Offset
	}
	err = s.visitPage(end.nodes, page, func(b bucket, page domain.Page) error {
		leaves, err := r.leaves(l, b)
		if err != nil {
			return err
		}
		return s.visitPage(leaves, page, func(b bucket, page domain.Page) error {
			taken, err := r.taken(l, s, b)
			if err == nil {
				places = append(places, taken[page.Offset:][:page.Limit]...)
			}
			return err
		})
	})
	return places, total, err
}

// visitPage calls fn for each bucket that has objects of a page. It passes the bucket's
// part as a page of that bucket.
func (s selection) visitPage(all []bucket, page domain.Page, fn func(b bucket, page domain.Page) error) error {
	for _, b := range all {
		n := s.count(b.counts)
		switch {
		case page.Limit <= 0:
			return nil
		case page.Offset >= n:
			page.Offset -= n
			continue
		}
		inside := domain.Page{Offset: page.Offset, Limit: min(page.Limit, n-page.Offset)}
		if err := fn(b, inside); err != nil {
			return err
		}
		page = domain.Page{Limit: page.Limit - inside.Limit}
	}
	return nil
}

// leaves returns the leaves of a node of l. It reports damage if their counts differ from
// the node's, because pages would silently be wrong.
func (r *Reader) leaves(l list, of bucket) ([]bucket, error) {
	node, err := loadExisting(r, l.nodeKey(of.number), decodeNode)
	if err != nil {
		return nil, err
	}
	leaves, sum := make([]bucket, nodeLeaves), counts{}
	for i := range leaves {
		leaves[i].number = of.number<<nodeBits | uint64(i)
		for state := range node {
			n := int(node[state][i])
			leaves[i].counts[state] = n
			sum[state] += n
		}
	}
	if sum != of.counts {
		return nil, damaged(KindNode, "it does not have what is counted")
	}
	return leaves, nil
}

// taken returns the selected places of a leaf of l. It reports damage if their number
// differs from the node's count.
func (r *Reader) taken(l list, s selection, of bucket) ([]uint64, error) {
	leaf, err := loadExisting(r, l.leafKey(of.number), decodeLeaf)
	if err != nil {
		return nil, err
	}
	var all bitmap
	for state := range leaf {
		if leaf[state].count() != of.counts[state] {
			return nil, damaged(KindLeaf, "it does not have what is counted")
		}
		for i, word := range leaf[state] {
			if s[state] {
				all[i] |= word
			}
		}
	}
	if all.count() != s.count(of.counts) {
		return nil, damaged(KindLeaf, "it has a place twice")
	}
	return all.places(of.number), nil
}

// readObjects returns the objects at places of l as a JSON array. places are in ascending
// order.
func (r *Reader) readObjects(l list, places []uint64, newestFirst bool) ([]byte, error) {
	text, ends := make([]byte, 0, len(places)*expectedObject), make([]int, 0, len(places))
	take := func(payload []byte) (_ struct{}, err error) {
		text = append(text, payload...)
		ends = append(ends, len(text))
		return struct{}{}, checkObject(payload)
	}
	for i := 0; i < len(places); {
		next := i + runLength(places[i:])
		if err := r.readRun(l, places[i:next], take); err != nil {
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

// nearby is the maximum distance between two places of a run. shortRun is the minimum
// length of a run that is worth a cursor.
const (
	nearby   = 8
	shortRun = 4
)

// runLength returns the length of the run that places begin with. There is at least one
// place.
func runLength(places []uint64) int {
	n := 1
	for n < len(places) && places[n]-places[n-1] <= nearby {
		n++
	}
	return n
}

// readRun calls take with the objects at the places of a run. Badger's iterator always
// looks for the next object, and passes all earlier records on the way. So the iterator
// stays within the run, and the last object is looked up.
func (r *Reader) readRun(l list, places []uint64, take func([]byte) (struct{}, error)) error {
	if len(places) >= shortRun {
		last := len(places) - 1
		err := r.walkFrom(l.placeKey(places[0]), l.placePrefix(), func(c *cursor) error {
			for _, place := range places[:last] {
				k := l.placeKey(place)
				for c.key != nil && bytes.Compare(c.key, k) < 0 { // objects that are not selected
					c.next()
				}
				if !bytes.Equal(c.key, k) {
					return errMissing(KindPlace)
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

// expectedObject is the expected length of an object at a place, in bytes.
const expectedObject = 768
