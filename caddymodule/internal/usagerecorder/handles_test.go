package usagerecorder

import (
	"errors"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/usage"
)

// TestHandlesOfNodes has two nodes make handles for one store. The first node fails to
// Store the secret at first. Each reads the handles of the other. They also read the handles of
// a store that takes the place of theirs.
func TestHandlesOfNodes(t *testing.T) {
	r := newRecorded(t)
	first, second := Recorder{flushTimeout: flushTimeout}, Recorder{flushTimeout: flushTimeout}
	r.store.before = domain.ErrUnavailable
	for range 2 {
		first.openHandles(t.Context(), r.use)
	}
	if got := r.logs.FilterMessageSnippet("preparing feedback failed").Len(); first.Handles.Load() != nil || got != 2 {
		t.Fatalf("got handles: %v, and %d warnings; want none, and one for each try", first.Handles.Load() != nil, got)
	}
	if _, err := first.Answered("id", "x", "", time.Now()); !errors.Is(err, ErrNotMeasured) {
		t.Errorf("before a use: got %v, want %v", err, ErrNotMeasured)
	}
	first.uses = []*Use{r.use}
	if _, err := first.Answered("id", "x", "", time.Now()); !errors.Is(err, domain.ErrUnavailable) {
		t.Errorf("without a secret: got %v, want %v", err, domain.ErrUnavailable)
	}
	r.store.before, r.store.after = nil, domain.ErrUnknown // the secret is stored
	first.openHandles(t.Context(), r.use)
	r.store.after = nil
	for _, rec := range []*Recorder{&first, &second} {
		rec.openHandles(t.Context(), r.use)
	}
	now := time.Now()
	for _, pair := range [][2]*Recorder{{&first, &second}, {&second, &first}} {
		handle := pair[0].Handles.Load().New(usage.Answered{Key: usage.Key{Version: 3}, Start: now})
		if got, err := pair[1].Handles.Load().Read(handle, now); err != nil || got.Key.Version != 3 {
			t.Errorf("got %+v and %v of the other node's handle, want version 3", got, err)
		}
	}

	replaced := newRecorded(t)
	for _, rec := range []*Recorder{&first, &second} {
		rec.openHandles(t.Context(), replaced.use)
	}
	third := Recorder{flushTimeout: flushTimeout}
	third.openHandles(t.Context(), replaced.use)
	handle := third.Handles.Load().New(usage.Answered{Key: usage.Key{Version: 3}, Start: now})
	for _, rec := range []*Recorder{&first, &second} {
		if got, err := rec.Handles.Load().Read(handle, now); err != nil || got.Key.Version != 3 {
			t.Errorf("got %+v and %v of a handle of the store in its place, want version 3", got, err)
		}
	}
}
