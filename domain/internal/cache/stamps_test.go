package cache

import (
	"strconv"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// Invalid stamps are zero until they are valid again. They then have their old value if
// nothing has changed.
func TestStampsGoodUntil(t *testing.T) {
	s := NewStamps()
	before := s.Preset("w", "p")
	for _, step := range []struct {
		until time.Time
		good  bool
	}{
		{time.Now().Add(time.Hour), true},
		{time.Now().Add(-time.Millisecond), false},
		{time.Unix(1, 0), false}, // long before this process began
		{time.Now().Add(time.Hour), true},
	} {
		s.GoodUntil(step.until)
		want := before
		if !step.good {
			want = 0
		}
		if got := s.Preset("w", "p"); got != want {
			t.Errorf("until %v: got stamp %d, want %d", step.until, got, want)
		}
	}
	s.GoodUntil(time.Now().Add(20 * time.Millisecond))
	wait.Until(t, "stamps are good for ever", func() bool { return s.Preset("w", "p") == 0 })
}

// TestStampsSuspended checks that two clocks bound the age of stamps. One runs during
// suspension. The other cannot be set back.
func TestStampsSuspended(t *testing.T) {
	later, earlier := time.Now().Add(time.Hour), time.Now().Add(-time.Millisecond)
	s := NewStamps()
	for _, step := range []struct{ until, untilWall time.Time }{{later, earlier}, {earlier, later}} {
		s.until.Store(int64(step.until.Sub(begun)))
		s.untilWall.Store(step.untilWall.UnixNano())
		if got := s.Preset("w", "p"); got != 0 {
			t.Errorf("until %v and by the system's clock %v: got stamp %d, want zero", step.until, step.untilWall, got)
		}
	}
	if s.GoodUntil(later); s.Preset("w", "p") == 0 {
		t.Error("it is not good again")
	}
}

// A change of all there is changes each stamp.
func TestStampsAll(t *testing.T) {
	s := NewStamps()
	stamps := func() [6]Stamp {
		return [...]Stamp{s.Preset("w", "p"), s.Workspace("w"), s.Key([32]byte{1}), s.Presets("w"), s.Workspaces(), s.Versions()}
	}
	before := stamps()
	c := s.Change()
	c.All()
	c.Begin()
	if got := stamps(); got != [6]Stamp{} {
		t.Errorf("while it is under way: got %v, want zeros", got)
	}
	c.End()
	for i, got := range stamps() {
		if got == before[i] || got == 0 {
			t.Errorf("stamp %d: got %d, want another than %d", i, got, before[i])
		}
	}
}

// No change of an object changes the stamp of versions, whichever counter is its.
func TestStampsOfVersions(t *testing.T) {
	s := NewStamps()
	before := s.Versions()
	c := s.Change()
	for i := range 4 * sharedCounters {
		name := strconv.Itoa(i)
		c.Preset("w", name)
		c.Workspace(name)
		c.Key([32]byte{byte(i), byte(i >> 8)})
		c.Presets(name)
	}
	c.Workspaces()
	c.Begin()
	c.End()
	if got := s.Versions(); got != before {
		t.Errorf("got stamp %d, want %d", got, before)
	}
}

// TestStampsCancel cancels an announced change. Copies from before become valid when the
// cancellation is known. Another change of the same object still counts.
func TestStampsCancel(t *testing.T) {
	s := NewStamps()
	before := s.Preset("w", "p")
	change := func() *Change {
		c := s.Change()
		c.Preset("w", "p")
		c.Begin()
		return c
	}
	c := change()
	if got := s.Preset("w", "p"); got != 0 {
		t.Errorf("got stamp %d during the change, want none", got)
	}
	c.Cancel()
	if got := s.Preset("w", "p"); got != before {
		t.Errorf("got stamp %d, want what it was, %d", got, before)
	}
	c, other := change(), change()
	other.End()
	c.Cancel()
	if got := s.Preset("w", "p"); got == 0 || got == before {
		t.Errorf("got stamp %d after another change, before it was %d", got, before)
	}
}
