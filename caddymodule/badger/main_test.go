package badger

import (
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/storepool"
)

func TestMain(m *testing.M) {
	storepool.RetryInterval = 20 * time.Millisecond
	caddytest.Main(m)
}
