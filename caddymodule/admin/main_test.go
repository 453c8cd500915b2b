package admin

import (
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
)

func TestMain(m *testing.M) { caddytest.Main(m) }
