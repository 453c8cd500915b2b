package admin

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/caddy-presets/caddy-presets/caddymodule/engine"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/live"
)

// health is the state of all live stores.
type health struct {
	// Healthy says that all stores can be read. Without a store it is false.
	Healthy bool          `json:"healthy"`
	Stores  []storeHealth `json:"stores"` // in the order of their names
}

// storeHealth is the state of one store.
type storeHealth struct {
	Name string `json:"store"`
	engine.Health
}

// serveHealth answers with the state of all live stores, or of the one that ?store= names.
// The status is 200 if each can be read, and 503 otherwise. A store that refuses changes
// can be read, and so can one with damaged records. A restart would help neither, and
// inference requests are served.
func serveHealth(w http.ResponseWriter, r *http.Request) error {
	stores := live.All()
	if r.URL.Query().Has("store") {
		store, err := pickStore(r)
		if err != nil {
			return err
		}
		stores = map[string]*live.Store{store.Name(): store}
	}
	answer := healthOf(r.Context(), stores)
	w.Header().Set("Cache-Control", "no-store")
	if !answer.Healthy {
		return writeJSON(w, http.StatusServiceUnavailable, answer)
	}
	return writeJSON(w, http.StatusOK, answer)
}

// healthOf returns the state of some stores.
func healthOf(ctx context.Context, stores map[string]*live.Store) health {
	answer := health{Healthy: true, Stores: []storeHealth{}}
	for _, name := range slices.Sorted(maps.Keys(stores)) {
		use := stores[name].Newest()
		if use == nil {
			continue // its last handler was just cleaned up
		}
		state := engine.HealthOf(ctx, use.Store)
		answer.Healthy = answer.Healthy && state.Available
		answer.Stores = append(answer.Stores, storeHealth{name, state})
	}
	answer.Healthy = answer.Healthy && len(answer.Stores) > 0
	return answer
}
