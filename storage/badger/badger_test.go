package badger

import (
	"testing"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"
	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

func TestStore(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(t *testing.T, place string) storagetest.Store {
		s, err := Open(place, testOptions)
		if err != nil {
			t.Fatal(err)
		}
		return s
	})
}

func mustOpen(tb testing.TB, folder string) *Store {
	tb.Helper()
	s, err := Open(folder, testOptions)
	if err != nil {
		tb.Fatal(err)
	}
	s.limit = wait.Limit // other programs may keep the disk busy
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	return s
}

// write changes the store past the committer, which must be idle.
func (s *Store) write(fn func(*badgerdb.Txn) error) error {
	next := s.versions.landed() + 1
	txn := s.db.NewTransactionAt(next-1, true)
	defer txn.Discard()
	err := fn(txn)
	if err == nil {
		err = txn.CommitAt(next, nil)
	}
	if err == nil {
		s.versions.land(next)
	}
	return err
}

// failCommits has Badger refuse all commits, as it does while it makes room for a stream.
func failCommits(t *testing.T, s *Store) {
	t.Helper()
	stream := s.db.NewStreamWriter()
	_ = stream.PrepareIncremental() // which may fail afterwards
	t.Cleanup(stream.Cancel)
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

func by(workspaceID string) domain.Write {
	return domain.By(domain.Principal{KeyID: "test", UserID: "test", Kind: domain.ManagementKey, WorkspaceID: workspaceID})
}

func newWorkspace(slug string) domain.Workspace {
	return domain.Workspace{
		ID: newID(), Name: slug, Slug: slug, IOLoggingSamplingRate: 1,
		CreatedAt: time.Now().UTC(), CreatedBy: "test",
	}
}

// ample is a disk with much free space.
func ample(string) (uint64, error) { return 1 << 40, nil }

// workspaceBySlug returns the workspace that holds slug.
func workspaceBySlug(r domain.Reader, slug string) (domain.Workspace, error) {
	id, err := r.WorkspaceID(slug)
	if err != nil {
		return domain.Workspace{}, err
	}
	return r.Workspace(id)
}
