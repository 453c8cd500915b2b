package domain

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"
)

// IssueKey stores a new key and returns it with its secret. The secret is not stored, so it
// cannot be replayed, and w has no Idempotency. A wrong setting is Invalid. An unknown
// workspace is NotFound.
//
// Only the server itself issues keys of any kind. A management key issues inference keys, for
// workspaces that it reaches, and only with the right IssueKeys. An issued one gives no rights.
func (s *Service) IssueKey(ctx context.Context, w Write, in NewKey) (k Key, secret string, err error) {
	if err := w.Who.CheckIssueKeys(); err != nil {
		return Key{}, "", err
	}
	if in.Kind != InferenceKey && !w.Who.IsServer() {
		return Key{}, "", &Error{Kind: Forbidden, Message: "Only the operator issues management keys"}
	}
	if err := cmp.Or(in.Check(), w.Who.CheckGives(&in.Scope)); err != nil {
		return Key{}, "", err
	}
	id := s.newID()
	_, err = s.change(ctx, w, func(c *change) (err error) {
		if err := c.Condition.Check(); err != nil {
			return err
		}
		k = Key{ID: id, Kind: in.Kind, Name: in.Name, UserID: in.UserID, CreatedAt: c.now, ExpiresAt: in.ExpiresAt, KeyLimits: in.KeyLimits}
		k.Limits = k.Limits.NilIfNone()
		secret = k.NewSecret()
		if !in.Scope.IsEmpty() {
			k.Scope = &in.Scope
		}
		if in.Lifetime > 0 {
			k.ExpiresAt = new(c.now.Add(in.Lifetime))
		}
		if k.ExpiresAt != nil && !k.ExpiresAt.After(c.now) {
			return InvalidAt("/expires_at", "must be in the future")
		}
		if in.Workspace != "" || !w.Who.IsServer() {
			if k.WorkspaceID, err = workspaceOf(c, c.Who, in.Workspace); err != nil {
				return err
			}
		}
		if err := c.PutKey(k); err != nil {
			return err
		}
		return c.record("key.create", auditedKey(k), 0, 0)
	})
	if err != nil {
		return Key{}, "", err
	}
	return k, secret, nil
}

func auditedKey(k Key) AuditObject {
	return AuditObject{Kind: "key", ID: k.ID, WorkspaceID: k.WorkspaceID, Name: k.Name}
}

// Keys returns all issued keys, also those that are not live. The oldest comes first. A key whose
// revocation is not stored yet is shown as revoked.
func (s *Service) Keys(ctx context.Context) (keys []Key, err error) {
	err = s.store.View(ctx, func(r Reader) error {
		keys, err = r.Keys()
		return err
	})
	for i := range keys {
		s.revocations().show(&keys[i])
	}
	return keys, err
}

var errKeyNotFound = &Error{Kind: NotFound, Message: "Key not found"}

// issuedKey returns the issued key of an id. An unknown id is errKeyNotFound.
func issuedKey(r Reader, id string) (Key, error) {
	k, err := r.Key(id)
	if errors.Is(err, ErrNotFound) {
		err = errKeyNotFound
	}
	return k, err
}

// Authenticate returns the principal of the issued secret that has a hash, and stores its
// use in the background. An unknown, revoked or expired secret gives ErrCredentials, the
// same Unauthenticated error. Unknown secrets take the same steps whatever they look like.
func (s *Service) Authenticate(ctx context.Context, hash KeyHash) (Principal, error) {
	k, err := s.KeyOf(ctx, hash)
	switch {
	case errors.Is(err, ErrNotFound):
		return Principal{}, ErrCredentials
	case err != nil:
		return Principal{}, err
	}
	return s.principalOf(k, hash)
}

// AuthenticateKnown is Authenticate for a cached, live key. It never reads the store. For
// other secrets it returns false: only Authenticate can tell whether they are keys.
func (s *Service) AuthenticateKnown(hash KeyHash) (Principal, bool) {
	k, ok := s.keys.Get(hash, s.store.Stamps().Key(hash))
	if !ok {
		return Principal{}, false
	}
	who, err := s.principalOf(k, hash)
	return who, err == nil
}

// principalOf returns the principal of k and records its use. It returns ErrCredentials if
// k is not live.
func (s *Service) principalOf(k Key, hash KeyHash) (Principal, error) {
	now := s.now()
	_, isRevoked := s.revocations().All()[k.Hash]
	if !k.Has(hash, now) || isRevoked || !k.Live(now) {
		return Principal{}, ErrCredentials
	}
	if !k.IsUsedRecently(now) {
		s.recordUse(k, hash, now)
	}
	return k.Principal(hash), nil
}

// KeyOf returns the issued key whose secret has a hash, from the cache if that is
// current. It returns ErrNotFound if there is none.
func (s *Service) KeyOf(ctx context.Context, hash KeyHash) (k Key, err error) {
	stamp := s.store.Stamps().Key(hash)
	if k, ok := s.keys.Get(hash, stamp); ok {
		return k, nil
	}
	err = s.store.View(ctx, func(r Reader) error {
		k, err = r.KeyByHash(hash)
		return err
	})
	k.KeepLimits()
	if err == nil {
		s.keys.Put(hash, stamp, k, cachedKeyCost+k.Scope.Cost())
	}
	return k, err
}

