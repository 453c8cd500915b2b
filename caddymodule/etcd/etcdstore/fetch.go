package etcdstore

import (
	"context"
	"slices"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/caddy-presets/caddy-presets/storage/replica"
)

// fetcher reads what is stored now, for all that want something at the same time: who
// comes while a request is under way shares the next.
type fetcher struct {
	store   *Store
	options []clientv3.OpOption

	mu     sync.Mutex
	wanted map[string]*want // by key, of those that no request has yet
	flying bool             // whether a request is under way that is not late
}

// want is a record that is to be read.
type want struct {
	key  string
	done chan struct{} // closed when the rest is set
	replica.Found
	err error
}

// lateAfter is when others do not wait any longer for a request that a member does not
// answer.
const lateAfter = 100 * time.Millisecond

func newFetcher(s *Store, options ...clientv3.OpOption) *fetcher {
	return &fetcher{store: s, options: options, wanted: make(map[string]*want)}
}

// read reads a record and which commit is the last, by a request that begins after the
// call. Its errors are those of Store.request.
func (f *fetcher) read(ctx context.Context, key string) (replica.Found, error) {
	f.mu.Lock()
	w := f.wanted[key]
	if w == nil {
		w = &want{key: key, done: make(chan struct{})}
		f.wanted[key] = w
	}
	if !f.flying {
		f.flying = true
		go f.fly()
	}
	f.mu.Unlock()
	select {
	case <-w.done:
		return w.Found, w.err
	case <-ctx.Done():
		return replica.Found{}, ctx.Err()
	}
}

// fly makes requests for as long as something is wanted.
func (f *fetcher) fly() {
	for {
		wants := f.take()
		if wants == nil {
			return
		}
		late := time.AfterFunc(lateAfter, f.fly)
		f.fetch(wants)
		if !late.Stop() {
			return // another goes on
		}
	}
}

// take returns what the next request is for, nil if there is to be none.
func (f *fetcher) take() (wants []*want) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key, w := range f.wanted {
		if len(wants) == maxParts {
			break
		}
		wants = append(wants, w)
		delete(f.wanted, key)
	}
	f.flying = wants != nil
	return wants
}

// fetch makes one request.
func (f *fetcher) fetch(wants []*want) {
	s := f.store
	var ops []clientv3.Op
	for _, w := range wants {
		ops = append(ops, clientv3.OpGet(s.prefix+w.key, f.options...))
	}
	ops = append(ops, clientv3.OpGet(s.prefix+lastKey, append(slices.Clip(f.options), clientv3.WithKeysOnly())...))
	response, err := request(s.ctx, s, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return s.client.Txn(ctx).Then(ops...).Commit()
	})
	var last int64
	if err == nil {
		if kvs := response.Responses[len(wants)].GetResponseRange().Kvs; len(kvs) > 0 {
			last = kvs[0].ModRevision
		} else {
			err = errGone
		}
	}
	for i, w := range wants {
		if w.err = err; err == nil {
			// What is not there has not been since the last commit: nothing but what
			// expires goes without one.
			w.Found = replica.Found{Since: last, At: response.Header.Revision, Last: last}
			if kvs := response.Responses[i].GetResponseRange().Kvs; len(kvs) > 0 {
				w.Record, w.Since = kvs[0].Value, kvs[0].ModRevision
			}
		}
		close(w.done)
	}
}
