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
	return directive.Block{Place: "storage badger: "}.Each(d, b.unmarshalSubdirective)
}

func (b *Badger) unmarshalSubdirective(d *caddyfile.Dispenser, name string) (err error) {
	switch name {
	case "encryption_key_file":
		b.EncryptionKeyFile, err = directive.OnlyArg(d, "storage badger: "+name, "a path")
		return err
	case "scrub_interval":
		value, err := directive.OnlyArg(d, "storage badger: "+name, "a duration or off")
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

// Interface guard
var _ caddyfile.Unmarshaler = (*Badger)(nil)
