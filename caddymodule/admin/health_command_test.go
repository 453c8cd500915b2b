package admin_test

import (
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
)

// TestHealthCommand checks the lines and the outcome for whole and damaged stores, and for
// servers without a store.
func TestHealthCommand(t *testing.T) {
	s := start(t, caddytest.Standard)
	whole, damaged := s.CanonicalFolder(), caddytest.Folder(t)
	check := func(name, want, wantErr string, args ...string) {
		t.Helper()
		out, _, err := run(append([]string{"health", "--address", s.AdminAddress}, args...)...)
		said := ""
		if err != nil {
			said = err.Error()
		}
		if (err != nil) != (wantErr != "") || !strings.Contains(said, wantErr) || strings.ContainsAny(said, "{}") || !strings.Contains(out, want) {
			t.Errorf("%s: got %q, %v, want %q and %q", name, out, err, want, wantErr)
		}
	}
	check("a whole store", whole+": available\n", "")
	check("no such store", "", `no live store is named "absent"`, "--store", "absent")
	check("no server", "", "admin.sock", "--address", "unix/"+t.TempDir()+"/admin.sock")

	both := s.Site(caddytest.Standard) + "\n" + s.SiteAt(caddytest.Address(t), "presets {\nstorage badger "+damaged+"\n}\nrespond gone")
	if err := s.Load(both); err != nil {
		t.Fatal(err)
	}
	s.Reload(caddytest.Standard)
	caddytest.Await(t, "the folder is in use", func() bool { return caddytest.IsReleased(damaged) })
	caddytest.Damage(t, damaged)
	if err := s.Load(both); err != nil {
		t.Fatal(err)
	}
	check("two stores", whole+": available\n", "a store is not available")
	check("two stores", ": not available, damaged: ", "a store is not available")
	check("the whole one of two", whole+": available\n", "", "--store", whole)

	if err := s.LoadJSON([]byte(`{"admin":{"listen":"` + s.AdminAddress + `"}}`)); err != nil {
		t.Fatal(err)
	}
	check("no directive", "", "no store is live")
}
