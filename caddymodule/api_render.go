package caddymodule

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/heldbody"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/limiter"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/mediatype"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/status"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema"
)

// retryAfter is when to ask again, in seconds, if the store is unavailable or the memory for
// bodies is taken. A store may need longer.
const retryAfter = "5"

// statusHungUp marks, in metrics and access logs, a request whose client left.
const statusHungUp = 499

// problem is a failure as the client sees it.
type problem struct {
	status  int
	code    domain.Code // empty if the status is enough
	message string
	issues  []domain.Issue
	userID  string // of the caller, or empty
}

// envelope is the error answer of the preset and workspace API (specification,
// "Errors"), and of chat completions.
type envelope struct {
	Error  envelopeError `json:"error"`
	UserID string        `json:"user_id,omitempty"`
}

type envelopeError struct {
	Code     int       `json:"code"`
	Message  string    `json:"message"`
	Metadata *metadata `json:"metadata,omitempty"`
}

type metadata struct {
	Issues []domain.Issue `json:"issues"`
}

func newEnvelope(p problem) any {
	e := envelope{Error: envelopeError{Code: p.status, Message: p.message}, UserID: p.userID}
	if p.issues != nil {
		e.Error.Metadata = &metadata{p.issues}
	}
	return e
}

// responsesError is the error answer of POST /responses. Its code is the status, because
// OpenRouter's Python client wants an integer. OpenAI's clients show the type.
type responsesError struct {
	Error struct {
		Code    int    `json:"code"`
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
	Metadata *metadata `json:"metadata"`
}

// newResponsesError gives a type of its own to each cause that programs handle separately.
// All other refused requests are an invalid_prompt.
func newResponsesError(p problem) any {
	var e responsesError
	e.Error.Code, e.Error.Message = p.status, p.message
	e.Error.Type = cmp.Or(string(p.code), responsesErrorTypes[p.status], "invalid_prompt")
	if p.code == "" && p.status >= http.StatusInternalServerError {
		e.Error.Type = "server_error"
	}
	if p.issues != nil {
		e.Metadata = &metadata{p.issues}
	}
	return e
}

// responsesErrorTypes are types of responsesError by status.
var responsesErrorTypes = map[int]string{
	http.StatusUnauthorized:    "invalid_api_key",
	http.StatusForbidden:       "insufficient_permissions",
	http.StatusTooManyRequests: "rate_limit_exceeded",
}

// messagesError is the error answer of POST /messages.
type messagesError struct {
	Type  string `json:"type"`
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
}

func newMessagesError(p problem) any {
	e := messagesError{Type: "error"}
	e.Error.Message = p.message
	e.Error.Type = cmp.Or(messagesErrorTypes[p.status], "invalid_request_error")
	if p.status >= http.StatusInternalServerError && p.status != http.StatusGatewayTimeout {
		e.Error.Type = "api_error"
	}
	return e
}

// messagesErrorTypes are types of messagesError by status.
var messagesErrorTypes = map[int]string{
	http.StatusUnauthorized:          "authentication_error",
	http.StatusForbidden:             "permission_error",
	http.StatusNotFound:              "not_found_error",
	http.StatusRequestTimeout:        "timeout_error",
	http.StatusRequestEntityTooLarge: "request_too_large",
	http.StatusTooManyRequests:       "rate_limit_error",
	http.StatusGatewayTimeout:        "timeout_error",
}

// lingerTimeout is how long a client may go on sending an unread body, and read the answer.
// net/http reads some of the body before it closes the connection. Without this limit
// the connection would be open for as long as a request may take. Only tests change it.
var lingerTimeout = 5 * time.Second

// response is the response to a request that succeeded.
type response struct {
	status int
	body   []byte // nil for none
	tag    string // the entity tag, empty for none
	media  string // of the body, empty for JSON
}

// object answers with one object, of its JSON and entity tag.
func object(status int, data []byte, tag string) response {
	return response{status: status, body: slices.Concat([]byte(`{"data":`), data, []byte(`}`)), tag: tag}
}

// pageOf answers with a page of a list.
func pageOf(l domain.Listed, err error) (response, error) {
	if err != nil {
		return response{}, err
	}
	total := strconv.AppendInt([]byte(`,"total_count":`), int64(l.Total), 10)
	return response{status: http.StatusOK, body: slices.Concat([]byte(`{"data":`), l.JSON, total, []byte{'}'}), tag: l.Tag}, nil
}

// deleted answers a removal.
func deleted() response { return response{status: http.StatusOK, body: []byte(`{"deleted":true}`)} }

// checkConditional returns the answer to a conditional GET (RFC 9110, 13.2.2): a, 304 or 412.
func (c *call) checkConditional(a response) (response, error) {
	given := c.given.condition
	if err := (domain.Condition{Match: given.Match}).Check(a.tag); err != nil {
		return response{}, err
	}
	if (domain.Condition{NoneMatch: given.NoneMatch}).Check(a.tag) != nil {
		return response{status: http.StatusNotModified, tag: a.tag}, nil
	}
	return a, nil
}

// render writes the one response of a call.
func (c *call) render(a response, err error) (status int) {
	status, body := c.complete(a, err)
	if c.body == nil {
		leaveBody(c.w, c.r)
	}
	if body == nil {
		c.w.WriteHeader(status)
		return status
	}
	defer c.limitWriting(len(body))()
	c.w.WriteHeader(status)
	_, _ = c.w.Write(body) // an error means that the client left
	return status
}

// complete sets the headers of a response, and returns its status and body.
func (c *call) complete(a response, err error) (status int, body []byte) {
	status, body, media := a.status, a.body, cmp.Or(a.media, mediatype.JSON)
	if err != nil {
		status, body = c.failure(err)
		media = mediatype.JSON
	}
	if id := c.requestID(); id != "" {
		c.header.Set("X-Request-Id", id)
	}
	if a.tag != "" {
		c.header.Set("ETag", `"`+a.tag+`"`)
	}
	if body != nil {
		c.header.Set("Content-Type", media)
		c.header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	return status, body
}

// maxDiscarded is the largest body, in bytes, that is read although nobody wants it. It is that of
// net/http over HTTP/1.1.
const maxDiscarded = 256 << 10

// leaveBody prepares the answer to a request whose body is not wanted.
func leaveBody(w http.ResponseWriter, r *http.Request) {
	switch control := http.NewResponseController(w); {
	case r.ContentLength == 0:
	case r.ProtoMajor == 1:
		// An open connection would wait for the rest of the body before it carries
		// the answer.
		w.Header().Set("Connection", "close")
		_ = control.SetReadDeadline(time.Now().Add(lingerTimeout))
	case r.ProtoMajor == 2 && 0 < r.ContentLength && r.ContentLength <= maxDiscarded:
		// An answer before the end of the body resets the stream, and curl then often loses
		// the answer. A body of unknown length may never end.
		_ = control.SetReadDeadline(time.Now().Add(lingerTimeout))
		_, _ = io.CopyN(io.Discard, r.Body, maxDiscarded)
	}
}

// limitWriting sets a write deadline, unless the operator set a write timeout. A client
// has as much time to take an answer as to send a body of that size. Small answers need
// no deadline: they fit into the system's buffers. Call lift after the write.
func (c *call) limitWriting(size int) (lift func()) {
	server, ok := c.r.Context().Value(http.ServerContextKey).(*http.Server)
	if !ok || server.WriteTimeout != 0 || size < 64<<10 {
		return func() {}
	}
	controller := http.NewResponseController(c.w)
	_ = controller.SetWriteDeadline(time.Now().Add(timeFor(int64(size))))
	return func() { _ = controller.SetWriteDeadline(time.Time{}) }
}

// failure returns the status and body of an error. An internal cause goes to the log only,
// with the answer's X-Request-Id.
func (c *call) failure(err error) (int, []byte) {
	p, header := problem{userID: c.who.UserID}, c.header
	gateway, isGateways := errors.AsType[*gatewayError](err)
	if isGateways {
		p.status, p.message = gateway.status, gateway.Error()
	} else if transport, ok := errors.AsType[*status.Error](err); ok {
		p.status, p.message = transport.Status, transport.Message
	} else if limit, ok := errors.AsType[*limiter.Error](err); ok {
		p.status, p.message = http.StatusTooManyRequests, limit.Error()
		header.Set("Retry-After", strconv.Itoa(limit.RetryAfter()))
	} else if coding, ok := errors.AsType[*heldbody.CodingError](err); ok {
		p.status, p.message = http.StatusUnsupportedMediaType, coding.Error()
		header.Set("Accept-Encoding", heldbody.Codings)
	} else if hungUp(c.r.Context(), err) {
		p.status, p.message = statusHungUp, "Client closed request"
	} else {
		shown := visibleError(err)
		p.status, p.code, p.message, p.issues = status.Of(shown.Kind), shown.Code, shown.Message, shown.Issues
	}
	c.h.metrics.CountFailure(err)
	if errors.Is(err, heldbody.ErrNoMemory) {
		c.h.metrics.BodiesRefused.Inc()
	}
	switch {
	case isGateways: // Caddy logs it
	case p.status == http.StatusUnauthorized:
		header.Set("WWW-Authenticate", "Bearer")
	case p.status == http.StatusServiceUnavailable:
		// Do not log each request: the store logs it once, and memory has a metric.
		header.Set("Retry-After", retryAfter)
	case p.status >= http.StatusInternalServerError:
		c.logFailure(err)
	}
	shown := c.envelope(p)
	if _, ok := shown.(messagesError); ok { // Anthropic's clients read the id there
		header.Set("Request-Id", c.requestID())
	}
	body, err := jsonv2.Marshal(shown)
	if err != nil { // cannot happen: names of members are valid text
		c.logFailure(err)
		return http.StatusInternalServerError, []byte(`{"error":{"code":500,"message":"Internal Server Error"}}`)
	}
	return p.status, body
}

// hungUp reports whether err only means that the client left.
func hungUp(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
}

// visibleError returns the error that the caller may see.
func visibleError(err error) *domain.Error {
	if broken, ok := errors.AsType[*schema.Error](err); ok {
		return status.Invalid(broken)
	}
	if e, ok := errors.AsType[*domain.Error](err); ok && e.Kind != domain.Internal {
		return e
	}
	if errors.Is(err, domain.ErrUnknown) {
		return &domain.Error{Message: "The change may have been made, or not: repeat it with the same Idempotency-Key, or look before you repeat it"}
	}
	return &domain.Error{Message: "Internal Server Error"}
}

func (c *call) logFailure(cause error) {
	fields := []zap.Field{zap.String("operation", c.op.name), zap.Error(cause)}
	if id := c.requestID(); id != "" {
		fields = append(fields, zap.String("request_id", id))
	}
	c.h.logger.Error("request failed", fields...)
}
