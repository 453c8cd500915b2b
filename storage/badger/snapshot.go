package badger

import (
	"errors"

	badgerdb "github.com/dgraph-io/badger/v4"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

// discard discards a transaction. Badger panics here if it panicked when it made an iterator
// of the transaction.
func discard(txn *badgerdb.Txn) {
	_ = guarded(func() error { txn.Discard(); return nil })
}

// snapshot is the state that a transaction shows. snapshot and iterator have the size of a
// pointer, so an interface holds them without an allocation.
//
// Badger guarantees a value only during the callback that gets it. But it copies values that
// are not in its value log, and no record is long enough to be there.
type snapshot struct{ txn *badgerdb.Txn }

func (s snapshot) Get(k records.Key) ([]byte, error) {
	item, err := s.txn.Get(k)
	if errors.Is(err, badgerdb.ErrKeyNotFound) {
		return nil, domain.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return valueOf(item)
}

func (s snapshot) Iterate(prefix records.Key) records.Iterator {
	return iterator{s.txn.NewIterator(badgerdb.IteratorOptions{Prefix: prefix})}
}

type iterator struct{ *badgerdb.Iterator }

func (i iterator) Seek(k records.Key)     { i.Iterator.Seek(k) }
func (i iterator) Key() records.Key       { return i.Item().Key() }
func (i iterator) Value() ([]byte, error) { return valueOf(i.Item()) }
func (i iterator) Err() error             { return nil } // Badger panics on errors

func valueOf(item *badgerdb.Item) (value []byte, err error) {
	err = item.Value(func(v []byte) error {
		value = v
		return nil
	})
	return value, err
}
