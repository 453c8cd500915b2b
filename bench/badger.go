package main

import (
	"bytes"
	"errors"
	"os"
	"sync/atomic"

	badgerdb "github.com/dgraph-io/badger/v4"
)

// rawBadger commits one record in a synced transaction of Badger's own, the least
// that a durable write can be: nothing looks at the record, and there is no HTTP.
type rawBadger struct {
	db     *badgerdb.DB
	record []byte
	serial *atomic.Uint64
}

// openBadger opens an empty database, with Badger's own settings but synced, as
// ours is.
func (b *bench) openBadger(record []byte) (*rawBadger, error) {
	folder, err := os.MkdirTemp(b.folder, "badger-")
	if err != nil {
		return nil, err
	}
	db, err := badgerdb.Open(badgerdb.DefaultOptions(folder).WithSyncWrites(true).WithLogger(nil))
	if err != nil {
		return nil, err
	}
	raw := &rawBadger{db, record, &b.serial}
	return raw, errors.Join(raw.once(), raw.check())
}

func (r *rawBadger) trial() trial {
	return trial{work: badgerWork, inside: true, open: func(int) (session, error) { return r, nil }}
}

func (r *rawBadger) once() error {
	key := make([]byte, len(variable))
	writeSlug(key, 'b', r.serial.Add(1))
	return r.db.Update(func(txn *badgerdb.Txn) error { return txn.Set(key, r.record) })
}

// close ends a session, of which nothing remains.
func (*rawBadger) close() {}

// check reads back what was committed last.
func (r *rawBadger) check() error {
	key := make([]byte, len(variable))
	writeSlug(key, 'b', r.serial.Load())
	return r.db.View(func(txn *badgerdb.Txn) error {
		item, err := txn.Get(key)
		if err != nil {
			return err
		}
		return item.Value(func(value []byte) error {
			if !bytes.Equal(value, r.record) {
				return errors.New("badger returns another record than it was given")
			}
			return nil
		})
	})
}
