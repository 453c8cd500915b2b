package etcdstore

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/replica"
)

// firstPatience is how long a commit may take before fences follow. A member without a
// leader holds it for longer than the others take to elect one. Requests that can be
// repeated are sent to another member after each nextAttempt, while the earlier ones go on.
const (
	firstPatience = time.Second
	nextAttempt   = firstPatience / 2
)

// request makes attempts at a request that can be repeated, at one member after another.
// It returns the first result without an error. All attempts together have
// Options.RequestTimeout. After a result without an error the others go on until that time:
// see serviceConfig. After an error they end.
func request[T any](ctx context.Context, s *Store, attempt func(context.Context) (T, error)) (T, error) {
	return requestAfter(ctx, s, nextAttempt, attempt)
}

// requestAfter is request with another pause between the first attempt and the second.
func requestAfter[T any](ctx context.Context, s *Store, pause time.Duration, attempt func(context.Context) (T, error)) (result T, err error) {
	type outcome struct {
		result T
		err    error
	}
	whole, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.timeout)
	defer context.AfterFunc(ctx, cancel)()
	outcomes, running, answered := make(chan outcome), 0, make(chan struct{})
	defer func() {
		close(answered)
		if err != nil || running == 0 {
			cancel()
		}
	}()
	next := time.NewTimer(0)
	defer next.Stop()
	var cause error // the last that says more than that the time is over
	for {
		select {
		case <-next.C: // one of a context that has ended ends at once
			running++
			go func() {
				result, err := attempt(whole)
				select {
				case outcomes <- outcome{result, err}:
				case <-answered:
				}
			}()
			if whole.Err() == nil {
				next.Reset(pause)
				pause = nextAttempt
			}
			continue
		case o := <-outcomes:
			running--
			result, err = o.result, s.dialErrors.explain(o.err)
		}
		if !isTimeout(err) {
			cause = err
		}
		switch {
		case err == nil || errors.Is(err, rpctypes.ErrCompacted):
			return result, err
		case ctx.Err() != nil:
			return result, ctx.Err()
		case isRefused(err) || whole.Err() != nil && running == 0:
			return result, fmt.Errorf("%w: etcd: %w", domain.ErrUnavailable, cmp.Or(cause, err))
		case running == 0:
			next.Reset(retryPause) // else requests that fail at once would follow each other without a pause
		}
	}
}

// retryPause is the shortest pause between two attempts, maxPause the longest. With it a
// node that was cut off is current within a second after it is connected again.
const (
	retryPause = 50 * time.Millisecond
	maxPause   = 500 * time.Millisecond
)

func withTimeout(ctx context.Context, limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return do(ctx)
}

// get reads records by their keys in the store. Its errors are ErrCompacted, that of ctx, or
// have domain.ErrUnavailable in their chain.
func (s *Store) get(ctx context.Context, key string, options ...clientv3.OpOption) (response *clientv3.GetResponse, err error) {
	return request(ctx, s, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return s.client.Get(ctx, s.prefix+key, options...)
	})
}

// lastCommit returns the last commit, and the revision at which the cluster said so.
func (s *Store) lastCommit(ctx context.Context) (last replica.Commit, at int64, err error) {
	f, err := s.quorum.read(ctx, lastKey)
	if err != nil {
		return last, 0, err
	}
	last, err = replica.DecodeCommit(f.Record, f.Since)
	return last, f.At, err
}

var errUnknown = fmt.Errorf("%w: etcd did not answer", domain.ErrUnknown)

var errGone = fmt.Errorf("%w: the store's keys have been removed from etcd, or a backup is being restored into it; "+
	"if that was cut short, restore it again", domain.ErrUnavailable)

// isRefused reports whether an error is etcd's answer that it refuses a request. Other errors
// say nothing about the outcome. An etcd with too many requests may be busy with an earlier
// delivery of the same one. A member that was restarted, or that lags behind a login, does not
// know the token. Another member, or the next attempt with a new token, may accept the request.
func isRefused(err error) bool {
	for _, passing := range []error{rpctypes.ErrTooManyRequests, rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthOldRevision} {
		if errors.Is(err, passing) {
			return false
		}
	}
	code := status.Code(err)
	if e, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		code = e.Code()
	}
	switch code {
	case codes.ResourceExhausted, codes.InvalidArgument, codes.PermissionDenied, codes.Unauthenticated, codes.FailedPrecondition, codes.NotFound, codes.OutOfRange:
		return true
	default:
		return false
	}
}

// Answered reports whether an error of Open is the cluster's answer. Otherwise the cluster
// did not answer.
func Answered(err error) bool {
	return isRefused(err) || errors.Is(err, errGone) || !errors.Is(err, domain.ErrUnavailable)
}

// storeFormat is the version of how a store is kept in etcd.
const storeFormat = 1

// Beside the records, whose keys begin with their version, each store has these.
const (
	formatKey  = "\x00format"  // a marker, as JSON
	lastKey    = "\x00last"    // the last commit
	waitingKey = "\x00waiting" // the id of a node that others are to let go first

	// restoringKey has the id of a restore that is not finished. The store has no last commit
	// then.
	restoringKey = "\x00restoring"
)

type marker struct {
	Store  string `json:"store"` // an id
	Format int    `json:"format"`
}

// newMarker returns the JSON of the marker of a new store.
func newMarker() (string, error) {
	text, err := json.Marshal(marker{Store: uuid.NewString(), Format: storeFormat})
	return string(text), err
}

// prepare creates the store if there is none. It returns the last commit, and a revision at
// which it was the last.
func (s *Store) prepare(ctx context.Context) (last replica.Commit, at int64, err error) {
	// An existing store is only read: etcd may refuse writes.
	response, err := s.get(ctx, formatKey)
	if err == nil && len(response.Kvs) == 0 {
		if err = s.create(ctx); err == nil {
			response, err = s.get(ctx, formatKey)
		}
	}
	if err != nil {
		return last, 0, err
	}
	if len(response.Kvs) == 0 {
		return last, 0, errGone
	}
	var m marker
	switch err := json.Unmarshal(response.Kvs[0].Value, &m); {
	case err != nil || m.Format < 1:
		return last, 0, fmt.Errorf("%q is not the prefix of a store", s.prefix)
	case m.Format > storeFormat:
		return last, 0, fmt.Errorf("the store under %q has format %d and needs a newer version of this module, which knows formats up to %d", s.prefix, m.Format, storeFormat)
	}
	return s.lastCommit(ctx)
}

// create makes the store unless another node was first.
func (s *Store) create(ctx context.Context) error {
	text, err := newMarker()
	if err != nil {
		return err
	}
	_, err = request(ctx, s, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return s.client.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(s.prefix+formatKey), "=", 0)).
			Then(clientv3.OpPut(s.prefix+formatKey, text), clientv3.OpPut(s.prefix+lastKey, replica.EncodeCommit(replica.Commit{ID: uuid.New()}))).
			Commit()
	})
	return err
}
