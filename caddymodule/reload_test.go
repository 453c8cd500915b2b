package caddymodule

import (
	"runtime"
	"strings"
	"testing"
)

func TestBareDirective(t *testing.T) {
	s := start(t, standard)
	if err := s.load(s.siteAt(s.address, "presets")); err != nil {
		t.Fatal(err)
	}
	k := s.issue(`{"kind":"management"}`)
	s.do("GET", "/v1/workspaces/default", "", bearer(k.secret)).want(t, 200, `"name":"Default"`)
}

// What resolved presets take is freed with the configuration that they were
// resolved for.
func TestReloadsFreeResolvedPresets(t *testing.T) {
	s := start(t, inferring())
	s.preset("writer", writer)
	caches := func() int { // the store has some of its own
		stacks := make([]byte, 4<<20)
		return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "ristretto/v2.(*Cache[...]).processItems(")
	}
	before := caches()
	for range 5 {
		s.ask(chatPath, `{"model":"@preset/writer"}`).want(t, 202)
		s.reload(inferring())
	}
	if !s.eventually(func() bool { return caches() <= before }) {
		t.Errorf("got %d caches after five reloads, and %d before", caches(), before)
	}
	s.reload(standard)
	if !s.eventually(func() bool { return caches() < before }) {
		t.Error("the cache outlives its configuration")
	}
}
