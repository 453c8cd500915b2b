// Package etcdstore keeps what a domain.Store does in an etcd cluster, which several nodes
// share. docs/cluster.md has what that promises.
package etcdstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"time"

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
	// Username and Password are those of etcd's users, empty without.
	Username, Password string
	// TLS is what connections use, nil for none.
	TLS *tls.Config
	// DialTimeout bounds making the first connection, and RequestTimeout each
	// request to etcd. Default: 5 s
	DialTimeout, RequestTimeout time.Duration
	// MaxStaleness is for how long at most what was read before is taken for current
	// without the cluster having said so. Default: 5 s
	MaxStaleness time.Duration
	// Memory bounds the records that are kept in memory, in bytes. Default: 64 MiB
	Memory int
	// Logger gets what the store has to say. Nil discards it.
	Logger *zap.Logger
}

// The defaults of Options.
const (
	DefaultPrefix = "caddy-presets/"

	defaultTimeout      = 5 * time.Second
	defaultMaxStaleness = 5 * time.Second
	defaultMemory       = 64 << 20

	// purgeInterval is how soon a node removes what one that died has left of a deleted
	// workspace. A look costs one request.
	purgeInterval = 10 * time.Minute
)

// Store is a domain.Store in an etcd cluster.
type Store struct {
	client  *clientv3.Client
	trouble *trouble
	prefix  string
	timeout time.Duration // of a request
	logger  *zap.Logger

	model     *replica.Model
	nearby    *fetcher // from whichever member is asked, which may lag behind
	current   *fetcher // from the cluster
	stamps    *domain.Stamps
	committer *committer
	watcher   *watcher
	leases    *leases
	deleted   chan struct{} // holds a token when workspaces may have been deleted
	purged    chan struct{}

	ctx   context.Context // ends when the store is closed
	stop  context.CancelFunc
	close func() error

	calls groupcommit.Gate
}

// Open opens the store under a prefix, which it makes if there is none. It waits until
// the cluster answers, DialTimeout and RequestTimeout at most. The error tells in
// plain words when it does not, when it does not want the user, or that user may not use
// the prefix, and when the store was written by a newer version. It has
// domain.ErrUnavailable in its chain where trying again may help: see also Answered.
func Open(ctx context.Context, o Options) (*Store, error) {
	o.fill()
	begun := time.Now()
	client, trouble, err := connect(o)
	if err != nil {
		return nil, fmt.Errorf("connecting to etcd: %w", err)
	}
	s := &Store{
		client: client, trouble: trouble, prefix: o.Prefix, timeout: o.RequestTimeout, logger: o.Logger,
		model: replica.NewModel(o.Memory), stamps: domain.NewStamps(),
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.nearby, s.current = newFetcher(s, clientv3.WithSerializable()), newFetcher(s)
	marker, last, at, err := s.prepare(ctx)
	if err != nil {
		s.stop()
		return nil, errors.Join(fmt.Errorf("opening the store in etcd: %w", err), client.Close())
	}
	s.model.Reset(last, at)
	s.leases = newLeases(s)
	s.committer = newCommitter(s)
	s.watcher = newWatcher(s, at, begun, o.MaxStaleness)
	s.watcher.start()
	s.deleted, s.purged = make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(s.purged)
		records.Purge(s.ctx, engine{s}, records.PurgeOptions{Deleted: s.deleted, Interval: purgeInterval, Final: func(error) bool { return false }, Logger: o.Logger})
	}()
	s.close = sync.OnceValue(s.closeOnce)
	if err := s.upgrade(ctx, marker); err != nil {
		return nil, errors.Join(fmt.Errorf("upgrading the store in etcd to format %d: %w", storeFormat, err), s.Close())
	}
	return s, nil
}

func (o *Options) fill() {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = defaultTimeout
	}
	if o.RequestTimeout == 0 {
		o.RequestTimeout = defaultTimeout
	}
	if o.MaxStaleness == 0 {
		o.MaxStaleness = defaultMaxStaleness
	}
	if o.Memory == 0 {
		o.Memory = defaultMemory
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
}

