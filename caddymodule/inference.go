package caddymodule

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/beginning"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/heldbody"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/iolog"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/mediatype"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/namelist"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/ownkeys"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/quota"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/requestpath"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/status"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/trial"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/domain/inference/reference"
	"github.com/caddy-presets/caddy-presets/domain/secrets"
	"github.com/caddy-presets/caddy-presets/domain/usage"
)

// inferenceCall is one inference request.
type inferenceCall struct {
	call
	credentials ownkeys.Credentials // as they were sent; keys of ours are no longer in the headers
	normalized  string              // the path
	path        string              // the normalized path below the base path; or nothing
	trial       *trying             // nil for a request of a client
	route       *inferenceRoute
	dryRun      bool
	held        heldbody.Body    // the body, if it was read
	response    beginning.Writer // of the gateway
	named       struct {         // the applied preset, empty without one
		workspace, id, preset, label string
		version                      int
	}
	asked      string          // the model that is asked upstream, for usage
	hidesUsage bool            // the chunk with the usage of the stream is not for the client
	session    string          // empty without one
	ticket     quota.Ticket    // the passage through the limits
	measured   *quota.Measured // nil without limits of tokens or costs
	passed     atomic.Int64    // bytes of a body of unknown length
	used       *usage.Request  // nil until the response has ended, and if it is not measured
	requested  usage.RequestID // in the handle of the request, zero without one
	logged     *iolog.Entry    // nil if the content is not logged
	asksNoLog  bool            // the client asks for that
	values     [3]string       // the memory of headers that nearly all requests have
}

// serveInference authenticates, reads and resolves a request, and lets the gateway answer.
// r no longer has keys of ours. sent has the credentials that the client sent.
func (h *Handler) serveInference(w http.ResponseWriter, r *http.Request, normalized string, sent ownkeys.Credentials, next caddyhttp.Handler) error {
	c := h.newInferenceCall(w, r, normalized, sent)
	route := inferenceRouteOf(c.path)
	switch {
	case route == nil:
	case r.Method == http.MethodPost:
		c.route = route
		return c.serve(next)
	case c.asksForWebSocket() && h.Inference.WebSockets == webSocketsRefuse:
		c.refuseWebSocket(route)
		return nil
	}
	if method := requestpath.MethodUpstream(r); h.Inference.ListModels != listOff && (method == http.MethodGet || method == http.MethodHead) {
		if c.path == "models" {
			return c.serveModels(next)
		}
		if named, ok := presetOf(c.path); ok {
			return c.serveModel(next, named)
		}
	}
	return c.pass(next)
}

func (h *Handler) newInferenceCall(w http.ResponseWriter, r *http.Request, normalized string, sent ownkeys.Credentials) *inferenceCall {
	c := &inferenceCall{call: h.newCall(w, r), credentials: sent, normalized: normalized, path: h.routeOf(normalized)}
	c.held.Limit = h.Inference.MaxMemory
	c.asksNoLog = iolog.TakeHeader(r.Header)
	c.mapPlaceholders()
	return c
}

// pass handles a route on which no preset is resolved. It checks the key and the policy of
// other_routes, and lets the gateway answer.
func (c *inferenceCall) pass(next caddyhttp.Handler) (err error) {
	defer func() { c.held.End(c.r.Context(), err) }()
	refused := c.checkOther()
	if refused == nil {
		refused = c.admitOther()
	}
	defer c.endTicket()
	if refused != nil {
		c.setOperation(otherRoute, envelopeOf(c.path))
		c.refuse(refused)
		return nil
	}
	if opening := c.limitHeaders(); opening != nil {
		c.response.ResponseWriter, c.response.Opening = c.w, opening
		c.w = &c.response
	}
	if c.path == "models" && c.who.LimitsModels() && isRead(c.r) && c.r.Method != http.MethodOptions {
		err = c.limitModels(next)
		return err
	}
	return next.ServeHTTP(c.w, c.r)
}

