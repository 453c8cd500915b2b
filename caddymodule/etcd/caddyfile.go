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
	if err := block.Each(d, e.unmarshalSubdirective); err != nil {
		return err
	}
	if len(e.Endpoints) == 0 {
		return d.Err("storage etcd: endpoints are missing" + directive.MaybeUnset)
	}
	return nil
}

func (e *Etcd) unmarshalSubdirective(d *caddyfile.Dispenser, name string) error {
	switch name {
	case "endpoints":
		if len(e.Endpoints) > 0 {
			return d.Err("storage etcd: endpoints are given behind the engine's name, too")
		}
		if e.Endpoints = d.RemainingArgs(); len(e.Endpoints) == 0 {
			return d.Err("storage etcd: endpoints wants URLs or host:port" + directive.MaybeUnset)
		}
		return nil
	case "prefix":
		return argument(d, name, "a prefix", &e.Prefix)
	case "username":
		return argument(d, name, "a user name", &e.Username)
	case "password":
		return argument(d, name, "a password", &e.Password)
	case "tls":
		return e.unmarshalTLS(d)
	case "request_timeout":
		return duration(d, name, &e.RequestTimeout)
	case "max_staleness":
		return duration(d, name, &e.MaxStaleness)
	default:
		return d.Errf("storage etcd: unrecognized subdirective %q", name)
	}
}

func (e *Etcd) unmarshalTLS(d *caddyfile.Dispenser) error {
	if d.NextArg() {
		return d.Err("storage etcd: tls takes a block and no argument")
	}
	e.TLS = new(TLS)
	return directive.Block{Place: "storage etcd: tls: "}.Each(d, e.TLS.unmarshalSubdirective)
}

func (t *TLS) unmarshalSubdirective(d *caddyfile.Dispenser, name string) error {
	switch name {
	case "ca":
		return argument(d, "tls: ca", "a file", &t.CAFile)
	case "certificate":
		if !d.Args(&t.CertFile, &t.KeyFile) || d.NextArg() {
			return d.Err("storage etcd: tls: certificate wants two files, the certificate and its key")
		}
		return nil
	case "server_name":
		return argument(d, "tls: server_name", "a name", &t.ServerName)
	default:
		return d.Errf("storage etcd: tls: unrecognized subdirective %q", name)
	}
}

// argument reads the only argument of an option. Errors call it what.
func argument(d *caddyfile.Dispenser, name, what string, to *string) (err error) {
	*to, err = directive.OnlyArg(d, "storage etcd: "+name, what)
	return err
}

func duration(d *caddyfile.Dispenser, name string, to *caddy.Duration) error {
	var value string
	if err := argument(d, name, "a duration", &value); err != nil {
		return err
	}
	parsed, err := caddy.ParseDuration(value)
	if err != nil || parsed <= 0 {
		return d.Errf("storage etcd: %s must be a duration such as 5s, got %q", name, value)
	}
	*to = caddy.Duration(parsed)
	return nil
}
