package caddymodule

import (
	"net/http"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/heldbody"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/mediatype"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/status"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema"
)

// readBody reads and validates the body, if the operation takes one.
func (c *call) readBody() (err error) {
	body := c.op.body
	if body.Schema == nil || body.isOptional && c.r.ContentLength == 0 {
		return nil
	}
	if c.body, err = c.readJSON(); err != nil {
		return err
	}
	if body.isOptional && len(c.body) == 0 { // sent in chunks, and empty
		return nil
	}
	check := body.Schema
	if c.given.isTemplate {
		check = body.template
	}
	if c.members, err = check.Check(c.body); err != nil {
		return err
	}
	if body.isOptional && c.op.is(inWorkspace) {
		return c.readWorkspaceReference()
	}
	return nil
}

func (c *call) decode(value any) error { return schema.Decode(c.body, value) }

// decoded returns an operation that takes its body.
func decoded[T any](run func(*call, T) (response, error)) func(*call) (response, error) {
	return func(c *call) (response, error) {
		var body T
		if err := c.decode(&body); err != nil {
			return response{}, err
		}
		return run(c, body)
	}
}

// readWorkspaceReference takes the workspace from the body. It may be there instead of in
// the query.
func (c *call) readWorkspaceReference() error {
	id, given, err := c.textOf("workspace_id")
	switch {
	case err != nil || !given:
		return err
	case c.given.workspace != "" && id != c.given.workspace:
		return c.checkSameWorkspace(c.given.workspace, id)
	}
	c.given.workspace = id
	return nil
}

// checkSameWorkspace returns an error unless the query and the body name one workspace, of which
// one may be its slug and the other its id.
func (c *call) checkSameWorkspace(inQuery, inBody string) error {
	first, err := c.h.service.Workspace(c.r.Context(), c.who, inQuery)
	if err != nil {
		return err
	}
	second, err := c.h.service.Workspace(c.r.Context(), c.who, inBody)
	if err == nil && first.WorkspaceID != second.WorkspaceID {
		err = domain.InvalidAt("/workspace_id", "must be the same as in the query")
	}
	return err
}

// textOf returns a member of the body that is a string by its schema.
func (c *call) textOf(member string) (text string, given bool, err error) {
	for _, m := range c.members {
		if m.Name == member {
			err = jsonv2.Unmarshal(m.Value, &text)
			return text, true, err
		}
	}
	return "", false, nil
}

// readJSON returns the request's body of at most MaxBodySize. The headers must say JSON.
func (c *call) readJSON() ([]byte, error) {
	if !mediatype.IsJSON(c.r.Header) {
		return nil, &status.Error{Status: http.StatusUnsupportedMediaType, Message: "Unsupported media type: send application/json without a content encoding"}
	}
	return c.read(c.h.MaxBodySize, nil)
}

// read returns the request's body of at most limit bytes, within its time limit. It takes
// its memory from a reservation, which may be nil.
func (c *call) read(limit int64, memory *heldbody.Reservation) (body []byte, err error) {
	body, err = c.h.deadlines.Read(c.w, c.r, limit, memory)
	c.isRead = err == nil
	return body, err
}
