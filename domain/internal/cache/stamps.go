package cache

import (
	"crypto/sha256"
	"hash/maphash"
	"strings"
	"sync/atomic"
	"time"
)

// Stamps tell whether a cached copy of a stored object is current, without reading the
// store. The stamp of an object changes with every change to it. A cache takes the stamp
// before it reads the object, and uses the copy while the stamp stays the same. While an
// object is being changed its stamp is zero: no copy is valid then, and none is cached.
// So a change that one reader has seen is seen by all reads that begin later.
//
// An engine has one Stamps for each open store. It begins a Change before the change can
// become visible. It ends the Change before Update returns, even if the outcome is unknown.
// Several objects share one stamp. It may change without need, but it never fails to
// change. Ids in upper and lower case have the same stamp.
//
// Stamps are safe for concurrent use.
type Stamps struct {
	seed maphash.Seed
	// The lowest bits of a counter count the changes in progress, the others the changes
	// that ended. Objects share all counters but that of versions.
	counters [sharedCounters + 1]atomic.Uint64
	// until is when all stamps expire, in nanoseconds since begun, 0 for never. untilWall
	// is the same by the system's clock, in nanoseconds since 1970. The earlier one counts.
	// The system's clock may be set back. The monotonic one stands still while the machine
	// is suspended.
	until, untilWall atomic.Int64
}

// begun is the origin of monotonic times.
var begun = time.Now()

const (
	sharedCounters  = 4096
	versionsCounter = sharedCounters // its number

	oneChange = 1 << 16
	changing  = oneChange - 1
)

// opened counts the Stamps of this process. A store that is opened again has other
// stamps.
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

// Stamp is the state of an object. Zero is no stamp: the object is being changed, or its
// state is unknown.
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

// GoodUntil makes all stamps zero from a moment on, until it is called with a later one.
// An engine that shares its store calls it: without news from other nodes it does not
// know their changes. Stamps never expire if it is never called.
func (s *Stamps) GoodUntil(t time.Time) {
	s.untilWall.Store(t.UnixNano())
	s.until.Store(max(int64(t.Sub(begun)), 1))
}

// Preset returns the stamp of the preset of a slug in a workspace. It changes when the
// preset is created, too.
func (s *Stamps) Preset(workspaceID, slug string) Stamp {
	return s.stamp(s.preset(workspaceID, slug))
}

// Workspace returns the stamp of the workspace of an id or slug. It also changes when
// another workspace gets the slug.
func (s *Stamps) Workspace(ref string) Stamp { return s.stamp(s.workspace(ref)) }

// Key returns the stamp of the issued key of a hash.
func (s *Stamps) Key(hash [sha256.Size]byte) Stamp { return s.stamp(s.key(hash)) }

// Presets returns the stamp of the list of a workspace's presets, with the fields that it
// shows.
func (s *Stamps) Presets(workspaceID string) Stamp { return s.stamp(s.presets(workspaceID)) }

// Workspaces returns the stamp of the list of all workspaces, with the fields that it
// shows.
func (s *Stamps) Workspaces() Stamp { return s.stamp(s.workspaces()) }

// Versions returns the one stamp of all versions of all presets. A stored version never
// changes, so only Change.All changes it: after a restore, a number may belong to another
// version.
func (s *Stamps) Versions() Stamp { return s.stamp(versionsCounter) }

func (s *Stamps) preset(workspaceID, slug string) uint64 {
	return s.counter('p', strings.ToLower(workspaceID), slug)
}

func (s *Stamps) workspace(ref string) uint64 { return s.counter('w', strings.ToLower(ref), "") }

func (s *Stamps) presets(workspaceID string) uint64 {
	return s.counter('l', strings.ToLower(workspaceID), "")
}

func (s *Stamps) workspaces() uint64 { return s.counter('a', "", "") }

func (s *Stamps) key(hash [sha256.Size]byte) uint64 {
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

// Change is a change of one or more objects. The engine adds the objects, and then calls
// Begin and End, or Begin and Cancel. It is not safe for concurrent use.
type Change struct {
	stamps   *Stamps
	counters []uint64
}

// Change returns a change without objects.
func (s *Stamps) Change() *Change { return &Change{stamps: s} }

// Preset adds a preset.
func (c *Change) Preset(workspaceID, slug string) { c.add(c.stamps.preset(workspaceID, slug)) }

// Workspace adds an id or slug of a workspace. A change of slug concerns the id, the
// former slug and the new one.
func (c *Change) Workspace(ref string) { c.add(c.stamps.workspace(ref)) }

// Key adds the issued key of a hash.
func (c *Change) Key(hash [sha256.Size]byte) { c.add(c.stamps.key(hash)) }

// Presets adds the list of the presets of a workspace.
func (c *Change) Presets(workspaceID string) { c.add(c.stamps.presets(workspaceID)) }

// All adds all objects, and all versions.
func (c *Change) All() {
	for i := range c.stamps.counters {
		c.add(uint64(i))
	}
}

// Workspaces adds the list of all workspaces.
func (c *Change) Workspaces() { c.add(c.stamps.workspaces()) }

func (c *Change) add(counter uint64) { c.counters = append(c.counters, counter) }

// Begin is called before readers can see the change.
func (c *Change) Begin() {
	for _, counter := range c.counters {
		c.stamps.counters[counter].Add(1)
	}
}

// End is called once all readers see the change, or none ever will.
func (c *Change) End() {
	for _, counter := range c.counters {
		c.stamps.counters[counter].Add(oneChange - 1)
	}
}

// Cancel is End for a change that is never made. Earlier copies stay valid.
func (c *Change) Cancel() {
	for _, counter := range c.counters {
		c.stamps.counters[counter].Add(^uint64(0))
	}
}
