package etcdstore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/groupcommit"
	"github.com/caddy-presets/caddy-presets/storage/records"
	"github.com/caddy-presets/caddy-presets/storage/replica"
)

const (
	// maxWrites is the maximum number of records that a commit writes. By default etcd
	// accepts 128 operations in a transaction. Those of the transactions inside count, too.
	maxWrites = maxParts * maxParts
	maxParts  = 63
	// maxRequest is the number of bytes that etcd accepts in one request by default.
	// maxGroup is the maximum size of a group of several operations.
	maxRequest = 3 << 19
	maxGroup   = 1 << 20
	// writeCost is the size of a write without its key and its record. spareSize is the
	// size of a request without its writes.
	writeCost, spareSize = 32, 4 << 10

	// modestTries is the number of tries before this node asks the others to wait. They
	// wait for the duration of two of its tries, and no longer than courtesy. Without it
	// TestFarNode failed in 4 of 4 runs. The far node was 10 ms away, and
	// a node near the leader wrote all the time. The far node's first change ended in
	// ErrConflict after 64 tries. With it the slowest of 20 changes took 0.26 s.
	modestTries = 3
	courtesy    = time.Second
)

// committer commits groups to etcd: see groupcommit. It sends the writes of a group as one
// transaction. The condition is that the group's base is still the last commit. Otherwise
// another node was first, and the group runs again.
type committer struct {
	store  *Store
	groups *groupcommit.Committer[replica.Commit]

	id        uuid.UUID                 // of this node
	proposed  atomic.Pointer[uuid.UUID] // the last commit that this node proposed
	backoff   atomic.Int64              // how long to let another node go first, 0 for not at all
	overtaken atomic.Int64
	refused   atomic.Bool // whether etcd refused the last change

	took time.Duration // of the last try that was overtaken; Commit's own
}

func newCommitter(s *Store) *committer {
	c := &committer{store: s, id: uuid.New()}
	c.groups = groupcommit.New(c, groupcommit.Limits{
		Writes: maxWrites, GroupSize: maxGroup, OperationSize: maxRequest - spareSize,
		WriteCost: int64(writeCost + len(s.prefix)),
	})
	return c
}

// update implements Store.Update.
func (c *committer) update(ctx context.Context, fn func(*records.Tx) error) error {
	if err := c.store.watcher.CheckAvailable(); err != nil {
		return err
	}
	return c.groups.Update(ctx, fn)
}

// Begin implements groupcommit.Engine.
func (c *committer) Begin() (replica.Commit, error) { return c.store.model.Latest(), nil }

// Snapshot implements groupcommit.Engine.
func (c *committer) Snapshot(of replica.Commit, r groupcommit.Run) records.Snapshot {
	return &snapshot{ctx: r.Context, store: c.store, last: of, revision: of.Revision, abandonsOnMiss: !r.Wait}
}

// Commit implements groupcommit.Engine.
func (c *committer) Commit(g *groupcommit.Group[replica.Commit]) (replica.Commit, error) {
	if err := c.store.watcher.checkReachable(); err != nil {
		return replica.Commit{}, err
	}
	if patience := time.Duration(c.backoff.Swap(0)); patience > 0 && g.Tries <= modestTries {
		err := withTimeout(c.store.ctx, min(patience, courtesy), func(ctx context.Context) error {
			return c.store.model.Wait(ctx, g.Base.Revision+1)
		})
		if err == nil {
			return g.Base, groupcommit.ErrOvertaken
		}
	}
	begun := time.Now()
	made, err := c.send(g)
	if errors.Is(err, groupcommit.ErrOvertaken) {
		c.overtaken.Add(1)
		err = cmp.Or(c.catchUp(g, made), err)
		c.took = time.Since(begun)
	}
	return made, err
}

