package replica

import (
	"fmt"
	"sync"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

// Freshness is how long ago a node knew that its Model was current. It is safe for
// concurrent use.
type Freshness struct {
	max    time.Duration
	stamps *domain.Stamps

	mu        sync.Mutex
	confirmed time.Time // when the model was known to be current last
	failure   error     // of the last question to the store since then, nil for none
	asked     time.Time // when the question was asked that has no answer yet, zero for none
}

// NewFreshness returns the Freshness of a model that was current at a moment. After each
// confirmation, stamps are good for max.
func NewFreshness(stamps *domain.Stamps, max time.Duration, confirmed time.Time) *Freshness {
	f := &Freshness{max: max, stamps: stamps}
	f.Confirm(confirmed)
	return f
}

// Max is how stale the model may be.
func (f *Freshness) Max() time.Duration { return f.max }

// Confirm records that the model was current at a moment.
func (f *Freshness) Confirm(at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at.After(f.confirmed) {
		f.confirmed, f.failure = at, nil
		f.stamps.GoodUntil(at.Add(f.max))
	}
}

// Staleness is how long ago the model was known to be current.
func (f *Freshness) Staleness() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return elapsed(f.confirmed)
}

// elapsed returns how long ago a moment was. It is the longer time of two clocks, because
// the monotonic clock stands still while the machine is suspended.
func elapsed(since time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(since), now.Round(0).Sub(since.Round(0)))
}

// IsStale reports whether the model was known to be current too long ago.
func (f *Freshness) IsStale() bool { return f.Staleness() > f.max }

var errSilent = fmt.Errorf("%w: the store does not answer", domain.ErrUnavailable)

// CheckAvailable returns an error if the model is stale and the store does not answer. A
// node asks all the time, so callers need not wait for an answer. For a node that was
// suspended and has not asked since, CheckAvailable returns nil: the store may well answer.
func (f *Freshness) CheckAvailable() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case elapsed(f.confirmed) <= f.max:
		return nil
	case f.failure == nil && !f.asked.IsZero() && time.Since(f.asked) > f.max/2:
		return errSilent
	default:
		return f.failure
	}
}

// BeginQuestion records that the store is being asked for its last commit.
func (f *Freshness) BeginQuestion() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = time.Now()
}

// EndQuestion records the outcome of that question.
func (f *Freshness) EndQuestion(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = time.Time{}
	if err != nil {
		f.failure = err
	}
}
