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
	"reflect"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	jsonv2 "github.com/go-json-experiment/json"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/live"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/status"
	"github.com/caddy-presets/caddy-presets/caddymodule/openapi"
	"github.com/caddy-presets/caddy-presets/domain"
)

// Path is the prefix of all paths of the admin endpoint.
const Path = "/presets/"

// maxBody bounds the body of a request, in bytes. An import may be larger.
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

// Route is an operation of the admin endpoint.
type Route struct {
	Name   string // in the OpenAPI document
	Method string
	Path   string // below Path; one segment {} is variable and not empty
	Body   string // its schema in that document, or LinesBody; empty for none

	run   func(request) error                                // for one store, or nil
	serve func(w http.ResponseWriter, r *http.Request) error // without run
}

// LinesBody is the Body of a Route that takes an export, of media type LinesType.
const LinesBody = "export"

// Routes returns all operations. Only the answer to the creation of a key holds a secret,
// once.
func Routes() []Route {
	return []Route{
		{Name: "key_create", Method: http.MethodPost, Path: "keys", Body: "NewKey", run: issueKey},
		{Name: "key_list", Method: http.MethodGet, Path: "keys", run: listKeys},
		{Name: "key_get", Method: http.MethodGet, Path: "keys/{}", run: getKey},
		{Name: "key_revoke", Method: http.MethodDelete, Path: "keys/{}", run: revokeKey},
		{Name: "key_remove", Method: http.MethodPost, Path: "keys/{}/remove", run: removeKey},
		{Name: "key_prune", Method: http.MethodPost, Path: "keys/prune", Body: "KeyPruning", run: pruneKeys},
		{Name: "audit_list", Method: http.MethodGet, Path: "audit", run: listAudit},
		{Name: "version_prune", Method: http.MethodPost, Path: "prune", Body: "Pruning", run: pruneVersions},
		{Name: "backup_get", Method: http.MethodGet, Path: "backup", run: getBackup},
		{Name: "store_export", Method: http.MethodGet, Path: "export", run: exportStore},
		{Name: "store_import", Method: http.MethodPost, Path: "import", Body: LinesBody, run: importStore},
		{Name: "store_abandon_import", Method: http.MethodDelete, Path: "import", run: abandonImport},
		{Name: "store_verify", Method: http.MethodPost, Path: "verify", run: verifyStore},
		{Name: "health_get", Method: http.MethodGet, Path: "health", serve: serveHealth},
		{Name: "openapi_get", Method: http.MethodGet, Path: "openapi.yaml", serve: serveDocument(openapi.Document)},
		{Name: "openapi_admin_get", Method: http.MethodGet, Path: "openapi-admin.yaml", serve: serveDocument(openapi.AdminDocument)},
	}
}

// match reports whether an escaped path below Path is the route's, and returns its
// variable segment, decoded.
func (rt Route) match(path string) (param string, ok bool) {
	prefix, suffix, isVariable := strings.Cut(rt.Path, "{}")
	if !isVariable {
		return "", path == rt.Path
	}
	rest, begins := strings.CutPrefix(path, prefix)
	rest, ends := strings.CutSuffix(rest, suffix)
	param, err := url.PathUnescape(rest)
	return param, begins && ends && err == nil && rest != "" && !strings.Contains(rest, "/")
}

// runOn runs the route's operation on a store.
func (rt Route) runOn(store *live.Store, r request) error {
	r.Use, r.live = store.Newest(), store
	if r.Use == nil { // its last handler was just cleaned up
		return caddy.APIError{HTTPStatus: http.StatusServiceUnavailable, Err: errors.New("a reload has just closed the store: try again")}
	}
	return rt.run(r)
}

func (*endpoint) serve(w http.ResponseWriter, r *http.Request) error {
	path := strings.TrimPrefix(r.URL.EscapedPath(), Path)
	var allow []string
	for _, rt := range Routes() {
		param, ok := rt.match(path)
		switch {
		case !ok:
		case rt.Method != r.Method:
			allow = append(allow, rt.Method)
		case rt.run == nil:
			return rt.serve(w, r)
		default:
			store, err := pickStore(r.URL.Query().Get("store"))
			if err != nil {
				return err
			}
			return rt.runOn(store, request{Request: r, w: w, param: param})
		}
	}
	if allow == nil {
		return caddy.APIError{HTTPStatus: http.StatusNotFound, Err: errors.New("resource not found")}
	}
	slices.Sort(allow)
	w.Header().Set("Allow", strings.Join(allow, ", "))
	return caddy.APIError{HTTPStatus: http.StatusMethodNotAllowed, Err: errors.New("method not allowed")}
}

func serveDocument(text []byte) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", "application/yaml")
		_, err := w.Write(text)
		return err
	}
}

// request is a request that concerns a store.
type request struct {
	*http.Request
	*live.Use // of the handler that was provisioned last
	live      *live.Store
	w         http.ResponseWriter
	param     string // the path's variable segment, decoded
}

// read decodes the body.
func (r request) read(into any) error {
	body, err := io.ReadAll(http.MaxBytesReader(r.w, r.Body, maxBody))
	if err == nil {
		err = jsonv2.Unmarshal(body, into, jsonv2.RejectUnknownMembers(true))
	}
	if err != nil {
		return badRequest(describeBody(err))
	}
	return nil
}

// describeBody returns an error of decoding a body that names the field, and no Go type.
func describeBody(err error) error {
	wrong, ok := errors.AsType[*jsonv2.SemanticError](err)
	if !ok {
		return fmt.Errorf("reading the body: %w", err)
	}
	field := cmp.Or(string(wrong.JSONPointer), "the body")
	if errors.Is(err, jsonv2.ErrUnknownName) {
		return fmt.Errorf("%s: is not known", field)
	}
	want := "of another type"
	if wrong.GoType != nil {
		switch kind := wrong.GoType.Kind(); kind {
		case reflect.String:
			want = "a string"
		case reflect.Bool:
			want = "true or false"
		case reflect.Int:
			want = "a whole number"
		case reflect.Struct:
			want = "an object"
		}
	}
	return fmt.Errorf("%s: must be %s", field, want)
}

// pickStore returns the live store of a name, or the only one if name is empty.
func pickStore(name string) (*live.Store, error) {
	all := live.All()
	names := slices.Sorted(maps.Keys(all))
	list := strings.Join(names, ", ")
	switch {
	case len(names) == 0:
		return nil, caddy.APIError{HTTPStatus: http.StatusNotFound, Err: errors.New("no store is live: the running configuration has no presets directive")}
	case name != "" && all[name] == nil:
		return nil, caddy.APIError{HTTPStatus: http.StatusNotFound, Err: fmt.Errorf("no live store is named %q; live stores: %s", name, list)}
	case name == "" && len(names) > 1:
		return nil, badRequest(fmt.Errorf("several stores are live; choose one with store: %s", list))
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

func badRequest(err error) error {
	return caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: err}
}

// withStatus returns err with its HTTP status. Operators see the whole error.
func withStatus(err error) error {
	return caddy.APIError{HTTPStatus: status.Of(domain.KindOf(err)), Err: err}
}

// Interface guard
var _ caddy.AdminRouter = (*endpoint)(nil)
