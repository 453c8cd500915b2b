package engine

import (
	"context"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

// Health is the state of a store, for machines that watch it.
type Health struct {
	// Available says that the store can be read. It is false while the store cannot be
	// opened. It is also false while a node has not heard from its cluster for too long.
	Available bool `json:"available"`
	// Writable says that the store takes changes. A store that is not available takes none.
	Writable bool `json:"writable"`
	// Damaged says that stored data are damaged. A read or a check has found it since the
	// store was opened, or it keeps the store from being opened.
	Damaged bool `json:"damaged"`
	// Error says why the store is not available. It is empty otherwise.
	Error string `json:"error"`
}

// HealthReporter is a store that tells its state. Health does not read what is stored and
// asks no other machine. It is safe for concurrent use.
type HealthReporter interface {
	Health() Health
}

// DamageReporter is a store that tells whether a read or a check has found damage since it
// was opened. Damaged costs no more than a few loads from memory, since each inference
// request asks it. It is safe for concurrent use.
type DamageReporter interface {
	Damaged() bool
}

// healthPatience bounds the question to a store that does not tell its state.
const healthPatience = 5 * time.Second

// HealthOf returns the state of a store. One that is no HealthReporter is available and
// writable if an empty view succeeds within five seconds.
func HealthOf(ctx context.Context, store domain.Store) Health {
	if told, ok := store.(HealthReporter); ok {
		return told.Health()
	}
	ctx, cancel := context.WithTimeout(ctx, healthPatience)
	defer cancel()
	if err := store.View(ctx, func(domain.Reader) error { return nil }); err != nil {
		return Health{Error: err.Error()}
	}
	return Health{Available: true, Writable: true}
}
