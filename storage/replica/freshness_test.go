package replica_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/replica"
)

var errDeliberate = errors.New("a deliberate failure")

// TestFreshness lets a model get stale, and asks a store that is silent, that fails and that
// answers.
func TestFreshness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = time.Minute
		stamps := domain.NewStamps()
		f := replica.NewFreshness(stamps, most, time.Now())
		want := func(when string, stale bool, away error) {
			t.Helper()
			if got := f.IsStale(); got != stale {
				t.Errorf("%s: got stale %v, want %v", when, got, stale)
			}
			if got := f.CheckAvailable(); !errors.Is(got, away) {
				t.Errorf("%s: got error %v, want %v", when, got, away)
			}
			if got := stamps.Workspace("w") == 0; got != stale {
				t.Errorf("%s: the stamps are good: %v", when, !got)
			}
		}
		time.Sleep(most)
		want("after the time that it may be stale", false, nil)
		time.Sleep(time.Second)
		want("later", true, nil) // nobody asked in between, as on a suspended node
		f.BeginQuestion()
		want("while the store is asked", true, nil)
		time.Sleep(most/2 + time.Second)
		want("while it is silent", true, domain.ErrUnavailable)
		f.EndQuestion(errDeliberate)
		want("when it has failed", true, errDeliberate)
		f.BeginQuestion()
		want("when it is asked again", true, errDeliberate)
		f.EndQuestion(nil)
		f.Confirm(time.Now())
		want("when it has answered", false, nil)
		if got := f.Staleness(); got != 0 {
			t.Errorf("got staleness %v, want none", got)
		}
		f.Confirm(time.Now().Add(-time.Hour)) // a late answer
		want("after an answer to an old question", false, nil)
	})
}

// TestSuspended is a node whose monotonic clock stood still.
func TestSuspended(t *testing.T) {
	f := replica.NewFreshness(domain.NewStamps(), time.Minute, time.Now().Round(0).Add(-time.Hour))
	if !f.IsStale() || f.CheckAvailable() != nil {
		t.Errorf("got stale %v and error %v, want that it is, and may ask", f.IsStale(), f.CheckAvailable())
	}
}
