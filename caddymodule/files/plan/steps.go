package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/domain"
)

// condition is the header that keeps a change of somebody else from being overwritten.
type condition struct{ name, value string }

// ifNew holds if the object does not exist.
var ifNew = condition{"If-None-Match", "*"}

func ifMatch(tag string) condition { return condition{"If-Match", tag} }

// sequence are the requests about one object, one after another.
type sequence struct {
	*applier
	workspaceID string
	slug        string // empty for a workspace
	// tag is the entity tag after the last request. isNew is set until there was one about
	// an object that does not exist.
	tag   string
	isNew bool
}

// send sends a request on behalf of the owner. A request that has begun is completed, also
// if ctx ends.
func (s *sequence) send(ctx context.Context, r client.Request, only condition) (*client.Response, error) {
	if ctx.Err() != nil {
		return nil, errStopped
	}
	if only.name != "" && only.value == "" {
		return nil, fmt.Errorf("the server sent no ETag, which %s needs: a proxy may have removed it", only.name)
	}
	if s.slug != "" {
		query := in(s.workspaceID)
		maps.Copy(query, r.Query)
		r.Query = query
	}
	r.Header = http.Header{
		"X-Preset-Owner":  {s.plan.Owner},
		"Idempotency-Key": {uuid.NewString()},
	}
	if only.name != "" {
		r.Header.Set(only.name, only.value)
	}
	return s.plan.client.Do(context.WithoutCancel(ctx), r)
}

// condition returns the condition that the preset is as the last request left it.
func (s *sequence) condition() condition {
	if s.isNew {
		return ifNew
	}
	return ifMatch(s.tag)
}

func (s *sequence) update(ctx context.Context, c *Change) error {
	if c.patchFirst {
		if err := s.patch(ctx, c); err != nil {
			return err
		}
	}
	latest := c.latest
	first := latest - len(c.earlier) // the number of the first version that is made
	for i := range c.earlier {
		if err := s.setLabels(ctx, c, first+i); err != nil {
			return err
		}
		if _, err := s.post(ctx, c, &c.earlier[i], true); err != nil {
			return err
		}
	}
	switch {
	case c.version != nil:
		err := s.setLabels(ctx, c, latest)
		if err != nil {
			return err
		}
		if latest, err = s.post(ctx, c, c.version, false); err != nil {
			return err
		}
	case c.Designate != 0:
		if _, err := s.changePreset(ctx, client.Request{
			Method: http.MethodPost, Path: client.PresetPath(c.Slug, "designate"), Body: fmt.Appendf(nil, `{"version":%d}`, c.Designate),
		}); err != nil {
			return err
		}
	}
	if c.patch != nil && !c.patchFirst {
		if err := s.patch(ctx, c); err != nil {
			return err
		}
	}
	if err := s.setInputs(ctx, c); err != nil {
		return err
	}
	for i := range c.Labels {
		if l := &c.Labels[i]; !l.done {
			only := ifNew
			if l.From != nil {
				only = ifMatch(l.tag)
			}
			if err := s.setLabel(ctx, c, l, latest, only); err != nil {
				return err
			}
		}
	}
	return nil
}

// setLabels sets and removes labels before a version of a number is made, if they name only versions
// that exist. Making one may remove old versions that no label names.
func (s *sequence) setLabels(ctx context.Context, c *Change, number int) error {
	for i := range c.Labels {
		l := &c.Labels[i]
		if !l.isPossible(number) {
			continue
		}
		if err := s.setLabelFirst(ctx, c, l); err != nil {
			return err
		}
		l.done = true
	}
	return nil
}

// setLabelFirst sets or removes a label, and takes the preset's new tag for the next request.
// It is a conflict if somebody else changed the preset before that tag was read.
func (s *sequence) setLabelFirst(ctx context.Context, c *Change, l *LabelChange) error {
	r := &reader{client: s.plan.client}
	before, err := r.countChanges(ctx, s.workspaceID, c.Slug)
	if err != nil {
		return orStopped(ctx, err)
	}
	if err := s.setLabel(ctx, c, l, 0, s.condition()); err != nil {
		return err
	}
	p, err := r.preset(ctx, s.workspaceID, c.Slug)
	if err != nil {
		return orStopped(ctx, err)
	}
	after, err := r.countChanges(ctx, s.workspaceID, c.Slug)
	if err != nil {
		return orStopped(ctx, err)
	}
	if after != before+1 {
		return errChanged
	}
	s.tag = p.tag
	return nil
}

// changePreset sends a request that changes the preset, and takes its new tag.
func (s *sequence) changePreset(ctx context.Context, r client.Request) (*client.Response, error) {
	response, err := s.send(ctx, r, s.condition())
	if err != nil {
		return nil, err
	}
	s.tag, s.isNew = response.Tag(), false
	return response, nil
}

func (s *sequence) patch(ctx context.Context, c *Change) error {
	_, err := s.changePreset(ctx, client.Request{Method: http.MethodPatch, Path: client.PresetPath(c.Slug), Body: c.patch})
	return err
}

// post makes a version and returns its number. A draft is not designated, unless it is the
// first version of a preset.
func (s *sequence) post(ctx context.Context, c *Change, v *files.Version, draft bool) (int, error) {
	message := domain.ValueOr(v.Message, "")
	if v.Message == nil && !draft {
		message = s.message
	}
	response, err := s.changePreset(ctx, VersionRequest(c.Slug, v, message, draft && !s.isNew))
	if err != nil {
		return 0, err
	}
	made, err := MadeVersion(response, v)
	return made.Version, err
}

// VersionRequest returns the request that makes a version of a preset, which may be a draft. An empty
// message is none.
func VersionRequest(slug string, v *files.Version, message string, isDraft bool) client.Request {
	query := make(url.Values)
	if isDraft {
		query.Set("designate", "false")
	}
	if v.Capture.Template != nil {
		query.Set("template", "true")
	}
	if message != "" {
		query.Set("message", message)
	}
	return client.Request{Method: http.MethodPost, Path: client.PresetPath(slug) + "/" + string(v.Capture.Dialect), Query: query, Body: v.Request}
}

// MadeVersion returns the version that a response to VersionRequest has. It returns an error, too, if
// the server stored it differently: each run would make another one, so it must not look like success.
func MadeVersion(response *client.Response, v *files.Version) (client.Version, error) {
	var p client.Preset
	if err := client.Decode(response.Data, &p); err != nil {
		return client.Version{}, err
	}
	made := p.Made()
	if files.SameCapture(made.Capture(), v.Capture) {
		return made, nil
	}
	return made, fmt.Errorf("the server stored version %d differently, and may be older than this program: %s", made.Version,
		cmp.Or(response.Header.Get("X-Preset-Ignored"), "compare the two"))
}

// setLabel gives a label its target, or removes it. latest is the number of the file's version.
func (s *sequence) setLabel(ctx context.Context, c *Change, l *LabelChange, latest int, only condition) error {
	r := client.Request{Method: http.MethodDelete, Path: client.PresetPath(c.Slug, "labels", l.Label)}
	if l.To != nil {
		body, err := json.Marshal(withNumber(*l.To, files.Latest, files.Number(latest)))
		if err != nil {
			return err
		}
		r.Method, r.Body = http.MethodPut, body
	}
	_, err := s.send(ctx, r, only)
	return err
}
