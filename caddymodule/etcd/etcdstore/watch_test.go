package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/replica"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// TestMemberHangs stops the answers of the watched member, which keeps its connections
// open. Other nodes commit meanwhile.
func TestMemberHangs(t *testing.T) {
	t.Parallel()
	var members []*proxy
	var endpoints []string
	for range 3 {
		p := newProxy(t, sharedAddress(t))
		members, endpoints = append(members, p), append(endpoints, p.address)
	}
	s, other := open(t, Options{Endpoints: endpoints}), open(t, Options{})
	w := newID()
	put(t, other, w, "p")
	before := s.Status().Restarts
	for n, p := range members {
		wait.Until(t, "the watch has worked for a while", func() bool {
			s.watcher.mu.Lock()
			defer s.watcher.mu.Unlock()
			return s.watcher.watching.Load() && time.Since(s.watcher.lastEvent) > nextAttempt
		})
		p.set(func() { p.paused = [2]bool{true, true} })
		if _, err := add(t.Context(), other, w, "p", fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
		// The client closes a connection after keepAliveTime and keepAliveTimeout.
		wait.Until(t, "the store is current", func() bool { return s.Sync(t.Context()) == nil })
		if got := len(versions(t, s, w, "p")); got != n+1 {
			t.Errorf("got %d versions, want %d", got, n+1)
		}
		p.set(func() { p.paused = [2]bool{} })
	}
	if s.Status().Restarts == before {
		t.Error("the watch was never begun again: this tests nothing")
	}
	if got := s.Status().Resets; got != 0 {
		t.Errorf("got %d resets, want none", got)
	}
}

// TestWatchAhead waits for a revision while the watch has missed earlier changes.
func TestWatchAhead(t *testing.T) {
	p := newProxy(t, sharedAddress(t))
	s, other := open(t, Options{Endpoints: []string{p.address}, RequestTimeout: 2 * time.Second}), open(t, Options{})
	w := newID()
	put(t, other, w, "p")
	wait.Until(t, "the store is current", func() bool { return s.Sync(t.Context()) == nil })
	p.setCut(true)
	put(t, other, w, "q")
	s.watcher.at.Store(other.model.Latest().Revision)
	s.watcher.mu.Lock()
	s.watcher.restart()
	s.watcher.mu.Unlock()
	before := s.Status().Restarts
	wait.Until(t, "the watch begins again", func() bool { return s.Status().Restarts > before })
	p.setCut(false)
	wait.Until(t, "the missed preset is found", func() bool {
		return s.View(t.Context(), func(r domain.Reader) error {
			_, err := r.Preset(w, "q")
			return err
		}) == nil
	})
}

// TestCompactedRemoval compacts at the commit that removed a record. etcd 3.4 then reports
// the commit's other changes, but not the removal.
func TestCompactedRemoval(t *testing.T) {
	p := newProxy(t, sharedAddress(t))
	s, other := open(t, Options{Endpoints: []string{p.address}}), open(t, Options{})
	w := newWorkspace("former")
	store := func(slug string) {
		t.Helper()
		w.Slug = slug
		if err := other.Update(t.Context(), func(tx domain.Tx) error { return tx.PutWorkspace(w) }); err != nil {
			t.Fatal(err)
		}
	}
	find := func() error {
		return s.View(t.Context(), func(r domain.Reader) error {
			_, err := r.WorkspaceID("former")
			return err
		})
	}
	store("former")
	if err := find(); err != nil {
		t.Fatal(err)
	}
	before := s.Stamps().Workspace("former")
	p.setCut(true)
	store("latter")
	if _, err := client(t).Compact(t.Context(), other.model.Latest().Revision); err != nil {
		t.Fatal(err)
	}
	p.setCut(false)
	wait.Until(t, "the store is current", func() bool { return s.Sync(t.Context()) == nil })
	if err := find(); !errors.Is(err, domain.ErrNotFound) {
		t.Errorf("the former slug: got error %v, want that it is not there", err)
	}
	if s.Stamps().Workspace("former") == before {
		t.Error("the stamp of the former slug is the same")
	}
}

// TestMissed sends a store commits that cannot be the next ones, or that are incomplete.
func TestMissed(t *testing.T) {
	s := open(t, Options{})
	put(t, s, newID(), "p")
	last := s.model.Latest()
	for name, c := range map[string]replica.Commit{
		"a gap":              {Number: last.Number + 2, ID: uuid.New(), After: last.ID},
		"another before it":  {Number: last.Number + 1, ID: uuid.New(), After: uuid.New()},
		"another of its own": {Number: last.Number, ID: uuid.New(), After: last.After},
		"a part":             {Number: last.Number + 1, ID: uuid.New(), After: last.ID, Removed: 1},
	} {
		event := &clientv3.Event{Type: clientv3.EventTypePut, Kv: &mvccpb.KeyValue{Key: []byte(s.prefix + lastKey), Value: []byte(replica.EncodeCommit(c)), ModRevision: last.Revision + 10}}
		if err := s.watcher.apply([]*clientv3.Event{event}); !errors.Is(err, errMissed) {
			t.Errorf("%s: got error %v, want that commits were missed", name, err)
		}
	}
	if got := s.model.Latest(); got != last {
		t.Errorf("got %v as the last commit, want %v", got, last)
	}
}

// TestSaidToBeCanceled uses a member, or a proxy before it, that cancels a request that it
// may have applied. The client must not send it again, though it does so for these two
// codes.
func TestSaidToBeCanceled(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	for _, tc := range []struct {
		ctx       context.Context
		got, want codes.Code
	}{
		{t.Context(), codes.Canceled, codes.Unavailable},
		{t.Context(), codes.DeadlineExceeded, codes.Unavailable},
		{t.Context(), codes.ResourceExhausted, codes.ResourceExhausted},
		{t.Context(), codes.OK, codes.OK},
		{ended, codes.Canceled, codes.Canceled},
		{ended, codes.DeadlineExceeded, codes.DeadlineExceeded},
	} {
		err := new(dialErrors).intercept(tc.ctx, "/etcdserverpb.KV/Txn", nil, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
			return status.Error(tc.got, "x")
		})
		if got := status.Code(err); got != tc.want {
			t.Errorf("%v: got %v, want %v", tc.got, got, tc.want)
		}
	}
}

// TestStampsOfOwnCommits changes an object. Its stamp must not change again after Update
// has returned, when the watch tells the node of its own commit.
func TestStampsOfOwnCommits(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	w := newID()
	for n := range 1000 {
		slug := fmt.Sprint("p", n)
		put(t, s, w, slug)
		stamp := s.Stamps().Preset(w, slug)
		if stamp == 0 {
			t.Fatalf("commit %d has ended, and the stamp is zero", n)
		}
		last := s.model.Latest().Revision
		wait.Until(t, "the watch has told of the commit", func() bool { return s.watcher.at.Load() >= last })
		if got := s.Stamps().Preset(w, slug); got != stamp {
			t.Fatalf("the stamp of commit %d changed once more, from %x to %x", n, stamp, got)
		}
	}
}
