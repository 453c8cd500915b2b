package etcdstore

import (
	"context"
	"encoding/binary"
	"slices"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/caddy-presets/caddy-presets/storage/groupcommit"
	"github.com/caddy-presets/caddy-presets/storage/replica"
)

// proposal is a commit to be made. Its condition is that base is the last commit.
type proposal struct {
	base, next replica.Commit
	ops        []clientv3.Op
	// backoff is how long the other nodes are asked to wait if base is not the last commit.
	// A proposal that reaches etcd late asks them all the same.
	// With 0 they are not asked.
	backoff time.Duration
}

// propose asks etcd once to make a commit.
func (c *committer) propose(ctx context.Context, p proposal) (*clientv3.TxnResponse, error) {
	key := c.store.prefix + lastKey
	otherwise := []clientv3.Op{clientv3.OpGet(key)}
	if p.backoff > 0 {
		otherwise = append(otherwise, clientv3.OpPut(c.store.prefix+waitingKey, string(binary.BigEndian.AppendUint64(slices.Clone(c.id[:]), uint64(p.backoff)))))
	}
	conditions := []clientv3.Cmp{
		clientv3.Compare(clientv3.ModRevision(key), "=", p.base.Revision),
		clientv3.Compare(clientv3.Value(key), "=", replica.EncodeCommit(p.base)),
	}
	return c.store.client.Txn(ctx).
		If(conditions...).
		Then(append(splitOps(p.ops), clientv3.OpPut(key, replica.EncodeCommit(p.next)))...).
		Else(otherwise...).
		Commit()
}

// splitOps puts operations that are too many for one transaction into several inside it.
func splitOps(ops []clientv3.Op) (parts []clientv3.Op) {
	if len(ops) <= maxParts {
		return slices.Clip(ops)
	}
	for part := range slices.Chunk(ops, maxParts) {
		parts = append(parts, clientv3.OpTxn(nil, part, nil))
	}
	return parts
}

func decodeLast(response *clientv3.TxnResponse) (replica.Commit, error) {
	kvs := response.Responses[0].GetResponseRange().Kvs
	if len(kvs) == 0 {
		return replica.Commit{}, errGone
	}
	return replica.DecodeCommit(kvs[0].Value, kvs[0].ModRevision)
}

// decide asks etcd to make a commit, until an answer tells whether it was made. After
// firstPatience it also proposes fences: empty commits on top of the same base. Once a fence
// is made, the commit cannot be made any more. Proposing the commit again would not decide
// that.
//
// decide returns the answer and the commit that it belongs to: the first answer to any of them
// counts, as in request. It returns etcd's error if etcd refused the commit, and errUnknown if
// no answer came within Options.RequestTimeout.
func (c *committer) decide(p proposal) (made replica.Commit, response *clientv3.TxnResponse, err error) {
	type answer struct {
		to       replica.Commit
		response *clientv3.TxnResponse
	}
	var attempts atomic.Int64
	var refusal error
	a, err := requestAfter(c.store.ctx, c.store, firstPatience, func(ctx context.Context) (answer, error) {
		n := attempts.Add(1)
		if n == 1 {
			response, err := c.propose(ctx, p)
			if isRefused(err) {
				refusal = err
			}
			return answer{p.next, response}, err
		}
		if n == 2 {
			c.store.logger.Warn("the outcome of a change is not known; finding out whether the change was made")
		}
		fence := proposal{base: p.base, next: p.base.Next()}
		response, err := c.propose(ctx, fence)
		if isRefused(err) { // the commit may have been made all the same
			err = errUnknown
		}
		return answer{fence.next, response}, err
	})
	switch {
	case err == nil:
		return a.to, a.response, nil
	case isRefused(err):
		return p.next, nil, refusal
	default:
		return p.next, nil, errUnknown
	}
}

// resolve finds out whether a commit was made, after etcd's answer that its base is not the
// last commit. Another delivery of the same request may have made it before. resolve returns
// the commit if it was made. Otherwise it returns the last one and groupcommit.ErrOvertaken.
func (c *committer) resolve(next replica.Commit, answer *clientv3.TxnResponse) (replica.Commit, error) {
	latest, err := decodeLast(answer)
	switch {
	case err != nil:
		return latest, err
	case latest.ID == next.ID:
		return latest, nil
	case latest.Number <= next.Number:
		return latest, groupcommit.ErrOvertaken
	default:
		return c.lookUp(next, latest)
	}
}

// lookUp is resolve for a commit that others may have followed.
func (c *committer) lookUp(unknown, latest replica.Commit) (replica.Commit, error) {
	if err := c.store.await(c.store.ctx, latest.Revision); err != nil {
		return latest, errUnknown
	}
	made, ok := c.store.model.Find(unknown.Number)
	switch {
	case !ok:
		return latest, errUnknown
	case made.ID == unknown.ID:
		return made, nil
	default:
		return latest, groupcommit.ErrOvertaken
	}
}
