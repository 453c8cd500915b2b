package caddymodule

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// inProcess sends requests to the handler's own API, as bundlePrincipal.
type inProcess struct{ h *Handler }

// RoundTrip implements http.RoundTripper.
func (t inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	path, err := url.Parse(t.h.BasePath + strings.TrimPrefix(r.URL.EscapedPath(), defaultBasePath))
	if err != nil {
		return nil, err
	}
	inside := r.Clone(context.WithValue(r.Context(), bundleRequest{}, bundlePrincipal))
	inside.URL.Path, inside.URL.RawPath = path.Path, path.RawPath
	c := t.h.newCall(nil, inside)
	c.header = make(http.Header)
	defer c.releasePage()
	status, body := c.complete(c.serve())
	t.h.metrics.CountRequest(c.op.name, status, time.Since(c.start))
	return &http.Response{
		Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), StatusCode: status, Header: c.header,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: r,
	}, nil
}

// Interface guard
var _ http.RoundTripper = inProcess{}
