package caddymodule

import (
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/envelope"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/router"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

type operation struct {
	name      string // in metrics, logs and placeholders
	method    string
	path      string // below the base path, as router.Router takes it
	authorize func(domain.Principal) error
	body      requestBody
	run       func(*call) (response, error)
	traits    traits
	query     string // the names of its parameters, with spaces between, besides those of traits
}

// requestBody is the body of an operation. Without a schema no body is read.
type requestBody struct {
	*schema.Schema
	isOptional bool
	template   *schema.Schema // in the place of Schema with ?template=true, or nil
}

// traits are properties of an operation.
type traits uint8

const (
	// inWorkspace is for operations in a workspace, which the request may name.
	inWorkspace traits = 1 << iota
	// changes is for operations that change what is stored. Most put something live or remove
	// it, so they refuse parameters that they do not know: designated=false would be lost.
	changes
	// paged is for lists, which have the parameters offset and limit.
	paged
	// ofKeys is for operations on keys, at paths that are ours with key_api alone. Keys have no
	// entity tags, and no response about them is kept for a repeated request.
	ofKeys
)

func (op operation) is(t traits) bool { return op.traits&t != 0 }

// parameters returns the names of its parameters in the query.
func (op operation) parameters() []string {
	names := strings.Fields(op.query)
	if op.is(inWorkspace) {
		names = append(names, "workspace_id")
	}
	if op.is(paged) {
		names = append(names, "offset", "limit")
	}
	return names
}

// routes returns all operations (specification, "Endpoints").
func (h *Handler) routes(schemas *schema.Schemas) []operation {
	const get, post, put, patch, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete
	manage, create := domain.Principal.CheckManagement, h.checkCreation
	body := func(s *schema.Schema) requestBody { return requestBody{s, false, nil} }
	capture := func(s, template *schema.Schema) requestBody { return requestBody{s, false, template} }
	const release, report = "designate template label message", "from to step by"
	none, reference := requestBody{}, requestBody{schemas.WorkspaceReference, true, nil}
	issue := domain.Principal.CheckIssueKeys
	return []operation{
		{"preset_list", get, "presets", anyone, none, listPresets, inWorkspace | paged, "q status sort order"},
		{"preset_get", get, "presets/{slug}", anyone, none, getPreset, inWorkspace, ""},
		{"preset_update", patch, "presets/{slug}", manage, body(schemas.UpdatePreset), updatePreset, inWorkspace | changes, ""},
		{"preset_archive", del, "presets/{slug}", manage, reference, archivePreset, inWorkspace | changes, ""},
		{"preset_restore", post, "presets/{slug}/restore", manage, reference, restorePreset, inWorkspace | changes, ""},
		{"preset_create_responses", post, "presets/{slug}/responses", create, capture(schemas.ResponsesRequest, schemas.ResponsesTemplate), createPresetFrom(domain.Responses), inWorkspace | changes, release},
		{"preset_create_chat", post, "presets/{slug}/chat/completions", create, capture(schemas.ChatRequest, schemas.ChatTemplate), createPresetFrom(domain.Chat), inWorkspace | changes, release},
		{"preset_create_messages", post, "presets/{slug}/messages", create, capture(schemas.MessagesRequest, schemas.MessagesTemplate), createPresetFrom(domain.Messages), inWorkspace | changes, release},
		{"preset_designate", post, "presets/{slug}/designate", manage, body(schemas.Designate), designateVersion, inWorkspace | changes, ""},
		{"preset_diff", get, "presets/{slug}/diff", anyone, none, diffVersions, inWorkspace, "from to"},
		{"preset_history", get, "presets/{slug}/history", manage, none, presetHistory, inWorkspace | paged, ""},
		{"preset_usage", get, "presets/{slug}/usage", anyone, none, presetUsage, inWorkspace, report + " label since"},
		{"preset_feedback", post, "presets/{slug}/feedback", anyone, body(schemas.Feedback), giveFeedback, inWorkspace, ""},
		{"version_list", get, "presets/{slug}/versions", anyone, none, listVersions, inWorkspace | paged, "fields"},
		{"version_get", get, "presets/{slug}/versions/{version}", anyone, none, getVersion, inWorkspace, ""},
		{"label_get", get, "presets/{slug}/labels/{label}", anyone, none, getLabel, inWorkspace | paged, ""},
		{"label_put", put, "presets/{slug}/labels/{label}", manage, body(schemas.Label), putLabel, inWorkspace | changes, ""},
		{"label_delete", del, "presets/{slug}/labels/{label}", manage, reference, deleteLabel, inWorkspace | changes, ""},
		{"workspace_list", get, "workspaces", manage, none, listWorkspaces, paged, ""},
		{"workspace_create", post, "workspaces", domain.Principal.CheckManagementOfAll, body(schemas.CreateWorkspace), createWorkspace, changes, ""},
		{"workspace_get", get, "workspaces/{workspace}", manage, none, getWorkspace, 0, ""},
		{"workspace_update", patch, "workspaces/{workspace}", manage, body(schemas.UpdateWorkspace), updateWorkspace, changes, ""},
		{"workspace_delete", del, "workspaces/{workspace}", manage, none, deleteWorkspace, changes, "confirm_default_workspace_deletion"},
		{"budget_list", get, "workspaces/{workspace}/budgets", manage, none, listBudgets, 0, ""},
		{"budget_get", get, "workspaces/{workspace}/budgets/{interval}", manage, none, getBudget, 0, ""},
		{"budget_put", put, "workspaces/{workspace}/budgets/{interval}", manage, body(schemas.Budget), putBudget, changes, ""},
		{"budget_delete", del, "workspaces/{workspace}/budgets/{interval}", manage, none, deleteBudget, changes, ""},
		{"workspace_usage", get, "workspaces/{workspace}/usage", manage, none, workspaceUsage, 0, report},
		{"workspace_history", get, "workspaces/{workspace}/history", manage, none, workspaceHistory, paged, ""},
		{"own_key_get", get, "key", anyone, none, getOwnKey, ofKeys, ""},
		{"keys_list", get, "keys", issue, none, listKeys, inWorkspace | ofKeys, "include_disabled offset limit"},
		{"keys_create", post, "keys", issue, body(schemas.CreateKey), createKey, changes | ofKeys, ""},
		{"keys_get", get, "keys/{hash}", issue, none, getKey, ofKeys, ""},
		{"keys_update", patch, "keys/{hash}", issue, body(schemas.UpdateKey), updateKey, changes | ofKeys, ""},
		{"keys_delete", del, "keys/{hash}", issue, none, deleteKey, changes | ofKeys, ""},
		{"keys_rotate", post, "keys/{hash}/rotate", issue, requestBody{schemas.RotateKey, true, nil}, rotateKey, changes | ofKeys, ""},
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
	h      *Handler
	w      http.ResponseWriter // nil for a request of this process itself
	header http.Header         // of the response
	r      *http.Request
	start  time.Time

	repl  *caddy.Replacer // nil outside of Caddy
	inert []string        // fields of the body that are stored and have no effect here
	id    string          // see requestID

	envelope func(envelope.Problem) any // of errors

	found   router.Match[operation]
	op      operation
	who     domain.Principal
	given   parameters
	body    []byte           // of an operation
	members []rawjson.Member // the members of body
	isRead  bool             // the request's body was read whole

	pageSize int64 // taken from versionPages until the answer is sent
}

func (h *Handler) newCall(w http.ResponseWriter, r *http.Request) call {
	c := call{h: h, w: w, r: r, start: time.Now(), envelope: envelope.NewAPI, op: operation{name: unknownOperation}}
	if w != nil {
		c.header = w.Header()
	}
	c.repl, _ = r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	return c
}

func (h *Handler) serveAPI(w http.ResponseWriter, r *http.Request) {
	c := h.newCall(w, r)
	defer c.releasePage()
	status := c.render(c.serve())
	h.metrics.CountRequest(c.op.name, status, time.Since(c.start))
}

// serve runs the operation of a request: match, authenticate, authorize, read, validate,
// run. It keeps nothing of the body of a stranger.
func (c *call) serve() (response, error) {
	err := c.match()
	c.setPlaceholder(operationPlaceholder, c.op.name)
	if err != nil {
		return response{}, err
	}
	if err := c.authenticate(); err != nil {
		return response{}, err
	}
	if err := c.op.authorize(c.who); err != nil {
		return response{}, err
	}
	if err := c.readParameters(); err != nil {
		return response{}, err
	}
	if err := c.readBody(); err != nil { // and validates it
		return response{}, err
	}
	a, err := c.op.run(c)
	if err != nil {
		return a, err
	}
	c.listIgnored()
	if c.op.method == http.MethodGet {
		return c.checkConditional(a)
	}
	return a, nil
}

// newRouter returns the router that finds the operation of a request, of keys if these are wanted.
func newRouter(basePath string, operations []operation, withKeys bool) *router.Router[operation] {
	rt := new(router.Router[operation])
	for _, op := range operations {
		if op.is(ofKeys) && !withKeys {
			continue
		}
		rt.Add(op.method, basePath+"/"+op.path, op)
	}
	return rt
}

// match finds the operation of the path and method. Another method at the path of an
// operation is 405, everything else 404.
func (c *call) match() error {
	c.found = c.h.router.Find(c.r)
	switch {
	case c.found.Op != nil:
		c.op = *c.found.Op
		return nil
	case c.found.Allow != "":
		c.header.Set("Allow", c.found.Allow)
		return errMethodNotAllowed
	default:
		return errNoResource
	}
}

var errNoResource = &domain.Error{Kind: domain.NotFound, Message: "Resource not found"}
