// Package admin is the admin endpoint of the presets handler, and the "caddy presets"
// command. Most of its subcommands call that endpoint.
package admin

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/caddyserver/caddy/v2"
	jsonv2 "github.com/go-json-experiment/json"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/registry"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/router"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/status"
	"github.com/caddy-presets/caddy-presets/caddymodule/openapi"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema"
)

// Path is the prefix of all paths of the admin endpoint.
const Path = "/presets/"

// maxBody bounds the body of a request, in bytes. A backup may be larger.
const maxBody = 64 << 10

// operator is the principal of requests to the admin endpoint, in the audit trail. Caddy
// gives these requests no id, so their records have none.
var operator = domain.By(domain.Principal{UserID: "admin", Kind: domain.ManagementKey})

func init() {
	caddy.RegisterModule(new(endpoint))
}

// endpoint lets operators manage live stores through Caddy's admin endpoint. If several
// stores are live, ?store= selects one by its name.
type endpoint struct{}

// CaddyModule returns the Caddy module information.
func (*endpoint) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "admin.api.presets",
		New: func() caddy.Module { return new(endpoint) },
	}
}

// Routes returns the routes of the admin endpoint.
func (e *endpoint) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{{Pattern: Path, Handler: caddy.AdminHandlerFunc(e.serve)}}
}

// Route is an operation of the admin endpoint. A GET is a HEAD, too.
type Route struct {
	Name   string // in the OpenAPI document
	Method string
	Path   string         // below Path, as router.Router takes it
	Body   *schema.Schema // nil for none
	Dump   bool           // the body is a backup, of media type DumpType
	Query  string         // the names of its parameters, with spaces between

	status int // of a success, 0 for 200
	// run is for one store. It returns what the response has as JSON, nil if it wrote the response.
	run   func(request) (any, error)
	serve func(w http.ResponseWriter, r *http.Request) error // without run
}

// Routes returns all operations. Only the response to a key's creation holds a secret, once.
func Routes(schemas *schema.Schemas) []Route {
	return []Route{
		{Name: "key_create", Method: http.MethodPost, Path: "keys", Body: schemas.NewKey, Query: "store", status: http.StatusCreated, run: issueKey},
		{Name: "key_list", Method: http.MethodGet, Path: "keys", Query: "store", run: listKeys},
		{Name: "key_get", Method: http.MethodGet, Path: "keys/{key_id}", Query: "store", run: getKey},
		{Name: "key_revoke", Method: http.MethodDelete, Path: "keys/{key_id}", Query: "store", run: revokeKey},
		{Name: "key_rotate", Method: http.MethodPost, Path: "keys/{key_id}/rotate", Body: schemas.RotateKey, Query: "store", run: rotateKey},
		{Name: "key_remove", Method: http.MethodPost, Path: "keys/{key_id}/remove", Query: "store", run: removeKey},
		{Name: "key_prune", Method: http.MethodPost, Path: "keys/prune", Body: schemas.KeyPruning, Query: "store", run: pruneKeys},
		{Name: "audit_list", Method: http.MethodGet, Path: "audit", Query: "store after limit", run: listAudit},
		{Name: "version_prune", Method: http.MethodPost, Path: "prune", Body: schemas.Pruning, Query: "store", run: pruneVersions},
		{Name: "backup_get", Method: http.MethodGet, Path: "backup", Query: "store", run: getBackup},
		{Name: "backup_copied", Method: http.MethodPost, Path: "backup/copied", Query: "store age", run: recordCopy},
		{Name: "store_restore", Method: http.MethodPost, Path: "restore", Dump: true, Query: "store", run: restoreStore},
		{Name: "store_verify", Method: http.MethodPost, Path: "verify", Query: "store", run: verifyStore},
		{Name: "health_get", Method: http.MethodGet, Path: "health", Query: "store", serve: serveHealth},
		{Name: "openapi_get", Method: http.MethodGet, Path: "openapi.yaml", serve: serveDocument(openapi.Document)},
		{Name: "openapi_admin_get", Method: http.MethodGet, Path: "openapi-admin.yaml", serve: serveDocument(openapi.AdminDocument)},
	}
}

