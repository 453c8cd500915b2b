package records

import (
	"iter"
	"slices"
)

// each yields the decoded records under a prefix, in the order of their keys. Under a nil
// prefix it yields nothing. It sees the writes that were staged when the iteration began.
func each[T any](r *Reader, prefix Key, decode func(c *cursor) (T, error)) iter.Seq2[T, error] {
	return pages[T]{r: r, prefix: prefix, next: prefix, decode: decode}.each
}

// pages reads the records under a prefix page by page. No cursor stays open between two
// pages, because an update can have only one. The caller may read other objects meanwhile.
type pages[T any] struct {
	r      *Reader
	prefix Key
	next   Key // the first key of the next page, nil after the last page
	staged []Write
	// wanted selects records, nil for all. For the key of another record it returns a
	// higher key under the prefix: no record before that is selected.
	wanted func(Key) (next Key)
	decode func(c *cursor) (T, error)
}

// pageSize is the size of the keys and the decoded records of a page, in bytes. The last record of
// a page may exceed it.
const pageSize = 16 << 10

// each yields the objects of all pages.
func (p pages[T]) each(yield func(T, error) bool) {
	if p.r.ended {
		yield(*new(T), ErrEnded)
		return
	}
	if p.prefix == nil {
		return
	}
	p.staged = p.r.staged(p.prefix)
	for p.next != nil {
		page, err := p.read()
		for _, object := range page {
			if !yield(object, nil) {
				return
			}
			if p.r.ended {
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

// read returns the next page. With an error it also returns the objects before the failed
// one.
func (p *pages[T]) read() (page []T, err error) {
	err = p.r.walkFrom(p.next, p.prefix, p.staged, func(c *cursor) error {
		keys := 0
		for c.key != nil {
			if p.wanted != nil {
				if next := p.wanted(c.key); next != nil {
					c.seek(next)
					continue
				}
			}
			if keys+c.read >= pageSize {
				p.next = slices.Clone(c.key)
				return nil
			}
			object, err := p.decode(c)
			if err != nil {
				return err
			}
			page = append(page, object)
			keys += len(c.key)
			c.next()
		}
		p.next = nil
		return nil
	})
	return page, err
}
