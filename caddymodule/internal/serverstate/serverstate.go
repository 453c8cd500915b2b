// Package serverstate tells operators of the console how the stores, the webhooks and the usage are doing.
package serverstate

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/engine"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/registry"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/version"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/webhook"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/usage"
)

// State is the answer. Its JSON is for clients.
type State struct {
	// Version is that of this module in the program.
	Version  string          `json:"version"`
	Stores   []Store         `json:"stores"` // in the order of their names
	Webhooks []webhook.State `json:"webhooks"`
	Usage    Usage           `json:"usage"`
}

// Store is a store that a site of the process uses.
type Store struct {
	Name string `json:"store"`
	// Current marks the store of the site that answers.
	Current bool `json:"current"`
	engine.Health
	// LastBackup and LastCopy are nil if none was made since this process uses the store.
	LastBackup *time.Time      `json:"last_backup"`
	LastCopy   *time.Time      `json:"last_copy"`
	Details    *engine.Details `json:"details"`
	// Nodes are those that use a shared store, this one first. It is nil for a store of one node.
	Nodes []Node `json:"nodes"`
}

// Node is a process that uses a shared store.
type Node struct {
	ID   string `json:"id"`
	This bool   `json:"this"`
	// UsageSince is the latest hour in which the node served requests, nil if none of the last two.
	UsageSince *time.Time `json:"usage_since"`
}

// Usage is what becomes of the measurement of requests.
type Usage struct {
	Measured bool `json:"measured"`
	// Overflowed are requests that were summed without their model, and Lost those that were not summed at all.
	Overflowed int64 `json:"overflowed"`
	Lost       int64 `json:"lost"`
}

// UsageOf returns the state of a ledger.
func UsageOf(l *usage.Ledger, isMeasured bool) Usage {
	return Usage{isMeasured, l.Overflowed(), l.Lost()}
}

// Of returns the state of this process. The current store has the webhooks and the usage.
func Of(ctx context.Context, current *registry.Store, hooks []webhook.State, measured Usage) ([]byte, error) {
	s := State{Version: version.Module(), Stores: []Store{}, Webhooks: hooks, Usage: measured}
	all := registry.All()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		use := all[name].Newest()
		if use == nil {
			continue // its last handler was just cleaned up
		}
		store := Store{Name: name, Current: all[name] == current, Health: engine.HealthOf(ctx, use.Store)}
		if at := all[name].LastBackup(); !at.IsZero() {
			store.LastBackup = new(at.UTC())
		}
		if at := all[name].LastCopy(); !at.IsZero() {
			store.LastCopy = new(at.UTC())
		}
		if reporter, ok := use.Store.(engine.DetailReporter); ok {
			store.Details = reporter.Details()
		}
		if store.Details != nil && store.Details.Shared {
			store.Nodes = nodesOf(ctx, use.Store)
		}
		s.Stores = append(s.Stores, store)
	}
	return json.Marshal(s)
}

const (
	// recent is how long ago other nodes have served requests, at most.
	recent = 2 * time.Hour
	// patience bounds the search for other nodes. Those that were found until then are told.
	patience = 2 * time.Second
)

// nodesOf returns this node, and those that have stored usage of the last hours in the first workspaces.
func nodesOf(ctx context.Context, store domain.Store) []Node {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	now, seen := time.Now().UTC(), map[string]*time.Time{store.Node(): nil}
	_ = store.View(ctx, func(r domain.Reader) error { // what fails finds no others
		page, _, err := r.WorkspacePage(domain.Page{Limit: domain.MaxPage})
		var workspaces []struct{ ID string }
		if err == nil {
			err = json.Unmarshal(page, &workspaces)
		}
		for _, w := range workspaces {
			for row, err := range r.UsageRows(domain.UsageRange{WorkspaceID: w.ID, From: now.Add(-recent), To: now}) {
				if err != nil || ctx.Err() != nil {
					return err
				}
				if last := seen[row.Node]; last == nil || last.Before(row.Start) {
					seen[row.Node] = &row.Start
				}
			}
		}
		return err
	})
	nodes := []Node{{ID: store.Node(), This: true, UsageSince: seen[store.Node()]}}
	for _, id := range slices.Sorted(maps.Keys(seen)) {
		if id != nodes[0].ID {
			nodes = append(nodes, Node{ID: id, UsageSince: seen[id]})
		}
	}
	return nodes
}
