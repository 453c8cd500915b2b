package badger

import (
	"context"
	"errors"
	"fmt"
	"io"

	badgerdb "github.com/dgraph-io/badger/v4"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/dump"
	"github.com/caddy-presets/caddy-presets/storage/records"
)

// Backup writes a dump of the store as it is at one moment. Reads and writes go on
// meanwhile. The dump is encrypted with the store's key if the store is.
//
// Backup checks the tables and each record, and refuses a damaged store. The error names
// the kind of the damaged record and shows no content. After an error, the output in w cannot
// be restored. Backup ends early with ctx. It ends soon with domain.ErrClosed when the store
// is being closed.
func (s *Store) Backup(ctx context.Context, w io.Writer) error {
	until, cancel := s.untilClosed(ctx)
	defer cancel()
	err := s.view(ctx, func(txn *badgerdb.Txn, r *records.Reader) error {
		// A damaged index would hide some of the records.
		var files storage.Report
		if err := s.checkFiles(&files, func() error { return context.Cause(until) }); err != nil {
			return err
		}
		if err := files.Err(); err != nil {
			return err
		}
		commit, err := r.LastCommit()
		if err != nil {
			return err
		}
		return dump.Write(until, w, snapshot{txn}, commit, s.db.Opts().EncryptionKey)
	})
	if err != nil && !errors.Is(err, domain.ErrClosed) {
		err = fmt.Errorf("making a backup: %w", err)
	}
	return err
}
