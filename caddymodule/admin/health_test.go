package admin_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// TestHealth checks the states of one store and of two, one of which cannot be opened, in the
// answer and in what the command prints.
func TestHealth(t *testing.T) {
	s := start(t, caddytest.Standard)
	whole, damaged := s.CanonicalFolder(), caddytest.Folder(t)
	type state struct {
		Store, Error                 string
		Available, Writable, Damaged bool
	}
	ask := func(query string, status int) (stores []state) {
		t.Helper()
		r := s.Admin("GET", "/presets/health"+query, "")
		r.Want(t, status)
		var response struct {
			Healthy bool
			Stores  []state
		}
		if err := json.Unmarshal([]byte(r.Body), &response); err != nil || response.Healthy != (status == 200) {
			t.Errorf("%s: got %s, %v", query, r.Body, err)
		}
		if got := r.Header.Get("Cache-Control"); got != "no-store" {
			t.Errorf("got Cache-Control %q", got)
		}
		return response.Stores
	}
	command := func(want, wantErr string, args ...string) {
		t.Helper()
		out, _, err := run(append([]string{"health", "--address", s.AdminAddress}, args...)...)
		said := ""
		if err != nil {
			said = err.Error()
		}
		if (err != nil) != (wantErr != "") || !strings.Contains(said, wantErr) || strings.ContainsAny(said, "{}") || !strings.Contains(out, want) {
			t.Errorf("%v: got %q, %v, want %q and %q", args, out, err, want, wantErr)
		}
	}
	ok := state{Store: whole, Available: true, Writable: true}
	if got := ask("", 200); len(got) != 1 || got[0] != ok {
		t.Errorf("got %+v, want %+v", got, ok)
	}
	command(whole+": available\n", "")
	command("", `no live store is named "absent"`, "--store", "absent")
	command("", "admin.sock", "--address", "unix/"+t.TempDir()+"/admin.sock")

	// Another store has something in a table, and is damaged while it is closed.
	both := func(folder string) string {
		return s.Site(caddytest.Standard) + "\n" + s.SiteAt(caddytest.Address(t), "presets {\nstorage badger "+folder+"\n}\nrespond gone")
	}
	if err := s.Load(both(damaged)); err != nil {
		t.Fatal(err)
	}
	s.Reload(caddytest.Standard)
	wait.Until(t, "the folder is in use", func() bool { return caddytest.IsReleased(damaged) })
	undo := caddytest.Damage(t, damaged)
	if err := s.Load(both(damaged)); err != nil {
		t.Fatal(err)
	}
	got := ask("", 503)
	if len(got) != 2 {
		t.Fatalf("got %+v, want two stores", got)
	}
	for _, one := range got {
		if one.Store == whole {
			if one != ok {
				t.Errorf("got %+v, want %+v", one, ok)
			}
		} else if one.Available || one.Writable || !one.Damaged || !strings.Contains(one.Error, "damaged") {
			t.Errorf("got %+v, want a damaged store", one)
		}
		status := 503
		if one.Store == whole {
			status = 200
		}
		if got := ask("?store="+one.Store, status); len(got) != 1 || got[0] != one {
			t.Errorf("got %+v, want %+v", got, one)
		}
	}
	command(whole+": available\n", "a store is not available")
	command(": not available, damaged: ", "a store is not available")
	command(whole+": available\n", "", "--store", whole)
	undo()
	wait.Until(t, "the repaired store is not healthy", func() bool { return s.Admin("GET", "/presets/health", "").Status == 200 })

	// A server without the directive has no store. It may be about to load one.
	if err := s.LoadJSON([]byte(`{"admin":{"listen":"` + s.AdminAddress + `"}}`)); err != nil {
		t.Fatal(err)
	}
	if got := ask("", 503); len(got) != 0 {
		t.Errorf("got %+v, want none", got)
	}
	command("", "no store is live")
}
