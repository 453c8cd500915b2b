package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/dump"
	"github.com/caddy-presets/caddy-presets/storage/records"
	"github.com/caddy-presets/caddy-presets/storage/replica"
)

// Backup writes a dump of all records at one revision of the cluster, bypassing memory. It is
// not encrypted. After an error, what is in w cannot be restored. The cluster did not answer, has
// compacted the revision, or has a damaged record. Backup ends early with ctx. Close waits for
// it, so ctx must end first.
func (s *Store) Backup(ctx context.Context, w io.Writer) error {
	return s.withSnapshot(ctx, func(last *snapshot) error { return dump.Write(ctx, w, last, last.last.Number, nil) })
}

// restorePatience bounds a request of a restore, because nobody waits for an answer.
const restorePatience = time.Minute

// Restore fills a store with the records of a dump of any engine. The store is new: there is
// nothing under the prefix, or what a server's first start makes, or a part of an earlier restore.
// Restore removes that first. Any other store is dump.ErrNotNew. An error about the dump has
// dump.ErrUnusable in its chain.
//
// The store has no last commit until Restore has succeeded. So no node serves it or changes it
// meanwhile, and none opens it. That holds after an error, too, until another Restore succeeds.
// Two restores at a time do not mix: the first one fails.
func Restore(ctx context.Context, o Options, from *dump.Reader) error {
	o.fill()
	o.RequestTimeout = max(o.RequestTimeout, restorePatience)
	s, err := newStore(o)
	if err != nil {
		return err
	}
	defer func() {
		s.stop()
		_ = s.client.Close()
	}()
	r := restore{Store: s, ctx: ctx, id: uuid.NewString()}
	if err := r.run(from); err != nil {
		return fmt.Errorf("restoring into etcd: %w", err)
	}
	return nil
}

// restore is one call of Restore.
type restore struct {
	*Store
	ctx     context.Context
	id      string // is under restoringKey as long as this restore may write
	marker  string // is under formatKey from the beginning of this restore until another one begins
	waiting []records.Write
	size    int64 // of waiting
}

func (r *restore) run(from *dump.Reader) error {
	if err := r.begin(); err != nil {
		return err
	}
	if err := r.clear(); err != nil {
		return err
	}
	if err := r.rename(); err != nil {
		return err
	}
	r.leases = newLeases(r.Store)
	for from.Next() {
		if err := r.put(from.Key, from.Record); err != nil {
			return err
		}
	}
	if from.Err != nil {
		return from.Err
	}
	if err := r.flush(); err != nil {
		return err
	}
	last := replica.EncodeCommit(replica.Commit{Number: from.Info.Commit, ID: uuid.New()})
	err := r.write(clientv3.OpPut(r.prefix+lastKey, last), clientv3.OpDelete(r.prefix+restoringKey))
	if err != nil && !isRefused(err) && !errors.Is(err, errOtherRestore) {
		err = fmt.Errorf("the answer to its last request is missing, so it has succeeded if presets are served again: %w", err)
	}
	return err
}

// begin removes the last commit of a new store, and marks the store as one that is restored.
func (r *restore) begin() error {
	response, err := r.get(r.ctx, "", clientv3.WithPrefix(), clientv3.WithLimit(maxParts)) // the keys of the store itself come first
	if err != nil {
		return err
	}
	found := map[string]int64{} // when the keys were written
	for _, kv := range response.Kvs {
		found[string(kv.Key[len(r.prefix):])] = kv.ModRevision
	}
	if found[restoringKey] == 0 && len(response.Kvs) > 0 {
		if found[formatKey] == 0 || found[lastKey] == 0 {
			return fmt.Errorf("%w: what is under %q is not one", dump.ErrNotNew, r.prefix)
		}
		s := &snapshot{ctx: r.ctx, store: r.Store, revision: response.Header.Revision}
		record, err := s.loadAt(string(records.AuditKey(2)))
		if err != nil {
			return err
		}
		if record != nil {
			return fmt.Errorf("%w: the one under %q was changed since a server's first start", dump.ErrNotNew, r.prefix)
		}
		// The trail may begin anew, as in a store that was salvaged. Usage does not count, because
		// requests may come before the restore.
		for _, kind := range []records.Kind{records.KindPreset, records.KindVersion, records.KindLabel, records.KindKey, records.KindDeleted} {
			some, err := r.get(r.ctx, string(kind.Prefix()), clientv3.WithPrefix(), clientv3.WithLimit(1), clientv3.WithRev(response.Header.Revision))
			if err != nil {
				return err
			}
			if len(some.Kvs) > 0 {
				return fmt.Errorf("%w: the one under %q has presets or keys", dump.ErrNotNew, r.prefix)
			}
		}
	}
	var conditions []clientv3.Cmp
	for _, key := range []string{formatKey, lastKey, restoringKey} {
		conditions = append(conditions, clientv3.Compare(clientv3.ModRevision(r.prefix+key), "=", found[key]))
	}
	if r.marker, err = newMarker(); err != nil {
		return err
	}
	return r.commit(conditions, clientv3.OpPut(r.prefix+formatKey, r.marker), clientv3.OpPut(r.prefix+restoringKey, r.id), clientv3.OpDelete(r.prefix+lastKey))
}