// setBackoff reads a node's request to the others to let it go first. It ignores this
// node's own requests.
func (c *committer) setBackoff(record []byte) {
	if len(record) == len(c.id)+8 && !bytes.HasPrefix(record, c.id[:]) {
		c.backoff.Store(int64(binary.BigEndian.Uint64(record[len(c.id):])))
	}
}

// send commits a group. If another commit came first, it returns the last known one.
func (c *committer) send(g *groupcommit.Group[replica.Commit]) (latest replica.Commit, err error) {
	if len(g.Writes) == 0 {
		return c.confirm(g)
	}
	latest, err = c.commit(g)
	return latest, err
}

// commit is send for a group that writes something.
func (c *committer) commit(g *groupcommit.Group[replica.Commit]) (latest replica.Commit, err error) {
	s := c.store
	next := g.Base.Next()
	ops, changes, err := c.operations(g, &next)
	if err != nil {
		return latest, err
	}
	change := s.stamps.Change()
	for _, w := range g.Writes {
		w.Key.Changes(change)
	}
	change.Begin()
	end := change.End
	defer func() { end() }()
	p := proposal{base: g.Base, next: next, ops: ops}
	if g.Tries >= modestTries {
		p.backoff = 2 * c.took
	}
	id := next.ID // next changes below
	c.proposed.Store(&id)
	made, response, err := c.decide(p)
	switch {
	case err == nil && response.Succeeded && made.ID == next.ID:
		c.logRefusal(nil)
		next.Revision = response.Header.Revision
	case err == nil && response.Succeeded: // a fence
		made.Revision = response.Header.Revision
		c.apply(nil, made)
		return made, groupcommit.ErrOvertaken
	case err == nil:
		if next, err = c.resolve(next, response); err != nil {
			return next, err
		}
	case errors.Is(err, rpctypes.ErrLeaseNotFound):
		s.leases.askAgain()
		return g.Base, groupcommit.ErrOvertaken // the group runs again, with a new lease
	case errors.Is(err, rpctypes.ErrNoSpace):
		c.logRefusal(err)
		if next, err = c.findRefused(g.Base, next, err); err != nil {
			return next, err
		}
	case isRefused(err):
		end = change.Cancel
		reason := classifyRefusal(err)
		if errors.Is(reason, domain.ErrUnavailable) {
			c.logRefusal(err)
		}
		return latest, fmt.Errorf("%w: etcd: %w", reason, err)
	default:
		return latest, err
	}
	c.apply(changes, next)
	for _, w := range g.Writes {
		if w.Key.Kind() == records.KindDeleted {
			groupcommit.Signal(s.deleted)
		}
	}
	return next, nil
}

// apply gets a commit into the model.
func (c *committer) apply(changes []replica.Change, made replica.Commit) {
	c.store.applying.Lock()
	defer c.store.applying.Unlock()
	c.store.model.Apply(changes, made.Revision, &made, true)
}

// findRefused finds out whether etcd made a commit that it refused for lack of space. When
// the quota is reached etcd makes the first changes that it refuses. The error is nil if
// the commit was made.
func (c *committer) findRefused(base, refused replica.Commit, cause error) (replica.Commit, error) {
	latest, _, err := c.store.lastCommit(c.store.ctx)
	switch {
	case err != nil:
		return latest, fmt.Errorf("%w: %w: %s", errUnknown, cause, err) //nolint:errorlint // it is not unavailable
	case latest.ID == refused.ID:
		return latest, nil
	case latest.Revision != base.Revision:
		latest, err = c.lookUp(refused, latest)
		if !errors.Is(err, groupcommit.ErrOvertaken) {
			return latest, err
		}
	}
	return latest, fmt.Errorf("%w: etcd: %w", domain.ErrUnavailable, cause)
}

