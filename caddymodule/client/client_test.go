package client

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestTimeout asks a server that never answers. One try is all.
func TestTimeout(t *testing.T) {
	requests := 0
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		requests++
		<-r.Context().Done()
	}))
	c := &Client{Origin: silent.URL, Timeout: 10 * time.Millisecond}
	_, err := c.Do(t.Context(), Request{Method: http.MethodGet, Path: "/presets"})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "has not answered GET /presets within 10ms") {
		t.Errorf("got %v", err)
	}
	if silent.Close(); requests > 1 {
		t.Errorf("got %d requests, want one", requests)
	}
}
