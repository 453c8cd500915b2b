package domain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/caddy-presets/caddy-presets/domain/internal/cow"
)

// ErrRevocationNotStored is in the chain of RevokeKey's error for a key that every Service of the
// store refuses from now on, although the store has not taken the revocation. StoreRevocations
// tries again.
var ErrRevocationNotStored = errors.New("the key is refused from now on, but its revocation is not stored yet")

// revocations are those that a store has not taken yet, in memory alone. They belong to the Stamps of
// an open store, which all its Services share.
type revocations struct{ cow.Map[KeyHash, revocation] }

// revocation is one that is not stored.
type revocation struct {
	keyID string
	at    time.Time
	write Write
}

// show sets RevokedAt of a stored key whose revocation is not stored.
func (r *revocations) show(k *Key) {
	if of, ok := r.All()[k.Hash]; ok {
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
	if _, isPending := s.revocations().All()[k.Hash]; k.RevokedAt != nil && !isPending {
		return k, nil
	}
	of := s.revocations().Add(k.Hash, revocation{k.ID, s.timestamp(), w})
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
		return c.record("key.delete", auditedKey(k), 0, 0)
	})
	if err == nil || errors.Is(err, errKeyNotFound) {
		s.revocations().Remove(hash)
	}
	return k, err
}

// StoreRevocations tries once to store the revocations for which RevokeKey could not. It returns
// the ids of the keys whose revocation is stored now, or that are gone, and those of the others.
func (s *Service) StoreRevocations(ctx context.Context) (stored, left []string) {
	for hash, of := range s.revocations().All() {
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
