package domain

import (
	"hash/maphash"
	"strings"
	"sync/atomic"
)

// Stamps tell whether what was read from a Store is still so, without reading
// it again: the stamp of an object changes with every change to it. Whoever
// keeps an object in memory notes its stamp before reading it; the copy is good
// for as long as the stamp stays the same.
//
// An engine has one Stamps for each open store and advances it after a change
// has become visible and before Update returns, also where the outcome is
// unknown. Several objects share one stamp, so it may change without need,
// never the other way round. Ids count as the same in either case, as they do
// where they are looked up.
//
// Stamps are safe for concurrent use and of fixed size.
type Stamps struct {
	seed     maphash.Seed
	counters [4096]atomic.Uint64
}

// opened counts the Stamps made by this process, so that a stamp of a store
// says nothing about the same store opened again.
var opened atomic.Uint64

// NewStamps returns the stamps of a store that was just opened.
func NewStamps() *Stamps {
	s := &Stamps{seed: maphash.MakeSeed()}
	first := opened.Add(1) << 40
	for i := range s.counters {
		s.counters[i].Store(first)
	}
	return s
}

// Stamp is the state of an object as far as Stamps know it. Zero is the stamp
// of nothing.
type Stamp uint64

// Preset returns the stamp of the preset of a slug in a workspace, existing or
// not, and of which version it designates.
func (s *Stamps) Preset(workspaceID, slug string) Stamp {
	return Stamp(s.counter('p', strings.ToLower(workspaceID), slug).Load())
}

// Workspace returns the stamp of which workspace has an id or slug, and of its
// fields.
func (s *Stamps) Workspace(ref string) Stamp {
	return Stamp(s.counter('w', strings.ToLower(ref), "").Load())
}

// Key returns the stamp of which issued key has a hash, and of its fields.
func (s *Stamps) Key(hash KeyHash) Stamp {
	return Stamp(s.keyCounter(hash).Load())
}

// Presets returns the stamp of the list of the presets of a workspace, and of what
// it shows of each.
func (s *Stamps) Presets(workspaceID string) Stamp {
	return Stamp(s.counter('l', strings.ToLower(workspaceID), "").Load())
}

// Workspaces returns the stamp of the list of all workspaces, and of what it shows
// of each.
func (s *Stamps) Workspaces() Stamp { return Stamp(s.counter('a', "", "").Load()) }

// PresetsChanged advances the stamp of the list of the presets of a workspace.
func (s *Stamps) PresetsChanged(workspaceID string) {
	s.counter('l', strings.ToLower(workspaceID), "").Add(1)
}

// WorkspacesChanged advances the stamp of the list of all workspaces.
func (s *Stamps) WorkspacesChanged() { s.counter('a', "", "").Add(1) }

// PresetChanged advances the stamp of a preset.
func (s *Stamps) PresetChanged(workspaceID, slug string) {
	s.counter('p', strings.ToLower(workspaceID), slug).Add(1)
}

// WorkspaceChanged advances the stamp of an id or slug of a workspace. A change
// of slug concerns the id, the former slug and the new one.
func (s *Stamps) WorkspaceChanged(ref string) { s.counter('w', strings.ToLower(ref), "").Add(1) }

// KeyChanged advances the stamp of the issued key of a hash.
func (s *Stamps) KeyChanged(hash KeyHash) { s.keyCounter(hash).Add(1) }

func (s *Stamps) keyCounter(hash KeyHash) *atomic.Uint64 {
	return &s.counters[maphash.Bytes(s.seed, hash[:])%uint64(len(s.counters))]
}

func (s *Stamps) counter(kind byte, a, b string) *atomic.Uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	_ = h.WriteByte(kind) // hashing never fails
	_, _ = h.WriteString(a)
	_ = h.WriteByte(0)
	_, _ = h.WriteString(b)
	return &s.counters[h.Sum64()%uint64(len(s.counters))]
}
