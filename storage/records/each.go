package records

import (
	"iter"
	"slices"
)

// each yields what decode makes of every record under a prefix, in the order of
// their keys, and nothing under nil. It sees the writes that the operation had staged
// when the iteration began.
func each[T any](r *Reader, prefix Key, decode func(c *cursor) (T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if r.ended {
			yield(*new(T), ErrEnded)
			return
		}
		if prefix == nil {
			return
		}
		pages := pages[T]{r: r, prefix: prefix, next: prefix, staged: r.staged(prefix), decode: decode}
		for pages.next != nil {
			page, err := pages.read()
			for _, object := range page {
				if !yield(object, nil) {
					return
				}
				if r.ended {
					yield(*new(T), ErrEnded)
					return
				}
			}
			if err != nil {
				yield(*new(T), err)
				return
			}
		}
	}
}

// pages reads what is under a prefix piece by piece. No cursor stays open between
// the pieces: an update can have only one at a time, and whoever reads the objects
// may read others meanwhile.
type pages[T any] struct {
	r      *Reader
	prefix Key
	next   Key // where the next page begins, nil after the last
	staged []Write
	decode func(c *cursor) (T, error)
}

// pageSize is how many bytes of records a page has, or a few more.
const pageSize = 16 << 10

// read returns the next page. Before an error it returns what comes before the
// object that it is about.
func (p *pages[T]) read() (page []T, err error) {
	err = p.r.walkWith(p.staged, p.next, p.prefix, func(c *cursor) error {
		size := 0
		for ; c.key != nil; c.next() {
			if size >= pageSize {
				p.next = slices.Clone(c.key)
				return nil
			}
			object, err := p.decode(c)
			if err != nil {
				return err
			}
			page = append(page, object)
			size += c.size()
		}
		p.next = nil
		return nil
	})
	return page, err
}
