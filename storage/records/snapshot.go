// Package records stores the domain's objects as records under keys. Any engine that
// stores keys and values can use it. The package defines the keys and the records, and
// reads and changes objects by them. The engine makes changes durable and isolated.
//
// An engine offers a Snapshot. A Reader reads it. A Tx reads it, too, and puts its writes
// into a Stage.
package records

// Snapshot is the content of an engine at one moment. Panics and memory faults of a
// Snapshot or its Iterator are reported as damage.
type Snapshot interface {
	// Get returns the record under k, or domain.ErrNotFound. The record must not change
	// afterwards.
	Get(k Key) ([]byte, error)
	// Iterate returns an iterator over the records under prefix, in the order of their
	// keys. An empty prefix selects all records. The iterator has no position until Seek.
	Iterate(prefix Key) Iterator
}

// Prefetcher is a Snapshot that keeps part of the records in memory.
type Prefetcher interface {
	// Prefetch reads the records under keys into memory at once, so that Get need not read
	// each on its own. If that fails, Get fails.
	Prefetch(keys []Key)
}

// Iterator goes through records in the order of their keys. Key and Value belong to the
// current record, if the iterator is Valid.
type Iterator interface {
	// Seek moves to the first record whose key is k or higher.
	Seek(k Key)
	// Next moves to the next record.
	Next()
	// Valid reports whether the iterator is at a record.
	Valid() bool
	// Key returns the key, which is valid until the iterator moves.
	Key() Key
	// Value returns the record, which is valid until the iterator moves.
	Value() ([]byte, error)
	// Err returns the error that ended the iterator early, nil at the end of the records.
	Err() error
	// Close ends the iterator.
	Close()
}
