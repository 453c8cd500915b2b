package badger_test

import (
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/badger"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
)

// TestMemory checks that the engine gets half of the setting memory, also after a reload.
func TestMemory(t *testing.T) {
	s := caddytest.Start(t, caddytest.Standard+"\nmemory 16MiB")
	if got := badger.CacheSize(); got != 8<<20 {
		t.Errorf("got %d bytes, want 8 MiB", got)
	}
	s.Reload(caddytest.Standard + "\nmemory 4MiB")
	if got := badger.CacheSize(); got != 2<<20 {
		t.Errorf("got %d bytes after a reload, want 2 MiB", got)
	}
	s.Reload(caddytest.Standard + "\nmemory 1B")
	if got := badger.CacheSize(); got == 0 {
		t.Error("the least memory stands for the default")
	}
}
