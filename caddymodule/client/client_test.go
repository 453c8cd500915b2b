package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestTimeout asks a server that accepts connections and never answers. One try is all.
func TestTimeout(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	c := &Client{Origin: "http://" + listener.Addr().String(), Timeout: 10 * time.Millisecond, Wait: func(context.Context, time.Duration) error {
		t.Error("the request is repeated")
		return nil
	}}
	_, err = c.Do(t.Context(), Request{Method: http.MethodGet, Path: "/presets"})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "has not answered GET /presets within 10ms") {
		t.Errorf("got %v", err)
	}
}
