package caddymodule

import (
	"cmp"
	"fmt"
	"iter"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/directive"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
)

// Inference resolves presets in inference requests: a POST to
// /chat/completions, /responses or /messages below the base path whose model
// is "@preset/<slug>" or "<model>@preset/<slug>", or that has a field preset,
// goes upstream with the preset merged into it. A slug may be followed by
// "@<version>" or "@<label>". A request that names no preset keeps its very
// bytes. One that uses a server tool that its workspace has disabled is refused.
// /responses/input_tokens and /messages/count_tokens are resolved likewise. On any
// other POST of JSON below the base path, a model that names a preset is refused.
// Other routes are not searched for server tools (see OtherRoutes).
type Inference struct {
	// Which requests need a live inference key of ours. With "everywhere" all
	// that go to the gateway do. With "required" only inference requests do, and
	// other routes are open to everyone. With "optional" other credentials pass,
	// and their requests resolve in the workspace default. With "off" nothing is
	// authenticated, and all requests resolve in the workspace default. A live key
	// acts in its own workspace, unless this is "off". A key of ours never goes
	// upstream. Default: everywhere
	Keys string `json:"keys,omitempty"`

	// Top-level fields that the gateway behind does not know. They are left
	// out of requests that name a preset.
	DropFields []string `json:"drop_fields,omitempty"`

	// Whether the active presets of the caller's workspace appear in the
	// answer to a GET of /models below the base path, and answer to a GET of
	// one there. Default: false
	ListModels bool `json:"list_models,omitempty"`

	// The largest inference request to look into, in bytes; larger ones are
	// refused. It is read into memory. On the routes where presets are not
	// resolved, larger ones pass. Default: 33554432 (32 MiB)
	MaxBodySize int64 `json:"max_body_size,omitempty"`

	// How much memory bodies of inference requests may take at once, in bytes, in the
	// whole process: those of all handlers count. A request beyond it is refused with
	// 503 at once. A body counts, packed and unpacked, until the gateway has read it.
	// At least twice max_body_size and 2 MiB. Default: 134217728 (128 MiB), or four
	// times max_body_size if that is more
	MaxMemory int64 `json:"max_memory,omitempty"`

	// How much memory to use for presets that were resolved by this handler, in
	// bytes. Default: 67108864 (64 MiB)
	CacheSize int64 `json:"cache_size,omitempty"`

	// Whether requests that are not resolved pass, or are refused, where
	// the caller's workspace has disabled server tools. "pass" hands them to the
	// gateway. "refuse" answers them with 403, but for GET, HEAD and OPTIONS
	// without a body and an upgrade; it needs keys "everywhere" or "off".
	// Default: pass
	OtherRoutes string `json:"other_routes,omitempty"`

	resolver *inference.Resolver
}

const (
	keysEverywhere = "everywhere"
	keysRequired   = "required"
	keysOptional   = "optional"
	keysOff        = "off"

	defaultInferenceBodySize = 32 << 20
)

// inferenceKeys are the values of Keys.
var inferenceKeys = []string{keysEverywhere, keysRequired, keysOptional, keysOff}

// fieldName is what drop_fields may hold: such names go into a header.
var fieldName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// neverDropped are the fields without which a request asks for nothing.
var neverDropped = []string{"model", "messages", "input", "instructions", "system"}

// provision sets defaults and prepares to resolve from store.
func (i *Inference) provision(store domain.Store) error {
	i.Keys = cmp.Or(i.Keys, keysEverywhere)
	if err := directive.CheckWord(i.Keys, inferenceKeys...); err != nil {
		return fmt.Errorf("keys: %w", err)
	}
	if err := i.provisionOtherRoutes(); err != nil {
		return fmt.Errorf("other_routes: %w", err)
	}
	for _, field := range i.DropFields {
		if err := checkDropField(field); err != nil {
			return fmt.Errorf("drop_fields: %w", err)
		}
	}
	i.MaxBodySize = cmp.Or(i.MaxBodySize, defaultInferenceBodySize)
	i.CacheSize = cmp.Or(i.CacheSize, inference.DefaultCacheSize)
	if i.MaxBodySize < 0 || i.CacheSize < 0 {
		return fmt.Errorf("max_body_size and cache_size must be positive, got %d and %d", i.MaxBodySize, i.CacheSize)
	}
	if err := i.provisionMemory(); err != nil {
		return err
	}
	i.resolver = inference.NewResolver(store, inference.Config{CacheSize: i.CacheSize, DropFields: i.DropFields})
	return nil
}

