package domain

import (
	"context"
	"errors"
	"slices"
	"time"
)

// Ended returns when k stopped being live, and false if it is live at a time.
func (k Key) Ended(at time.Time) (time.Time, bool) {
	switch {
	case k.Live(at):
		return time.Time{}, false
	case k.RevokedAt == nil:
		return *k.ExpiresAt, true
	case k.ExpiresAt != nil && k.ExpiresAt.Before(*k.RevokedAt):
		return *k.ExpiresAt, true
	default:
		return *k.RevokedAt, true
	}
}

// maxKeysRemoved bounds the keys that one change removes. Each adds an audit record.
const maxKeysRemoved = 100

var errKeyNotFound = &Error{Kind: NotFound, Message: "Key not found"}

// RemoveKey removes a revoked or expired key from the store and returns it. The audit trail
// keeps its records, and histories show no name for it. w.Idempotency is ignored. A live
// key is Conflict. An unknown id is NotFound.
func (s *Service) RemoveKey(ctx context.Context, w Write, id string) (k Key, err error) {
	w.Idempotency = Idempotency{}
	_, err = s.change(ctx, w, func(c *change) error {
		k, err = c.Key(id)
		switch {
		case errors.Is(err, ErrNotFound):
			return errKeyNotFound
		case err != nil:
			return err
		}
		if k.Live(c.now) {
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
	return c.record("key.remove", k.audited(), 0, 0)
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
// w.Idempotency is ignored.
func (s *Service) PruneKeys(ctx context.Context, w Write, on KeyPruning) (removed []Key, err error) {
	if on.EndedFor < 0 {
		return nil, InvalidAt("/older_than", "must not be negative")
	}
	w.Idempotency = Idempotency{}
	before := s.timestamp().Add(-on.EndedFor)
	ended := func(r Reader) ([]Key, error) {
		keys, err := r.Keys()
		return slices.DeleteFunc(keys, func(k Key) bool {
			end, ok := k.Ended(s.now())
			return !ok || end.After(before)
		}), err
	}
	if on.DryRun {
		err = s.store.View(ctx, func(r Reader) (err error) {
			removed, err = ended(r)
			return err
		})
		return removed, err
	}
	for {
		var some []Key
		_, err := s.change(ctx, w, func(c *change) error {
			all, err := ended(c)
			if err != nil {
				return err
			}
			some = all[:min(len(all), maxKeysRemoved)]
			for _, k := range some {
				if err := c.removeKey(k); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return removed, err
		}
		removed = append(removed, some...)
		if len(some) < maxKeysRemoved {
			return removed, nil
		}
	}
}
