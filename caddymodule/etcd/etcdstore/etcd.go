// Package etcdstore is a domain.Store in an etcd cluster, which several nodes share.
// docs/cluster.md has its guarantees.
package etcdstore

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/groupcommit"
	"github.com/caddy-presets/caddy-presets/storage/records"
	"github.com/caddy-presets/caddy-presets/storage/replica"
)

// Options are how a store is opened.
type Options struct {
	// Endpoints are the URLs of the cluster's members, or host:port.
	Endpoints []string
	// Prefix begins all keys of the store in etcd. Default: DefaultPrefix
	Prefix string
	// Username and Password of a user of etcd, or empty.
	Username, Password string
	// TLS secures connections. Nil: as the endpoints' schemes say
	TLS *tls.Config
	// RequestTimeout bounds connecting, and each request to etcd. Default: 5 s
	RequestTimeout time.Duration
	// MaxStaleness bounds how long copies in memory count as current without an answer
	// from the cluster. Default: 5 s
	MaxStaleness time.Duration
	// Memory bounds the copies of records in memory, in bytes. Default: 64 MiB. It is at least
	// 64 KiB. See also SetMemory.
	Memory int
	// Logger gets the store's messages. Nil discards them.
	Logger *zap.Logger
}

// The defaults of Options.
const (
	DefaultPrefix = "caddy-presets/"

	defaultTimeout      = 5 * time.Second
	defaultMaxStaleness = 5 * time.Second
	defaultMemory       = 64 << 20
	minMemory           = 64 << 10

	// purgeInterval is how often a node looks for the rest of a deleted workspace. A
	// node that died may have left it. A look costs one request.
	purgeInterval = 10 * time.Minute
)

// Store is a domain.Store in an etcd cluster.
type Store struct {
	client     *clientv3.Client
	dialErrors *dialErrors
	prefix     string
	timeout    time.Duration // of a request
	node       string        // a UUID of this Store
	logger     *zap.Logger

	model     *replica.Model
	anyMember *fetcher // reads from one member, which may lag behind
	quorum    *fetcher
	stamps    *domain.Stamps
	// applying is held while a commit gets into the model, and while the watcher changes
	// stamps. So the watcher does not change them for a commit of this node that has ended.
	applying  sync.Mutex
	committer *committer
	watcher   *watcher
	leases    *leases
	deleted   chan struct{} // holds a token when workspaces may have been deleted

	ctx        context.Context // ends when the store is closed
	stop       context.CancelFunc
	background sync.WaitGroup // goroutines that end with ctx
	close      func() error

	calls groupcommit.Gate
}

// Open opens the store under a prefix, and creates it if there is none. It waits for the
// cluster's answer, twice RequestTimeout at most. The error names the cause. The cluster
// does not answer, refuses the user, forbids the prefix, or has a store of a newer version.
// The error has domain.ErrUnavailable in its chain if trying again may help. See also Answered.
func Open(ctx context.Context, o Options) (*Store, error) {
	o.fill()
	begun := time.Now()
	s, err := newStore(o)
	if err != nil {
		return nil, err
	}
	last, at, err := s.prepare(ctx)
	if err != nil {
		s.stop()
		return nil, errors.Join(fmt.Errorf("opening the store in etcd: %w", err), s.client.Close())
	}
	s.model.Reset(last, at)
	s.leases = newLeases(s)
	s.committer = newCommitter(s)
	s.watcher = newWatcher(s, at, begun, o.MaxStaleness)
	s.deleted = make(chan struct{}, 1)
	s.background.Go(s.watcher.watch)
	s.background.Go(s.watcher.ask)
	s.background.Go(func() {
		records.Purger{
			View: s.view, Update: s.update, Deleted: s.deleted, Interval: purgeInterval,
			Logger: o.Logger,
		}.Run(s.ctx)
	})
	s.close = sync.OnceValue(s.closeOnce)
	return s, nil
}

