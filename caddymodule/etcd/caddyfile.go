package etcd

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
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
	seen := make(map[string]bool)
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		name := d.Val()
		if seen[name] {
			return d.Errf("storage etcd: %s is given more than once", name)
		}
		seen[name] = true
		if err := e.unmarshalSubdirective(d, name); err != nil {
			return err
		}
		if name != "tls" && d.NextBlock(nesting+1) {
			return d.Errf("storage etcd: %s takes no block", name)
		}
	}
	if len(e.Endpoints) == 0 {
		return d.Err("storage etcd: endpoints are missing" + maybeUnset)
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
			return d.Err("storage etcd: endpoints wants URLs or host:port" + maybeUnset)
		}
		return nil
	case "prefix":
		return text(d, name, &e.Prefix)
	case "username":
		return text(d, name, &e.Username)
	case "password":
		return text(d, name, &e.Password)
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
	seen := make(map[string]bool)
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		var err error
		name := d.Val()
		if seen[name] {
			return d.Errf("storage etcd: tls: %s is given more than once", name)
		}
		seen[name] = true
		switch name {
		case "ca":
			err = text(d, "tls: ca", &e.TLS.CAFile)
		case "certificate":
			if !d.Args(&e.TLS.CertFile, &e.TLS.KeyFile) || d.NextArg() {
				err = d.Err("storage etcd: tls: certificate wants two files, the certificate and its key")
			}
		case "server_name":
			err = text(d, "tls: server_name", &e.TLS.ServerName)
		default:
			err = d.Errf("storage etcd: tls: unrecognized subdirective %q", name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// maybeUnset ends errors about an argument that is missing or empty, as an
// environment variable leaves it that is not set.
const maybeUnset = " (a {$NAME} may not be set in the environment)"

// text reads one argument. Its errors show none, which may be a secret.
func text(d *caddyfile.Dispenser, name string, to *string) error {
	args := d.RemainingArgs()
	switch {
	case len(args) == 0:
		return d.Errf("storage etcd: %s wants one argument, got 0%s", name, maybeUnset)
	case len(args) > 1:
		return d.Errf("storage etcd: %s wants one argument, got %d", name, len(args))
	case args[0] == "":
		return d.Errf("storage etcd: %s must not be empty%s", name, maybeUnset)
	}
	*to = args[0]
	return nil
}

func duration(d *caddyfile.Dispenser, name string, to *caddy.Duration) error {
	var value string
	if err := text(d, name, &value); err != nil {
		return err
	}
	parsed, err := caddy.ParseDuration(value)
	if err != nil || parsed <= 0 {
		return d.Errf("storage etcd: %s must be a duration such as 5s, got %q", name, value)
	}
	*to = caddy.Duration(parsed)
	return nil
}
