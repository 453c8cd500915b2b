package admin_test

import (
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
)

// A body that cannot be decoded gets an error that names the field, and no Go type.
func TestWrongBodies(t *testing.T) {
	s := start(t, caddytest.Standard)
	for body, want := range map[string]string{
		`{"kind":"inference","x":1}`:          "/x: is not known",
		`{"kind":"inference","expires_in":1}`: "/expires_in: must be a string",
		`[]`:                                  "the body: must be an object",
		`{"kind":`:                            "reading the body: ",
	} {
		r := s.Admin("POST", "/presets/keys", body)
		r.Want(t, 400, want)
		if strings.Contains(r.Body, "newKeyRequest") || strings.Contains(r.Body, " Go ") {
			t.Errorf("%s: got %s, which names a type of the program", body, r.Body)
		}
	}
	s.Admin("POST", "/presets/prune", `{"keep":"x"}`).Want(t, 400, "/keep: must be a whole number")
	s.Admin("POST", "/presets/prune", `{"dry_run":1}`).Want(t, 400, "/dry_run: must be true or false")
}