// View implements domain.Store. It asks the cluster what the last commit is, and
// shows what was stored then. Once the cluster has not answered for MaxStaleness it
// fails at once, as Update and Sync do, until the cluster answers again.
func (s *Store) View(ctx context.Context, fn func(domain.Reader) error) error {
	return s.view(ctx, func(r *records.Reader) error { return fn(r) })
}

func (s *Store) view(ctx context.Context, fn func(*records.Reader) error) error {
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
	r := records.NewReader(&snapshot{ctx: ctx, store: s, last: last, revision: at})
	defer r.End()
	return fn(r)
}

// Sync implements domain.Store: it returns once the stamps show all commits that were
// acknowledged, by any node, before it was called.
func (s *Store) Sync(ctx context.Context) error {
	if !s.calls.Enter() {
		return domain.ErrClosed
	}
	defer s.calls.Leave()
	_, _, err := s.sync(ctx)
	return err
}

// sync returns the last commit, once the model knows it, and a revision at which it
// was the last. While the cluster is away it fails at once.
func (s *Store) sync(ctx context.Context) (last replica.Commit, at int64, err error) {
	if err := s.watcher.Away(); err != nil {
		return last, 0, err
	}
	return s.ask(ctx)
}

// ask is sync that asks the cluster also when it is away.
func (s *Store) ask(ctx context.Context) (last replica.Commit, at int64, err error) {
	begun, known, since := time.Now(), s.model.Latest(), s.watcher.at.Load()
	last, at, err = s.lastCommit(ctx)
	if err != nil {
		return last, at, err
	}
	if at < since || last.Contradicts(known) {
		return last, at, s.restored()
	}
	if err := s.await(ctx, last.Revision); err != nil {
		return last, at, err
	}
	s.watcher.Confirm(begun)
	return last, at, nil
}

// restored has all forgotten that is in memory, and returns the error about that: the
// cluster is not the one that it was, as when a backup was restored.
func (s *Store) restored() error {
	s.watcher.forget("the cluster does not know commits that it had made, as after it was restored")
	return fmt.Errorf("%w: the cluster does not know commits that it had made: all is read again", domain.ErrUnavailable)
}

// await returns once a commit that was made at a revision is known.
func (s *Store) await(ctx context.Context, revision int64) error {
	if s.model.Latest().Revision >= revision {
		return nil
	}
	patience, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	for told := s.watcher.events.Load(); ; {
		err := within(patience, nextAttempt, func(ctx context.Context) error { return s.model.Wait(ctx, revision) })
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case patience.Err() != nil:
			if s.watcher.events.Load() == told { // else there is but much to tell
				s.watcher.forget("the cluster does not tell what was committed")
			}
			return fmt.Errorf("%w: the changes of others do not arrive", domain.ErrUnavailable)
		}
		s.watcher.kick()
	}
}

// Update implements domain.Store. It returns ErrConflict when other nodes kept it from
// finishing. An error that is neither that nor in the chain of ErrUnavailable leaves
// the outcome unknown: etcd did not answer for as long as requests may take, also when
// it was asked what became of the change.
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

// Close finishes what is under way and lets go of the cluster. What comes later gets
// domain.ErrClosed. Further calls return what the first one did.
func (s *Store) Close() error { return s.close() }

func (s *Store) closeOnce() error {
	s.calls.Close()
	s.calls.Wait() // each takes a few requests at most
	s.committer.groups.Close()
	s.committer.groups.Wait()
	s.stop()
	s.watcher.wait()
	<-s.purged
	return s.client.Close()
}

// engine is a Store as package records uses one.
type engine struct{ store *Store }

func (e engine) View(ctx context.Context, fn func(*records.Reader) error) error {
	return e.store.view(ctx, fn)
}

func (e engine) Update(ctx context.Context, fn func(*records.Tx) error) error {
	return e.store.update(ctx, fn)
}

var _ domain.Store = (*Store)(nil)
