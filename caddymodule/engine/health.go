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

// Details are what a store tells of itself besides its Health. What an engine does not know is nil.
type Details struct {
	// Shared says that other nodes may use the store, too.
	Shared bool `json:"shared"`
	// FreeBytes is the space that is left on the store's file system, and NeededBytes what has to be left for a write.
	FreeBytes   *uint64 `json:"free_bytes,omitzero"`
	NeededBytes *uint64 `json:"needed_bytes,omitzero"`
	// Damage counts damaged records that reads and checks found since the store was opened.
	Damage *int64 `json:"damage,omitzero"`
	// CheckedAt is when the whole store was last checked since then.
	CheckedAt *time.Time `json:"checked_at,omitzero"`
	// Watching says that changes of other nodes arrive, and StalenessSeconds how old what is in memory may be.
	Watching         *bool    `json:"watching,omitzero"`
	StalenessSeconds *float64 `json:"staleness_seconds,omitzero"`
	// Commit is the number of the last commit that this node knows.
	Commit *uint64 `json:"commit,omitzero"`
	// MemoryBytes is the size of the records in memory.
	MemoryBytes *int `json:"memory_bytes,omitzero"`
}

// DetailReporter is a store that tells Details, nil while it is not open. Details reads nothing that is stored. It is safe
// for concurrent use.
type DetailReporter interface {
	Details() *Details
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
