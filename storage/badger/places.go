package badger

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
)

// A list keeps objects in an order. Each object has a place, which is a number: what
// is added or moved to the end gets a higher one than all before it, and a place
// that was left stays empty for good. An object's record has its place, and at the
// place stands what finds the object.
//
// Buckets of places are counted, on several levels, so that an offset is found by
// passing by what comes before it in large steps. A bucket of the lowest level has
// bucketSize places, any other as many buckets of the level below.
//
// The value is what tells the keys of one list from those of another.
type list []byte

const (
	bucketBits = 6
	bucketSize = 1 << bucketBits
	// topLevel is the level of which all buckets are looked at for each page.
	// Each has 262,144 places, and is there for as long as one is taken.
	topLevel = 3
)

// listEnd is what is known of a list as a whole.
type listEnd struct {
	last  uint64 // the highest place ever given, 0 for none
	total int    // how many objects there are
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

// bucketOf returns the bucket of a level that place is in. On level 0 that is the
// place itself.
func bucketOf(place uint64, level int) uint64 { return place >> (bucketBits * level) }

func (r *reader) listEnd(l list) (listEnd, error) {
	end, err := load(r, l.endKey(), decodeListEnd)
	if errors.Is(err, domain.ErrNotFound) {
		return listEnd{}, nil
	}
	return end, err
}

// place gives an object a place at the end of l, instead of its former one unless
// that is 0, and returns it. name is what finds the object.
func (t *tx) place(l list, former uint64, name string) (uint64, error) {
	end, err := t.listEnd(l)
	if err != nil {
		return 0, t.write(l.endKey(), nil, err)
	}
	end.last++
	end.total++
	if err := t.point(l.levelKey(0, end.last), name); err != nil {
		return 0, err
	}
	return end.last, t.move(l, end, former, end.last)
}

// displace removes an object from its place in l.
func (t *tx) displace(l list, place uint64) error {
	end, err := t.listEnd(l)
	if err != nil {
		return t.write(l.endKey(), nil, err)
	}
	return t.move(l, end, place, 0)
}

// move empties the place from, counts what stands at to instead, and stores the
// end of l. Either place may be 0 for none.
func (t *tx) move(l list, end listEnd, from, to uint64) error {
	if from != 0 {
		end.total--
		if err := t.write(l.levelKey(0, from), nil, nil); err != nil {
			return err
		}
	}
	for level := 1; level <= topLevel; level++ {
		left, entered := bucketOf(from, level), bucketOf(to, level)
		if from != 0 && to != 0 && left == entered {
			break // and so on all levels above
		}
		if from != 0 {
			if err := t.count(l.levelKey(level, left), -1); err != nil {
				return err
			}
		}
		if to != 0 {
			if err := t.count(l.levelKey(level, entered), +1); err != nil {
				return err
			}
		}
	}
	k := l.endKey()
	return t.write(k, encodeListEnd(k, end), nil)
}

// count changes a count. One of nothing is not stored.
func (t *tx) count(k key, by int) error {
	n, err := load(&t.reader, k, decodeNumber)
	switch {
	case errors.Is(err, domain.ErrNotFound) && by < 0:
		return t.write(k, nil, damaged(kindCount, "it is missing"))
	case err != nil && !errors.Is(err, domain.ErrNotFound):
		return t.write(k, nil, err)
	}
	n += uint64(by)
	if n == 0 {
		return t.write(k, nil, nil)
	}
	return t.write(k, encodeNumber(k, n), nil)
}

// bucket is a bucket of places or, on level 0, one place.
type bucket struct {
	number uint64
	n      int    // how many objects are in it
	name   string // of the object, on level 0
}

// page returns a page of l, and how many objects there are. It reads, level by
// level, what is in the buckets that the page is in, and no others.
func (r *reader) page(l list, page domain.Page, newestFirst bool) (places []bucket, total int, err error) {
	end, err := r.listEnd(l)
	if err != nil {
		return nil, 0, err
	}
	found, skip := []bucket{{n: end.total}}, max(page.Offset, 0)
	for level := topLevel; level >= 0; level-- {
		if found, err = r.inside(l, level, found, newestFirst); err != nil {
			return nil, 0, err
		}
		found, skip = covering(found, skip, page.Limit)
	}
	return found, end.total, nil
}

// inside returns what is on a level in the given buckets of the level above, in
// their order. All of l is taken for the one bucket above the top level. What a
// bucket counts must all be there, or else pages would be wrong without a sign.
func (r *reader) inside(l list, level int, above []bucket, newestFirst bool) (found []bucket, err error) {
	prefix := l.levelPrefix(level)
	err = r.walk(prefix, func(c *cursor) error {
		for _, parent := range above {
			first, last := parent.number<<bucketBits, parent.number<<bucketBits|(bucketSize-1)
			if level == topLevel {
				last = math.MaxUint64
			}
			start, sum := len(found), 0
			for c.seek(l.levelKey(level, first)); c.key != nil && c.key.number() <= last; c.next() {
				b, err := readBucket(c, level)
				if err != nil {
					return err
				}
				found = append(found, b)
				sum += b.n
			}
			if sum != parent.n {
				return damaged(kindCount, "it is not the sum of what it counts")
			}
			if newestFirst {
				slices.Reverse(found[start:])
			}
		}
		return nil
	})
	return found, err
}

func readBucket(c *cursor, level int) (bucket, error) {
	number := c.key.number()
	if level == 0 {
		name, err := decodeAt(c, decodeID)
		return bucket{number, 1, name}, err
	}
	n, err := decodeAt(c, decodeNumber)
	return bucket{number: number, n: int(n)}, err
}

// covering returns those of buckets that have the objects behind the first skip
// ones, limit of them at most, and how many of their objects come before.
func covering(buckets []bucket, skip, limit int) ([]bucket, int) {
	first := 0
	for first < len(buckets) && skip >= buckets[first].n {
		skip -= buckets[first].n
		first++
	}
	end, have := first, -skip
	for end < len(buckets) && have < limit {
		have += buckets[end].n
		end++
	}
	return buckets[first:end], skip
}

// holds returns an error unless an object was found at the place that knows of it.
func (b bucket) holds(place uint64, err error) error {
	if errors.Is(err, domain.ErrNotFound) || err == nil && place != b.number {
		return damaged(kindPlace, "what stands there is elsewhere")
	}
	return err
}

func (l list) endKey() key { return append(newKey(kindListEnd, len(l)), l...) }

// levelKey returns the key of a bucket, which on level 0 is a place.
func (l list) levelKey(level int, bucket uint64) key {
	return binary.BigEndian.AppendUint64(l.levelPrefix(level), bucket)
}

func (l list) levelPrefix(level int) key {
	const room = 1 + len(uuid.UUID{}) + 1 + 8
	if level == 0 {
		return append(newKey(kindPlace, room), l...)
	}
	return append(append(newKey(kindCount, room), l...), byte(level))
}

// number returns the number that k ends with.
func (k key) number() uint64 { return binary.BigEndian.Uint64(k[len(k)-8:]) }

// encodeListEnd returns the sealed record of two numbers, big endian.
func encodeListEnd(k key, end listEnd) []byte {
	record := binary.BigEndian.AppendUint64(make([]byte, recordHeader, recordHeader+16), end.last)
	return seal(k, binary.BigEndian.AppendUint64(record, uint64(end.total)))
}

func decodeListEnd(payload []byte) (listEnd, error) {
	if len(payload) != 16 {
		return listEnd{}, errors.New("its length is wrong")
	}
	return listEnd{binary.BigEndian.Uint64(payload), int(binary.BigEndian.Uint64(payload[8:]))}, nil
}
