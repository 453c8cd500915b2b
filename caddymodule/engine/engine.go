// Package engine is the contract between the presets handler and the guest modules that
// store its data. A guest registers itself as a Caddy module in Namespace.
package engine

import (
	"context"
	"io"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/dump"
)

// Namespace is the namespace of Caddy modules that are storage engines.
const Namespace = "http.handlers.presets.storage"

// Engine is the interface of every guest module after it was provisioned.
//
// Provision fails for a wrong configuration, and not for a store that cannot be opened.
// Such a store fails with domain.ErrUnavailable until it can be opened.
type Engine interface {
	// Store returns the store. It may implement Checker, Backuper, Restorer, RemovalAdviser, Holder,
	// HealthReporter and DamageReporter, too. It is usable until the guest is cleaned up, and
	// after that by the requests that were in flight then.
	Store() domain.Store
	// Name names the store to an operator. Guests with the same store have the same name.
	Name() string
}

// Checker is a store that can be checked for damage while it is in use.
type Checker interface {
	// Check reads all that is stored. The error says why the check did not finish; it
	// has storage.ErrDamaged in its chain if the reason is damage.
	Check(ctx context.Context) (storage.Report, error)
}

// Backuper is a store that can be backed up while it is in use.
type Backuper interface {
	// Backup writes a dump of the store as it is at one moment. After an error, the output in w
	// cannot be restored.
	Backup(ctx context.Context, w io.Writer) error
}

// Restorer is a store that a backup can be restored into while a server runs.
type Restorer interface {
	// Restore fills a new store with the records of a dump. Another store is an error. The store
	// is unavailable from then on until a restore has succeeded, and is then as it was dumped.
	Restore(ctx context.Context, from *dump.Reader) error
}

// Holder is a store that others than its guest can keep open. Caddy cleans up the guest and the
// handler in any order.
type Holder interface {
	// Hold keeps the store open until release is called once, whose error is that of closing it.
	Hold() (release func() error, err error)
}

// RemovalAdviser is a store that tells an operator when disk space is free again.
type RemovalAdviser interface {
	// AfterRemoval says when the space of removed records is free again.
	AfterRemoval() string
}
