package caddymodule

import (
	"errors"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/envelope"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/heldbody"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/modellist"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/reference"
)

// modelPath is a preset that the path of a model names.
type modelPath struct {
	id    string // as it is written
	model string // before the reference, or empty
	ref   reference.Ref
}

// presetOf returns the preset that a path of a model names, below the base path. Clients
// send the slashes of its id escaped or not, which a decoded path does not tell.
func presetOf(path string) (named modelPath, ok bool) {
	named.id, ok = strings.CutPrefix(path, "models/")
	model, text, found := reference.Cut(named.id)
	named.model = model
	named.ref.Slug, named.ref.Pin, _ = strings.Cut(text, "@")
	return named, ok && found && !strings.Contains(text, "/")
}

// serveModel answers a GET of one model, a preset, with its entry in the list of models. It asks the
// gateway for the list, which decides the entry's form and figures. A refusal of the gateway passes as
// the answer, and so does a body that is not JSON.
func (c *inferenceCall) serveModel(next caddyhttp.Handler, named modelPath) error {
	if !c.mayReadModels("model_get") {
		return nil
	}
	ofList := *c.r.URL
	ofList.Path, ofList.RawPath = c.h.BasePath+"/models", ""
	if modellist.ReadsAnthropic(c.r.Header) && ofList.RawQuery == "" { // else the model may be on another page
		ofList.RawQuery = "limit=1000"
	}
	c.r.URL, c.r.RequestURI = &ofList, ofList.RequestURI()
	list := c.newListWriter()
	defer list.Free()
	missing, err := list.FetchSoon(next, c.r)
	if err != nil || !list.IsList() {
		return err
	}
	c.logMissing(missing)
	entry, err := c.findModel(list, named)
	if errors.Is(err, heldbody.ErrNoMemory) {
		list.Refuse(err)
	} else {
		modellist.Describe(c.w.Header(), len(entry))
	}
	c.render(response{status: http.StatusOK, body: entry}, err)
	return nil
}

// findModel returns the entry of a preset for a model list: the gateway's own, or ours. The
// error is NotFound if there is no such preset, if it runs another model than the path names, or if
// it is not a list to edit. It is heldbody.ErrNoMemory if there is no memory for the list.
func (c *inferenceCall) findModel(fetched *modellist.Writer, named modelPath) ([]byte, error) {
	list, err := fetched.Read()
	switch {
	case errors.Is(err, heldbody.ErrNoMemory):
		return nil, err
	case err != nil:
		return nil, &domain.Error{Kind: domain.NotFound, Message: "Model not found: " + named.id + ". The gateway's list of models has a form to which no presets are added"}
	case named.ref.Pin != "" && c.h.Inference.ListModels != listLabels:
		return nil, errNoPreset(named.id)
	}
	p, err := c.h.Inference.resolver.ActivePreset(c.r.Context(), c.who, named.ref)
	switch {
	case err != nil:
		return nil, err
	case named.model != "" && named.model != p.Model:
		return nil, errNoPreset(named.id)
	}
	return list.Model(p), nil
}

func errNoPreset(id string) error {
	return &domain.Error{Kind: domain.NotFound, Code: domain.PresetNotFound, Message: "Preset not found: " + id}
}

// logMissing logs why the gateway has no list of models, if it has none.
func (c *inferenceCall) logMissing(missing error) {
	if missing != nil {
		c.h.logger.Warn("the list of models has presets alone", zap.String("request_id", c.requestID()), zap.Error(missing))
	}
}

// newListWriter returns the writer for a request for models, of which the caller calls Free.
func (c *inferenceCall) newListWriter() *modellist.Writer {
	return modellist.NewWriter(c.w, c.h.Inference.MaxMemory/2, c.limitWriting) // bodies always have the other half
}

// limitModels lets next answer a GET of the model list, and leaves out the models that the caller's key
// may not use.
func (c *inferenceCall) limitModels(next caddyhttp.Handler) error {
	list := c.newListWriter()
	defer list.Free()
	return c.sendList(list, nil, list.Fetch(next, c.r))
}

// sendList sends a fetched list with presets, or what came of it before err.
func (c *inferenceCall) sendList(list *modellist.Writer, presets modellist.Presets, err error) error {
	if err != nil {
		_ = list.Release() // as far as it came
		return err
	}
	refused, failed := list.Edit(c.who, presets)
	if refused != nil {
		c.render(response{}, refused)
	}
	if failed != nil && !hungUp(c.r.Context(), failed) {
		c.logFailure(failed)
	}
	return nil
}

// mayReadModels authenticates a request for models, and checks that its key may send it.
// Else it answers the request.
func (c *inferenceCall) mayReadModels(operation string) bool {
	shown := c.envelope
	if modellist.ReadsAnthropic(c.r.Header) {
		shown = envelope.NewMessages
	}
	c.setOperation(operation, shown)
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

// serveModels lets the gateway list its models and adds the caller's presets. They are on the last page,
// so nothing is behind a preset, and no preset is before a model.
func (c *inferenceCall) serveModels(next caddyhttp.Handler) error {
	if !c.mayReadModels("models_list") {
		return nil
	}
	list := c.newListWriter()
	defer list.Free()
	query := c.r.URL.Query()
	if strings.Contains(query.Get("after_id")+query.Get("before_id"), domain.ReferenceMark) {
		list.Empty(c.r)
		return c.sendList(list, nil, nil)
	}
	if query.Has("before_id") {
		return c.sendList(list, nil, list.Fetch(next, c.r))
	}
	missing, err := list.FetchSoon(next, c.r)
	c.logMissing(missing)
	presets := c.h.Inference.resolver.ActivePresets(c.r.Context(), c.who, c.h.Inference.ListModels == listLabels)
	return c.sendList(list, modellist.Presets(presets), err)
}
