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
		err = r.walk(l.placePrefix(), func(c *cursor) error {
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
	if former != 0 && former == end.last {
		return former, t.stand(l, former, text)
	}
	end.last++
	place := end.last
	if err := t.stand(l, place, text); err != nil {
		return 0, err
	}
	return place, t.move(l, end, former, place)
}

// stand puts what clients see of an object at its place in l.
func (t *Tx) stand(l list, place uint64, text []byte) error {
	k := l.placeKey(place)
	return t.write(k, Seal(k, text), nil)
}

// displace removes an object from its place in l.
func (t *Tx) displace(l list, place uint64) error {
	end, err := t.listEnd(l)
	if err != nil {
		return t.write(l.endKey(), nil, err)
	}
	return t.move(l, end, place, 0)
}

// move empties the place from, takes the place to instead, and stores the end of l.
// Either place may be 0 for none.
func (t *Tx) move(l list, end listEnd, from, to uint64) error {
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

// page returns a page of l as a JSON array, and how many objects there are.
func (r *Reader) page(l list, page domain.Page, newestFirst bool) (text []byte, total int, err error) {
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
func (r *Reader) places(l list, end listEnd, page domain.Page, newestFirst bool) (places []uint64, err error) {
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
func (r *Reader) leaves(l list, of bucket) ([]bucket, error) {
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

// taken returns the places that are taken in a leaf, as many as are counted for it.
func (r *Reader) taken(l list, of bucket) ([]uint64, error) {
	leaf, err := loadExisting(r, l.leafKey(of.number), decodeLeaf)
	if err == nil && leaf.count() != of.n {
		err = damaged(KindLeaf, "it does not have what is counted")
	}
	return leaf.taken(of.number), err
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
			for i, place := range places[:last] {
				if i > 0 {
					c.next()
				}
				if !bytes.Equal(c.key, l.placeKey(place)) {
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
