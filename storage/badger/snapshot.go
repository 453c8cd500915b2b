package badger

import (
	"context"
	"errors"

	badgerdb "github.com/dgraph-io/badger/v4"

	"github.com/caddy-presets/caddy-presets/domain"
)

// Snapshot is what an engine stores at one moment. What it or its Iterator panics
// with, or meets as a fault of a memory map, is taken for damage.
type Snapshot interface {
	// Get returns the record under k, which stays as it is, and domain.ErrNotFound
	// where there is none.
	Get(k key) ([]byte, error)
	// Iterate returns an iterator over the records under prefix, all of them where
	// that is empty, in the order of their keys. It stands nowhere until Seek.
	Iterate(prefix key) Iterator
}

// Iterator goes through records in the order of their keys. Key, Size and Value are
// of the record that it stands at, if it is Valid.
type Iterator interface {
	// Seek moves to the first record whose key is k or comes after it.
	Seek(k key)
	// Next moves to the record after this one.
	Next()
	// Valid reports whether it stands at a record.
	Valid() bool
	// Key returns the key, which is good until the iterator moves.
	Key() key
	// Size returns the length of the record.
	Size() int
	// Value returns the record, which is good until the iterator moves.
	Value() ([]byte, error)
	// Err returns what ended the iterator early, and nil at the end of the records.
	Err() error
	// Close ends the iterator.
	Close()
}

// Engine is what works on the records of an engine on its own.
type Engine interface {
	// View calls fn with a Reader of what is stored at one moment, and returns its error.
	View(ctx context.Context, fn func(*reader) error) error
	// Update is domain.Store's.
	Update(ctx context.Context, fn func(*tx) error) error
}

// engine is a Store for those who are done before it closes its files.
type engine struct{ *Store }

// View counts neither as a read, for which Close waits, nor any damage.
func (e engine) View(_ context.Context, fn func(*reader) error) error {
	txn := e.db.NewTransaction(false)
	defer discard(txn)
	return fn(&reader{snapshot: snapshot{txn}})
}

func (e engine) Update(ctx context.Context, fn func(*tx) error) error { return e.update(ctx, fn) }

// discard discards a transaction that was read from. Badger panics here if it panicked
// when an iterator was begun.
func discard(txn *badgerdb.Txn) {
	_ = guarded(func() error { txn.Discard(); return nil })
}

// snapshot is what a transaction shows. Interfaces hold it, and iterator, without
// another allocation.
//
// Badger promises values until the function that gets them has returned. But it copies
// those that are not in its value log, where none of ours is: valueThreshold is above
// maxRecord.
type snapshot struct{ txn *badgerdb.Txn }

func (s snapshot) Get(k key) ([]byte, error) {
	item, err := s.txn.Get(k)
	if errors.Is(err, badgerdb.ErrKeyNotFound) {
		return nil, domain.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return valueOf(item)
}

func (s snapshot) Iterate(prefix key) Iterator {
	return iterator{s.txn.NewIterator(badgerdb.IteratorOptions{Prefix: prefix})}
}

type iterator struct{ *badgerdb.Iterator }

func (i iterator) Seek(k key)             { i.Iterator.Seek(k) }
func (i iterator) Key() key               { return i.Item().Key() }
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
