package domain

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
	"time"
)

// Stamps tell whether what was read from a Store is still so, without reading
// it again: the stamp of an object changes with every change to it. Whoever
// keeps an object in memory notes its stamp before reading it; the copy is good
// for as long as the stamp stays the same. While an object is being changed its stamp
// is zero, which is no stamp: no copy is good then, and none is kept. So what one
// reader has seen all that begin later see, too, wherever they find it.
//
// An engine has one Stamps for each open store and tells it of each Change: before
// it can become visible, and after that and before Update returns, also where the
// outcome is unknown. Several objects share one stamp, so it may change without
// need, never the other way round. Ids count as the same in either case, as they do
// where they are looked up.
//
// Stamps are safe for concurrent use and of fixed size.
type Stamps struct {
	seed maphash.Seed
	// In each counter the lowest bits are how many changes are in progress, and the
	// others how many there were. Objects share all but the one of versions.
	counters [sharedCounters + 1]atomic.Uint64
	// until is when they are no good any more, in nanoseconds since begun, 0 for
	// never, and untilWall the same by the system's clock, in nanoseconds since 1970.
	// The one that comes first counts: that clock may be set back, and the other one
	// stands still while the machine is suspended.
	until, untilWall atomic.Int64
}

// begun is a moment by whose distance others are told apart, whatever is done to the
// system's clock.
var begun = time.Now()

const (
	sharedCounters  = 4096
	versionsCounter = sharedCounters // its number

	oneChange = 1 << 16
	changing  = oneChange - 1
)

// opened counts the Stamps made by this process, so that a stamp of a store
// says nothing about the same store opened again.
var opened atomic.Uint64

// NewStamps returns the stamps of a store that was just opened.
func NewStamps() *Stamps {
	s := &Stamps{seed: maphash.MakeSeed()}
	first := opened.Add(1) << 48
	for i := range s.counters {
		s.counters[i].Store(first)
	}
	return s
}

// Stamp is the state of an object as far as Stamps know it. Zero is the stamp
// of nothing, and of what is being changed.
type Stamp uint64

func (s *Stamps) stamp(counter uint64) Stamp {
	n := s.counters[counter].Load()
	if n&changing != 0 {
		return 0
	}
	if until := s.until.Load(); until != 0 {
		if now := time.Now(); int64(now.Sub(begun)) > until || now.UnixNano() > s.untilWall.Load() {
			return 0
		}
	}
	return Stamp(n)
}

// GoodUntil says that from a moment on, until it is called with a later one, all
// stamps are zero: an engine that has not heard from the others with whom it shares
// what is stored does not know what they have changed. Without it stamps are good for
// ever.
func (s *Stamps) GoodUntil(t time.Time) {
	s.untilWall.Store(t.UnixNano())
	s.until.Store(max(int64(t.Sub(begun)), 1))
}

// Preset returns the stamp of the preset of a slug in a workspace, existing or
// not, and of which version it designates.
func (s *Stamps) Preset(workspaceID, slug string) Stamp {
	return s.stamp(s.preset(workspaceID, slug))
}

// Workspace returns the stamp of which workspace has an id or slug, and of its
// fields.
func (s *Stamps) Workspace(ref string) Stamp { return s.stamp(s.workspace(ref)) }

// Key returns the stamp of which issued key has a hash, and of its fields.
func (s *Stamps) Key(hash KeyHash) Stamp { return s.stamp(s.key(hash)) }

// Presets returns the stamp of the list of the presets of a workspace, and of what
// it shows of each.
func (s *Stamps) Presets(workspaceID string) Stamp { return s.stamp(s.presets(workspaceID)) }

// Workspaces returns the stamp of the list of all workspaces, and of what it shows
// of each.
func (s *Stamps) Workspaces() Stamp { return s.stamp(s.workspaces()) }

// Versions returns the stamp of what every version of every preset holds. A version
// never changes once it is stored, so no change that is made in the store changes it.
// That all is another does: where a backup was restored, another version may come to
// have the number of one that is lost.
func (s *Stamps) Versions() Stamp { return s.stamp(versionsCounter) }

func (s *Stamps) preset(workspaceID, slug string) uint64 {
	return s.counter('p', strings.ToLower(workspaceID), slug)
}

func (s *Stamps) workspace(ref string) uint64 { return s.counter('w', strings.ToLower(ref), "") }

func (s *Stamps) presets(workspaceID string) uint64 {
	return s.counter('l', strings.ToLower(workspaceID), "")
}

func (s *Stamps) workspaces() uint64 { return s.counter('a', "", "") }

func (s *Stamps) key(hash KeyHash) uint64 {
	return maphash.Bytes(s.seed, hash[:]) % sharedCounters
}

func (s *Stamps) counter(kind byte, a, b string) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	_ = h.WriteByte(kind) // hashing never fails
	_, _ = h.WriteString(a)
	_ = h.WriteByte(0)
	_, _ = h.WriteString(b)
	return h.Sum64() % sharedCounters
}

// Change is something that an engine changes, of one object or of many. It is told
// what that is, then to begin, and then to end, or that there is none after all. It is not
// safe for concurrent use.
type Change struct {
	stamps   *Stamps
	counters []uint64
}

// Change returns a change of nothing yet.
func (s *Stamps) Change() *Change { return &Change{stamps: s} }

// Preset adds a preset.
func (c *Change) Preset(workspaceID, slug string) { c.add(c.stamps.preset(workspaceID, slug)) }

// Workspace adds an id or slug of a workspace. A change of slug concerns the id, the
// former slug and the new one.
func (c *Change) Workspace(ref string) { c.add(c.stamps.workspace(ref)) }

// Key adds the issued key of a hash.
func (c *Change) Key(hash KeyHash) { c.add(c.stamps.key(hash)) }

// Presets adds the list of the presets of a workspace.
func (c *Change) Presets(workspaceID string) { c.add(c.stamps.presets(workspaceID)) }

// All adds all that there is, versions among it: what is stored may be another's.
func (c *Change) All() {
	for i := range c.stamps.counters {
		c.add(uint64(i))
	}
}

// Workspaces adds the list of all workspaces.
func (c *Change) Workspaces() { c.add(c.stamps.workspaces()) }

func (c *Change) add(counter uint64) { c.counters = append(c.counters, counter) }

// Begin says that from now on readers may see the change.
func (c *Change) Begin() {
	for _, counter := range c.counters {
		c.stamps.counters[counter].Add(1)
	}
}

// End says that all readers see it, or that none ever will.
func (c *Change) End() {
	for _, counter := range c.counters {
		c.stamps.counters[counter].Add(oneChange - 1)
	}
}

// Cancel is End for a change that was not made and never will be: what was kept before it
// stays good.
func (c *Change) Cancel() {
	for _, counter := range c.counters {
		c.stamps.counters[counter].Add(^uint64(0))
	}
}
