package caddymodule

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/caddymodule/client"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/heldbody"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/ownkeys"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/requestpath"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/trial"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/domain/inference/draft"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// dryRunHeader asks for what would go upstream, without sending it.
const dryRunHeader = "X-Preset-Dry-Run"

func (c *inferenceCall) readDryRun() error {
	values := c.r.Header.Values(dryRunHeader)
	switch {
	case len(values) == 0, len(values) == 1 && strings.EqualFold(values[0], "false"):
	case len(values) == 1 && strings.EqualFold(values[0], "true"):
		c.dryRun = true
	default: // a misspelt dry run must not cost money
		return domain.InvalidAt("x-preset-dry-run", "must be true or false")
	}
	return nil
}

// describe answers a dry run with a client.DryRun.
func (c *inferenceCall) describe(resolution inference.Resolution) (response, error) {
	text, err := c.held.Join()
	if err != nil {
		return response{}, err
	}
	if !utf8.Valid(text) {
		return response{}, domain.InvalidAt("", "is not UTF-8, which an answer in JSON cannot hold")
	}
	resolution.Body = draft.Body{text}
	fields, err := resolution.Fields()
	if err != nil {
		return response{}, err
	}
	origins := client.DryRunOrigins{
		Fields:  make(map[string]client.DryRunField, len(fields)),
		Dropped: append([]string{}, resolution.Dropped...), Enforced: append([]string{}, resolution.Enforced...),
	}
	for _, field := range fields {
		origin := client.DryRunField{From: string(field.From)}
		if field.From == draft.FromPreset || field.From == draft.FromVariable {
			origin.Preset = &resolution.Preset
			if c.trial == nil {
				origin.Version = &resolution.Version
			}
		}
		origins.Fields[field.Name] = origin
	}
	before, err := jsonv2.Marshal(client.DryRunTarget{Method: c.r.Method, Path: c.r.URL.RequestURI()})
	if err != nil {
		return response{}, err
	}
	after, err := jsonv2.Marshal(origins, jsonv2.Deterministic(true))
	if err != nil {
		return response{}, err
	}
	// The body may be large, so it is quoted once, into the buffer that is sent.
	const begin, body, end = `{"data":`, `,"body":`, `}`
	data, err := c.held.Alloc(int64(len(begin) + len(before) + len(body) + rawjson.QuotedSize(text) + len(after) + len(end)))
	if err != nil {
		return response{}, err
	}
	data = append(append(append(data, begin...), before[:len(before)-1]...), body...)
	if data, err = jsontext.AppendQuote(data, text); err != nil {
		return response{}, err
	}
	data = append(append(append(data, ','), after[1:]...), end...)
	return response{status: http.StatusOK, body: data}, nil // without an ETag: it is no stored object
}

// trying is what an inference request has that tries a version that is not stored.
type trying struct {
	*inference.Trial
	dialect     domain.Dialect
	workspaceID string // in which the management key tries it
	request     []byte
}

var errNoTrialKey = &domain.Error{Kind: domain.Unauthenticated, Message: "Missing header " + ownkeys.TrialHeader + ": a request to the gateway needs an inference key"}

var errNoInference = &domain.Error{Kind: domain.NotFound, Message: "This server resolves no inference requests: its configuration has no inference block"}

// tryVersion prepares a call that goes on as an inference request, after all that concerns the management key.
func tryVersion(c *call) (response, error) {
	if c.h.Inference == nil {
		return response{}, errNoInference
	}
	workspaceID, err := c.h.Inference.resolver.WorkspaceID(c.r.Context(), c.who)
	if c.given.workspace != "" {
		var in domain.Found
		in, err = c.h.service.Workspace(c.r.Context(), c.who, c.given.workspace)
		workspaceID = in.WorkspaceID
	}
	if err != nil {
		return response{}, err
	}
	body, err := trial.Read(c.h.schemas, c.members, c.given.isTemplate)
	if err != nil {
		return response{}, err
	}
	version, err := c.h.Inference.resolver.NewTrial(c.slug(), body.Capture)
	if err != nil {
		return response{}, trial.Within("version", err)
	}
	c.trial = &trying{version, body.Capture.Dialect, workspaceID, body.Request}
	c.members, c.op.body.Schema = body.Version, body.Schema // of which unknown ones are listed
	return response{}, nil
}

// tryOn serves the inference request of a trial. It leaves both keys out of what goes upstream.
func (c *call) tryOn(next caddyhttp.Handler) error {
	r := c.r
	c.body, c.members = nil, nil // the gateway may take its time
	sent := ownkeys.Credentials{ownkeys.SentValues(r, ownkeys.TrialHeader)}
	r.Header.Del("Authorization")
	r.Header.Del(ownkeys.TrialHeader)
	requestpath.StripUpgrade(r)
	c.h.finder.StripOwnKeys(r)
	at := url.URL{Path: c.h.BasePath + "/" + string(c.trial.dialect)}
	r.URL, r.RequestURI = &at, at.RequestURI()
	on := c.h.newInferenceCall(c.w, r, at.Path, sent)
	on.route, on.trial = inferenceRouteOf(on.path), c.trial
	return on.serve(next)
}

// version returns the version of a trial, nil without one.
func (t *trying) version() *inference.Trial {
	if t == nil {
		return nil
	}
	return t.Trial
}

// check returns an error if the inference key of a trial acts in another workspace than its management key.
func (t *trying) check(c *inferenceCall) error {
	if t == nil {
		return nil
	}
	home, err := c.h.Inference.resolver.WorkspaceID(c.r.Context(), c.who)
	if err == nil && home != t.workspaceID {
		err = domain.InvalidAt(strings.ToLower(ownkeys.TrialHeader), "acts in another workspace than the preset that is tried")
	}
	return err
}

// readSent returns the request's body. That of a trial was read with the trial.
func (c *inferenceCall) readSent() (body []byte, err error) {
	most := c.h.Inference.MaxBodySize
	if c.trial == nil {
		return c.read(most, &c.held.Reservation)
	}
	size := int64(len(c.trial.request))
	if size > most {
		return nil, heldbody.ErrTooLarge
	}
	body, err = c.held.ReadAll(bytes.NewReader(c.trial.request), size, most)
	c.trial.request, c.isRead = nil, true
	return body, err
}
