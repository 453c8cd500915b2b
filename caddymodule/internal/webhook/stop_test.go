package webhook

import (
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// TestGrace checks how long the end of the process waits for receivers.
func TestGrace(t *testing.T) {
	for _, tc := range []struct {
		grace, delay, passed, want time.Duration
	}{
		{0, 0, time.Hour, MaxStop},
		{4 * time.Second, 0, 0, 4 * time.Second},
		{4 * time.Second, 0, 3 * time.Second, time.Second},
		{4 * time.Second, 0, time.Minute, 0},
		{4 * time.Second, 5 * time.Second, 6 * time.Second, 3 * time.Second},
		{time.Hour, 0, time.Minute, MaxStop},
	} {
		c := new(StopClock)
		_ = c.Handle(t.Context(), caddy.Event{})
		app := &caddyhttp.App{GracePeriod: caddy.Duration(tc.grace), ShutdownDelay: caddy.Duration(tc.delay)}
		if got := c.Grace(app, c.began.Load().Add(tc.passed)); got != tc.want {
			t.Errorf("%+v: got %v", tc, got)
		}
	}
}
