package caddymodule

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
)

// inferenceRoute is a route on which presets are resolved.
type inferenceRoute struct {
	path     string // below the base path
	name     string // in metrics and placeholders
	dialect  domain.Dialect
	envelope func(problem) any // of errors
	// takes is domain.Request.Takes.
	takes []string
}

// inferenceRoutes are all of them. Clients budget a prompt with the routes that count
// tokens, so presets are resolved there, too. Those routes take fewer fields, and
// gateways refuse all others. takes lists the settings that Anthropic's and OpenAI's
// clients can send there.
var inferenceRoutes = []inferenceRoute{
	{"chat/completions", "inference_chat", domain.Chat, newEnvelope, nil},
	{"responses", "inference_responses", domain.Responses, newResponsesError, nil},
	{"responses/input_tokens", "inference_responses_count", domain.Responses, newResponsesError, []string{
		"tools", "tool_choice", "parallel_tool_calls", "reasoning", "text", "truncation",
	}},
	{"messages", "inference_messages", domain.Messages, newMessagesError, nil},
	{"messages/count_tokens", "inference_messages_count", domain.Messages, newMessagesError, []string{
		"tools", "tool_choice", "thinking", "output_config", "context_management", "speed", "cache_control",
	}},
}

// generates reports whether the route lets a model generate. Others count tokens.
func (r *inferenceRoute) generates() bool { return r.takes == nil }

// otherRoute labels refusals on the routes on which no preset is resolved.
const otherRoute = "inference_other"

// inferenceRouteOf returns the route of a path below the base path, or nil.
func inferenceRouteOf(path string) *inferenceRoute {
	for i := range inferenceRoutes {
		if inferenceRoutes[i].path == path {
			return &inferenceRoutes[i]
		}
	}
	return nil
}

// refuseReference refuses a request to another route below the base path whose
// model names a preset: no gateway knows it. All else stays as it was sent.
func (c *inferenceCall) refuseReference() error {
	if c.r.Method != http.MethodPost || c.path == "" || c.r.ContentLength == 0 || !mayHoldJSON(c.r.Header) {
		return nil
	}
	c.holdBody()
	sent, err := c.peek()
	if err != nil {
		return err
	}
	body, unpacked, err := c.decoded(sent)
	switch {
	case errors.Is(err, errNoMemory):
		return err
	case err != nil:
		return nil //nolint:nilerror // a body that is too large to search passes
	case unpacked:
		defer c.held.sub(int64(cap(body)))
	}
	if place := inference.FindReference(body); place != "" {
		return domain.InvalidAt(place, "must not refer to a preset: presets work in POST "+c.h.routesWithPresets())
	}
	return nil
}

// routesWithPresets names the routes on which presets are resolved.
func (h *Handler) routesWithPresets() string {
	var paths []string
	for _, route := range inferenceRoutes {
		paths = append(paths, h.BasePath+"/"+route.path)
	}
	last := len(paths) - 1
	return strings.Join(paths[:last], ", ") + " and " + paths[last]
}

// envelopeOf returns the error envelope that clients of a route expect. path is below
// the base path.
func envelopeOf(path string) func(problem) any {
	resource, _, _ := strings.Cut(path, "/")
	for _, route := range inferenceRoutes {
		if route.path == resource {
			return route.envelope
		}
	}
	return newEnvelope
}

// mayHoldJSON reports whether a body may be JSON by its media type. It may also have
// none, or the default of curl or fetch. Uploads have other types.
func mayHoldJSON(header http.Header) bool {
	media, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	switch media = strings.ToLower(strings.TrimSpace(media)); media {
	case "", "application/json", "text/json", "text/plain", "application/x-www-form-urlencoded":
		return true
	}
	return strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")
}

// peekSize is how many bytes are read of a body that is not read whole. Such a body is
// larger than max_body_size, or its caller has no key and keys are required.
const peekSize = 64 << 10

// peek reads the body, or its first bytes, and returns them. The request still goes
// upstream as it was sent.
func (c *inferenceCall) peek() ([]byte, error) {
	window := c.h.Inference.MaxBodySize
	isStranger := c.h.Inference.Keys == keysRequired && c.who.KeyID == ""
	if isStranger {
		c.held.limit /= 2 // callers with a key have the other half
	}
	if isStranger || c.r.ContentLength > window {
		window = min(window, peekSize)
	}
	body, part, beginning := c.r.Body, c.call, *c.r
	beginning.Body = readCloser{io.LimitReader(body, window), body}
	beginning.ContentLength = min(c.r.ContentLength, window)
	part.r = &beginning
	sent, err := part.read(window, &c.held.reservation)
	if err != nil {
		return nil, err
	}
	c.held.replay(inference.Body{sent}, body)
	if int64(len(sent)) < window || c.r.ContentLength == window {
		c.body, c.r.Body = wholeBody, c.held
		return sent, nil
	}
	if server, ok := c.r.Context().Value(http.ServerContextKey).(*http.Server); ok && server.ReadTimeout == 0 {
		_ = http.NewResponseController(c.w).SetReadDeadline(time.Time{}) // which read set
	}
	c.r.Body = readCloser{io.MultiReader(c.held, body), body}
	return sent, nil
}

// readCloser reads from one thing and closes another.
type readCloser struct {
	io.Reader
	io.Closer
}
