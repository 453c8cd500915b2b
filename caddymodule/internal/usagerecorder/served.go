package usagerecorder

import (
	"context"
	"sync"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/usage"
)

// servedVersions collects when versions were last served, to the hour. So it has little to
// Store after the first minute of an hour. Its methods are safe for concurrent use. Its zero
// value is ready.
type servedVersions struct {
	mu sync.Mutex
	// known are the hours that are stored or in fresh, and fresh those to store.
	known map[servedVersion]int64
	fresh map[usage.ServedPreset]domain.Served
}

type servedVersion struct {
	usage.ServedPreset
	version int
}

// maxServedVersions bounds known. Without it hours are stored again, which changes nothing.
const maxServedVersions = 20_000

// add records a request.
func (v *servedVersions) add(used *usage.Request) {
	hour := domain.ServedHour(used.Start)
	of := usage.ServedPreset{WorkspaceID: used.WorkspaceID, Slug: used.Preset}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known[servedVersion{of, used.Version}] >= hour {
		return
	}
	v.put(of, used.Version, hour)
}

func (v *servedVersions) put(of usage.ServedPreset, version int, hour int64) {
	if v.known == nil || len(v.known) >= maxServedVersions {
		v.known = make(map[servedVersion]int64)
	}
	if v.fresh == nil {
		v.fresh = make(map[usage.ServedPreset]domain.Served)
	}
	if v.fresh[of] == nil {
		v.fresh[of] = make(domain.Served)
	}
	v.known[servedVersion{of, version}] = hour
	v.fresh[of][version] = max(v.fresh[of][version], hour)
}

// forget forgets which hours are stored.
func (v *servedVersions) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.known = nil
}

// flush stores the fresh hours. If it fails, they wait for the next time.
func (v *servedVersions) flush(ctx context.Context, store domain.Store) error {
	v.mu.Lock()
	fresh := v.fresh
	v.fresh = nil
	v.mu.Unlock()
	err := usage.RecordServed(ctx, store, fresh)
	if err == nil {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for of, served := range fresh {
		for version, hour := range served {
			v.put(of, version, hour)
		}
	}
	return err
}