const (
	// maxUseWrites bounds concurrent writes of last uses. Beyond it, a later request
	// writes.
	maxUseWrites = 8
	// useWriteTimeout bounds each of them.
	useWriteTimeout = 30 * time.Second
)

// recordUse stores in the background that k was used, by the secret of a hash, without keeping the
// request waiting. It ignores failures: other writes report a store that takes none.
func (s *Service) recordUse(k Key, hash KeyHash, at time.Time) {
	mark := func(cached *Key) bool { // so that storing it is tried once only
		known := cached.IsUsedRecently(at)
		cached.LastUsedAt = &at
		return !known
	}
	if s.useWrites.Add(1) > maxUseWrites || !s.keys.Change(hash, mark) {
		s.useWrites.Add(-1)
		return
	}
	go func() {
		defer s.useWrites.Add(-1)
		ctx, cancel := context.WithTimeout(context.Background(), useWriteTimeout)
		defer cancel()
		_ = s.store.Update(ctx, func(tx Tx) error {
			k, err := tx.Key(k.ID) // it may have been revoked since
			if err != nil || k.IsUsedRecently(at) {
				return err
			}
			used := at.UTC().Truncate(time.Millisecond)
			k.LastUsedAt = &used
			return tx.PutKey(k)
		})
		// Cache the changed key: the next request must not need the store for it.
		_, _ = s.KeyOf(ctx, hash)
	}()
}

// ErrCredentials is the error for a secret that is not a live key.
var ErrCredentials error = &Error{Kind: Unauthenticated, Message: "Invalid credentials"}

// maxKeysRemoved bounds the keys that one change removes. Each adds an audit record.
const maxKeysRemoved = 100

// RemoveKey removes a revoked or expired key from the store and returns it. The audit trail
// keeps its records, and histories show no name for it. w has no Idempotency. A key that has
// not ended is Conflict. An unknown id is NotFound.
func (s *Service) RemoveKey(ctx context.Context, w Write, id string) (k Key, err error) {
	_, err = s.change(ctx, w, func(c *change) error {
		if k, err = issuedKey(c, id); err != nil {
			return err
		}
		if _, ended := k.Ended(c.now); !ended {
			return &Error{Kind: Conflict, Message: "The key is live: revoke it first"}
		}
		return c.removeKey(k)
	})
	return k, err
}

func (c *change) removeKey(k Key) error {
	if err := c.DeleteKey(k); err != nil {
		return err
	}
	return c.record("key.remove", auditedKey(k), 0, 0)
}

// KeyPruning says which keys to remove.
type KeyPruning struct {
	// EndedFor is for how long a key must have been revoked or expired. Zero means any
	// time. It must not be negative.
	EndedFor time.Duration
	// DryRun removes nothing, and only reports.
	DryRun bool
}

// PruneKeys removes the keys that are not live, and returns them, the oldest first. Many keys
// take several changes. After an error it returns the keys that are gone already.
// w has no Idempotency.
func (s *Service) PruneKeys(ctx context.Context, w Write, on KeyPruning) (removed []Key, err error) {
	if on.EndedFor < 0 {
		return nil, InvalidAt("/older_than", "must not be negative")
	}
	var ended []Key
	err = s.store.View(ctx, func(r Reader) error {
		ended, err = r.Keys()
		return err
	})
	now := s.timestamp()
	ended = slices.DeleteFunc(ended, func(k Key) bool {
		end, ok := k.Ended(now)
		return !ok || end.After(now.Add(-on.EndedFor))
	})
	if err != nil || on.DryRun {
		return ended, err
	}
	for some := range slices.Chunk(ended, maxKeysRemoved) {
		var gone []Key
		_, err := s.change(ctx, w, func(c *change) error {
			gone = nil
			for _, k := range some {
				_, err := c.Key(k.ID)
				if errors.Is(err, ErrNotFound) { // another call was first
					continue
				}
				if err == nil {
					err = c.removeKey(k)
				}
				if err != nil {
					return err
				}
				gone = append(gone, k)
			}
			return nil
		})
		if err != nil {
			return removed, err
		}
		removed = append(removed, gone...)
	}
	return removed, nil
}

// TellKeyLimit records that a window of an issued key's limits is used up, so that its event is sent. once
// is called in the same change. It reports whether nobody has told that before, and notes it. A key that is
// gone is NotFound.
func (s *Service) TellKeyLimit(ctx context.Context, id string, once func(Tx) (bool, error)) error {
	_, err := s.change(ctx, By(system), func(c *change) error {
		k, err := issuedKey(c, id)
		if err != nil {
			return err
		}
		if isFirst, err := once(c.Tx); err != nil || !isFirst {
			return err
		}
		return c.record("key.limit_reached", auditedKey(k), 0, 0)
	})
	return err
}
