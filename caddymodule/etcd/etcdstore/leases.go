package etcdstore

import (
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// leases let answers go that are kept for a time. Nothing else depends on them.
type leases struct {
	store *Store

	mu      sync.Mutex
	granted map[int64]clientv3.LeaseID // by when they end, in Unix seconds
	// wanted are the ids of those that etcd may have granted without its answer having
	// come: they are asked for again, so that none is left behind.
	wanted map[int64]clientv3.LeaseID
}

// leaseStep is how much longer an answer may be kept than it needs to be, so that many
// share a lease, and longestLease how long a lease is at most: what is kept for longer, as
// the mark of an import is until that is finished, has none. Each in seconds.
const (
	leaseStep    = 10 * 60
	longestLease = 366 * 24 * 3600
)

func newLeases(s *Store) *leases {
	return &leases{store: s, granted: make(map[int64]clientv3.LeaseID), wanted: make(map[int64]clientv3.LeaseID)}
}

// until returns a lease that ends at a time, in Unix seconds, or somewhat later, and
// clientv3.NoLease if that is far away.
func (l *leases) until(ctx context.Context, expires uint64) (clientv3.LeaseID, error) {
	end := (int64(expires)/leaseStep + 1) * leaseStep
	l.mu.Lock()
	defer l.mu.Unlock()
	if id, ok := l.granted[end]; ok {
		return id, nil
	}
	now := time.Now().Unix()
	if end-now > longestLease {
		return clientv3.NoLease, nil
	}
	over := func(end int64, _ clientv3.LeaseID) bool { return end <= now }
	maps.DeleteFunc(l.granted, over)
	maps.DeleteFunc(l.wanted, over)
	id, ok := l.wanted[end]
	if !ok {
		id = clientv3.LeaseID(rand.Int64N(math.MaxInt64) + 1) //nolint:gosec // no secret
		l.wanted[end] = id
	}
	if err := l.grant(ctx, id, max(end-now, 1)); err != nil {
		return 0, err
	}
	l.granted[end] = id
	delete(l.wanted, end)
	return id, nil
}

// grant asks for a lease, of one member after another. The client has no way to say which
// id the lease is to have, without which each attempt would make another one.
func (l *leases) grant(ctx context.Context, id clientv3.LeaseID, seconds int64) error {
	_, err := request(ctx, l.store, func(ctx context.Context) (struct{}, error) {
		grants := etcdserverpb.NewLeaseClient(l.store.client.ActiveConnection())
		_, err := grants.LeaseGrant(ctx, &etcdserverpb.LeaseGrantRequest{ID: int64(id), TTL: seconds})
		if err = rpctypes.Error(err); errors.Is(err, rpctypes.ErrLeaseExist) {
			err = nil
		}
		return struct{}{}, err
	})
	return unavailable(err) // nothing was written yet
}

// forget forgets all leases, as when one is no more.
func (l *leases) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.granted)
	clear(l.wanted)
}
