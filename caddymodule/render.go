package caddymodule

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema"
)

// statusOf is the one table from the kind of a domain error to its HTTP status
// (specification, "Errors").
var statusOf = map[domain.Kind]int{
	domain.Internal:        http.StatusInternalServerError,
	domain.Invalid:         http.StatusBadRequest,
	domain.Unauthenticated: http.StatusUnauthorized,
	domain.Forbidden:       http.StatusForbidden,
	domain.NotFound:        http.StatusNotFound,
	domain.Conflict:        http.StatusConflict,
}

// statusHungUp marks, in metrics and access logs, a request whose client left.
const statusHungUp = 499

// statusError is a failure of HTTP itself, which the domain knows nothing of.
type statusError struct {
	status  int
	message string
}

func (e *statusError) Error() string { return e.message }

// envelope is every error answer (specification, "Errors").
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

// render writes the one answer of a call and counts it.
func (c *call) render(a answer, err error) {
	status, body := a.status, slices.Concat([]byte(`{"data":`), a.data, []byte(`}`))
	if err != nil {
		status, body = c.failure(err)
	}
	header := c.w.Header()
	if c.body == nil && c.r.ContentLength != 0 && c.r.ProtoMajor == 1 {
		// Left open, the connection would first wait for the rest of a body
		// that nobody wants, and only then carry the answer.
		header.Set("Connection", "close")
	}
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(body)))
	c.w.WriteHeader(status)
	_, _ = c.w.Write(body) // a client that left is nobody to report to
	c.h.metrics.request(c.op.name, status, time.Since(c.start))
}

// failure returns the status and body of an error. A cause that is not the
// caller's business goes to the log, under the id that the caller gets.
func (c *call) failure(err error) (int, []byte) {
	e := envelope{UserID: c.who.UserID}
	if transport, ok := errors.AsType[*statusError](err); ok {
		e.Error.Code, e.Error.Message = transport.status, transport.message
	} else if hungUp(c.r.Context(), err) {
		e.Error.Code, e.Error.Message = statusHungUp, "Client closed request"
	} else {
		shown := visible(err)
		e.Error.Code, e.Error.Message = statusOf[shown.Kind], shown.Message
		if shown.Issues != nil {
			e.Error.Metadata = &metadata{shown.Issues}
		}
	}
	switch {
	case e.Error.Code == http.StatusUnauthorized:
		c.w.Header().Set("WWW-Authenticate", "Bearer")
	case e.Error.Code >= http.StatusInternalServerError:
		c.logFailure(err)
	}
	body, err := jsonv2.Marshal(e)
	if err != nil { // a client's member name that is no text cannot get this far
		c.logFailure(err)
		return http.StatusInternalServerError, []byte(`{"error":{"code":500,"message":"Internal Server Error"}}`)
	}
	return e.Error.Code, body
}

// hungUp reports whether err only means that nobody waits for the answer.
func hungUp(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
}

// visible returns what the caller may see of err.
func visible(err error) *domain.Error {
	if broken, ok := errors.AsType[*schema.Error](err); ok {
		issues := make([]domain.Issue, len(broken.Violations))
		for i, v := range broken.Violations {
			issues[i] = domain.Issue(v)
		}
		return domain.InvalidIssues(issues...)
	}
	if e, ok := errors.AsType[*domain.Error](err); ok && e.Kind != domain.Internal {
		return e
	}
	return &domain.Error{Message: "Internal Server Error"}
}

func (c *call) logFailure(cause error) {
	fields := []zap.Field{zap.String("operation", c.op.name), zap.Error(cause)}
	if c.repl != nil {
		if id, _ := c.repl.GetString("http.request.uuid"); id != "" {
			c.w.Header().Set("X-Request-Id", id)
			fields = append(fields, zap.String("request_id", id))
		}
	}
	c.h.logger.Error("request failed", fields...)
}