// asksForWebSocket reports whether a request asks for a WebSocket. StripUpgrade leaves no other
// upgrade.
func (c *inferenceCall) asksForWebSocket() bool {
	return requestpath.IsWebSocketConnect(c.r) || len(c.r.Header["Upgrade"]) > 0
}

var errNoWebSocket = &status.Error{Status: http.StatusUpgradeRequired, Message: "This route serves no WebSocket: send a POST over HTTP"}

// refuseWebSocket answers a request for a WebSocket on an inference route. Codex takes the status
// as a request to use HTTP, and repeats its request several times after any other.
func (c *inferenceCall) refuseWebSocket(route *inferenceRoute) {
	c.setOperation(route.name, route.envelope)
	if c.r.ProtoMajor == 1 { // RFC 9110, section 15.5.22
		c.w.Header().Set("Upgrade", "HTTP/1.1")
		c.w.Header().Set("Connection", "Upgrade")
	}
	c.refuse(errNoWebSocket)
}

// refuse answers a request with an error instead of the gateway.
func (c *inferenceCall) refuse(err error) {
	c.held.Drop() // the answer may take its time
	c.h.metrics.CountResolution(c.op.name, "refused", c.start)
	if c.trial != nil {
		err = trial.Within("request", err)
	}
	c.render(response{}, err)
}

// checkOther authenticates a request to another route and decides whether it may go on.
func (c *inferenceCall) checkOther() error {
	switch c.h.Inference.Keys {
	case keysEverywhere:
		if err := c.authenticateInference(); err != nil {
			return err
		}
	case keysRequired:
		// Some gateways run models through a WebSocket.
		if inferenceRouteOf(c.path) == nil || !c.asksForWebSocket() {
			c.identifyCaller()
		} else if err := c.authenticateInference(); err != nil {
			return err
		}
	case keysOptional:
		c.identifyCaller()
	}
	if err := c.checkUnresolvedRoute(); err != nil {
		return err
	}
	return c.refuseReference()
}

// routeOf returns the part of a normalized path below the base path, "" if it is elsewhere.
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
	defer func() {
		c.logged.Drop() // of a request that did not go up
		c.held.End(c.r.Context(), err)
	}()
	defer c.endTicket()
	if c.prepare() {
		return nil
	}
	c.response.ResponseWriter, c.response.Opening = c.w, c.limitHeaders()
	c.w = &c.response
	if c.measured != nil || c.h.Inference.Usage != nil && !c.route.counts {
		err = c.serveMeasured(next)
	} else {
		err = next.ServeHTTP(c.w, c.r)
	}
	if err != nil && !c.response.Begun {
		c.renderGatewayError(err)
	}
	return err
}

// prepare rewrites the request for the gateway, or answers it. It reports whether it
// answered.
func (c *inferenceCall) prepare() (answered bool) {
	c.setOperation(c.route.name, c.route.envelope)
	resolution, err := c.resolve()
	if err != nil {
		c.ticket.Cancel()
		c.refuse(err)
		return true
	}
	result := "passed"
	if resolution.Preset != "" {
		result = "resolved"
		if damage := c.h.damage; damage != nil && resolution.FromMemory && damage.Damaged() {
			c.h.metrics.FromMemory.Inc()
		}
	}
	c.h.metrics.CountResolution(c.op.name, result, c.start)
	if c.dryRun {
		c.render(c.describe(resolution))
	}
	return c.dryRun
}

