package etcdstore

import (
	"context"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/caddy-presets/caddy-presets/storage/replica"
)

// fetcher reads records as they are now. Reads that arrive while a request is in flight
// share the next request.
type fetcher struct {
	store   *Store
	options []clientv3.OpOption

	mu       sync.Mutex
	pending  map[string]*pendingRead // by key; no request has them yet
	inFlight bool                    // whether a request is in flight that is not slow
}

// pendingRead is a read of one record.
type pendingRead struct {
	key  string
	done chan struct{} // closed when the rest is set
	replica.Found
	err error
}

// slowAfter is how long new reads wait for a request in flight. After it they start
// another one.
const slowAfter = 100 * time.Millisecond

func newFetcher(s *Store, options ...clientv3.OpOption) *fetcher {
	return &fetcher{store: s, options: options, pending: make(map[string]*pendingRead)}
}

// read reads a record and the last commit, by a request that begins after the call. Its errors
// are those of request, and errGone.
func (f *fetcher) read(ctx context.Context, key string) (replica.Found, error) {
	f.mu.Lock()
	r := f.pending[key]
	if r == nil {
		r = &pendingRead{key: key, done: make(chan struct{})}
		f.pending[key] = r
	}
	if !f.inFlight {
		f.inFlight = true
		go f.run()
	}
	f.mu.Unlock()
	select {
	case <-r.done:
		return r.Found, r.err
	case <-ctx.Done():
		return replica.Found{}, ctx.Err()
	}
}

// run makes requests until no read is pending.
func (f *fetcher) run() {
	for {
		reads := f.take()
		if reads == nil {
			return
		}
		slow := time.AfterFunc(slowAfter, f.run)
		f.fetch(reads)
		if !slow.Stop() {
			return // the other run goes on
		}
	}
}

// take returns the reads of the next request, nil if there are none.
func (f *fetcher) take() (reads []*pendingRead) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, r := range f.pending {
		if len(reads) == maxParts {
			break
		}
		reads = append(reads, r)
		delete(f.pending, key)
	}
	f.inFlight = reads != nil
	return reads
}

// fetch makes one request.
func (f *fetcher) fetch(reads []*pendingRead) {
	s := f.store
	var ops []clientv3.Op
	for _, r := range reads {
		ops = append(ops, clientv3.OpGet(s.prefix+r.key, f.options...))
	}
	ops = append(ops, clientv3.OpGet(s.prefix+lastKey, append(slices.Clip(f.options), clientv3.WithKeysOnly())...))
	response, err := request(s.ctx, s, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return s.client.Txn(ctx).Then(ops...).Commit()
	})
	var last int64
	if err == nil {
		if kvs := response.Responses[len(reads)].GetResponseRange().Kvs; len(kvs) > 0 {
			last = kvs[0].ModRevision
		} else {
			err = errGone
		}
	}
	for i, r := range reads {
		if r.err = err; err == nil {
			// A missing record has been missing since the last commit, at the
			// latest: only what expires is removed without one.
			r.Found = replica.Found{Since: last, At: response.Header.Revision, Last: last}
			if kvs := response.Responses[i].GetResponseRange().Kvs; len(kvs) > 0 {
				r.Record, r.Since = kvs[0].Value, kvs[0].ModRevision
			}
		}
		close(r.done)
	}
}
