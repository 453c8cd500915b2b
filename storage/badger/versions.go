package badger

import (
	"slices"
	"sync"

	badgerdb "github.com/dgraph-io/badger/v4"
)

// versions are the states of the store that can be read. Each commit makes the next one,
// which is a version number of Badger's.
//
// Badger is opened in its managed mode, in which the reader chooses the version. In the
// other mode each transaction waits for the commit in flight, even if the disk does not
// answer. That mode also shows writes whose flush has failed.
type versions struct {
	db *badgerdb.DB

	mu   sync.Mutex
	kept []*version // in order: those that somebody reads, and the last two that have landed
}

// version is a state of the store.
type version struct {
	number  uint64
	readers int
}

// newVersions returns the versions of a database that was just opened.
func newVersions(db *badgerdb.DB) *versions {
	v := &versions{db: db}
	v.land(db.MaxVersion())
	return v
}

// latest returns the last version that has landed, and a transaction of it. Badger keeps
// the version until it is released.
func (v *versions) latest() (*badgerdb.Txn, *version) {
	v.mu.Lock()
	defer v.mu.Unlock()
	last := v.kept[len(v.kept)-1]
	last.readers++
	return v.db.NewTransactionAt(last.number, false), last
}

// read returns a transaction of the last version that has landed. It can be read until two
// later versions have landed.
func (v *versions) read() *badgerdb.Txn { return v.db.NewTransactionAt(v.landed(), false) }

// landed returns the number of the last version that has landed.
func (v *versions) landed() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.kept[len(v.kept)-1].number
}

// land records that a version is durable. Later readers see it.
func (v *versions) land(number uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.kept = append(v.kept, &version{number: number})
	if n := len(v.kept) - 3; n >= 0 && v.kept[n].readers == 0 {
		v.kept = slices.Delete(v.kept, n, n+1)
	}
	v.discard()
}

// release ends a read of a version.
func (v *versions) release(of *version) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if of.readers--; of.readers > 0 {
		return
	}
	// A read can last for thousands of commits, as that of a backup does.
	if n := slices.Index(v.kept, of); n < len(v.kept)-2 {
		v.kept = slices.Delete(v.kept, n, n+1)
		v.discard()
	}
}

// discard lets Badger's compactions drop the data that no kept version shows.
func (v *versions) discard() { v.db.SetDiscardTs(v.kept[0].number) }

// newest returns a transaction of all that is in a database to which nobody writes.
func newest(db *badgerdb.DB) *badgerdb.Txn { return db.NewTransactionAt(db.MaxVersion(), false) }
