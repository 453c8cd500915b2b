package caddymodule

import (
	"errors"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-presets/caddy-presets/domain"
)

// presetModels begins the path of a preset as a model, below the base path. Clients
// send the slash of its id escaped or not, which a decoded path does not tell.
var presetModels = "models/" + domain.Preset{}.Reference()

// listedSlug returns the slug of a preset whose model entry has this path, below the
// base path.
func listedSlug(path string) (slug string, ok bool) {
	slug, ok = strings.CutPrefix(path, presetModels)
	return slug, ok && !strings.Contains(slug, "/")
}

// serveModel answers a GET of one model, the preset of a slug, with its entry in the
// list of models. It asks the gateway for the list, which decides the entry's form and
// figures. A refusal of the gateway passes as the answer, and so does a body that is
// not JSON.
func (c *inferenceCall) serveModel(next caddyhttp.Handler, slug string) error {
	if !c.mayReadModels("model_get") {
		return nil
	}
	ofList := *c.r.URL
	ofList.Path, ofList.RawPath = c.h.BasePath+"/models", ""
	c.r.URL, c.r.RequestURI = &ofList, ofList.RequestURI()
	list := c.newListWriter()
	defer list.free()
	if err := list.fetch(next); err != nil || !list.holding && list.refused == nil {
		return err
	}
	entry, err := c.findModel(list, slug)
	if errors.Is(err, errNoMemory) {
		list.refuse(err)
	} else {
		describeEdited(c.w.Header(), len(entry))
	}
	c.render(response{status: http.StatusOK, body: entry}, err)
	return nil
}

// findModel returns the entry of a preset for a model list: the gateway's own, or ours. The
// error is NotFound if there is no such preset, or it is not a list to edit. It is errNoMemory if
// there is no memory for the list.
func (c *inferenceCall) findModel(fetched *listWriter, slug string) ([]byte, error) {
	if fetched.refused != nil {
		return nil, fetched.refused
	}
	id := domain.Preset{Slug: slug}.Reference()
	list, err := readModels(fetched.held, &fetched.memory)
	switch {
	case errors.Is(err, errNoMemory):
		return nil, err
	case err != nil:
		return nil, &domain.Error{Kind: domain.NotFound, Message: "Model not found: " + id + ". The gateway's list of models has a form to which no presets are added"}
	}
	if entry, listed := list.entries[id]; listed && c.who.ReachesPreset(slug) {
		return entry, nil
	}
	p, err := c.h.service.ActivePreset(c.r.Context(), c.who, slug, !list.isOpenAI())
	if err != nil {
		return nil, err
	}
	return list.appendModel(nil, p), nil
}
