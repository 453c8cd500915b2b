package records

import (
	"bytes"
	"cmp"
	"slices"
)

// cursor goes through records in the order of their keys. It shows the operation's staged
// writes in place of the records that they replace.
type cursor struct {
	committed Iterator
	staged    []Write // all writes, in key order
	ahead     []Write // the writes still to come
	own       bool    // the cursor is at the first write of ahead
	read      int     // the length of all records that were decoded

	// key is the key of the cursor's record, nil at the end. It is valid until the cursor
	// moves.
	key Key
}

// walk calls fn with a cursor at the first record under prefix. An update can have only one
// cursor at a time, so fn must only read from this one.
func (r *Reader) walk(prefix Key, fn func(c *cursor) error) error {
	if r.ended {
		return ErrEnded
	}
	return r.walkFrom(prefix, prefix, r.staged(prefix), fn)
}

// staged returns the writes under prefix that the snapshot lacks, in key order.
func (r *Reader) staged(prefix Key) []Write {
	if r.stage == nil {
		return nil
	}
	return r.stage.sorted(prefix)
}

// walkFrom is walk from the first record whose key is k or higher, with the given staged
// writes, which may be from an earlier moment.
func (r *Reader) walkFrom(k, prefix Key, staged []Write, fn func(c *cursor) error) error {
	return reading(prefix.Kind(), func() error {
		c := &cursor{committed: r.snapshot.Iterate(prefix), staged: staged}
		defer c.committed.Close()
		c.seek(k)
		err := fn(c)
		return cmp.Or(c.committed.Err(), err) // fn took the iterator's error for the end
	})
}

// seek moves to the first record whose key is k or higher.
func (c *cursor) seek(k Key) {
	c.committed.Seek(k)
	first, _ := slices.BinarySearchFunc(c.staged, k, func(w Write, k Key) int { return bytes.Compare(w.Key, k) })
	c.ahead = c.staged[first:]
	c.selectRecord()
}

// next moves to the record after this one.
func (c *cursor) next() {
	if c.own {
		c.ahead = c.ahead[1:]
	} else {
		c.committed.Next()
	}
	c.selectRecord()
}

// selectRecord moves to the lower of the two keys. It skips records that a write replaces
// or removes.
func (c *cursor) selectRecord() {
	for {
		c.key = nil
		if c.committed.Valid() {
			c.key = c.committed.Key()
		}
		c.own = len(c.ahead) > 0 && (c.key == nil || bytes.Compare(c.ahead[0].Key, c.key) <= 0)
		if !c.own {
			return
		}
		w := c.ahead[0]
		if bytes.Equal(w.Key, c.key) {
			c.committed.Next()
		}
		if w.Record != nil {
			c.key = w.Key
			return
		}
		c.ahead = c.ahead[1:]
	}
}

// decodeAt decodes the cursor's record.
func decodeAt[T any](c *cursor, decode func([]byte) (T, error)) (object T, err error) {
	var record []byte
	if c.own {
		record = c.ahead[0].Record
	} else if record, err = c.committed.Value(); err != nil {
		return object, err
	}
	c.read += len(record)
	return decodeRecord(c.key, record, decode)
}

// keyAt returns the cursor's key.
func keyAt(c *cursor) (Key, error) { return slices.Clone(c.key), nil }
