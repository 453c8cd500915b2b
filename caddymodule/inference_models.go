package caddymodule

import (
	"errors"
	"iter"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/heldbody"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/modellist"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
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
	defer list.Free()
	if err := list.Fetch(next, c.r); err != nil || !list.IsList() {
		return err
	}
	entry, err := c.findModel(list, slug)
	if errors.Is(err, heldbody.ErrNoMemory) {
		list.Refuse(err)
	} else {
		modellist.Describe(c.w.Header(), len(entry))
	}
	c.render(response{status: http.StatusOK, body: entry}, err)
	return nil
}

// findModel returns the entry of a preset for a model list: the gateway's own, or ours. The
// error is NotFound if there is no such preset, or it is not a list to edit. It is heldbody.ErrNoMemory if
// there is no memory for the list.
func (c *inferenceCall) findModel(fetched *modellist.Writer, slug string) ([]byte, error) {
	id := domain.Preset{Slug: slug}.Reference()
	list, err := fetched.Read()
	switch {
	case errors.Is(err, heldbody.ErrNoMemory):
		return nil, err
	case err != nil:
		return nil, &domain.Error{Kind: domain.NotFound, Message: "Model not found: " + id + ". The gateway's list of models has a form to which no presets are added"}
	}
	if entry := list.Entry(id); entry != nil && c.who.ReachesPreset(slug) {
		return entry, nil
	}
	p, err := c.h.Inference.resolver.ActivePreset(c.r.Context(), c.who, slug, !list.IsOpenAI())
	if err != nil {
		return nil, err
	}
	return list.AppendModel(nil, p), nil
}

// newListWriter returns the writer for a request for models, of which the caller calls Free.
func (c *inferenceCall) newListWriter() *modellist.Writer {
	return modellist.NewWriter(c.w, c.h.Inference.MaxMemory/2, c.limitWriting) // bodies always have the other half
}

// listModels lets next answer a GET of the model list, and adds presets to the response. If the
// caller's key limits models, the list has only those that it may use. failed is the error of
// presets, and err is next's.
func (c *inferenceCall) listModels(next caddyhttp.Handler, presets modellist.Presets) (failed, err error) {
	list := c.newListWriter()
	defer list.Free()
	if err := list.Fetch(next, c.r); err != nil {
		_ = list.Release() // as far as it came
		return nil, err
	}
	refused, failed := list.Edit(c.who, presets)
	if refused != nil {
		c.render(response{}, refused)
	}
	return failed, nil
}

// mayReadModels authenticates a request for models, and checks that its key may send it.
// Else it answers the request.
func (c *inferenceCall) mayReadModels(operation string) bool {
	c.setOperation(operation, c.envelope)
	err := c.authenticateInference()
	if err == nil && (!isRead(c.r) || c.hidesQuery()) { // it has a body, opens a tunnel, or reads something else
		err = c.checkUnresolvedRoute()
	}
	if err != nil {
		modellist.VaryByKey(c.w.Header())
		c.render(response{}, err)
	}
	return err == nil
}

// serveModels lets the gateway list its models and adds the caller's presets.
func (c *inferenceCall) serveModels(next caddyhttp.Handler) error {
	if !c.mayReadModels("models_list") {
		return nil
	}
	failed, err := c.listModels(next, func(withModels bool) iter.Seq2[inference.ActivePreset, error] {
		return c.h.Inference.resolver.ActivePresets(c.r.Context(), c.who, withModels)
	})
	if failed != nil && !hungUp(c.r.Context(), failed) {
		c.logFailure(failed)
	}
	return err
}
