package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/sharing"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/badger"
)

func init() {
	caddy.RegisterModule(new(Badger))
}

// defaultScrubInterval is how often a store is looked at as a whole.
const defaultScrubInterval = 24 * time.Hour

// Badger keeps presets, workspaces and issued keys in a folder of this
// machine. One process at a time can use a folder; all sites and all
// configurations of that process share one handle on it.
type Badger struct {
	// The folder to store in, created with mode 0700 when it is missing.
	// Default: presets/ in Caddy's data folder.
	Folder string `json:"folder,omitempty"`

	// A file with the key that encrypts the folder and backups of it: 64
	// hexadecimal digits, as `openssl rand -hex 32` prints them. A store is
	// encrypted from its beginning or not at all. Default: it is not.
	EncryptionKeyFile string `json:"encryption_key_file,omitempty"`

	// How often to read all that is stored, in the background, and look for
	// damage; negative for never. The first time is soon after the store was
	// opened: within a tenth of that, and an hour at most. Default: 24h
	ScrubInterval caddy.Duration `json:"scrub_interval,omitempty"`

	lease *lease
}

// CaddyModule returns the Caddy module information.
func (*Badger) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.presets.storage.badger",
		New: func() caddy.Module { return new(Badger) },
	}
}

// Provision opens the folder, or joins those who have it open. A store that is
// damaged, on a disk that is full or in a folder that may not be used is no error: it is
// unavailable until it can be opened.
func (b *Badger) Provision(ctx caddy.Context) error {
	repl := caddy.NewReplacer()
	folder := filepath.Join(caddy.AppDataDir(), "presets")
	if b.Folder != "" {
		var err error
		if folder, err = repl.ReplaceOrErr(b.Folder, true, true); err != nil {
			return fmt.Errorf("folder: %w", err)
		}
	}
	folder, err := filepath.Abs(folder)
	if err != nil {
		return fmt.Errorf("folder: %w", err)
	}
	folder = canonical(folder)
	if b.ScrubInterval == 0 {
		b.ScrubInterval = caddy.Duration(defaultScrubInterval)
	}
	s := folderSettings{folder: folder, scrub: time.Duration(b.ScrubInterval), logger: ctx.Logger()}
	if b.EncryptionKeyFile != "" {
		name, err := repl.ReplaceOrErr(b.EncryptionKeyFile, true, true)
		if err == nil {
			s.key, err = readKeyFile(name, s.logger)
		}
		if err != nil {
			return fmt.Errorf("encryption_key_file: %w", err)
		}
	}
	lease := newLease(s)
	if _, err := lease.Acquire(); err != nil {
		if errors.Is(err, badger.ErrInUse) {
			err = fmt.Errorf("%w. Commands that load a whole configuration meet this beside a running server, as `caddy validate` does: "+
				"use `caddy adapt` to check a Caddyfile and `caddy reload` to apply it", err)
		}
		return err
	}
	b.lease = lease
	return registerStoreMetrics(ctx.GetMetricsRegistry())
}

// canonical returns the one name of a folder, given an absolute one, so that two ways to
// write it are one key of the pool. The folder may be missing, and what leads to it be
// out of reach; it creates nothing, as the folder of a store that is open may have been
// moved away.
func canonical(folder string) string {
	name, err := filepath.EvalSymlinks(folder)
	if err == nil {
		return name
	}
	parent := filepath.Dir(folder)
	if _, err := os.Lstat(folder); err == nil || parent == folder { // a link that leads to nothing, say
		return folder
	}
	return filepath.Join(canonical(parent), filepath.Base(folder))
}

// Store returns the store of the folder.
func (b *Badger) Store() domain.Store { return b.lease }

// Name returns the folder.
func (b *Badger) Name() string { return b.lease.Settings.folder }

// Cleanup gives up the folder. The last to do so closes it.
func (b *Badger) Cleanup() error {
	if b.lease == nil {
		return nil // Provision never got that far
	}
	return b.lease.Release()
}