func checkDropField(field string) error {
	if !fieldName.MatchString(field) {
		return fmt.Errorf("must be names of letters, digits, _ . and -, got %q", field)
	}
	if slices.Contains(neverDropped, field) {
		return fmt.Errorf("%s cannot be dropped", field)
	}
	return nil
}

// inferenceCall is one inference request.
type inferenceCall struct {
	call
	credentials credentials // as they were sent; keys of ours are no longer in the headers
	path        string      // normalized, below the base path; or nothing
	route       *inferenceRoute
	dryRun      bool
	held        *heldBody // call.body only tells that it was read
}

// serveInference authenticates, reads and resolves a request, and lets the gateway answer.
// r no longer has keys of ours. sent has the credentials that the client sent.
func (h *Handler) serveInference(w http.ResponseWriter, r *http.Request, normalized string, sent credentials, next caddyhttp.Handler) error {
	c := &inferenceCall{call: h.newCall(w, r), credentials: sent, path: h.routeOf(normalized)}
	if c.repl != nil {
		c.repl.Map(emptyPlaceholder)
	}
	if r.Method == http.MethodPost {
		c.route = inferenceRouteOf(c.path)
	}
	if c.route != nil {
		return c.serve(next)
	}
	if method := methodUpstream(r); h.Inference.ListModels && (method == http.MethodGet || method == http.MethodHead) {
		if c.path == "models" {
			return c.serveModels(next)
		}
		if slug, ok := listedSlug(c.path); ok {
			return c.serveModel(next, slug)
		}
	}
	return c.pass(next)
}

// pass handles a route on which no preset is resolved: it checks the key and what
// other_routes says, and lets the gateway answer.
func (c *inferenceCall) pass(next caddyhttp.Handler) (err error) {
	defer func() {
		if c.held != nil {
			c.held.end(c.r.Context(), err)
		}
	}()
	if refused := c.checkOther(); refused != nil {
		if c.held != nil {
			c.held.release() // the answer may take its time
		}
		c.op.name, c.envelope = otherRoute, envelopeOf(c.path)
		c.setPlaceholder(operationPlaceholder, c.op.name)
		c.h.metrics.resolved(c.op.name, "refused", c.start)
		c.render(answer{}, refused)
		return nil
	}
	return next.ServeHTTP(c.w, c.r)
}

// opensInference reports whether a request asks for a WebSocket on an inference route:
// some gateways run models through it.
func (c *inferenceCall) opensInference() bool {
	return inferenceRouteOf(c.path) != nil && (isWebSocketConnect(c.r) || len(c.r.Header["Upgrade"]) > 0)
}

// checkOther authenticates a request to another route and decides whether it may go on.
func (c *inferenceCall) checkOther() error {
	switch c.h.Inference.Keys {
	case keysEverywhere:
		if err := c.authenticateInference(); err != nil {
			return err
		}
	case keysRequired:
		if !c.opensInference() {
			c.identifyCaller()
		} else if err := c.authenticateInference(); err != nil {
			return err
		}
	case keysOptional:
		c.identifyCaller()
	}
	if err := c.permitUnsearched(); err != nil {
		return err
	}
	return c.refuseReference()
}

// routeOf returns what is below the base path in a normalized path, or nothing.
func (h *Handler) routeOf(normalized string) string {
	below, ok := strings.CutPrefix(normalized, h.BasePath)
	if !ok || !strings.HasPrefix(below, "/") {
		return ""
	}
	return below[1:]
}

// serve resolves an inference request and lets the gateway answer. It holds no
// reference to the body meanwhile.
func (c *inferenceCall) serve(next caddyhttp.Handler) (err error) {
	c.holdBody()
	defer func() { c.held.end(c.r.Context(), err) }()
	if c.prepare() {
		return nil
	}
	return next.ServeHTTP(c.w, c.r)
}

// holdBody prepares to read a body. The caller calls held.end.
func (c *inferenceCall) holdBody() {
	c.held = &heldBody{reservation: reservation{limit: c.h.Inference.MaxMemory}}
}