// checkQuery refuses unknown parameters, as bodies are refused that have unknown members: most
// operations give rights or remove something.
func (rt Route) checkQuery(text string) error {
	query, err := url.ParseQuery(text)
	if err != nil {
		return badRequest("query: malformed")
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if !slices.Contains(strings.Fields(rt.Query), name) {
			return badRequest("%q: is no parameter of this request", name)
		}
	}
	return nil
}

func (rt Route) runOn(store *registry.Store, r request) error {
	r.Use, r.live, r.schema = store.Newest(), store, rt.Body
	if r.Use == nil { // its last handler was just cleaned up
		return failure(http.StatusServiceUnavailable, "a reload has just closed the store: try again")
	}
	answer, err := rt.run(r)
	if _, isComplete := errors.AsType[caddy.APIError](err); isComplete || err == nil && answer == nil {
		return err
	}
	if err != nil { // operators see the whole error
		return caddy.APIError{HTTPStatus: status.Of(domain.KindOf(err)), Err: err}
	}
	return writeJSON(r.w, cmp.Or(rt.status, http.StatusOK), answer)
}

// newRouter returns the router of all operations, which it makes once.
var newRouter = sync.OnceValues(func() (*router.Router[Route], error) {
	schemas, err := schema.Load()
	if err != nil {
		return nil, err
	}
	all := new(router.Router[Route])
	for _, rt := range Routes(schemas) {
		all.Add(rt.Method, Path+rt.Path, rt)
	}
	return all, nil
})

func (*endpoint) serve(w http.ResponseWriter, r *http.Request) error {
	all, err := newRouter()
	if err != nil {
		return err
	}
	m := all.Find(r)
	switch {
	case m.Allow != "":
		w.Header().Set("Allow", m.Allow)
		return failure(http.StatusMethodNotAllowed, "method not allowed")
	case m.Op == nil:
		return failure(http.StatusNotFound, "resource not found")
	}
	rt := m.Op
	if err := rt.checkQuery(r.URL.RawQuery); err != nil {
		return err
	}
	if rt.run == nil {
		return rt.serve(w, r)
	}
	store, err := pickStore(r)
	if err != nil {
		return err
	}
	return rt.runOn(store, request{Request: r, w: w, keyID: m.Value("key_id")})
}

func serveDocument(text []byte) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", "application/yaml")
		_, err := w.Write(text)
		return err
	}
}

type request struct {
	*http.Request
	*registry.Use // of the handler that was provisioned last
	live          *registry.Store
	w             http.ResponseWriter
	keyID         string         // of the path
	schema        *schema.Schema // of the body
}

// read checks the body against its schema and decodes it.
func (r request) read(into any) error {
	body, err := io.ReadAll(http.MaxBytesReader(r.w, r.Body, maxBody))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return failure(http.StatusRequestEntityTooLarge, "the body must be at most %d bytes", maxBody)
	}
	if err != nil {
		return badRequest("reading the body: %w", err)
	}
	_, err = r.schema.Check(body)
	if broken, ok := errors.AsType[*schema.Error](err); ok {
		return status.Invalid(broken)
	}
	if err != nil {
		return err
	}
	return schema.Decode(body, into)
}

// pickStore returns the live store that ?store= names, or the only one without it.
func pickStore(r *http.Request) (*registry.Store, error) {
	name, err := domain.OnlyValue("store", r.URL.Query()["store"])
	if err != nil {
		return nil, badRequest("%w", err)
	}
	all := registry.All()
	names := slices.Sorted(maps.Keys(all))
	list := strings.Join(names, ", ")
	switch {
	case len(names) == 0:
		return nil, failure(http.StatusNotFound, "no store is live: the running configuration has no presets directive")
	case name != "" && all[name] == nil:
		return nil, failure(http.StatusNotFound, "no live store is named %q; live stores: %s", name, list)
	case name == "" && len(names) > 1:
		return nil, badRequest("several stores are live; choose one with store: %s", list)
	case name == "":
		name = names[0]
	}
	return all[name], nil
}

func writeJSON(w http.ResponseWriter, code int, value any) error {
	body, err := jsonv2.Marshal(value)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, err = w.Write(append(body, '\n'))
	return err
}

func failure(code int, format string, args ...any) error {
	return caddy.APIError{HTTPStatus: code, Err: fmt.Errorf(format, args...)}
}

func badRequest(format string, args ...any) error {
	return failure(http.StatusBadRequest, format, args...)
}

// Interface guard
var _ caddy.AdminRouter = (*endpoint)(nil)