// resolve authenticates a request, reads its body and rewrites it for the gateway.
func (c *inferenceCall) resolve() (inference.Resolution, error) {
	var none inference.Resolution
	if err := c.readDryRun(); err != nil {
		return none, err
	}
	if err := c.authenticateInference(); err != nil {
		return none, err
	}
	if err := c.admit(); err != nil {
		return none, err
	}
	var err error
	if c.held.Sent, err = c.readSent(); err != nil {
		return none, err
	}
	text, err := c.held.Decode(c.r.Header, c.held.Sent, c.h.Inference.MaxBodySize)
	if err != nil {
		return none, err
	}
	adoptSession(c.r.Header)
	otherType := mediatype.IsOther(c.r.Header)
	isMeasured := c.ticket.BoundsUse() || c.dryRun && (c.who.LimitsMeasured() || c.isWorkspaceMeasured()) // a dry run has no ticket
	resolution, err := c.h.Inference.resolver.Resolve(c.r.Context(), c.who, inference.Request{
		Dialect: c.route.dialect, Takes: c.route.takes, Body: text, Measured: isMeasured,
		SessionID: c.r.Header.Get(sessionHeader), OtherType: otherType, Query: c.r.URL.RawQuery, Memory: &c.held, Trial: c.trial.version(),
	})
	if err != nil {
		return none, err
	}
	c.setSession(resolution.SessionID)
	c.asked = resolution.Model
	c.logRequest(text, resolution)
	if resolution.Preset != "" {
		c.showResolution(resolution)
	}
	if err := c.reserve(resolution); err != nil {
		return none, err
	}
	if resolution.Rewritten {
		c.rewrite(resolution, otherType)
	} else {
		c.held.ReplaySent(c.r.Body)
	}
	c.r.Body = &c.held
	return resolution, nil
}

// rewrite prepares the request for its merged body.
func (c *inferenceCall) rewrite(resolution inference.Resolution, otherType bool) {
	if resolution.StreamUsageAdded {
		c.hideStreamUsage()
	}
	if c.held.IsEncoded() {
		c.r.Header.Del("Content-Encoding")
	}
	if otherType && resolution.Preset != "" { // the gateway must read the fields that were resolved
		c.r.Header["Content-Type"] = []string{mediatype.JSON}
	}
	c.r.ContentLength = int64(resolution.Body.Len())
	c.r.TransferEncoding, c.r.Trailer = nil, nil // a request with trailers is sent chunked
	c.values[1] = strconv.FormatInt(c.r.ContentLength, 10)
	c.r.Header["Content-Length"] = c.values[1:2:2]
	c.held.ReplayMerged(resolution.Body, c.r.Body)
}

// agentSessions are the headers in which Codex and Claude Code name a session.
var agentSessions = [...]string{"Session-Id", "X-Claude-Code-Session-Id"}

// adoptSession sets the session header to the session of an agent, if there is no other. An
// agent's header that is too long for a session is something else.
func adoptSession(header http.Header) {
	if header.Get(sessionHeader) != "" {
		return
	}
	for _, name := range agentSessions {
		if id := header.Get(name); id != "" && reference.CheckSessionID(name, id) == nil {
			header.Set(sessionHeader, id)
			return
		}
	}
}

// setSession sets the session header, which load balancers use, to the session of the
// body. The body's session wins over the header's. A session that cannot be in a header
// stays in the body, and so does one that holds a key of ours.
func (c *inferenceCall) setSession(id string) {
	if id != "" && !secrets.AreIn(id) {
		c.r.Header.Set(sessionHeader, id)
	}
	if c.session = c.r.Header.Get(sessionHeader); c.session != "" {
		c.showSession(c.session)
	}
}

// showResolution shows a resolution in placeholders and in headers of the answer.
func (c *inferenceCall) showResolution(resolution inference.Resolution) {
	// The slug may be a part of a longer name of a model. A placeholder with it would keep
	// all of that in memory.
	named := resolution.Preset + "@" + reference.VersionText(resolution.Version)
	c.named.workspace, c.named.id, c.named.label = resolution.WorkspaceID, resolution.PresetID, resolution.Label
	c.named.preset, c.named.version = named[:len(resolution.Preset)], resolution.Version
	c.setPlaceholder(slugPlaceholder, c.named.preset)
	c.setPlaceholder(versionPlaceholder, named[len(resolution.Preset)+1:])
	c.setPlaceholder(workspacePlaceholder, resolution.WorkspaceID)
	header := c.w.Header()
	c.values[0] = named
	header["X-Preset"] = c.values[:1:1]
	if len(resolution.Dropped) > 0 {
		header.Set("X-Preset-Dropped", namelist.Of(resolution.Dropped))
	}
	if len(resolution.Enforced) > 0 {
		header.Set("X-Preset-Enforced", namelist.Of(resolution.Enforced))
	}
}