// prepare rewrites the request for the gateway, or answers it. It reports whether it
// answered.
func (c *inferenceCall) prepare() (answered bool) {
	c.op.name, c.envelope = c.route.name, c.route.envelope
	c.setPlaceholder(operationPlaceholder, c.op.name)
	resolution, err := c.resolve()
	if err != nil {
		c.held.release() // the answer may take its time
		c.h.metrics.resolved(c.op.name, "refused", c.start)
		c.render(answer{}, err)
		return true
	}
	result := "passed"
	if resolution.Preset != "" {
		result = "resolved"
	}
	c.h.metrics.resolved(c.op.name, result, c.start)
	if c.dryRun {
		c.render(c.describe(resolution))
	}
	return c.dryRun
}

// resolve authenticates a request, reads its body and rewrites it for the gateway.
func (c *inferenceCall) resolve() (inference.Resolution, error) {
	var none inference.Resolution
	if err := c.wantsDryRun(); err != nil {
		return none, err
	}
	if err := c.authenticateInference(); err != nil {
		return none, err
	}
	body := c.held
	var err error
	if body.sent, err = c.read(c.h.Inference.MaxBodySize, &body.reservation); err != nil {
		return none, err
	}
	c.body = wholeBody
	var text []byte
	if text, body.unpacked, err = c.decoded(body.sent); err != nil {
		return none, err
	}
	resolution, err := c.h.Inference.resolver.Resolve(c.r.Context(), c.who, inference.Request{
		Dialect: c.route.dialect, Takes: c.route.takes, Body: text, Opaque: text == nil && len(body.sent) > 0,
		SessionID: c.r.Header.Get(sessionHeader), Charset: charsetOf(c.r.Header), Memory: body,
	})
	if err != nil {
		return none, err
	}
	c.noteSession(resolution.SessionID)
	if resolution.Preset == "" {
		if body.unpacked {
			body.sub(int64(cap(text)))
		}
		resolution.Body = body.sent
		body.replay(resolution.Body, c.r.Body)
		c.r.Body = body
		return resolution, nil
	}
	body.sub(int64(cap(text))) // the merged body is left
	c.noteResolution(resolution)
	if body.unpacked {
		c.r.Header.Del("Content-Encoding")
	}
	body.replay(resolution.Body, c.r.Body)
	c.r.Body = body
	c.r.ContentLength = int64(len(resolution.Body))
	c.r.TransferEncoding, c.r.Trailer = nil, nil // a request with trailers is sent chunked
	c.r.Header.Set("Content-Length", strconv.Itoa(len(resolution.Body)))
	return resolution, nil
}

// noteSession sets the session header, which load balancers use, to the session of
// the body. The body's session wins over the header's. A session that cannot be in a
// header stays in the body.
func (c *inferenceCall) noteSession(id string) {
	if id != "" {
		c.r.Header.Set(sessionHeader, id)
	}
	if id := c.r.Header.Get(sessionHeader); id != "" {
		c.setPlaceholder(sessionPlaceholder, id)
	}
}

func (c *inferenceCall) noteResolution(resolution inference.Resolution) {
	// The slug may be a part of a model name of many MiB. A placeholder with the slug
	// would keep all of that in memory, so it gets a copy.
	named := resolution.Preset + "@" + strconv.Itoa(resolution.Version)
	c.setPlaceholder(slugPlaceholder, named[:len(resolution.Preset)])
	c.setPlaceholder(versionPlaceholder, named[len(resolution.Preset)+1:])
	c.setPlaceholder(workspacePlaceholder, resolution.WorkspaceID)
	header := c.w.Header()
	header.Set("X-Preset", named)
	if len(resolution.Dropped) > 0 {
		header.Set("X-Preset-Dropped", headerList(resolution.Dropped))
	}
}

// headerList returns names as a header's value. It cuts them at a length that all
// clients and proxies accept, and then ends in "...".
func headerList(names []string) string {
	const most = 2048
	list := strings.Join(names, ", ")
	if len(list) <= most {
		return list
	}
	return list[:strings.LastIndex(list[:most], ", ")+1] + " ..."
}

// serveModels lets the gateway list its models and adds the caller's presets.
func (c *inferenceCall) serveModels(next caddyhttp.Handler) error {
	c.op.name = "models_list"
	c.setPlaceholder(operationPlaceholder, c.op.name)
	if err := c.authenticateInference(); err != nil {
		varyByKey(c.w.Header())
		c.render(answer{}, err)
		return nil
	}
	failed, err := listModels(c.w, c.r, next, func(withModels bool) iter.Seq2[domain.ActivePreset, error] {
		return c.h.service.ActivePresets(c.r.Context(), c.who, withModels)
	})
	if failed != nil && !hungUp(c.r.Context(), failed) {
		c.logFailure(failed)
	}
	return err
}
