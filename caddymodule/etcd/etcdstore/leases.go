package etcdstore

import (
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// leases end records that are kept for a time. Only Commit uses them, so they need no lock.
type leases struct {
	store *Store
	byEnd map[int64]*lease // in Unix seconds
}

// lease is one lease in etcd. This node chooses its id. If the answer to a grant is lost,
// the node asks again with the same id. So no second lease is left behind.
type lease struct {
	id      clientv3.LeaseID
	granted bool
}

// leaseStep is how much longer a record may be kept than it asks for, in seconds. Records that
// end within the same step share a lease.
const leaseStep = 10 * 60

func newLeases(s *Store) *leases { return &leases{store: s, byEnd: make(map[int64]*lease)} }

// until returns a lease that ends at a time, in Unix seconds, or up to leaseStep later.
func (l *leases) until(ctx context.Context, expires uint64) (clientv3.LeaseID, error) {
	end, now := (int64(expires)/leaseStep+1)*leaseStep, time.Now().Unix()
	this := l.byEnd[end]
	if this == nil {
		maps.DeleteFunc(l.byEnd, func(end int64, _ *lease) bool { return end <= now })
		this = &lease{id: clientv3.LeaseID(rand.Int64N(math.MaxInt64) + 1)} //nolint:gosec // no secret
		l.byEnd[end] = this
	}
	if !this.granted {
		if err := l.grant(ctx, this.id, max(end-now, 1)); err != nil {
			return 0, err
		}
		this.granted = true
	}
	return this.id, nil
}

// grant asks one member after another for a lease. It calls etcd's API itself: the client
// cannot choose the id.
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

// askAgain has every lease granted again before it is used: etcd has lost one of them.
func (l *leases) askAgain() {
	for _, this := range l.byEnd {
		this.granted = false
	}
}
