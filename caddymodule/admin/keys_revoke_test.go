package admin_test

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// TestRevokeUnwritable revokes a key while the store takes no writes, because its folder was moved.
// The key is refused at once, also on a site that a reload adds. The command says that this is not
// stored. The server stores it as soon as it can, with its record in the audit trail.
func TestRevokeUnwritable(t *testing.T) {
	tier.Slow(t)
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not move the folder of open files")
	}
	s := start(t, caddytest.Standard)
	leaked, other := s.Issue(`{"kind":"management"}`), s.Issue(`{"kind":"management"}`)
	get := func(secret string) int {
		return s.Do("GET", "/v1/workspaces/default", "", caddytest.Bearer(secret)).Status
	}
	if get(leaked.Secret) != 200 || get(other.Secret) != 200 {
		t.Fatal("the keys do not work")
	}
	away := s.Folder + ".away"
	if err := os.Rename(s.Folder, away); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, _, err := s.key("revoke", leaked.ID)
		if err == nil || !strings.Contains(err.Error(), "the key is refused from now on, but its revocation is not stored yet: ") || !strings.Contains(err.Error(), "a restart before it succeeds makes the key valid again") {
			t.Errorf("revoking gives %v, want that it is not stored", err)
		}
		if got := get(leaked.Secret); got != 401 {
			t.Errorf("the revoked key gives %d, want 401", got)
		}
		if got := get(other.Secret); got != 200 {
			t.Errorf("another key gives %d, want 200", got)
		}
		if out, _, err := s.key("show", leaked.ID); err != nil || !strings.Contains(out, "revoked") {
			t.Errorf("it is shown as %q, %v, want it revoked", out, err)
		}
		s.Reload(caddytest.Standard + "\nkeep_versions 7") // a new handler
	}
	if n := strings.Count(s.Logs(), "a key is revoked in memory alone"); n != 2 {
		t.Errorf("the log says it %d times, want 2", n)
	}
	if err := os.Rename(away, s.Folder); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the revocation is not stored", func() bool { return strings.Count(s.Logs(), "the revocations of keys are stored now") == 1 })
	audit, _, err := s.run("audit")
	if err != nil || strings.Count(audit, "key.delete") != 1 {
		t.Errorf("the audit trail is %s, %v, want one revocation", audit, err)
	}
	s.Stop() // it opens the store anew
	s.Reload(caddytest.Standard)
	if got := get(leaked.Secret); got != 401 {
		t.Errorf("after a restart the revoked key gives %d, want 401", got)
	}
}
