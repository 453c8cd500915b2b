package caddymodule

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
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
	w := &responseRecorder{header: make(http.Header), status: http.StatusOK}
	t.h.serveAPI(w, inside)
	return &http.Response{
		Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), StatusCode: w.status, Header: w.header,
		Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// responseRecorder keeps a response.
type responseRecorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *responseRecorder) Header() http.Header { return w.header }

func (w *responseRecorder) WriteHeader(status int) { w.status = status }

func (w *responseRecorder) Write(text []byte) (int, error) { return w.body.Write(text) }

// Interface guard
var _ http.RoundTripper = inProcess{}
