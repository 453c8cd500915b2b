package caddymodule

import (
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
)

const firstKeyAdvice = "caddy presets key create --kind management"

// TestFirstKeyIsAdvised checks that a start without keys explains once how to create the
// first key.
func TestFirstKeyIsAdvised(t *testing.T) {
	const limit = "auth_failure_limit 1000000"
	advised := func(s *server) int { return strings.Count(s.logs(), firstKeyAdvice) }
	s := start(t, limit)
	if got := advised(s); got != 1 || !strings.Contains(s.logs(), `"store":"`+s.canonicalFolder()+`"`) {
		t.Errorf("a new store is advised of %d times, want once, with its name", got)
	}
	s.reload(limit + "\nmax_body_size 1MiB")
	if got := advised(s); got != 1 {
		t.Errorf("a reload makes it %d times, want once", got)
	}
	s.stop()
	s.reload(limit)
	if got := advised(s); got != 2 {
		t.Errorf("another start makes it %d times, want twice", got)
	}
	s.issue(`{"kind":"management"}`)
	s.stop()
	s.reload(limit)
	if got := advised(s); got != 2 {
		t.Errorf("it is advised though there is a key: %d times, want twice", got)
	}
	s.stop()
	configured := start(t, standard)
	if got := advised(configured); got != 0 {
		t.Errorf("it is advised %d times though there are configured keys", got)
	}
}

// TestFirstKeyIsAdvisedOnceTheStoreIsThere checks that an unavailable store logs no advice,
// because it may have keys.
func TestFirstKeyIsAdvisedOnceTheStoreIsThere(t *testing.T) {
	s := start(t, standard)
	s.manage("POST", "/v1/presets/p/chat/completions", `{"model":"acme/large","messages":[]}`).want(t, 200)
	s.stop()
	undo := caddytest.Damage(t, s.folder)
	s.reload("auth_failure_limit 1000000")
	if !strings.Contains(s.logs(), "the store cannot be opened") {
		t.Fatal("the store is not damaged")
	}
	if strings.Contains(s.logs(), firstKeyAdvice) {
		t.Error("it is advised while nobody knows whether there are keys")
	}
	undo()
	if !s.eventually(func() bool { return strings.Contains(s.logs(), firstKeyAdvice) }) {
		t.Error("it is not advised once the store is there")
	}
}
