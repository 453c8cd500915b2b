package caddymodule

import (
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
