package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/records"
	"github.com/caddy-presets/caddy-presets/storage/replica"
)

// snapshot is the store at a revision of etcd, and the last commit before it.
type snapshot struct {
	ctx      context.Context
	store    *Store
	last     replica.Commit // which the model knows
	revision int64
	// abandonsOnMiss abandons the reading function at the first record that is not in memory. missed
	// is then the key of that record.
	abandonsOnMiss bool
	missed         string
	bypass         bool // memory
}

// Get implements records.Snapshot.
func (s *snapshot) Get(k records.Key) ([]byte, error) {
	record, err := s.load(string(k))
	if err == nil && record == nil {
		err = domain.ErrNotFound
	}
	return record, err
}

// Fetch implements groupcommit.Fetcher.
func (s *snapshot) Fetch() error {
	last := s.store.model.Latest()
	now := &snapshot{ctx: s.ctx, store: s.store, last: last, revision: last.Revision}
	_, err := now.fetch(s.missed)
	return err
}

// Prefetch implements records.Prefetcher.
func (s *snapshot) Prefetch(keys []records.Key) {
	var reads sync.WaitGroup // which share requests
	for _, k := range keys {
		if _, ok := s.store.model.Get(string(k), s.last.Revision, s.revision); !ok {
			reads.Go(func() { _, _ = s.fetch(string(k)) }) // Get returns the error
		}
	}
	reads.Wait()
}

// load returns the record under a key, nil for none: from memory, or else from etcd.
func (s *snapshot) load(key string) ([]byte, error) {
	if s.bypass {
		return s.loadAt(key)
	}
	if record, ok := s.store.model.Get(key, s.last.Revision, s.revision); ok {
		return record, nil
	}
	if s.abandonsOnMiss {
		s.missed = key
		panic(records.ErrAbandoned)
	}
	found, err := s.fetch(key)
	switch {
	case err != nil:
		return nil, err
	case found.Last > s.last.Revision && (found.Record == nil || found.Since > s.revision):
		return s.loadAt(key) // it has changed, or may have
	default:
		return found.Record, nil
	}
}

// fetch reads the latest state of a record into memory. A member that lags behind the
// snapshot's last commit is not enough: then a quorum is asked. Such a member may have no
// store yet, or not know this node's rights.
func (s *snapshot) fetch(key string) (result replica.Found, err error) {
	f := s.store.model.Begin(key)
	result, err = s.store.anyMember.read(s.ctx, key)
	if errors.Is(err, errGone) || isRefused(err) || err == nil && result.Last < s.last.Revision {
		result, err = s.store.quorum.read(s.ctx, key)
	}
	if err == nil && result.Last < s.last.Revision {
		err = s.store.forgetLost()
	}
	s.store.model.End(f, result, err == nil)
	return result, err
}

// loadAt reads a record as it was.
func (s *snapshot) loadAt(key string) (record []byte, err error) {
	response, err := s.scan(key)
	if err != nil || len(response.Kvs) == 0 {
		return nil, err
	}
	return response.Kvs[0].Value, nil
}

// scan reads records as they were at the snapshot's revision.
func (s *snapshot) scan(from string, options ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	for {
		response, err := s.store.get(s.ctx, from, append(options, clientv3.WithRev(s.revision))...)
		if !errors.Is(err, rpctypes.ErrCompacted) {
			return response, err
		}
		// etcd has compacted the revision. A later one will do if nothing was committed since.
		latest, at, err := s.store.lastCommit(s.ctx)
		if err != nil {
			return nil, err
		}
		if latest != s.last || at == s.revision {
			return nil, errCompacted
		}
		s.revision = at
	}
}

// errCompacted ends reads that take longer than etcd keeps its history.
var errCompacted = fmt.Errorf("%w: etcd has compacted the revision that this reads, and the store has changed since: try again; "+
	"etcd must keep its history for longer than this takes (--auto-compaction-retention)", domain.ErrUnavailable)

// Iterate implements records.Snapshot. It skips keys that are not records.
func (s *snapshot) Iterate(prefix records.Key) records.Iterator {
	if len(prefix) == 0 {
		prefix = records.KindPreset.Prefix()[:1] // the version, with which all records begin
	}
	return &iterator{snapshot: s, prefix: string(prefix)}
}

// Count implements records.Counter.
func (s *snapshot) Count(prefix records.Key) (int, error) {
	end := clientv3.GetPrefixRangeEnd(s.store.prefix + string(prefix))
	response, err := s.scan(string(prefix), clientv3.WithRange(end), clientv3.WithCountOnly())
	if err != nil {
		return 0, err
	}
	return int(response.Count), nil
}

// An iterator's first page has firstPage records. Each later one has twice as many, up to
// maxPage.
const (
	firstPage = 16
	maxPage   = 64
)

// iterator reads pages of records from etcd.
type iterator struct {
	snapshot *snapshot
	prefix   string
	page     []*mvccpb.KeyValue
	limit    int64
	more     bool // after page
	err      error
}

func (i *iterator) Seek(k records.Key) {
	i.limit = firstPage
	i.fill(max(string(k), i.prefix))
}

// fill reads the page that begins at a key.
func (i *iterator) fill(from string) {
	i.page, i.more = nil, false
	if i.err != nil {
		return
	}
	end := clientv3.GetPrefixRangeEnd(i.snapshot.store.prefix + i.prefix)
	response, err := i.snapshot.scan(from, clientv3.WithRange(end), clientv3.WithLimit(i.limit))
	if err != nil {
		i.err = err
		return
	}
	i.limit = min(2*i.limit, maxPage)
	i.page, i.more = response.Kvs, response.More
}

func (i *iterator) Next() {
	last := string(i.Key())
	if i.page = i.page[1:]; len(i.page) == 0 && i.more {
		i.fill(last + "\x00")
	}
}

func (i *iterator) Valid() bool            { return len(i.page) > 0 }
func (i *iterator) Key() records.Key       { return i.page[0].Key[len(i.snapshot.store.prefix):] }
func (i *iterator) Value() ([]byte, error) { return i.page[0].Value, nil }
func (i *iterator) Err() error             { return i.err }
func (i *iterator) Close()                 {}
