package main

import (
	"bytes"
	"errors"
	"os"
	"sync/atomic"

	badgerdb "github.com/dgraph-io/badger/v4"
)

// rawBadger commits one record in one synced Badger transaction. That is the least cost
// of a durable write. It does not check the record and uses no HTTP. Each measurement has
// an empty database with Badger's default settings and synced writes. It is closed
// afterwards, so that its background work delays no other candidate.
type rawBadger struct {
	parent string // contains the folders
	db     *badgerdb.DB
	record []byte
	serial *atomic.Uint64
}

func (b *bench) rawBadger(record []byte) trial {
	r := &rawBadger{parent: b.folder, record: record, serial: &b.serial}
	return trial{work: badgerWork, inProcess: true, begin: r.begin, open: func(int) (session, error) { return r, nil }}
}

func (r *rawBadger) begin() (end func() error, err error) {
	folder, err := os.MkdirTemp(r.parent, "badger-")
	if err != nil {
		return nil, err
	}
	r.db, err = badgerdb.Open(badgerdb.DefaultOptions(folder).WithSyncWrites(true).WithLogger(nil))
	if err != nil {
		return nil, err
	}
	end = func() error { return errors.Join(r.db.Close(), os.RemoveAll(folder)) }
	if err := errors.Join(r.once(), r.check()); err != nil {
		return nil, errors.Join(err, end())
	}
	return end, nil
}

func (r *rawBadger) once() error {
	key := make([]byte, len(variable))
	writeSlug(key, 'b', r.serial.Add(1))
	return r.db.Update(func(txn *badgerdb.Txn) error { return txn.Set(key, r.record) })
}

// close does nothing: a session holds no resources.
func (*rawBadger) close() {}

// check reads back the last committed record.
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
