// Package etcd adds a storage engine to caddy-presets. It keeps presets, workspaces and
// issued keys in an etcd cluster that several nodes share:
//
//	xcaddy build --with github.com/caddy-presets/caddy-presets --with github.com/caddy-presets/caddy-presets/caddymodule/etcd
//
// docs/cluster.md has its guarantees and how to run it.
package etcd

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-presets/caddy-presets/caddymodule/engine"
	"github.com/caddy-presets/caddy-presets/caddymodule/etcd/etcdstore"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/storepool"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/fileowner"
)

func init() {
	caddy.RegisterModule(new(Etcd))
}

// Etcd keeps presets, workspaces and issued keys in an etcd cluster. Nodes with the same
// cluster and prefix serve the same. Placeholders are replaced in all texts.
type Etcd struct {
	// The members of the cluster, as http or https URLs with a port, or host:port.
	Endpoints []string `json:"endpoints,omitempty"`

	// The prefix of all keys in etcd. Default: caddy-presets/
	Prefix string `json:"prefix,omitempty"`

	// A user of etcd. Default: none
	Username string `json:"username,omitempty"`

	// The password of the user. It should be a placeholder, such as {env.ETCD_PASSWORD}:
	// Caddy shows its configuration, and logs it at level DEBUG. Default: none
	Password string `json:"password,omitempty"`

	// How connections are secured. Default: as the endpoints' schemes say
	TLS *TLS `json:"tls,omitempty"`

	// How long connecting and a request to etcd may take, with all attempts. Default: 5s
	RequestTimeout caddy.Duration `json:"request_timeout,omitempty"`

	// How long copies in memory are used without an answer from the cluster. After
	// that, keys and presets are refused. Default: 5s
	MaxStaleness caddy.Duration `json:"max_staleness,omitempty"`

	store *store
}

// TLS says which members to trust, and which certificate this node shows.
type TLS struct {
	// A file with the authorities that sign the members' certificates, PEM.
	// Default: the system's
	CAFile string `json:"ca_file,omitempty"`

	// A file with the certificate of this node, PEM. Default: none
	CertFile string `json:"cert_file,omitempty"`

	// A file with the key of that certificate, PEM. Default: none
	KeyFile string `json:"key_file,omitempty"`

	// The name in the members' certificates, if it differs from the endpoint's.
	ServerName string `json:"server_name,omitempty"`
}

// CaddyModule returns the Caddy module information.
func (*Etcd) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.handlers.presets.storage.etcd",
		New: func() caddy.Module { return new(Etcd) },
	}
}

// Provision connects to the cluster, or shares the connection of another configuration.
// A cluster that does not answer, or refuses the user, is no error. Presets and workspaces
// are unavailable until it answers.
func (e *Etcd) Provision(ctx caddy.Context) error {
	replaced, err := e.replace(caddy.NewReplacer())
	if err != nil {
		return err
	}
	options, err := replaced.options()
	if err != nil {
		return err
	}
	identity, err := replaced.identity()
	if err != nil {
		return err
	}
	options.Memory = int((engine.Memory(ctx) + 1) / 2)
	name := "etcd " + strings.Join(replaced.Endpoints, ",") + " " + options.Prefix
	store := newStore(identity, settings{name: name, options: options, logger: ctx.Logger()})
	if _, err := store.Acquire(); err != nil {
		return err
	}
	e.store = store
	return storepool.RegisterMetrics(ctx.GetMetricsRegistry(), metrics{})
}

// identity returns the key of the connection among those shared. It holds secrets. It
// includes the authorities' certificates: a changed file needs a new connection.
func (e *Etcd) identity() (string, error) {
	text, err := json.Marshal(e) //nolint:gosec // only compared
	if err != nil || e.TLS == nil || e.TLS.CAFile == "" {
		return string(text), err
	}
	authorities, err := os.ReadFile(e.TLS.CAFile)
	return string(text) + string(authorities), fileowner.Explain(err, e.TLS.CAFile)
}

