package records

// EachRecord calls fn with every record of a snapshot, in the order of their keys. It
// unseals each one first. Damage is an error with storage.ErrDamaged in its chain, also where
// the snapshot panics. k is valid until fn returns. record does not change if the snapshot's
// records do not. The first error of fn ends it.
func EachRecord(s Snapshot, fn func(k Key, record []byte) error) error {
	return eachRecord(s, func(k Key, record []byte, err error) error {
		if err != nil {
			return err
		}
		return fn(k, record)
	})
}

// eachRecord is EachRecord that calls fn with the error of a record that cannot be read, too.
func eachRecord(s Snapshot, fn func(k Key, record []byte, err error) error) error {
	var (
		it Iterator
		k  Key // of the record, nil at the end
	)
	guarded := func(do func() error) error { return reading(kindOf(k), do) }
	defer func() {
		if it != nil {
			_ = guarded(func() error { it.Close(); return nil })
		}
	}()
	for {
		err := guarded(func() error {
			if it == nil {
				it = s.Iterate(nil)
				it.Seek(nil)
			} else {
				it.Next()
			}
			if k = nil; it.Valid() {
				k = it.Key()
			}
			return it.Err()
		})
		if err != nil || k == nil {
			return err
		}
		var record []byte
		err = guarded(func() (err error) {
			if !k.Valid() {
				return damaged(0, "its key is not one of ours")
			}
			if record, err = it.Value(); err == nil {
				_, err = Unseal(k, record)
			}
			return err
		})
		if err := fn(k, record, err); err != nil {
			return err
		}
	}
}

// kindOf returns the kind of a key, 0 for one that is not valid.
func kindOf(k Key) Kind {
	if !k.Valid() {
		return 0
	}
	return k.Kind()
}

// Counter is a Snapshot that counts the records under a prefix without reading them.
type Counter interface {
	Count(prefix Key) (int, error)
}

// Count returns the number of records of a snapshot, without reading their content.
func Count(s Snapshot) (n int, err error) {
	if counter, ok := s.(Counter); ok {
		return counter.Count(newKey(0, 0)[:1])
	}
	err = reading(0, func() error {
		it := s.Iterate(nil)
		defer it.Close()
		for it.Seek(nil); it.Valid(); it.Next() {
			n++
		}
		return it.Err()
	})
	return n, err
}

// Expires returns when an engine may remove the record under k, in Unix seconds, or 0 if it
// keeps the record.
func Expires(k Key, record []byte) (uint64, error) {
	if k.Kind() != KindReplay {
		return 0, nil
	}
	replay, err := decodeRecord(k, record, decodeReplay)
	return uint64(max(replay.ExpiresAt.Add(replayMargin).Unix(), 1)), err
}
