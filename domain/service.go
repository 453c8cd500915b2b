package domain

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain/internal/cache"
)

// Service applies the rules of this package on top of a Store. It caches keys and
// answers, within a bound and while their stamps stay the same. It is safe for concurrent
// use.
type Service struct {
	// KeepVersions is how many of the newest versions of a preset ReleasePresetVersion keeps, 0
	// for all. Designated and labelled versions stay, too. It is set before the Service is
	// used.
	KeepVersions int
	// Changing, if it is set, is called before each change. The function that it returns is
	// called before the change is answered. It gets the audit records if the change is
	// durable. It gets none if the change failed or changed nothing. Both functions must
	// return without waiting, and be safe for concurrent use. Changing is set before the
	// Service is used.
	Changing func() (changed func([]AuditRecord))

	store   Store
	keys    *cache.Cache[KeyHash, Stamp, Key]
	objects *cache.Cache[answerKey, Stamp, Found]
	pages   *cache.Cache[answerKey, Stamp, Listed]
	now     func() time.Time
	newID   func() string

	scans    chan struct{} // the scans of presets that run
	scanTime time.Duration // maxScan, and sorted is maxSorted; only tests change them
	sorted   int

	reports    chan struct{} // the reports of usage that are being made
	reportTime time.Duration // maxReport; only tests change it

	latest    atomic.Int64 // what timestamp returned last, in milliseconds
	useWrites atomic.Int32 // uses of keys in flight to the store
}

// NewService returns a Service over store. It uses the system clock and random,
// time-ordered UUIDs (version 7).
func NewService(store Store) *Service { return NewServiceWith(store, time.Now, newUUID) }

// NewServiceWith is NewService with another clock and another source of ids. Tests use it for
// answers that must be the same each time.
func NewServiceWith(store Store, now func() time.Time, newID func() string) *Service {
	s := &Service{
		store: store, now: now, newID: newID,
		scans: make(chan struct{}, maxScans), scanTime: maxScan, sorted: maxSorted,
		reports: make(chan struct{}, maxReports), reportTime: maxReport,
	}
	s.UseMemory(NewMemory(DefaultMemory))
	return s
}

// UseMemory makes the Service cache in a Memory that it shares with others. It is called before
// the Service is used.
func (s *Service) UseMemory(m *Memory) {
	s.keys = cache.New[KeyHash, Stamp, Key](m)
	s.objects = cache.New[answerKey, Stamp, Found](m)
	s.pages = cache.New[answerKey, Stamp, Listed](m)
}

func newUUID() string { return uuid.Must(uuid.NewV7()).String() }

// timestamp returns the time of a change: UTC, in whole milliseconds, which clients' date
// types can hold. It never goes back, even if the system's clock does.
func (s *Service) timestamp() time.Time {
	for now := s.now().UnixMilli(); ; {
		latest := s.latest.Load()
		if now <= latest {
			return time.UnixMilli(latest).UTC()
		}
		if s.latest.CompareAndSwap(latest, now) {
			return time.UnixMilli(now).UTC()
		}
	}
}

// update is Store.Update. It turns ErrConflict into a Conflict error.
func (s *Service) update(ctx context.Context, fn func(Tx) error) error {
	err := s.store.Update(ctx, fn)
	if errors.Is(err, ErrConflict) {
		return &Error{Kind: Conflict, Message: "Resource conflict. Please try again later.", Err: err}
	}
	return err
}
