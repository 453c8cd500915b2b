package caddymodule

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/badger"
)

func init() {
	caddy.RegisterModule(new(Badger))
}

// Badger keeps presets, workspaces and issued keys in a folder of this
// machine. One process at a time can use a folder; all sites and all
// configurations of that process share one handle on it.
type Badger struct {
	// The folder to store in, created with mode 0700 when it is missing.
	// Default: presets/ in Caddy's data folder.
	Folder string `json:"folder,omitempty"`

	lease *lease
}

// CaddyModule returns the Caddy module information.
func (*Badger) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.presets.storage.badger",
		New: func() caddy.Module { return new(Badger) },
	}
}

// Provision opens the folder, or joins those who have it open.
func (b *Badger) Provision(ctx caddy.Context) error {
	folder := filepath.Join(caddy.AppDataDir(), "presets")
	if b.Folder != "" {
		var err error
		if folder, err = caddy.NewReplacer().ReplaceOrErr(b.Folder, true, true); err != nil {
			return fmt.Errorf("folder: %w", err)
		}
	}
	folder, err := canonical(folder)
	if err != nil {
		return fmt.Errorf("folder: %w", err)
	}
	lease := &lease{folder: folder, logger: ctx.Logger()}
	if _, err := lease.acquire(); err != nil {
		return err
	}
	b.lease = lease
	return nil
}

// canonical creates a folder and returns its one absolute name, so that two
// ways to write it are one key of the pool.
func canonical(folder string) (string, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(folder)
}

// Store returns the store of the folder.
func (b *Badger) Store() domain.Store { return b.lease }

// Name returns the folder.
func (b *Badger) Name() string { return b.lease.folder }

// Cleanup gives up the folder. The last to do so closes it.
func (b *Badger) Cleanup() error {
	if b.lease == nil {
		return nil // Provision never got that far
	}
	return b.lease.release()
}

// UnmarshalCaddyfile reads the engine's part of the storage subdirective:
//
//	badger [<folder>]
func (b *Badger) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the engine's name
	switch args := d.RemainingArgs(); len(args) {
	case 0:
	case 1:
		b.Folder = args[0]
	default:
		return d.Errf("storage badger: want at most one argument, the folder, got %d", len(args))
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		return d.Errf("storage badger: unrecognized subdirective %q", d.Val())
	}
	return nil
}

// folders holds the one handle on each folder that is in use. Opening and
// closing take turns, so that a folder that is being closed can be opened
// again right after.
var folders = struct {
	sync.Mutex
	pool *caddy.UsagePool // handle by canonical folder
}{pool: caddy.NewUsagePool()}

type handle struct{ *badger.Store }

// Destruct closes the store, within the store's own limit of time.
func (h handle) Destruct() error { return h.Close() }

// lease is a configuration's share in the handle on a folder. Requests that
// were under way when the configuration was replaced still use it after
// Cleanup, so it counts its users, the configuration being one of them: the
// share is given up when the last is done, and taken again should a request
// come even later.
type lease struct {
	folder string
	logger *zap.Logger

	mu    sync.Mutex // of changes to the fields below
	users int
	store atomic.Pointer[badger.Store] // nil without users
}

func (l *lease) acquire() (*badger.Store, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.users == 0 {
		folders.Lock()
		defer folders.Unlock()
		value, _, err := folders.pool.LoadOrNew(l.folder, func() (caddy.Destructor, error) {
			store, err := badger.Open(l.folder, badger.Options{Logger: l.logger.Named("badger")})
			return handle{store}, err
		})
		if err != nil {
			return nil, fmt.Errorf("opening the store: %w", err)
		}
		l.store.Store(value.(handle).Store)
	}
	l.users++
	return l.store.Load(), nil
}

func (l *lease) release() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users--
	if l.users > 0 {
		return nil
	}
	l.store.Store(nil)
	folders.Lock()
	defer folders.Unlock()
	_, err := folders.pool.Delete(l.folder)
	return err
}

// done ends one call's use. Where it was the last use of all and closing
// fails, the call itself is none the worse for it.
func (l *lease) done() {
	if err := l.release(); err != nil {
		l.logger.Error("closing the store failed", zap.String("folder", l.folder), zap.Error(err))
	}
}

// View implements domain.Store.
func (l *lease) View(ctx context.Context, fn func(domain.Reader) error) error {
	store, err := l.acquire()
	if err != nil {
		return err
	}
	defer l.done()
	return store.View(ctx, fn)
}

// Update implements domain.Store.
func (l *lease) Update(ctx context.Context, fn func(domain.Tx) error) error {
	store, err := l.acquire()
	if err != nil {
		return err
	}
	defer l.done()
	return store.Update(ctx, fn)
}

// Stamps implements domain.Store. They are those of the handle: when the folder
// was closed meanwhile and is opened again they are others.
func (l *lease) Stamps() *domain.Stamps {
	if store := l.store.Load(); store != nil {
		return store.Stamps()
	}
	store, err := l.acquire()
	if err != nil {
		return domain.NewStamps() // which match nothing that anyone kept
	}
	defer l.done()
	return store.Stamps()
}

// Interface guards
var (
	_ caddy.Module          = (*Badger)(nil)
	_ caddy.Provisioner     = (*Badger)(nil)
	_ caddy.CleanerUpper    = (*Badger)(nil)
	_ caddyfile.Unmarshaler = (*Badger)(nil)
	_ engine                = (*Badger)(nil)
	_ domain.Store          = (*lease)(nil)
)
