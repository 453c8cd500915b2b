package badger

import (
	"context"
	"maps"
	"slices"
	"time"

	badgerstore "github.com/caddy-presets/caddy-presets/storage/badger"
)

// These are exports for the tests that run Caddy, which are in another package.

// Shares returns how many configurations share each open folder.
func Shares() []int { return slices.Collect(maps.Values(folders.InUse())) }

// theOnly returns the only folder, without what it does in the background, and its store.
func theOnly() (f *folder, store *badgerstore.Store, why error) {
	for h := range folders.InUse() {
		f := h.Opener.(*folder)
		store, why = h.Get()
		return &folder{name: f.name, key: f.key, newest: f.newest, now: time.Now}, store, why
	}
	panic("no folder is in use")
}

// Retry tries to open the only folder now.
func Retry(ctx context.Context) {
	f, _, why := theOnly()
	_, _ = f.Retry(ctx, why)
}

// CacheSize returns what the only folder is told to cache if it is encrypted, in bytes.
func CacheSize() int64 {
	f, _, _ := theOnly()
	return f.settings().cache
}
