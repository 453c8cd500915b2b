package badger

import (
	"context"
	"maps"
	"slices"
	"time"
)

// For the tests with a whole Caddy, which cannot be in this package.

// Shares returns how many configurations share each open folder.
func Shares() []int { return slices.Collect(maps.Values(folders.InUse())) }

func theOnly() *handle {
	for h := range folders.InUse() {
		return h
	}
	panic("no folder is in use")
}

// Retry tries to open the only folder now.
func Retry(ctx context.Context) { theOnly().retry(ctx, new(attempts), time.Now()) }

// Scrub checks the only folder now.
func Scrub(ctx context.Context) {
	h := theOnly()
	h.scrub(ctx, h.store.Load())
}

// Maintain does what is due for the only folder after some time, but does not check it.
func Maintain(ctx context.Context, after time.Duration) {
	h := theOnly()
	h.maintain(ctx, h.store.Load(), &checks{last: time.Now().Add(24 * time.Hour), some: true}, time.Now().Add(after))
}

// BeginOpening keeps other folders from being opened and closed until the returned
// function is called.
func BeginOpening() (end func()) {
	folders.Turn.Lock()
	return folders.Turn.Unlock
}

var RegisterMetrics = registerMetrics
