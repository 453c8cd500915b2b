package records

// Counter is a Snapshot that counts the records under a prefix without reading them.
type Counter interface {
	Count(prefix Key) (int, error)
}

// exportedKinds are the kinds of records that are an object of an export each.
var exportedKinds = []Kind{KindAudit, KindWorkspace, KindPreset, KindVersion, KindLabelChange, KindServed, KindUsage, KindKey}

// Objects implements domain.Reader.
func (r *Reader) Objects() (n int, err error) {
	for _, kind := range exportedKinds {
		count, err := r.count(kind.Prefix())
		if err != nil {
			return 0, err
		}
		n += count
	}
	return n, nil
}

func (r *Reader) count(prefix Key) (n int, err error) {
	if counter, ok := r.snapshot.(Counter); ok && !r.ended && r.stage == nil {
		return counter.Count(prefix)
	}
	err = r.walk(prefix, func(c *cursor) error {
		for ; c.key != nil; c.next() {
			n++
		}
		return nil
	})
	return n, err
}
