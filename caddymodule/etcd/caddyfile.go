package etcd

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/directive"
)

// UnmarshalCaddyfile reads the engine's part of the storage subdirective:
//
//	etcd [<endpoint>...] {
//		endpoints       <endpoint>...
//		prefix          <prefix>
//		username        <user>
//		password        <password>
//		tls {
//			ca          <file>
//			certificate <certificate file> <key file>
//			server_name <name>
//		}
//		request_timeout <duration>
//		max_staleness   <duration>
//	}
func (e *Etcd) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the engine's name
	e.Endpoints = d.RemainingArgs()
	block := directive.Block{Place: "storage etcd: ", Nested: []string{"tls"}}
	err := block.Read(d, map[string]directive.Reader{
		"endpoints":       e.readEndpoints,
		"prefix":          directive.Text(&e.Prefix, "a prefix"),
		"username":        directive.Text(&e.Username, "a user name"),
		"password":        directive.Text(&e.Password, "a password"),
		"tls":             e.readTLS,
		"request_timeout": readDuration(&e.RequestTimeout),
		"max_staleness":   readDuration(&e.MaxStaleness),
	})
	if err != nil {
		return err
	}
	if len(e.Endpoints) == 0 {
		return d.Err("storage etcd: endpoints are missing" + directive.MaybeUnset)
	}
	return nil
}

func (e *Etcd) readEndpoints(d *caddyfile.Dispenser, place string) error {
	if len(e.Endpoints) > 0 {
		return d.Err("storage etcd: endpoints are given behind the engine's name, too")
	}
	if e.Endpoints = d.RemainingArgs(); len(e.Endpoints) == 0 {
		return d.Errf("%s wants URLs or host:port%s", place, directive.MaybeUnset)
	}
	return nil
}

func (e *Etcd) readTLS(d *caddyfile.Dispenser, place string) error {
	if d.NextArg() {
		return d.Errf("%s takes a block and no argument", place)
	}
	e.TLS = new(TLS)
	return directive.Block{Place: place + ": "}.Read(d, map[string]directive.Reader{
		"ca": directive.Text(&e.TLS.CAFile, "a file"),
		"certificate": func(d *caddyfile.Dispenser, place string) error {
			if !d.Args(&e.TLS.CertFile, &e.TLS.KeyFile) || d.NextArg() {
				return d.Errf("%s wants two files, the certificate and its key", place)
			}
			return nil
		},
		"server_name": directive.Text(&e.TLS.ServerName, "a name"),
	})
}

func readDuration(into *caddy.Duration) directive.Reader {
	return func(d *caddyfile.Dispenser, place string) error {
		value, err := directive.OnlyArg(d, place, "a duration")
		if err != nil {
			return err
		}
		parsed, err := caddy.ParseDuration(value)
		if err != nil || parsed <= 0 {
			return d.Errf("%s must be a duration such as 5s, got %q", place, value)
		}
		*into = caddy.Duration(parsed)
		return nil
	}
}
