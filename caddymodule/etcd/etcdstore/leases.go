package etcdstore

import (
	"context"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// leases let answers go that are kept for a time. Nothing else depends on them.
type leases struct {
	client *clientv3.Client

	mu      sync.Mutex
	granted map[int64]clientv3.LeaseID // by when they end, in Unix seconds
}

// leaseStep is how much longer an answer may be kept than it needs to be, so that many
// share a lease, and longestLease how long a lease is at most: what is kept for longer, as
// the mark of an import is until that is finished, has none. Each in seconds.
const (
	leaseStep    = 10 * 60
	longestLease = 366 * 24 * 3600
)

func newLeases(client *clientv3.Client) *leases {
	return &leases{client: client, granted: make(map[int64]clientv3.LeaseID)}
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
	for other := range l.granted {
		if other <= now {
			delete(l.granted, other)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, firstPatience)
	defer cancel()
	response, err := l.client.Grant(ctx, max(end-now, 1))
	if err != nil {
		return 0, err
	}
	l.granted[end] = response.ID
	return response.ID, nil
}

// forget forgets all leases, as when one is no more.
func (l *leases) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.granted)
}
