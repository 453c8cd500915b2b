package badger

import (
	"context"
	"errors"

	badgerdb "github.com/dgraph-io/badger/v4"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

// engine is a Store for those who are done before it closes its files.
type engine struct{ *Store }

// View counts neither as a read, for which Close waits, nor any damage.
func (e engine) View(_ context.Context, fn func(*records.Reader) error) error {
	txn, at := e.versions.latest()
	defer e.versions.release(at)
	defer discard(txn)
	return fn(records.NewReader(snapshot{txn}))
}

func (e engine) Update(ctx context.Context, fn func(*records.Tx) error) error {
	return e.update(ctx, fn)
}

// discard discards a transaction that was read from. Badger panics here if it panicError
// when an iterator was begun.
func discard(txn *badgerdb.Txn) {
	_ = guarded(func() error { txn.Discard(); return nil })
}

// snapshot is what a transaction shows. Interfaces hold it, and iterator, without
// another allocation.
//
// Badger promises values until the function that gets them has returned. But it copies
// those that are not in its value log, where none of ours is: valueThreshold is above
// records.MaxRecord.
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
func (i iterator) Size() int              { return int(i.Item().ValueSize()) }
func (i iterator) Value() ([]byte, error) { return valueOf(i.Item()) }
func (i iterator) Err() error             { return nil } // what goes wrong it panics on

func valueOf(item *badgerdb.Item) (value []byte, err error) {
	err = item.Value(func(v []byte) error {
		value = v
		return nil
	})
	return value, err
}
