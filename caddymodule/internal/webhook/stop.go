package webhook

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// MaxStop bounds how long the end of the process waits for receivers. It also bounds how long a
// removed webhook still gets its waiting events.
const MaxStop = 10 * time.Second

// StopClock knows when Caddy began to stop the configuration. Its methods are safe for concurrent use.
type StopClock struct{ began atomic.Pointer[time.Time] }

// Handle takes Caddy's event "stopping".
func (c *StopClock) Handle(context.Context, caddy.Event) error {
	now := time.Now()
	c.began.Store(&now)
	return nil
}

// Grace returns the rest of the app's grace period at a time, at most MaxStop.
func (c *StopClock) Grace(app *caddyhttp.App, now time.Time) time.Duration {
	if app.GracePeriod <= 0 {
		return MaxStop // Caddy waits for requests without a limit
	}
	limit := time.Duration(app.ShutdownDelay + app.GracePeriod)
	if began := c.began.Load(); began != nil {
		limit -= now.Sub(*began)
	}
	return max(0, min(limit, MaxStop))
}
