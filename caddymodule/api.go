package caddymodule

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"
	jsonv2 "github.com/go-json-experiment/json"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema"
)

// operation is one row of the route table.
type operation struct {
	name   string // in metrics, logs and placeholders
	method string
	path   []string // segments below the base path; "" stands for any one that is not empty
	may    func(domain.Principal) error
	body   *schema.Schema // nil: no body is read
	run    func(*call) (answer, error)
}

// routes is what we offer (specification, "Endpoints").
func (h *Handler) routes(schemas *schema.Schemas) []operation {
	return []operation{
		{"preset_create_responses", http.MethodPost, []string{"presets", "", "responses"}, h.mayCreatePresets, schemas.ResponsesRequest, createPresetFromResponses},
		{"workspace_create", http.MethodPost, []string{"workspaces"}, domain.Principal.MayManage, schemas.CreateWorkspace, createWorkspace},
		{"workspace_get", http.MethodGet, []string{"workspaces", ""}, domain.Principal.MayManage, nil, getWorkspace},
	}
}

// unknownOperation labels requests below our paths that match no row.
const unknownOperation = "unknown"

func (h *Handler) mayCreatePresets(who domain.Principal) error {
	if h.PresetCreators == creatorsAny {
		return nil
	}
	return who.MayManage()
}

// call is one request to an operation of ours.
type call struct {
	h     *Handler
	w     http.ResponseWriter
	r     *http.Request
	repl  *caddy.Replacer
	start time.Time

	envelope func(problem) any // of errors

	op        operation
	params    []string // the path's variable segments, decoded
	who       domain.Principal
	workspace string        // named by the query, or empty
	body      []byte        // nil until it was read whole
	object    schema.Object // the members of body
}

// answer is a success: its status and the JSON of its data.
type answer struct {
	status int
	data   []byte
}

func (h *Handler) newCall(w http.ResponseWriter, r *http.Request) *call {
	c := &call{h: h, w: w, r: r, start: time.Now(), envelope: newEnvelope, op: operation{name: unknownOperation}}
	c.repl, _ = r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	return c
}

// serve is the path of a request: match, authenticate, authorise, read,
// validate, run. A stranger's body is never read.
func (c *call) serve() (answer, error) {
	err := c.match()
	c.note("operation", c.op.name)
	if err != nil {
		return answer{}, err
	}
	if err := c.authenticate(); err != nil {
		return answer{}, err
	}
	if err := c.op.may(c.who); err != nil {
		return answer{}, err
	}
	if err := c.parameters(); err != nil {
		return answer{}, err
	}
	if c.op.body != nil {
		if c.body, err = c.readJSON(); err != nil {
			return answer{}, err
		}
		if c.object, err = c.op.body.Check(c.body); err != nil {
			return answer{}, err
		}
	}
	return c.op.run(c)
}

// match finds the operation of the path and method. What we do not offer is
// our 404, a method we do not offer our 405: neither is the gateway's.
func (c *call) match() error {
	// Split before unescaping: an escaped slash is part of a slug or id. What
	// is ours only once it is cleaned has more segments, and matches nothing.
	segments := strings.Split(c.r.URL.EscapedPath(), "/")
	segments = segments[min(1+strings.Count(c.h.BasePath, "/"), len(segments)):]
	method := c.r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	var allow []string
	for _, op := range c.h.operations {
		params, ok := op.matches(segments)
		switch {
		case !ok:
		case op.method == method:
			c.op, c.params = op, params
			return nil
		default:
			allow = append(allow, op.method)
			if op.method == http.MethodGet {
				allow = append(allow, http.MethodHead)
			}
		}
	}
	if allow == nil {
		return &domain.Error{Kind: domain.NotFound, Message: "Resource not found"}
	}
	slices.Sort(allow)
	c.w.Header().Set("Allow", strings.Join(allow, ", "))
	return &statusError{http.StatusMethodNotAllowed, "Method not allowed"}
}

func (op operation) matches(segments []string) (params []string, ok bool) {
	if len(segments) != len(op.path) {
		return nil, false
	}
	for i, want := range op.path {
		got, err := url.PathUnescape(segments[i])
		switch {
		case err != nil || got == "":
			return nil, false
		case want == "":
			params = append(params, got)
		case want != got:
			return nil, false
		}
	}
	return params, true
}

// sessionHeader names the session of a request (specification,
// "Authentication", item 5).
const sessionHeader = "X-Session-Id"

// maxSessionID is the longest session id, in characters (specification,
// "Limits").
const maxSessionID = 256

// parameters takes what an operation is about from the path, the query and the
// headers, before any body is read.
func (c *call) parameters() error {
	id := c.r.Header.Get(sessionHeader) // a body may override it
	if utf8.RuneCountInString(id) > maxSessionID {
		return domain.InvalidAt("x-session-id", "must be at most "+strconv.Itoa(maxSessionID)+" characters")
	}
	if id != "" {
		c.note("session_id", id)
	}
	if c.op.path[0] != "presets" {
		return nil
	}
	if err := domain.CheckPresetSlug(c.params[0]); err != nil {
		return err
	}
	c.note("slug", c.params[0])
	query, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return domain.InvalidAt("query", "malformed")
	}
	switch given := query["workspace_id"]; {
	case len(given) > 1:
		return domain.InvalidAt("workspace_id", "given more than once")
	case len(given) == 1 && given[0] == "":
		return domain.InvalidAt("workspace_id", "must not be empty") // an unset variable, more likely than not
	case len(given) == 1:
		c.workspace = given[0]
	}
	return nil
}

// note sets a placeholder of ours, which access logs can name.
func (c *call) note(name, value string) {
	if c.repl != nil {
		c.repl.Set("http.presets."+name, value)
	}
}

func createPresetFromResponses(c *call) (answer, error) {
	for name, value := range c.object.All() {
		if name == "session_id" {
			var id string
			if err := jsonv2.Unmarshal(value, &id); err != nil {
				return answer{}, err
			}
			c.note("session_id", id)
		}
	}
	capture, err := domain.CaptureResponses(c.object.All())
	if err != nil {
		return answer{}, err
	}
	p, v, err := c.h.service.CreatePresetVersion(c.r.Context(), c.who, c.workspace, c.params[0], capture)
	if err != nil {
		return answer{}, err
	}
	c.note("workspace_id", p.WorkspaceID)
	c.note("version", strconv.Itoa(v.Version))
	c.h.metrics.versions.Inc()
	data, err := domain.PresetJSON(p, v)
	return answer{http.StatusOK, data}, err
}

func createWorkspace(c *call) (answer, error) {
	var in domain.NewWorkspace
	if err := jsonv2.Unmarshal(c.body, &in); err != nil {
		return answer{}, err
	}
	w, err := c.h.service.CreateWorkspace(c.r.Context(), c.who, in)
	if err != nil {
		return answer{}, err
	}
	return c.workspaceAnswer(http.StatusCreated, w)
}

func getWorkspace(c *call) (answer, error) {
	w, err := c.h.service.Workspace(c.r.Context(), c.who, c.params[0])
	if err != nil {
		return answer{}, err
	}
	return c.workspaceAnswer(http.StatusOK, w)
}

func (c *call) workspaceAnswer(status int, w domain.Workspace) (answer, error) {
	c.note("workspace_id", w.ID)
	data, err := w.JSON()
	return answer{status, data}, err
}