// replace returns a copy of e in which placeholders are replaced.
func (e *Etcd) replace(repl *caddy.Replacer) (*Etcd, error) {
	r := *e
	r.Endpoints = append([]string(nil), e.Endpoints...)
	texts := map[string]*string{"prefix": &r.Prefix, "username": &r.Username, "password": &r.Password}
	for i := range r.Endpoints {
		texts[fmt.Sprintf("endpoints/%d", i)] = &r.Endpoints[i]
	}
	if e.TLS != nil {
		r.TLS = new(*e.TLS)
		texts["tls/ca_file"], texts["tls/cert_file"] = &r.TLS.CAFile, &r.TLS.CertFile
		texts["tls/key_file"], texts["tls/server_name"] = &r.TLS.KeyFile, &r.TLS.ServerName
	}
	for name, text := range texts {
		if *text == "" {
			continue
		}
		value, err := repl.ReplaceOrErr(*text, true, true)
		if err != nil && name == "password" {
			return nil, errors.New("password: a placeholder in it is not known, or empty") // err may show a part of it
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		*text = value
	}
	if r.Prefix == "" {
		r.Prefix = etcdstore.DefaultPrefix
	}
	return &r, nil
}

const minStaleness = caddy.Duration(100 * time.Millisecond)

// options checks e and returns the options of the store.
func (e *Etcd) options() (o etcdstore.Options, err error) {
	if len(e.Endpoints) == 0 {
		return o, errors.New("endpoints: at least one is needed")
	}
	for i, endpoint := range e.Endpoints {
		scheme, err := schemeOf(endpoint)
		if err != nil {
			return o, fmt.Errorf("endpoints/%d: %w", i, err)
		}
		if first, _ := schemeOf(e.Endpoints[0]); scheme != first { // etcd's client uses one for all
			return o, fmt.Errorf("endpoints/%d: must have the same scheme as the first", i)
		}
		if scheme == "http" && e.TLS != nil {
			return o, fmt.Errorf("endpoints/%d: must not be http, as tls is given", i)
		}
	}
	if (e.Password == "") != (e.Username == "") {
		return o, errors.New("username and password: one is given without the other")
	}
	if e.RequestTimeout < 0 {
		return o, errors.New("request_timeout must be positive")
	}
	if e.MaxStaleness != 0 && e.MaxStaleness < minStaleness {
		return o, fmt.Errorf("max_staleness must be at least %v", time.Duration(minStaleness)) // the cluster is asked five times in it
	}
	o = etcdstore.Options{
		Endpoints: e.Endpoints, Prefix: e.Prefix, Username: e.Username, Password: e.Password,
		RequestTimeout: time.Duration(e.RequestTimeout), MaxStaleness: time.Duration(e.MaxStaleness),
	}
	if e.TLS != nil {
		o.TLS, err = e.TLS.config()
	}
	return o, err
}

// schemeOf returns the scheme of an endpoint, empty for host:port. It fails if no connection can be made
// to the endpoint: etcd's client would retry for ever, and would ignore a path.
func schemeOf(endpoint string) (string, error) {
	if strings.Contains(endpoint, "@") {
		return "", errors.New("must have no user or password: use the options username and password")
	}
	text, isURL := endpoint, strings.Contains(endpoint, "://")
	if !isURL {
		text = "//" + endpoint
	}
	u, err := url.Parse(text)
	if err == nil && isURL {
		u.Path = strings.TrimSuffix(u.Path, "/")
	}
	isHTTP := err == nil && (!isURL || u.Scheme == "http" || u.Scheme == "https")
	if isHTTP && u.Hostname() != "" && *u == (url.URL{Scheme: u.Scheme, Host: u.Host}) && (u.Host[0] == '[' || strings.Count(u.Host, ":") == 1) {
		if port, err := strconv.ParseUint(u.Port(), 10, 16); err == nil && port > 0 {
			return u.Scheme, nil
		}
	}
	return "", fmt.Errorf("%q must be an http or https URL, or host:port, with a port from 1 to 65535, an IPv6 address in brackets, and nothing behind the port", endpoint)
}

func (t *TLS) config() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		text, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("tls/ca_file: %w", fileowner.Explain(err, t.CAFile))
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("tls/ca_file: there is no certificate in %s", t.CAFile)
		}
	}
	if t.CertFile != "" || t.KeyFile != "" {
		load := func() (*tls.Certificate, error) {
			certificate, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
			if err != nil {
				return nil, fmt.Errorf("tls/cert_file: %w", fileowner.Explain(err, t.KeyFile))
			}
			return &certificate, nil
		}
		if _, err := load(); err != nil {
			return nil, err
		}
		// Certificates are renewed, so each connection reads the files again.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	return config, nil
}

// Store returns the store in the cluster.
func (e *Etcd) Store() domain.Store { return e.store }

// Name returns the endpoints and the prefix.
func (e *Etcd) Name() string { return e.store.Settings.name }

// Cleanup releases the connection. The last configuration that does so closes it.
func (e *Etcd) Cleanup() error {
	if e.store == nil {
		return nil // Provision never got that far
	}
	return e.store.Release()
}

// Interface guards
var (
	_ caddy.Module          = (*Etcd)(nil)
	_ caddy.Provisioner     = (*Etcd)(nil)
	_ caddy.CleanerUpper    = (*Etcd)(nil)
	_ caddyfile.Unmarshaler = (*Etcd)(nil)
	_ engine.Engine         = (*Etcd)(nil)
)