// logRefusal logs when etcd begins to refuse changes, and when it accepts them again.
func (c *committer) logRefusal(err error) {
	switch logger := c.store.logger; {
	case c.refused.Swap(err != nil) == (err != nil):
	case errors.Is(err, rpctypes.ErrNoSpace):
		logger.Error("writes are refused: etcd's database has reached its quota; reads go on. "+
			"Compact and defragment it, or raise the quota, and disarm the alarm", zap.Error(err))
	case err != nil:
		logger.Error("writes are refused by etcd", zap.Error(err)) // reads may be refused, too, if the user has lost all rights
	default:
		logger.Warn("writes are accepted again")
	}
}

// classifyRefusal returns the error to answer with when etcd refuses a change.
func classifyRefusal(err error) error {
	// gRPC refuses even larger requests before etcd sees them.
	if errors.Is(err, rpctypes.ErrRequestTooLarge) || errors.Is(err, rpctypes.ErrTooManyOps) || strings.Contains(err.Error(), "message larger than max") {
		return domain.ErrTooLarge
	}
	return domain.ErrUnavailable
}

// confirm checks that a group without writes has read the last commit.
func (c *committer) confirm(g *groupcommit.Group[replica.Commit]) (replica.Commit, error) {
	latest, _, err := c.store.lastCommit(c.store.ctx)
	if err == nil && latest != g.Base {
		err = groupcommit.ErrOvertaken
	}
	return latest, err
}

// catchUp waits until this node knows the commits that overtook a group. A group that was
// overtaken before waits a little longer, for a random time. It returns an error if the
// commits do not arrive.
func (c *committer) catchUp(g *groupcommit.Group[replica.Commit], latest replica.Commit) error {
	if latest.Contradicts(g.Base) {
		return c.store.forgetLost()
	}
	if err := c.store.await(c.store.ctx, latest.Revision); err != nil {
		return err
	}
	switch n := g.Tries; {
	case n >= modestTries:
		// Before a node waits for this one, it may have sent one more commit.
		time.Sleep(min(c.took, courtesy) / 4)
	case n >= 2:
		time.Sleep(rand.N(time.Duration(n) * time.Millisecond)) //nolint:gosec // no secret
	}
	return nil
}

// newChange returns the change of a record, nil for one that is removed. Only reports read
// usage, and they read much of it.
func newChange(key records.Key, record []byte) replica.Change {
	return replica.Change{Key: string(key), Record: record, Unread: key.Kind() == records.KindUsage}
}

// operations returns the operations of a group's transaction, and what they change.
func (c *committer) operations(g *groupcommit.Group[replica.Commit], next *replica.Commit) (ops []clientv3.Op, changes []replica.Change, err error) {
	ctx, cancel := context.WithTimeout(c.store.ctx, c.store.timeout) // of all leases together
	defer cancel()
	ops, changes = make([]clientv3.Op, 0, len(g.Writes)), make([]replica.Change, 0, len(g.Writes))
	for k, w := range g.Writes {
		changes = append(changes, newChange(w.Key, w.Record))
		op, err := c.store.opOf(ctx, w)
		if err != nil {
			if isRefused(err) {
				c.logRefusal(err)
			}
			return nil, nil, err
		}
		ops = append(ops, op)
		if w.Record == nil {
			// A record that was written within the group may never have been stored.
			if record, known := c.store.model.Get(k, g.Base.Revision, g.Base.Revision); known && record != nil {
				next.Removed++
			}
		}
	}
	return ops, changes, nil
}

// opOf returns the operation of a write, whose record is not copied. A record that
// expires gets a lease.
func (s *Store) opOf(ctx context.Context, w records.Write) (op clientv3.Op, err error) {
	switch {
	case w.Record == nil:
		op = clientv3.OpDelete("")
	case w.Expires == 0:
		op = clientv3.OpPut("", "")
	default:
		lease, err := s.leases.until(ctx, w.Expires)
		if err != nil {
			return op, err
		}
		op = clientv3.OpPut("", "", clientv3.WithLease(lease))
	}
	op.WithKeyBytes(slices.Concat([]byte(s.prefix), w.Key))
	op.WithValueBytes(w.Record)
	return op, nil
}
