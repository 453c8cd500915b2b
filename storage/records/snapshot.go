// Package records is how workspaces, presets, issued keys and the audit trail are kept
// as records under keys, in any engine that stores those: what the keys are, what is
// in the records, and how a change and a read of the domain's come about by them. Which
// records are durable, and which of them are seen together, is the engine's business.
//
// An engine offers a Snapshot. A Reader reads it; a Tx reads it, too, and leaves what
// is to be written in a Stage.
package records

// Snapshot is what an engine stores at one moment. What it or its Iterator panics
// with, or meets as a fault of a memory map, is taken for damage.
type Snapshot interface {
	// Get returns the record under k, which stays as it is, and domain.ErrNotFound
	// where there is none.
	Get(k Key) ([]byte, error)
	// Iterate returns an iterator over the records under prefix, all of them where
	// that is empty, in the order of their keys. It stands nowhere until Seek.
	Iterate(prefix Key) Iterator
}

// Guesser is a Snapshot that can take something for granted, and make sure of it when
// what came of that is to be stored: if it was wrong, all is run again. Where nothing is
// to be stored, as after an error, all is run again without guesses, so that nobody is
// told what came of a wrong one.
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
