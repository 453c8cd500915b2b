package records

import (
	"bytes"
	"errors"

	"github.com/caddy-presets/caddy-presets/domain"
)

// listEnd returns the end of l. A list in which nothing ever was has none.
func (r *Reader) listEnd(l list) (listEnd, error) {
	end, err := load(r, l.endKey(), decodeListEnd)
	if errors.Is(err, domain.ErrNotFound) {
		found := l.placePrefix()
		if l[0] == archivedPart || l[0] == disabledPart { // nothing stands there
			found = l.prefix(KindLeaf)
		}
		err = r.walk(found, func(c *cursor) error {
			if c.key != nil {
				return damaged(KindListEnd, "it is missing")
			}
			return nil
		})
	}
	return end, err
}

// place gives an object a place at the end of l, instead of its former one unless
// that is 0, and returns it. Which is at the end stays there. text is what clients see of
// the object.
func (t *Tx) place(l list, former uint64, text []byte) (uint64, error) {
	end, err := t.listEnd(l)
	if err != nil {
		return 0, t.write(l.endKey(), nil, err)
	}
	place, err := t.stand(l, &end, former, text)
	if err != nil || place == former {
		return place, err
	}
	return place, t.move(l, &end, former, place)
}

// placePreset is place for a preset, given as it was stored before, if it was. l is the
// list of its workspace. The parts of its status have its place, and no others.
func (t *Tx) placePreset(l list, old storedPreset, status domain.PresetStatus, text []byte) (uint64, error) {
	end, err := t.listEnd(l)
	if err != nil {
		return 0, t.write(l.endKey(), nil, err)
	}
	place, err := t.stand(l, &end, old.place, text)
	if err != nil {
		return 0, err
	}
	for _, of := range presetParts {
		var from, to uint64
		if inPart(of, old.Status) {
			from = old.place
		}
		if inPart(of, status) {
			to = place
		}
		if of == byte(KindPreset) { // whose end has the last place, of whichever part
			if from != to || place != old.place {
				err = t.move(l, &end, from, to)
			}
		} else if from != to {
			err = t.movePart(l.part(of), from, to)
		}
		if err != nil {
			return 0, err
		}
	}
	return place, nil
}

// movePart is move for a part whose end is not known.
func (t *Tx) movePart(part list, from, to uint64) error {
	end, err := t.listEnd(part)
	if err != nil {
		return t.write(part.endKey(), nil, err)
	}
	return t.move(part, &end, from, to)
}

// stand lets an object stand at the end of l, which has that end, and no more at its
// former place unless that is 0. It returns its place.
func (t *Tx) stand(l list, end *listEnd, former uint64, text []byte) (uint64, error) {
	place := former
	if former == 0 || former != end.last {
		end.last++
		place = end.last
		if former != 0 {
			if err := t.write(l.placeKey(former), nil, nil); err != nil {
				return 0, err
			}
		}
	}
	return place, t.putAt(l, place, text)
}

// putAt puts what clients see of an object at its place in l.
func (t *Tx) putAt(l list, place uint64, text []byte) error {
	k := l.placeKey(place)
	return t.write(k, Seal(k, text), nil)
}

// displace removes an object from its place in l.
func (t *Tx) displace(l list, place uint64) error {
	end, err := t.listEnd(l)
	if err != nil {
		return t.write(l.endKey(), nil, err)
	}
	if err := t.write(l.placeKey(place), nil, nil); err != nil {
		return err
	}
	return t.move(l, &end, place, 0)
}

// move gives up the place from of l and takes the place to instead. Either may be 0 for
// none. It stores the end of l.
func (t *Tx) move(l list, end *listEnd, from, to uint64) error {
	if from != 0 {
		if err := t.mark(l, end, from, false); err != nil {
			return err
		}
	}
	if to != 0 {
		if err := t.mark(l, end, to, true); err != nil {
			return err
		}
	}
	k := l.endKey()
	return t.write(k, encodeListEnd(k, *end), nil)
}

