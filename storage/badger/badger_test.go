package badger

import (
	"sync/atomic"
	"testing"
	"time"

	badgerdb "github.com/dgraph-io/badger/v4"
	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest"
)

func TestStore(t *testing.T) {
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
	s.limit = time.Minute // the disk may be busy with what others do
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("Close: %v", err)
		}
	})
	return s
}

// countCommits is called before any update.
func countCommits(s *Store, n *atomic.Int64) {
	s.committer.commit = func(txn *badgerdb.Txn) error {
		n.Add(1)
		return txn.Commit()
	}
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

// eventually waits for something.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after two minutes: %s is not so", what)
		}
	}
}

// workspaceBySlug returns the workspace that holds slug.
func workspaceBySlug(r domain.Reader, slug string) (domain.Workspace, error) {
	id, err := r.WorkspaceID(slug)
	if err != nil {
		return domain.Workspace{}, err
	}
	return r.Workspace(id)
}
