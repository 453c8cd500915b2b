package badger

import (
	"context"
	"maps"
	"slices"
	"time"
)

// These are exports for the tests that run Caddy, which are in another package.

// Shares returns how many configurations share each open folder.
func Shares() []int { return slices.Collect(maps.Values(folders.InUse())) }

func theOnly() *handle {
	for h := range folders.InUse() {
		return h
	}
	panic("no folder is in use")
}

// idle returns a folder like f, whose state no other goroutine uses.
func (f *folder) idle() *folder {
	return &folder{name: f.name, key: f.key, probe: f.probe, newest: f.newest}
}

// Retry tries to open the only folder now.
func Retry(ctx context.Context) {
	h := theOnly()
	_, why := h.Get()
	_, _ = h.folder.idle().retryAt(ctx, why, time.Now())
}

// Scrub checks the only folder now.
func Scrub(ctx context.Context) {
	h := theOnly()
	store, _ := h.Get()
	h.folder.idle().scrub(ctx, store)
}

// Maintain runs the tasks that are due for the only folder after some time, but not the
// check.
func Maintain(ctx context.Context, after time.Duration) {
	h := theOnly()
	store, _ := h.Get()
	f := h.folder.idle()
	f.checks = checkState{last: time.Now().Add(24 * time.Hour), checked: true}
	f.maintainAt(ctx, store, time.Now().Add(after))
}

// BeginOpening blocks the opening and closing of other folders until the returned function
// is called.
func BeginOpening() (end func()) {
	folders.OpenCloseMu.Lock()
	return folders.OpenCloseMu.Unlock
}

var RegisterMetrics = registerMetrics
