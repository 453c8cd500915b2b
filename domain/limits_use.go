package domain

import "context"

// WorkspaceLimits are what a workspace bounds.
type WorkspaceLimits struct {
	ID string
	// Limits are those of each key of the workspace that lacks the same limit. Nil is none.
	Limits  *Limits
	Budgets Budgets
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
		return c.record("key.limit_reached", k.audited(), 0, 0)
	})
	return err
}

// LimitsMeasured reports whether p's key has a limit of costs or tokens, which only the routes that resolve presets
// measure.
func (p Principal) LimitsMeasured() bool {
	l := p.KeyLimits
	return l != nil && (l.Limit != nil || l.Limits != nil && (l.Limits.TokensPerMinute != 0 || l.Limits.TokensPerDay != 0))
}