// UnmarshalCaddyfile reads the engine's part of the storage subdirective:
//
//	badger [<folder>] {
//		encryption_key_file <path>
//		scrub_interval      <duration>|off
//	}
func (b *Badger) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the engine's name
	switch args := d.RemainingArgs(); len(args) {
	case 0:
	case 1:
		if b.Folder = args[0]; b.Folder == "" { // which would be the default folder
			return d.Err("storage badger: the folder is empty" + maybeUnset)
		}
	default:
		return d.Errf("storage badger: want at most one argument, the folder, got %d", len(args))
	}
	return eachSubdirective(d, "storage badger: ", b.unmarshalSubdirective)
}

func (b *Badger) unmarshalSubdirective(d *caddyfile.Dispenser, name string) (err error) {
	switch name {
	case "encryption_key_file":
		b.EncryptionKeyFile, err = onlyArg(d, "storage badger: "+name, "a path")
		return err
	case "scrub_interval":
		value, err := onlyArg(d, "storage badger: "+name, "a duration or off")
		if err != nil {
			return err
		}
		if value == "off" {
			b.ScrubInterval = -1
			return nil
		}
		interval, err := caddy.ParseDuration(value)
		if err != nil || interval < time.Second {
			return d.Errf("storage badger: scrub_interval must be off or a duration of a second or more such as 24h, got %q", value)
		}
		b.ScrubInterval = caddy.Duration(interval)
	default:
		return d.Errf("storage badger: unrecognized subdirective %q", name)
	}
	return nil
}

// folderSettings are what a configuration says about a folder.
type folderSettings struct {
	folder string
	key    []byte        // nil without encryption
	scrub  time.Duration // how often, not positive for never
	logger *zap.Logger
}

// lease is a configuration's share in the handle on a folder.
type lease struct {
	*sharing.Lease[folderSettings, *handle]
}

func newLease(s folderSettings) *lease { return &lease{folders.Lease(s.folder, s)} }

// View implements domain.Store.
func (l *lease) View(ctx context.Context, fn func(domain.Reader) error) error {
	return l.use(ctx, func(store *badger.Store) error { return store.View(ctx, fn) })
}

// Update implements domain.Store.
func (l *lease) Update(ctx context.Context, fn func(domain.Tx) error) error {
	return l.use(ctx, func(store *badger.Store) error { return store.Update(ctx, fn) })
}

// AfterRemoval implements spaceTeller.
func (*lease) AfterRemoval() string {
	return "the folder gets smaller by itself within the hour if a tenth of what is stored was removed since it last did, and 1 MiB or more; what is less goes with what is removed later"
}

// Check is badger.Store.Check of the store.
func (l *lease) Check(ctx context.Context) (report badger.Report, err error) {
	err = l.use(ctx, func(store *badger.Store) (err error) {
		report, err = store.Check(ctx)
		return err
	})
	return report, err
}

func (l *lease) use(ctx context.Context, fn func(*badger.Store) error) error {
	return l.Use(ctx, func(h *handle) error {
		store, err := h.get()
		if err != nil {
			return err
		}
		return fn(store)
	})
}

// Stamps implements domain.Store. They are those of the store that is open: when
// the folder was closed meanwhile and is opened again they are others.
func (l *lease) Stamps() *domain.Stamps {
	if h, ok := l.Current(); ok {
		return h.stamps()
	}
	stamps := noStamps // which match nothing that anyone kept
	_ = l.Use(context.Background(), func(h *handle) error {
		stamps = h.stamps()
		return nil
	})
	return stamps
}

// Sync implements domain.Store.
func (*lease) Sync(context.Context) error { return nil }

// Interface guards
var (
	_ caddy.Module          = (*Badger)(nil)
	_ caddy.Provisioner     = (*Badger)(nil)
	_ caddy.CleanerUpper    = (*Badger)(nil)
	_ caddyfile.Unmarshaler = (*Badger)(nil)
	_ engine                = (*Badger)(nil)
	_ domain.Store          = (*lease)(nil)
	_ spaceTeller           = (*lease)(nil)
)
