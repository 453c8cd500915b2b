// Package records stores the domain's objects as records under keys. Any engine that
// stores keys and values can use it. The package defines the keys and the records, and
// reads and changes objects by them. The engine makes changes durable and isolated.
//
// An engine offers a Snapshot. A Reader reads it. A Tx reads it, too, and puts its writes
// into a Stage.
package records

// Snapshot is what an engine stores at one moment. Panics and memory faults of it or of
// its Iterator are reported as damage.
type Snapshot interface {
	// Get returns the record under k, which stays as it is, and domain.ErrNotFound
	// where there is none.
	Get(k Key) ([]byte, error)
	// Iterate returns an iterator over the records under prefix, all of them where
	// that is empty, in the order of their keys. It stands nowhere until Seek.
	Iterate(prefix Key) Iterator
}

// Guesser is a Snapshot that can guess, and checks its guesses when the change is stored.
// If a guess was wrong, the change is run again. If there is nothing to store, as after an
// error, the change is run again without guesses: its result may come from a wrong one.
type Guesser interface {
	// Vacant reports whether there is no record under k, which is to be expected, as
	// far as that can be told without reading it.
	Vacant(k Key) bool
}

// Iterator goes through records in the order of their keys. Key, Size and Value are
// of the record that it stands at, if it is Valid.
type Iterator interface {
	// Seek moves to the first record whose key is k or comes after it.
	Seek(k Key)
	// Next moves to the record after this one.
	Next()
	// Valid reports whether it stands at a record.
	Valid() bool
	// Key returns the key, which is good until the iterator moves.
	Key() Key
	// Size returns the length of the record.
	Size() int
	// Value returns the record, which is good until the iterator moves.
	Value() ([]byte, error)
	// Err returns what ended the iterator early, and nil at the end of the records.
	Err() error
	// Close ends the iterator.
	Close()
}
