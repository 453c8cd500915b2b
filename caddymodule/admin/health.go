package admin

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/caddy-presets/caddy-presets/caddymodule/engine"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/registry"
)

type health struct {
	// Healthy says that all stores can be read. Without a store it is false.
	Healthy bool          `json:"healthy"`
	Stores  []storeHealth `json:"stores"` // in the order of their names
}

type storeHealth struct {
	Name string `json:"store"`
	engine.Health
}

// serveHealth answers with the state of all live stores, or of the one that ?store= names.
// The status is 200 if each can be read, and 503 otherwise. A store that refuses changes
// can be read, and so can one with damaged records. A restart would help neither, and
// inference requests are served.
func serveHealth(w http.ResponseWriter, r *http.Request) error {
	stores := registry.All()
	if r.URL.Query().Has("store") {
		store, err := pickStore(r)
		if err != nil {
			return err
		}
		stores = map[string]*registry.Store{store.Name(): store}
	}
	response := healthOf(r.Context(), stores)
	w.Header().Set("Cache-Control", "no-store")
	if !response.Healthy {
		return writeJSON(w, http.StatusServiceUnavailable, response)
	}
	return writeJSON(w, http.StatusOK, response)
}

func healthOf(ctx context.Context, stores map[string]*registry.Store) health {
	response := health{Healthy: true, Stores: []storeHealth{}}
	for _, name := range slices.Sorted(maps.Keys(stores)) {
		use := stores[name].Newest()
		if use == nil {
			continue // its last handler was just cleaned up
		}
		state := engine.HealthOf(ctx, use.Store)
		response.Healthy = response.Healthy && state.Available
		response.Stores = append(response.Stores, storeHealth{name, state})
	}
	response.Healthy = response.Healthy && len(response.Stores) > 0
	return response
}
