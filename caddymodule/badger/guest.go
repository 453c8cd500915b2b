// Package badger is the guest of the default storage engine. The engine keeps presets,
// workspaces and issued keys in a folder of this machine.
package badger

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-presets/caddy-presets/caddymodule/engine"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/keyfile"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/storepool"
	"github.com/caddy-presets/caddy-presets/domain"
	badgerstore "github.com/caddy-presets/caddy-presets/storage/badger"
)

func init() {
	caddy.RegisterModule(new(Badger))
}

// defaultScrubInterval is the time between two checks of a whole store.
const defaultScrubInterval = 24 * time.Hour

// Badger keeps presets, workspaces and issued keys in a folder of this
// machine. One process at a time can use a folder. All sites and all
// configurations of that process share one handle on it.
type Badger struct {
	// The folder to store in, created with mode 0700 when it is missing.
	// Default: presets/ in Caddy's data folder.
	Folder string `json:"folder,omitempty"`

	// A file with the key that encrypts the folder and backups of it. It has
	// 64 hexadecimal digits, as `openssl rand -hex 32` prints them. A store is
	// encrypted from its beginning or not at all. Default: it is not.
	EncryptionKeyFile string `json:"encryption_key_file,omitempty"`

	// How often to read all that is stored, in the background, and look for
	// damage; negative for never. The first time is soon after the store was
	// opened: within a tenth of that, and an hour at most. Default: 24h
	ScrubInterval caddy.Duration `json:"scrub_interval,omitempty"`

	store *store
}

// CaddyModule returns the Caddy module information.
func (*Badger) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.presets.storage.badger",
		New: func() caddy.Module { return new(Badger) },
	}
}

// Provision opens the folder, or shares it if it is open already. A damaged store, a full
// disk and a folder without permission are no errors. The store is then unavailable until
// it can be opened.
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
	s := settings{folder: folder, scrub: time.Duration(b.ScrubInterval), cache: (engine.Memory(ctx) + 1) / 2, logger: ctx.Logger()}
	if b.EncryptionKeyFile != "" {
		name, err := repl.ReplaceOrErr(b.EncryptionKeyFile, true, true)
		if err == nil {
			s.key, err = keyfile.Read(name, s.logger)
		}
		if err != nil {
			return fmt.Errorf("encryption_key_file: %w", err)
		}
	}
	store := newStore(s)
	if _, err := store.Acquire(); err != nil {
		if errors.Is(err, badgerstore.ErrInUse) {
			err = fmt.Errorf("%w. Commands that load a whole configuration, such as `caddy validate`, fail beside a running server: "+
				"use `caddy adapt` to check a Caddyfile and `caddy reload` to apply it", err)
		}
		return err
	}
	b.store = store
	return storepool.RegisterMetrics(ctx.GetMetricsRegistry(), storeMetrics{})
}

// canonical returns the name of an absolute folder without symbolic links. So each folder
// has one key in the pool. The folder and its parents may be missing. canonical creates
// nothing, because the folder of an open store may have been moved away.
func canonical(folder string) string {
	name, err := filepath.EvalSymlinks(folder)
	if err == nil {
		return name
	}
	parent := filepath.Dir(folder)
	if _, err := os.Lstat(folder); err == nil || parent == folder { // such as a dangling link
		return folder
	}
	return filepath.Join(canonical(parent), filepath.Base(folder))
}

// Store returns the store of the folder.
func (b *Badger) Store() domain.Store { return b.store }

// Name returns the folder.
func (b *Badger) Name() string { return b.store.Settings.folder }

// Cleanup releases the folder. The last configuration that does so closes it.
func (b *Badger) Cleanup() error {
	if b.store == nil {
		return nil // Provision never got that far
	}
	return b.store.end()
}

// Interface guards
var (
	_ caddy.Module       = (*Badger)(nil)
	_ caddy.Provisioner  = (*Badger)(nil)
	_ caddy.CleanerUpper = (*Badger)(nil)
	_ engine.Engine      = (*Badger)(nil)
)
