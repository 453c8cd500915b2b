package badger

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/caddymodule/engine"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/sharing"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
	badgerstore "github.com/caddy-presets/caddy-presets/storage/badger"
)

// folders has the handles of open folders, by their canonical names.
var folders = sharing.Pool[settings, *handle]{
	Open: func(s settings, newest func() *settings) (*handle, error) {
		f := &folder{name: s.folder, key: s.key, probe: probeApart, newest: newest}
		opened, err := sharing.Open(f)
		return &handle{opened, f}, err
	},
	Compatible: func(h *handle, s settings) error {
		if bytes.Equal(h.folder.key, s.key) {
			return nil
		}
		return fmt.Errorf("the store in %s is in use with another encryption key, or without one: "+
			"all that use a folder must have the same encryption_key_file", s.folder)
	},
	OnCloseError: func(s settings, err error) {
		s.logger.Error("closing the store failed", zap.String("folder", s.folder), zap.Error(err))
	},
}

// handle is the store in a folder, which may be open.
type handle struct {
	*sharing.Handle[*badgerstore.Store]
	folder *folder
}

// settings are what a configuration says about a folder.
type settings struct {
	folder string
	key    []byte        // nil without encryption
	scrub  time.Duration // the interval between checks, not positive for none
	logger *zap.Logger
}

// store is a configuration's reference to the store in a folder.
type store struct {
	sharing.Store[settings, *badgerstore.Store, *handle]
}

func newStore(s settings) *store {
	return &store{sharing.Store[settings, *badgerstore.Store, *handle]{StoreRef: folders.Ref(s.folder, s)}}
}

// AfterRemoval implements engine.RemovalAdviser.
func (*store) AfterRemoval() string {
	return "the folder gets smaller by itself within the hour if a tenth of what is stored was removed since it last did, and 1 MiB or more; what is less goes with what is removed later"
}

// Check implements engine.Checker.
func (s *store) Check(ctx context.Context) (storage.Report, error) {
	opened, err := s.Enter(ctx)
	if err != nil {
		return storage.Report{}, err
	}
	defer s.Leave()
	return opened.Check(ctx)
}

// Backup implements engine.Backuper.
func (s *store) Backup(ctx context.Context, w io.Writer) error {
	opened, err := s.Enter(ctx)
	if err != nil {
		return err
	}
	defer s.Leave()
	_, _, err = opened.Backup(ctx, w)
	return err
}

// Interface guards
var (
	_ domain.Store          = (*store)(nil)
	_ engine.Checker        = (*store)(nil)
	_ engine.Backuper       = (*store)(nil)
	_ engine.RemovalAdviser = (*store)(nil)
)
