package badger

import (
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/directive"
)

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
			return d.Err("storage badger: the folder is empty" + directive.MaybeUnset)
		}
	default:
		return d.Errf("storage badger: want at most one argument, the folder, got %d", len(args))
	}
	return directive.Block{Place: "storage badger: "}.Read(d, map[string]directive.Reader{
		"encryption_key_file": directive.Text(&b.EncryptionKeyFile, "a path"),
		"scrub_interval":      b.readScrubInterval,
	})
}

func (b *Badger) readScrubInterval(d *caddyfile.Dispenser, place string) error {
	value, err := directive.OnlyArg(d, place, "a duration or off")
	if err != nil {
		return err
	}
	if value == "off" {
		b.ScrubInterval = -1
		return nil
	}
	interval, err := caddy.ParseDuration(value)
	if err != nil || interval < time.Second {
		return d.Errf("%s must be off or a duration of a second or more such as 24h, got %q", place, value)
	}
	b.ScrubInterval = caddy.Duration(interval)
	return nil
}

// Interface guard
var _ caddyfile.Unmarshaler = (*Badger)(nil)
