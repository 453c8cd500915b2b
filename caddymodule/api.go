package caddymodule

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema"
)

// operation is one row of the route table.
type operation struct {
	name   string // in metrics, logs and placeholders
	method string
	path   string // below the base path; {} stands for any one segment that is not empty
	may    func(domain.Principal) error
	body   *schema.Schema // nil: no body is read
	run    func(*call) (answer, error)
}

// routes is what we offer (specification, "Endpoints", and the interface that
// it is a part of).
func (h *Handler) routes(schemas *schema.Schemas) []operation {
	const get, post, put, patch, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete
	manage, create := domain.Principal.MayManage, h.mayCreatePresets
	return []operation{
		{"preset_list", get, "presets", anyone, nil, listPresets},
		{"preset_get", get, "presets/{}", anyone, nil, getPreset},
		{"preset_update", patch, "presets/{}", manage, schemas.UpdatePreset, updatePreset},
		{"preset_archive", del, "presets/{}", manage, schemas.WorkspaceReference, archivePreset},
		{"preset_restore", post, "presets/{}/restore", manage, schemas.WorkspaceReference, restorePreset},
		{"preset_create_responses", post, "presets/{}/responses", create, schemas.ResponsesRequest, createPresetFrom(domain.Responses)},
		{"preset_create_chat", post, "presets/{}/chat/completions", create, schemas.ChatRequest, createPresetFrom(domain.Chat)},
		{"preset_create_messages", post, "presets/{}/messages", create, schemas.MessagesRequest, createPresetFrom(domain.Messages)},
		{"preset_designate", post, "presets/{}/designate", manage, schemas.Designate, designateVersion},
		{"preset_diff", get, "presets/{}/diff", anyone, nil, diffVersions},
		{"version_list", get, "presets/{}/versions", anyone, nil, listVersions},
		{"version_get", get, "presets/{}/versions/{}", anyone, nil, getVersion},
		{"label_get", get, "presets/{}/labels/{}", anyone, nil, getLabel},
		{"label_put", put, "presets/{}/labels/{}", manage, schemas.Label, putLabel},
		{"label_delete", del, "presets/{}/labels/{}", manage, schemas.WorkspaceReference, deleteLabel},
		{"workspace_list", get, "workspaces", manage, nil, listWorkspaces},
		{"workspace_create", post, "workspaces", manage, schemas.CreateWorkspace, createWorkspace},
		{"workspace_get", get, "workspaces/{}", manage, nil, getWorkspace},
		{"workspace_update", patch, "workspaces/{}", manage, schemas.UpdateWorkspace, updateWorkspace},
		{"workspace_delete", del, "workspaces/{}", manage, nil, deleteWorkspace},
	}
}

const (
	maxSegments = 4 // of a path in a route table
	maxVariable = 2 // of them
)

// unknownOperation labels requests below our paths that match no row.
const unknownOperation = "unknown"

// anyone may do what takes no more than a live key.
func anyone(domain.Principal) error { return nil }

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
	start time.Time

	repl  *caddy.Replacer // nil without Caddy around us, as notes
	notes *notes
	id    string // see requestID

	envelope func(problem) any // of errors

	op     operation
	params []string // the path's variable segments, decoded; in variable
	who    domain.Principal
	given  parameters
	body   []byte        // nil until it was read whole
	object schema.Object // the members of body

	variable [maxVariable]string

	sent func() // called when the answer was sent, nil for nothing

	// done is what was changed, for those who want to hear of it; nil for
	// nothing.
	done []*domain.AuditRecord
}

func (h *Handler) newCall(w http.ResponseWriter, r *http.Request) call {
	c := call{h: h, w: w, r: r, start: time.Now(), envelope: newEnvelope, op: operation{name: unknownOperation}}
	if c.repl, _ = r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); c.repl != nil {
		c.notes = notesOf(c.repl)
	}
	return c
}

// end is what comes when the answer was sent.
func (c *call) end() {
	if c.sent != nil {
		c.sent()
	}
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
	if err := c.readParameters(); err != nil {
		return answer{}, err
	}
	if err := c.readBody(); err != nil {
		return answer{}, err
	}
	a, err := c.op.run(c)
	if err != nil {
		return a, err
	}
	if c.op.method == http.MethodGet {
		return c.unlessKnown(a)
	}
	c.nameIgnored()
	return a, nil
}

// match finds the operation of the path and method. What we do not offer is
// our 404, a method we do not offer our 405: neither is the gateway's.
func (c *call) match() error {
	if !c.h.below(c.r.URL.Path) { // ours only as a gateway may read it
		return errNoResource
	}
	below := c.r.URL.EscapedPath()
	for range 1 + strings.Count(c.h.BasePath, "/") {
		_, below, _ = strings.Cut(below, "/")
	}
	var room [maxSegments]string
	segments := pathSegments(below, room[:0])
	method := c.r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	var allow []string
	for i := range c.h.operations {
		op := &c.h.operations[i]
		params, ok := matchPath(op.path, segments, c.variable[:0])
		switch {
		case !ok:
		case op.method == method:
			c.op, c.params = *op, params
			return nil
		default:
			allow = append(allow, op.method)
			if op.method == http.MethodGet {
				allow = append(allow, http.MethodHead)
			}
		}
	}
	if allow == nil {
		return errNoResource
	}
	slices.Sort(allow)
	c.w.Header().Set("Allow", strings.Join(allow, ", "))
	return errMethodNotAllowed
}

var errNoResource = &domain.Error{Kind: domain.NotFound, Message: "Resource not found"}

// pathSegments appends the decoded segments of an escaped path to room. It returns
// none where they match nothing: one is empty, or they are more than maxSegments.
func pathSegments(path string, room []string) []string {
	// Split before unescaping: an escaped slash is part of a slug or id.
	for more := true; more; {
		var segment string
		segment, path, more = strings.Cut(path, "/")
		got, err := url.PathUnescape(segment)
		if err != nil || got == "" || len(room) == maxSegments {
			return nil
		}
		room = append(room, got)
	}
	return room
}

// matchPath reports whether segments match the path of a route table, and appends
// those that are variable to params.
func matchPath(path string, segments, params []string) ([]string, bool) {
	for i, got := range segments {
		want, rest, more := strings.Cut(path, "/")
		switch {
		case more != (i < len(segments)-1):
			return nil, false
		case want == "{}":
			params = append(params, got)
		case want != got:
			return nil, false
		}
		path = rest
	}
	return params, len(segments) > 0
}