// newStore connects to a cluster. The Store can make requests.
func newStore(o Options) (*Store, error) {
	client, dialErrors, err := connect(o)
	if err != nil {
		return nil, fmt.Errorf("connecting to etcd: %w", err)
	}
	s := &Store{
		client: client, dialErrors: dialErrors, prefix: o.Prefix, timeout: o.RequestTimeout, logger: o.Logger,
		node:  uuid.NewString(),
		model: replica.NewModel(o.Memory), stamps: domain.NewStamps(),
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.anyMember, s.quorum = newFetcher(s, clientv3.WithSerializable()), newFetcher(s)
	return s, nil
}

func (o *Options) fill() {
	o.Prefix = cmp.Or(o.Prefix, DefaultPrefix)
	o.RequestTimeout = cmp.Or(o.RequestTimeout, defaultTimeout)
	o.MaxStaleness = cmp.Or(o.MaxStaleness, defaultMaxStaleness)
	o.Memory = boundMemory(o.Memory)
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
}

// boundMemory returns the memory for records that a setting stands for, in bytes.
func boundMemory(setting int) int { return max(cmp.Or(setting, defaultMemory), minMemory) }

// SetMemory changes Options.Memory of an open store.
func (s *Store) SetMemory(bytes int) { s.model.SetLimit(boundMemory(bytes)) }

// View implements domain.Store. It asks the cluster for the last commit, and shows the
// store as of that commit. If the cluster has not answered for MaxStaleness, View, Update
// and Sync fail at once until it answers again.
func (s *Store) View(ctx context.Context, fn func(domain.Reader) error) error {
	return s.view(ctx, func(r *records.Reader) error { return fn(r) })
}

func (s *Store) view(ctx context.Context, fn func(*records.Reader) error) error {
	return s.withSnapshot(ctx, func(last *snapshot) error {
		r := records.NewReader(last)
		defer r.End()
		return fn(r)
	})
}

// withSnapshot calls fn with the store as of the last commit. Close waits for it.
func (s *Store) withSnapshot(ctx context.Context, fn func(last *snapshot) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.calls.Enter() {
		return domain.ErrClosed
	}
	defer s.calls.Leave()
	last, at, err := s.sync(ctx)
	if err != nil {
		return err
	}
	return fn(&snapshot{ctx: ctx, store: s, last: last, revision: at})
}

// Sync implements domain.Store. It returns once the stamps show all commits, of any node,
// that were acknowledged before the call.
func (s *Store) Sync(ctx context.Context) error {
	return s.withSnapshot(ctx, func(*snapshot) error { return nil })
}

// sync returns the last commit, once the model has it, and a revision at which it was the
// last. It fails at once while the cluster does not answer.
func (s *Store) sync(ctx context.Context) (last replica.Commit, at int64, err error) {
	if err := s.watcher.CheckAvailable(); err != nil {
		return last, 0, err
	}
	return s.ask(ctx)
}

// ask is sync that asks the cluster in any case.
func (s *Store) ask(ctx context.Context) (last replica.Commit, at int64, err error) {
	begun, known, since := time.Now(), s.model.Latest(), s.watcher.at.Load()
	last, at, err = s.lastCommit(ctx)
	if err != nil {
		return last, at, err
	}
	if at < since || last.Contradicts(known) {
		return last, at, s.forgetLost()
	}
	if err := s.await(ctx, last.Revision); err != nil {
		return last, at, err
	}
	s.watcher.Confirm(begun)
	return last, at, nil
}

// forgetLost drops all copies in memory, since the cluster has lost commits, as after a backup
// was restored. It returns the error to answer with.
func (s *Store) forgetLost() error {
	s.watcher.forget("the cluster does not know commits that it had made, as after it was restored")
	return fmt.Errorf("%w: the cluster has lost commits: all is read again", domain.ErrUnavailable)
}

// await waits until the model has the commit of a revision.
func (s *Store) await(ctx context.Context, revision int64) error {
	if s.model.Latest().Revision >= revision {
		return nil
	}
	patience, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	for eventsBefore := s.watcher.events.Load(); ; {
		err := withTimeout(patience, nextAttempt, func(ctx context.Context) error { return s.model.Wait(ctx, revision) })
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case patience.Err() != nil:
			if s.watcher.events.Load() == eventsBefore { // else the watch works, and is behind
				s.watcher.forget("the cluster does not tell what was committed")
			}
			return fmt.Errorf("%w: the changes of others do not arrive", domain.ErrUnavailable)
		}
		s.watcher.restartIfSilent()
	}
}

// Update implements domain.Store. It returns ErrConflict if commits of other nodes always
// came first. After an error without ErrConflict and ErrUnavailable in its chain the outcome
// is unknown. etcd answered neither the write nor the question about its outcome within
// RequestTimeout.
func (s *Store) Update(ctx context.Context, fn func(domain.Tx) error) error {
	return s.update(ctx, func(t *records.Tx) error { return fn(t) })
}

func (s *Store) update(ctx context.Context, fn func(*records.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.calls.Enter() {
		return domain.ErrClosed
	}
	defer s.calls.Leave()
	return s.committer.update(ctx, fn)
}

// Stamps implements domain.Store.
func (s *Store) Stamps() *domain.Stamps { return s.stamps }

// Node implements domain.Store.
func (s *Store) Node() string { return s.node }

// Close waits for the calls in flight and disconnects. Later calls of other methods return
// domain.ErrClosed. Further calls of Close return the result of the first.
func (s *Store) Close() error { return s.close() }

func (s *Store) closeOnce() error {
	s.calls.Close()
	s.calls.Wait() // each takes a few requests at most
	s.committer.groups.Close()
	s.committer.groups.Wait()
	s.stop()
	s.background.Wait()
	return s.client.Close()
}

var _ domain.Store = (*Store)(nil)
