package etcdstore

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// proposal is a commit to be made, provided that base is the last one and that there is
// nothing yet under some keys.
type proposal struct {
	base, next commit
	vacant     []string
	ops        []clientv3.Op
	// If base is not the last one, other nodes are asked to let this one go first, for so
	// long; 0 for not.
	urgent time.Duration
}

// propose asks etcd once to make a commit.
func (c *committer) propose(ctx context.Context, p proposal) (*clientv3.TxnResponse, error) {
	key := c.store.prefix + lastKey
	otherwise := []clientv3.Op{clientv3.OpGet(key)}
	if p.urgent > 0 {
		otherwise = append(otherwise, clientv3.OpPut(c.store.prefix+waitingKey, string(binary.BigEndian.AppendUint64(slices.Clone(c.id[:]), uint64(p.urgent)))))
	}
	conditions := []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(key), "=", p.base.revision),
		clientv3.Compare(clientv3.Value(key), "=", encodeCommit(p.base)),
	}
	for _, k := range p.vacant {
		conditions = append(conditions, clientv3.Compare(clientv3.CreateRevision(c.store.prefix+k), "=", 0))
	}
	return c.store.client.Txn(ctx).
		If(conditions...).
		Then(append(inParts(p.ops), clientv3.OpPut(key, encodeCommit(p.next)))...).
		Else(otherwise...).
		Commit()
}

// inParts makes transactions of operations that are too many for one.
func inParts(ops []clientv3.Op) (parts []clientv3.Op) {
	if len(ops) <= maxParts {
		return slices.Clip(ops)
	}
	for part := range slices.Chunk(ops, maxParts) {
		parts = append(parts, clientv3.OpTxn(nil, part, nil))
	}
	return parts
}

func lastOf(response *clientv3.TxnResponse) (commit, error) {
	kvs := response.Responses[0].GetResponseRange().Kvs
	if len(kvs) == 0 {
		return commit{}, errGone
	}
	return decodeCommit(kvs[0].Value, kvs[0].ModRevision)
}

// settle finds out what became of a commit for which etcd did not answer, and which may
// still be on its way. It makes another one, of nothing, on top of the same base: when
// that succeeds, the first can not any more. When something has been committed, the
// ids of the commits tell what came after the base. It returns the commit if it was
// made, errOvertaken and a later one if it was not and never will be, and ErrUnknown if
// that could not be found out in the time that requests may take.
func (c *committer) settle(base, unknown commit) (commit, error) {
	s := c.store
	ctx, cancel := context.WithTimeout(s.ctx, s.timeout)
	defer cancel()
	for ctx.Err() == nil {
		fence := base.next()
		attempt, cancel := context.WithTimeout(ctx, nextAttempt)
		response, err := c.propose(attempt, proposal{base: base, next: fence})
		cancel()
		if err != nil {
			time.Sleep(retryPause)
			continue
		}
		if response.Succeeded {
			fence.revision = response.Header.Revision
			s.model.apply(nil, fence.revision, &fence, true)
			return fence, errOvertaken
		}
		latest, err := lastOf(response)
		if err != nil {
			return unknown, err
		}
		if latest.id == unknown.id {
			return latest, nil
		}
		if latest.number == unknown.number {
			return latest, errOvertaken
		}
		return c.lookUp(unknown, latest)
	}
	return unknown, errUnknown
}

// lookUp tells what became of a commit once later ones have been made.
func (c *committer) lookUp(unknown, latest commit) (commit, error) {
	if err := c.store.await(c.store.ctx, latest.revision); err != nil {
		return latest, errUnknown
	}
	made, ok := c.store.model.find(unknown.number)
	switch {
	case !ok:
		return latest, errUnknown
	case made.id == unknown.id:
		return made, nil
	default:
		return latest, errOvertaken
	}
}
