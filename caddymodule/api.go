package caddymodule

import (
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// operation is one row of the route table.
type operation struct {
	name      string // in metrics, logs and placeholders
	method    string
	path      string // below the base path, a pattern of http.ServeMux
	authorize func(domain.Principal) error
	body      requestBody
	run       func(*call) (answer, error)

	inWorkspace bool // it acts in a workspace, which the request may name
}

// requestBody is the body of an operation. Without a schema no body is read.
type requestBody struct {
	*schema.Schema
	isOptional bool
}

// routes returns all operations (specification, "Endpoints").
func (h *Handler) routes(schemas *schema.Schemas) []operation {
	const get, post, put, patch, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete
	manage, create := domain.Principal.CheckManagement, h.checkCreation
	body := func(s *schema.Schema) requestBody { return requestBody{s, false} }
	none, reference := requestBody{}, requestBody{schemas.WorkspaceReference, true}
	return []operation{
		{"preset_list", get, "presets", anyone, none, listPresets, true},
		{"preset_get", get, "presets/{slug}", anyone, none, getPreset, true},
		{"preset_update", patch, "presets/{slug}", manage, body(schemas.UpdatePreset), updatePreset, true},
		{"preset_archive", del, "presets/{slug}", manage, reference, archivePreset, true},
		{"preset_restore", post, "presets/{slug}/restore", manage, reference, restorePreset, true},
		{"preset_create_responses", post, "presets/{slug}/responses", create, body(schemas.ResponsesRequest), createPresetFrom(domain.Responses), true},
		{"preset_create_chat", post, "presets/{slug}/chat/completions", create, body(schemas.ChatRequest), createPresetFrom(domain.Chat), true},
		{"preset_create_messages", post, "presets/{slug}/messages", create, body(schemas.MessagesRequest), createPresetFrom(domain.Messages), true},
		{"preset_designate", post, "presets/{slug}/designate", manage, body(schemas.Designate), designateVersion, true},
		{"preset_diff", get, "presets/{slug}/diff", anyone, none, diffVersions, true},
		{"preset_history", get, "presets/{slug}/history", manage, none, presetHistory, true},
		{"preset_usage", get, "presets/{slug}/usage", anyone, none, presetUsage, true},
		{"preset_feedback", post, "presets/{slug}/feedback", anyone, body(schemas.Feedback), giveFeedback, true},
		{"version_list", get, "presets/{slug}/versions", anyone, none, listVersions, true},
		{"version_get", get, "presets/{slug}/versions/{version}", anyone, none, getVersion, true},
		{"label_get", get, "presets/{slug}/labels/{label}", anyone, none, getLabel, true},
		{"label_put", put, "presets/{slug}/labels/{label}", manage, body(schemas.Label), putLabel, true},
		{"label_delete", del, "presets/{slug}/labels/{label}", manage, reference, deleteLabel, true},
		{"workspace_list", get, "workspaces", manage, none, listWorkspaces, false},
		{"workspace_create", post, "workspaces", domain.Principal.CheckManagementOfAll, body(schemas.CreateWorkspace), createWorkspace, false},
		{"workspace_get", get, "workspaces/{workspace}", manage, none, getWorkspace, false},
		{"workspace_update", patch, "workspaces/{workspace}", manage, body(schemas.UpdateWorkspace), updateWorkspace, false},
		{"workspace_delete", del, "workspaces/{workspace}", manage, none, deleteWorkspace, false},
		{"workspace_usage", get, "workspaces/{workspace}/usage", manage, none, workspaceUsage, false},
		{"workspace_history", get, "workspaces/{workspace}/history", manage, none, workspaceHistory, false},
	}
}

// unknownOperation labels requests at API paths that match no operation.
const unknownOperation = "unknown"

// anyone allows an operation to every live key.
func anyone(domain.Principal) error { return nil }

func (h *Handler) checkCreation(who domain.Principal) error {
	if h.PresetCreators == creatorsAny {
		return who.CheckCreationAsInference()
	}
	return who.CheckManagement()
}

// call is one request to an operation of ours.
type call struct {
	h     *Handler
	w     http.ResponseWriter
	r     *http.Request
	start time.Time

	repl *caddy.Replacer // nil outside of Caddy
	id   string          // see requestID

	envelope func(problem) any // of errors

	op      operation
	who     domain.Principal
	given   parameters
	body    []byte           // nil until it was read whole
	members []rawjson.Member // the members of body

	pageSize int64 // taken from versionPages until the answer is sent
}

func (h *Handler) newCall(w http.ResponseWriter, r *http.Request) call {
	c := call{h: h, w: w, r: r, start: time.Now(), envelope: newEnvelope, op: operation{name: unknownOperation}}
	c.repl, _ = r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	return c
}

// serveAPI answers a request to the API.
func (h *Handler) serveAPI(w http.ResponseWriter, r *http.Request) {
	c := h.newCall(w, r)
	defer c.releasePage()
	a, err := c.serve()
	status := c.render(a, err)
	h.metrics.countRequest(c.op.name, status, time.Since(c.start))
}

// serve runs the operation of a request: match, authenticate, authorize, read, validate,
// run. It never reads the body of a stranger.
func (c *call) serve() (answer, error) {
	err := c.match()
	c.setPlaceholder(operationPlaceholder, c.op.name)
	if err != nil {
		return answer{}, err
	}
	if err := c.authenticate(); err != nil {
		return answer{}, err
	}
	if err := c.op.authorize(c.who); err != nil {
		return answer{}, err
	}
	if err := c.readParameters(); err != nil {
		return answer{}, err
	}
	if err := c.readBody(); err != nil { // and validates it
		return answer{}, err
	}
	a, err := c.op.run(c)
	if err != nil {
		return a, err
	}
	if c.op.method == http.MethodGet {
		return c.checkConditional(a)
	}
	c.listIgnored()
	return a, nil
}

// newMux returns the mux that finds the operation of a request.
func newMux(basePath string, operations []operation) *http.ServeMux {
	mux := http.NewServeMux()
	for i := range operations {
		op := &operations[i]
		mux.HandleFunc(op.method+" "+basePath+"/"+op.path, func(w http.ResponseWriter, _ *http.Request) {
			w.(*matchWriter).op = op
		})
	}
	return mux
}

// matchWriter takes the answer of the mux: an operation, or a status and headers.
type matchWriter struct {
	op     *operation
	status int
	header http.Header
}

func (m *matchWriter) Header() http.Header {
	if m.header == nil {
		m.header = make(http.Header)
	}
	return m.header
}

func (m *matchWriter) WriteHeader(status int) { m.status = status }

func (*matchWriter) Write(text []byte) (int, error) { return len(text), nil }

// match finds the operation of the path and method. Another method at the path of an
// operation is 405, everything else 404.
func (c *call) match() error {
	var m matchWriter
	c.h.mux.ServeHTTP(&m, c.r)
	switch {
	case m.op != nil:
		c.op = *m.op
		return nil
	case m.status == http.StatusMethodNotAllowed:
		c.w.Header().Set("Allow", m.header.Get("Allow"))
		return errMethodNotAllowed
	default: // also where the mux redirects to a path without empty segments
		return errNoResource
	}
}

var errNoResource = &domain.Error{Kind: domain.NotFound, Message: "Resource not found"}
