package badger

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"

	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

// Verify checks a folder that no process has open. It does what VerifyQuickly does, reads
// every record, and compares the records with each other. The error is VerifyQuickly's or that of
// ctx. All else that is wrong is in the report. It takes some seconds for each million records.
func Verify(ctx context.Context, folder string, o Options) (report storage.Report, err error) {
	err = verify(folder, o, func(db *badgerdb.DB) error {
		listed, _, _ := listedTables(folder) // whose error came before
		report.Tables = len(listed)
		txn := newest(db)
		defer txn.Discard()
		return checkRecords(txn, &report, ctx.Err)
	})
	return report, err
}

// Check checks the whole store as Verify does, while it is in use. It rests four times as
// long as it works. Close waits for it, so ctx must end first.
func (s *Store) Check(ctx context.Context) (report storage.Report, err error) {
	err = s.view(ctx, func(txn *badgerdb.Txn, _ *records.Reader) error {
		began := time.Now()
		pause := func() error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(4 * time.Since(began)):
				began = time.Now()
				return nil
			}
		}
		if err := s.checkFiles(&report, pause); err != nil {
			return err
		}
		return checkRecords(txn, &report, pause)
	})
	s.damage.Add(int64(len(report.Problems) + report.More))
	if err == nil {
		s.checked.Store(time.Now().UnixNano())
	}
	return report, err
}

// checkFiles checks the tables that are in use, one after another. It ignores tables that a
// compaction removes meanwhile. It fails if the system refuses to read.
func (s *Store) checkFiles(report *storage.Report, pause func() error) error {
	if s.guard == nil {
		return nil // in memory
	}
	add := func(err error) error {
		if err != nil && isRefusal(err) {
			return readError(err)
		}
		if err != nil {
			report.AddProblem("%v", err)
		}
		return nil
	}
	folder := s.guard.folder
	listed, _, damaged := listedTables(folder)
	with, lost := dataKey(folder, s.db.Opts().EncryptionKey)
	if err := cmp.Or(add(damaged), add(lost), add(s.guard.checkSameFolder())); err != nil || lost != nil {
		return err
	}
	for name := range listed {
		err := checkTable(folder, name, with)
		if err == nil {
			_, err = os.Stat(filepath.Join(folder, name))
		}
		if err != nil {
			if now, _, damaged := listedTables(folder); !now[name] {
				err = damaged
			}
		}
		report.Tables++
		if err := cmp.Or(add(err), pause()); err != nil {
			return err
		}
	}
	return nil
}

// checkRecords checks all records that txn shows.
func checkRecords(txn *badgerdb.Txn, report *storage.Report, pause func() error) error {
	c := records.Checker{Report: report, Pause: pause}
	return c.Check(snapshot{txn})
}

// Status is the state of a store.
type Status struct {
	// FreeBytes is the free space of the file system. NeededBytes is the space that a
	// write needs. Both are 0 in memory and if the free space is unknown.
	FreeBytes, NeededBytes uint64
	// Slowed is for how long writes were held back since the store was opened, because
	// compactions did not keep up.
	Slowed time.Duration
	// Writable is false while writes are refused.
	Writable bool
	// Damage counts the reads that met damaged records since the store was opened, and
	// the problems that checks found.
	Damage int64
	// Checked is when the last complete Check ended, zero for never.
	Checked time.Time
}

// Status returns the state of s. It asks the system for the free space and reads nothing.
func (s *Store) Status() Status {
	status := Status{Writable: !s.committer.halted.Load() && !s.committer.silent.Load(), Damage: s.damage.Load(), Slowed: time.Duration(s.committer.backlog.held.Load())}
	if nanos := s.checked.Load(); nanos != 0 {
		status.Checked = time.Unix(0, nanos)
	}
	if g := s.guard; g != nil {
		free, err := g.checkWritable()
		status.FreeBytes, status.NeededBytes = free, g.needed.Load()+g.ballastDebt.Load()
		status.Writable = status.Writable && err == nil
	}
	return status
}

// Damaged reports whether a read or a check has found damage since s was opened. It asks
// nothing of the system.
func (s *Store) Damaged() bool { return s.damage.Load() > 0 }

// countDamage counts a read that met damage.
func (s *Store) countDamage(err error) {
	if errors.Is(err, ErrDamaged) {
		s.damage.Add(1)
	}
}
