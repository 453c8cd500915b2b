package e2e

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// listedKey has the fields of "key list --json" that these tests read.
type listedKey struct {
	ID            string     `json:"id"`
	Kind          string     `json:"kind"`
	Name          string     `json:"name"`
	UserID        string     `json:"user_id"`
	WorkspaceID   string     `json:"workspace_id"`
	WorkspaceSlug string     `json:"workspace_slug"`
	ExpiresAt     *time.Time `json:"expires_at"`
	RevokedAt     *time.Time `json:"revoked_at"`
	LastUsedAt    *time.Time `json:"last_used_at"`
}

// TestKeys issues, uses, lists and revokes keys with the binary's own command.
func TestKeys(t *testing.T) {
	t.Parallel()
	gateway := newUpstream(t)
	s := start(t, gateway)

	management, id := s.issue(t, "management", "--name", "deploy", "--user", "alice")
	if status, body := s.post(t, "/v1/workspaces", management, `{"name": "Team", "slug": "team"}`); status != http.StatusCreated {
		t.Fatalf("workspace with the issued management key: got %d %s, want 201", status, body)
	} else if !strings.Contains(body, `"created_by":"alice"`) {
		t.Errorf("workspace's created_by is not alice: %s", body)
	}

	inference, inferenceID := s.issue(t, "inference", "--workspace", "team", "--expires", "1h")
	if status, body := s.post(t, "/v1/presets/analyst/responses", inference, `{}`); status != http.StatusForbidden {
		t.Errorf("preset with the issued inference key: got %d %s, want 403", status, body)
	}

	brief, _ := s.issue(t, "inference", "--expires", "1s")

	t.Run("list", func(t *testing.T) {
		out := s.presets(t, "key", "list", "--json")
		for _, secret := range []string{management, inference} {
			if strings.Contains(out, secret) {
				t.Fatal("key list shows a secret")
			}
		}
		var keys []listedKey
		if err := json.Unmarshal([]byte(out), &keys); err != nil {
			t.Fatalf("key list --json: %v\n%s", err, out)
		}
		if len(keys) != 3 {
			t.Fatalf("key list --json: got %d keys, want 3\n%s", len(keys), out)
		}
		if k := keys[0]; k.ID != id || k.Kind != "management" || k.Name != "deploy" || k.UserID != "alice" || k.ExpiresAt != nil || k.RevokedAt != nil {
			t.Errorf("first key: got %+v", k)
		}
		if k := keys[1]; k.ID != inferenceID || k.Kind != "inference" || k.WorkspaceID == "" || k.WorkspaceSlug != "team" || k.ExpiresAt == nil || k.RevokedAt != nil {
			t.Errorf("second key: got %+v", k)
		}
		// The last use is recorded after its request ends.
		wait.Until(t, "used keys have a last use", func() bool {
			if err := json.Unmarshal([]byte(s.presets(t, "key", "list", "--json")), &keys); err != nil {
				t.Fatal(err)
			}
			return keys[0].LastUsedAt != nil && keys[1].LastUsedAt != nil
		})
		if keys[2].LastUsedAt != nil {
			t.Errorf("a key that was never used: got %v as its last use", keys[2].LastUsedAt)
		}
		if table := s.presets(t, "key", "list"); !strings.Contains(table, id) || strings.Contains(table, management) {
			t.Errorf("key list: got\n%s", table)
		}
	})

	t.Run("revoke", func(t *testing.T) {
		if status, body := s.post(t, "/v1/presets/analyst/responses", management, `{"model": "acme/small"}`); status != http.StatusOK {
			t.Fatalf("before the revocation: got %d %s, want 200", status, body)
		}
		s.presets(t, "key", "revoke", id)
		status, body := s.post(t, "/v1/presets/analyst/responses", management, `{"model": "acme/small"}`)
		if status != http.StatusUnauthorized || !strings.Contains(body, `"Invalid credentials"`) {
			t.Errorf("after the revocation: got %d %s, want 401 Invalid credentials", status, body)
		}
	})

	t.Run("expiry", func(t *testing.T) {
		wait.Until(t, "a key that lives for a second ends", func() bool {
			status, body := s.post(t, "/v1/presets/analyst/responses", brief, `{}`)
			if status != http.StatusUnauthorized && status != http.StatusForbidden {
				t.Fatalf("a key that lives for a second: got %d %s, want 403, then 401", status, body)
			}
			return status == http.StatusUnauthorized
		})
	})

	if got := gateway.received(); len(got) != 0 {
		t.Errorf("the gateway received %q, want nothing", got)
	}
}

var (
	issuedKey = regexp.MustCompile(`^caddypresets_(mgmt|inf)_[0-9A-Za-z]{49}\n$`)
	keyID     = regexp.MustCompile(`[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
)

// issue creates a key and returns it with its id. The key must stand alone on
// standard output.
func (s *server) issue(t *testing.T, kind string, args ...string) (secret, id string) {
	t.Helper()
	out, errs, err := try(t, t.TempDir(), s.env, s.binary, append([]string{"presets", "key", "create", "--address", s.admin, "--kind", kind}, args...)...)
	if err != nil {
		t.Fatalf("key create: %v\n%s", err, errs)
	}
	if !issuedKey.MatchString(out) {
		t.Fatalf("key create: standard output is %d bytes and not one key on a line", len(out))
	}
	secret = strings.TrimSpace(out)
	if strings.Contains(errs, secret) {
		t.Error("key create shows the key on standard error")
	}
	return secret, keyID.FindString(errs)
}

// presets runs the presets command against the server.
func (s *server) presets(t *testing.T, args ...string) string {
	t.Helper()
	return run(t, t.TempDir(), s.env, s.binary, append(append([]string{"presets"}, args...), "--address", s.admin)...)
}