var errOtherRestore = fmt.Errorf("%w: another restore or change came first", domain.ErrUnavailable)

// commit makes a transaction. A repetition of one that was made succeeds, too. Only the last one of
// this restore removes restoringKey and leaves its marker.
func (r *restore) commit(conditions []clientv3.Cmp, ops ...clientv3.Op) error {
	response, err := request(r.ctx, r.Store, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return r.client.Txn(ctx).If(conditions...).Then(ops...).Else(clientv3.OpGet(r.prefix+restoringKey), clientv3.OpGet(r.prefix+formatKey)).Commit()
	})
	if err != nil || response.Succeeded {
		return err
	}
	var found [2]string
	for i := range found {
		for _, kv := range response.Responses[i].GetResponseRange().Kvs {
			found[i] = string(kv.Value)
		}
	}
	if restoring, marker := found[0], found[1]; restoring == r.id || restoring == "" && marker == r.marker {
		return nil
	}
	return errOtherRestore
}

// write makes a transaction if no other restore has begun.
func (r *restore) write(ops ...clientv3.Op) error {
	return r.commit(r.isOwn(), ops...)
}

// isOwn is the condition that no other restore has begun.
func (r *restore) isOwn() []clientv3.Cmp {
	return []clientv3.Cmp{clientv3.Compare(clientv3.Value(r.prefix+restoringKey), "=", r.id)}
}

// rename gives the restore another id. A removal that is still under way, because the answer to a
// repetition of it was faster, then removes nothing that is written.
func (r *restore) rename() error {
	before := r.isOwn()
	r.id = uuid.NewString()
	return r.commit(before, clientv3.OpPut(r.prefix+restoringKey, r.id))
}

// clear removes all records.
func (r *restore) clear() error {
	all := records.KindPreset.Prefix()[:1] // with which they begin
	end := clientv3.GetPrefixRangeEnd(r.prefix + string(all))
	for {
		response, err := r.get(r.ctx, string(all), clientv3.WithRange(end), clientv3.WithKeysOnly(), clientv3.WithLimit(maxWrites))
		if err != nil || len(response.Kvs) == 0 {
			return err
		}
		last := response.Kvs[len(response.Kvs)-1].Key
		if err := r.write(clientv3.OpDelete(r.prefix+string(all), clientv3.WithRange(string(last)+"\x00"))); err != nil {
			return err
		}
	}
}

// put has a record written with others.
func (r *restore) put(k records.Key, record []byte) error {
	expires, err := records.Expires(k, record)
	if err != nil {
		return err
	}
	size := int64(len(r.prefix) + len(k) + len(record) + writeCost)
	if len(r.waiting) == maxWrites || r.size+size > maxGroup {
		if err := r.flush(); err != nil {
			return err
		}
	}
	r.waiting, r.size = append(r.waiting, records.Write{Key: k, Record: record, Expires: expires}), r.size+size
	return nil
}

// flush writes the records that wait, except those that have expired. A lease may end between its
// grant and the write.
func (r *restore) flush() error {
	for {
		var ops []clientv3.Op
		for _, w := range r.waiting {
			if w.Expires != 0 && w.Expires <= uint64(time.Now().Unix()) {
				continue
			}
			op, err := r.opOf(r.ctx, w)
			if err != nil {
				return err
			}
			ops = append(ops, op)
		}
		var err error
		if len(ops) > 0 {
			err = r.write(splitOps(ops)...)
		}
		if !errors.Is(err, rpctypes.ErrLeaseNotFound) {
			r.waiting, r.size = nil, 0
			return err
		}
		r.leases.askAgain()
	}
}
