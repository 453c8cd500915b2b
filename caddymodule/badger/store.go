package badger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/caddymodule/engine"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/storepool"
	"github.com/caddy-presets/caddy-presets/domain"
	badgerstore "github.com/caddy-presets/caddy-presets/storage/badger"
)

// folders has the handles of open folders, by their canonical names.
var folders = storepool.Pool[settings, *badgerstore.Store]{
	Opener: func(s settings, newest func() *settings) storepool.Opener[*badgerstore.Store] {
		return &folder{name: s.folder, key: s.key, existing: s.ended.Load(), newest: newest, now: time.Now}
	},
	Compatible: func(others, s settings) error {
		if bytes.Equal(others.key, s.key) {
			return nil
		}
		return fmt.Errorf("the store in %s is in use with another encryption key, or without one: "+
			"all that use a folder must have the same encryption_key_file", s.folder)
	},
	OnCloseError: func(s settings, err error) {
		s.logger.Error("closing the store failed", zap.String("folder", s.folder), zap.Error(err))
	},
}

// settings are a configuration's options for a folder.
type settings struct {
	folder string
	key    []byte        // nil without encryption
	scrub  time.Duration // the interval between checks, not positive for none
	cache  int64         // the memory for decrypted data, in bytes
	logger *zap.Logger
	ended  *atomic.Bool // the configuration has ended; newStore sets it
}

// store is a configuration's reference to the store in a folder.
type store struct {
	*storepool.Store[settings, *badgerstore.Store]
}

func newStore(s settings) *store {
	s.ended = new(atomic.Bool)
	return &store{folders.Store(s.folder, s)}
}

// end releases the store at the end of its configuration. A late request may open it again, but
// makes no new store. The folder may have been moved away, or unmounted.
func (s *store) end() error {
	s.Settings.ended.Store(true)
	return s.Release()
}

// AfterRemoval implements engine.RemovalAdviser.
func (*store) AfterRemoval() string {
	return "later writes free the space as Badger merges its tables; to free all of it now, restore a backup into another folder and reload"
}

// Backup implements engine.Backuper.
func (s *store) Backup(ctx context.Context, w io.Writer) error {
	return s.Use(ctx, func(opened *badgerstore.Store) error { return opened.Backup(ctx, w) })
}

// Health implements engine.HealthReporter. A store is available while it is open.
func (s *store) Health() engine.Health {
	opened, err := s.Opened()
	if err != nil {
		return engine.Health{Damaged: errors.Is(err, badgerstore.ErrDamaged), Error: err.Error()}
	}
	status := opened.Status()
	return engine.Health{Available: true, Writable: status.Writable, Damaged: status.Damage > 0}
}

// Damaged implements engine.DamageReporter.
func (s *store) Damaged() bool {
	opened, err := s.Opened()
	return err == nil && opened.Damaged()
}

// Details implements engine.DetailReporter.
func (s *store) Details() *engine.Details {
	opened, err := s.Opened()
	if err != nil {
		return nil
	}
	status := opened.Status()
	details := &engine.Details{FreeBytes: &status.FreeBytes, NeededBytes: &status.NeededBytes, Damage: &status.Damage}
	if !status.Checked.IsZero() {
		details.CheckedAt = new(status.Checked.UTC())
	}
	return details
}

// Interface guards
var (
	_ domain.Store          = (*store)(nil)
	_ engine.Checker        = (*store)(nil)
	_ engine.Backuper       = (*store)(nil)
	_ engine.RemovalAdviser = (*store)(nil)
	_ engine.Holder         = (*store)(nil)
	_ engine.DetailReporter = (*store)(nil)
	_ engine.HealthReporter = (*store)(nil)
	_ engine.DamageReporter = (*store)(nil)
)
