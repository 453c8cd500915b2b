package caddymodule

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"

	jsonv2 "github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/envelope"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/heldbody"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/mediatype"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/status"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema"
)

// statusHungUp marks, in metrics and access logs, a request whose client left.
const statusHungUp = 499

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

func pageOf(l domain.Found, err error) (response, error) {
	if err != nil {
		return response{}, err
	}
	total := strconv.AppendInt([]byte(`,"total_count":`), int64(l.Total), 10)
	return response{status: http.StatusOK, body: slices.Concat([]byte(`{"data":`), l.JSON, total, []byte{'}'}), tag: l.Tag}, nil
}

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

func (c *call) render(a response, err error) (status int) {
	status, body := c.complete(a, err)
	if !c.isRead {
		c.h.deadlines.LeaveBody(c.w, c.r)
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

// limitWriting limits the time to send a response of a size, until lift.
func (c *call) limitWriting(size int) (lift func()) {
	return c.h.deadlines.LimitWriting(c.w, c.r, size)
}

// failure returns the status and body of an error. An internal cause goes to the log only,
// with the answer's X-Request-Id.
func (c *call) failure(err error) (int, []byte) {
	p, header := envelope.Problem{UserID: c.who.UserID}, c.header
	if transport, ok := errors.AsType[*status.Error](err); ok {
		p.Status, p.Message, p.Spending = transport.Status, transport.Message, transport.Spending
		if transport.Header != "" {
			header.Set(transport.Header, transport.Value)
		}
	} else if hungUp(c.r.Context(), err) {
		p.Status, p.Message = statusHungUp, "Client closed request"
	} else {
		shown := visibleError(err)
		p.Status, p.Code, p.Message, p.Issues = status.Of(shown.Kind), shown.Code, shown.Message, shown.Issues
		switch {
		case p.Status == http.StatusUnauthorized:
			header.Set("WWW-Authenticate", "Bearer")
		case p.Status == http.StatusServiceUnavailable:
			header.Set("Retry-After", status.RetryAfter) // the store logs it once
		case p.Status >= http.StatusInternalServerError:
			c.logFailure(err)
		}
	}
	c.h.metrics.CountFailure(err)
	if errors.Is(err, heldbody.ErrNoMemory) {
		c.h.metrics.BodiesRefused.Inc()
	}
	shown := c.envelope(p)
	if _, ok := shown.(envelope.Messages); ok { // Anthropic's clients read the id there
		header.Set("Request-Id", c.requestID())
	}
	body, err := jsonv2.Marshal(shown)
	if err != nil { // cannot happen: names of members are valid text
		c.logFailure(err)
		return http.StatusInternalServerError, []byte(`{"error":{"code":500,"message":"Internal Server Error"}}`)
	}
	return p.Status, body
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