// mark notes in a place's leaf and node, and in end, whether it is taken.
func (t *Tx) mark(l list, end *listEnd, place uint64, taken bool) error {
	by := 1
	if !taken {
		by = -1
	}
	leafKey, nodeKey := l.leafKey(leafOf(place)), l.nodeKey(nodeOf(place))
	leaf, err := loadOrZero(&t.Reader, leafKey, decodeLeaf)
	if err != nil {
		return t.write(leafKey, nil, err)
	}
	node, err := loadOrZero(&t.Reader, nodeKey, decodeNode)
	if err != nil {
		return t.write(nodeKey, nil, err)
	}
	counted := &node[leafOf(place)%nodeLeaves]
	if !leaf.set(place, taken) || int(*counted)+by != leaf.count() {
		return t.write(leafKey, nil, damaged(KindLeaf, "it does not have what is counted"))
	}
	*counted = uint16(leaf.count())
	n := end.add(nodeOf(place), by)
	if n < 0 {
		return t.write(nodeKey, nil, damaged(KindNode, "it does not have what is counted"))
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

// page returns a page of a selection as a JSON array, and how many objects that has.
func (r *Reader) page(s selection, page domain.Page, newestFirst bool) (text []byte, total int, err error) {
	places, total, err := r.places(s, page, newestFirst)
	if err != nil {
		return nil, 0, err
	}
	text, err = r.standing(s.list, places, newestFirst)
	return text, total, err
}

// places returns the places of a page of a selection, the lowest first, and how many
// the selection has.
func (r *Reader) places(s selection, page domain.Page, newestFirst bool) (places []uint64, total int, err error) {
	nodes, err := r.nodes(s)
	if err != nil {
		return nil, 0, err
	}
	for _, b := range nodes {
		total += s.count(b)
	}
	if newestFirst { // the same page, counted from the other end
		before := max(0, total-page.Offset)
		page.Offset = max(0, before-page.Limit)
		page.Limit = before - page.Offset
	}
	err = s.covering(nodes, page, func(b buckets, page domain.Page) error {
		leaves, err := r.leaves(s, b)
		if err != nil {
			return err
		}
		return s.covering(leaves, page, func(b buckets, page domain.Page) error {
			taken, err := r.taken(s, b)
			if err == nil {
				places = append(places, taken[page.Offset:][:page.Limit]...)
			}
			return err
		})
	})
	return places, total, err
}

// covering calls fn for each of some buckets that a page of what they count has a part
// of, with that part as a page of the bucket's own.
func (s selection) covering(all []buckets, page domain.Page, fn func(b buckets, page domain.Page) error) error {
	for _, b := range all {
		n := s.count(b)
		switch {
		case n < 0:
			return damaged(KindNode, "it counts what its list does not have")
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

// nodes returns the nodes of a selection.
func (r *Reader) nodes(s selection) ([]buckets, error) {
	end, err := r.listEnd(s.part)
	if err != nil || s.other == nil {
		return joined(end.nodes, nil), err
	}
	other, err := r.listEnd(s.other)
	return joined(end.nodes, other.nodes), err
}

// leaves returns the leaves of a node of a selection.
func (r *Reader) leaves(s selection, of buckets) ([]buckets, error) {
	part, err := r.leavesOf(s.part, bucket{of.number, of.part})
	if err != nil {
		return nil, err
	}
	other, err := r.leavesOf(s.other, bucket{of.number, of.other})
	return joined(part, other), err
}

// leavesOf returns the leaves of a node of l, none for a node of nothing. They must have
// as many places together as are counted for it, or else pages would be wrong without a
// sign.
func (r *Reader) leavesOf(l list, of bucket) ([]bucket, error) {
	if of.n == 0 {
		return nil, nil
	}
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
		return nil, damaged(KindNode, "it does not have what is counted")
	}
	return leaves, nil
}

// taken returns the places of a leaf that are selected, as many as are counted.
func (r *Reader) taken(s selection, of buckets) ([]uint64, error) {
	taken, err := r.takenOf(s.part, bucket{of.number, of.part})
	if err != nil {
		return nil, err
	}
	other, err := r.takenOf(s.other, bucket{of.number, of.other})
	for i, word := range other {
		if s.without {
			taken[i] &^= word
		} else {
			taken[i] |= word
		}
	}
	if err == nil && taken.count() != s.count(of) {
		err = damaged(KindLeaf, "it does not agree with that of another list")
	}
	return taken.taken(of.number), err
}

// takenOf returns a leaf of l, which has as many places taken as are counted for it.
func (r *Reader) takenOf(l list, of bucket) (leaf leaf, err error) {
	if of.n == 0 {
		return leaf, nil
	}
	leaf, err = loadExisting(r, l.leafKey(of.number), decodeLeaf)
	if err == nil && leaf.count() != of.n {
		err = damaged(KindLeaf, "it does not have what is counted")
	}
	return leaf, err
}

// standing returns what stands at places of l, which are in order, as a JSON array.
func (r *Reader) standing(l list, places []uint64, newestFirst bool) ([]byte, error) {
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
func (r *Reader) takeRun(l list, places []uint64, take func([]byte) (struct{}, error)) error {
	if len(places) >= shortRun {
		last := len(places) - 1
		err := r.walkFrom(l.placeKey(places[0]), l.placePrefix(), func(c *cursor) error {
			for _, place := range places[:last] {
				k := l.placeKey(place)
				for c.key != nil && bytes.Compare(c.key, k) < 0 { // what is not selected
					c.next()
				}
				if !bytes.Equal(c.key, k) {
					return damaged(KindPlace, "it is missing")
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
