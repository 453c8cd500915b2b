package domain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// ErrRevocationNotStored is in the chain of RevokeKey's error for a key that every Service of the
// store refuses from now on, although the store has not taken the revocation. StoreRevocations
// tries again.
var ErrRevocationNotStored = errors.New("the key is refused from now on, but its revocation is not stored yet")

// revocations are those that a store has not taken yet, in memory alone. They belong to the Stamps of
// an open store, which all its Services share. They are safe for concurrent use.
type revocations struct {
	mu      sync.Mutex                             // held to replace the map
	pending atomic.Pointer[map[KeyHash]revocation] // nil or empty for none
}

// revocation is one that is not stored.
type revocation struct {
	keyID string
	at    time.Time
	write Write
}

// all returns the revocations that are not stored, by their keys. The map is not changed any more.
func (r *revocations) all() map[KeyHash]revocation {
	if pending := r.pending.Load(); pending != nil {
		return *pending
	}
	return nil
}

// add adds a revocation, unless the key has one. It returns the one that the key has then.
func (r *revocations) add(hash KeyHash, of revocation) revocation {
	r.mu.Lock()
	defer r.mu.Unlock()
	if earlier, ok := r.all()[hash]; ok {
		return earlier
	}
	pending := map[KeyHash]revocation{hash: of}
	maps.Copy(pending, r.all())
	r.pending.Store(&pending)
	return of
}

// remove removes the revocation of a key.
func (r *revocations) remove(hash KeyHash) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pending := maps.Clone(r.all())
	delete(pending, hash)
	r.pending.Store(&pending)
}

// show sets RevokedAt of a stored key whose revocation is not stored.
func (r *revocations) show(k *Key) {
	if of, ok := r.all()[k.Hash]; ok {
		k.RevokedAt = &of.at
	}
}

// RevokeKey revokes a key for good and returns it. It finds the key as UpdateKey does. Requests with the key are refused as soon as the
// key was read, before the revocation is stored. Storing it may use the space that the engine keeps
// in reserve. If that fails, the key is returned as revoked, with ErrRevocationNotStored in the
// error's chain: see StoreRevocations.
//
// Revoking a key again changes nothing. w has no Idempotency. An unknown id is NotFound.
func (s *Service) RevokeKey(ctx context.Context, w Write, ref string) (Key, error) {
	if err := w.Condition.Check(); err != nil {
		return Key{}, err
	}
	k, err := s.Key(ctx, w.Who, ref)
	if err != nil {
		return Key{}, err
	}
	if _, isPending := s.revocations().all()[k.Hash]; k.RevokedAt != nil && !isPending {
		return k, nil
	}
	of := s.revocations().add(k.Hash, revocation{k.ID, s.timestamp(), w})
	stored, err := s.storeRevocation(ctx, k.Hash, of)
	switch {
	case err == nil:
		return stored, nil
	case errors.Is(err, errKeyNotFound):
		return Key{}, err
	default:
		k.RevokedAt = &of.at
		return k, fmt.Errorf("%w: %w", ErrRevocationNotStored, err)
	}
}

// storeRevocation stores a revocation, and forgets it then. It returns the stored key.
func (s *Service) storeRevocation(ctx context.Context, hash KeyHash, of revocation) (k Key, err error) {
	_, err = s.change(FromReserve(ctx), of.write, func(c *change) error {
		if k, err = issuedKey(c, of.keyID); err != nil || k.RevokedAt != nil {
			return err
		}
		k.RevokedAt = &of.at
		if err := c.PutKey(k); err != nil {
			return err
		}
		return c.record("key.delete", k.audited(), 0, 0)
	})
	if err == nil || errors.Is(err, errKeyNotFound) {
		s.revocations().remove(hash)
	}
	return k, err
}

// StoreRevocations tries once to store the revocations for which RevokeKey could not. It returns
// the ids of the keys whose revocation is stored now, or that are gone, and those of the others.
func (s *Service) StoreRevocations(ctx context.Context) (stored, left []string) {
	for hash, of := range s.revocations().all() {
		if _, err := s.storeRevocation(ctx, hash, of); err == nil || errors.Is(err, errKeyNotFound) {
			stored = append(stored, of.keyID)
		} else {
			left = append(left, of.keyID)
		}
	}
	return stored, left
}

// revocations returns those of the store.
func (s *Service) revocations() *revocations { return &s.store.Stamps().revocations }
