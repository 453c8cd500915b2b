package e2e

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestAudit reads the audit trail with the binary, and verifies it independently.
func TestAudit(t *testing.T) {
	t.Parallel()
	s := start(t, newUpstream(t))
	key, id := s.issue(t, "management", "--user", "alice")
	for _, change := range []struct{ method, path, body string }{
		{http.MethodPost, "/v1/presets/writer/responses", `{"model": "acme/small", "instructions": "A secret prompt"}`},
		{http.MethodPost, "/v1/presets/writer/messages", `{"model": "acme/large"}`},
		{http.MethodPost, "/v1/presets/writer/designate", `{"version": 1}`},
		{http.MethodPost, "/v1/presets/writer/designate", `{"version": 1}`}, // changes nothing
		{http.MethodPut, "/v1/presets/writer/labels/staging", `{"version": 2}`},
		{http.MethodDelete, "/v1/presets/writer/labels/staging", ""},
		{http.MethodPatch, "/v1/presets/writer", `{"name": "Writer"}`},
		{http.MethodDelete, "/v1/presets/writer", ""},
		{http.MethodPost, "/v1/presets/writer/restore", ""},
		{http.MethodPatch, "/v1/workspaces/default", `{"description": "Ours"}`},
	} {
		if status, answer := s.send(t, change.method, change.path, key, change.body); status != http.StatusOK {
			t.Fatalf("%s %s: got %d %s, want 200", change.method, change.path, status, answer)
		}
	}
	if status, answer := s.send(t, http.MethodPost, "/v1/presets/writer/designate", key, `{"version": 3}`); status != http.StatusNotFound {
		t.Fatalf("an absent version: got %d %s, want 404", status, answer)
	}
	s.presets(t, "key", "revoke", id)

	type record struct {
		Number    int    `json:"number"`
		KeyID     string `json:"key_id"`
		UserID    string `json:"user_id"`
		Operation string `json:"operation"`
		Before    int    `json:"version_before"`
		After     int    `json:"version_after"`
		Previous  string `json:"previous"`
		Hash      string `json:"hash"`
	}
	trail := s.presets(t, "audit", "--json")
	var did []string
	previous := strings.Repeat("0", 2*sha256.Size)
	for i, line := range strings.Split(strings.TrimSuffix(trail, "\n"), "\n") {
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("audit --json: %v\n%s", err, line)
		}
		hashed, found := strings.CutSuffix(line, `,"hash":"`+r.Hash+`"}`)
		sum := sha256.Sum256([]byte(hashed + "}"))
		if !found || r.Number != i+1 || r.Previous != previous || r.Hash != hex.EncodeToString(sum[:]) {
			t.Fatalf("line %d does not continue the line before it, which has the hash %s:\n%s", i+1, previous, line)
		}
		previous = r.Hash
		did = append(did, fmt.Sprintf("%s %s %d-%d", r.UserID, r.Operation, r.Before, r.After))
		if alice := r.UserID == "alice"; alice != (r.KeyID == id) {
			t.Errorf("line %d: got key %q of %s", i+1, r.KeyID, r.UserID)
		}
	}
	want := []string{
		"alice preset.create_version 0-1",
		"alice preset.create_version 1-2",
		"alice preset.designate 2-1",
		"alice label.set 0-2",
		"alice label.delete 2-0",
		"alice preset.update 1-1",
		"alice preset.archive 1-1",
		"alice preset.restore 1-1",
		"alice workspace.update 0-0",
		"admin key.delete 0-0",
	}
	// The first two records are from the default workspace and the admin's key.
	if len(did) != len(want)+2 || !slices.Equal(did[2:], want) {
		t.Errorf("audit --json: got\n%s\nwant, behind two,\n%s", strings.Join(did, "\n"), strings.Join(want, "\n"))
	}
	for _, secret := range []string{key, "A secret prompt", "acme/"} {
		if strings.Contains(trail, secret) {
			t.Errorf("the trail holds %q", secret)
		}
	}
	if got, want := s.presets(t, "audit", "--verify", "--head", previous), fmt.Sprintf("%d records, unbroken, head %s\n", len(did), previous); got != want {
		t.Errorf("audit --verify: got %q, want %q", got, want)
	}
	if out, _, err := try(t, t.TempDir(), s.env, s.binary, "presets", "audit", "--verify", "--head", strings.Repeat("a", 64), "--address", s.admin); exitCode(err) < 1 {
		t.Errorf("audit --verify with the head of another trail: got exit code %d and %q, want a failure", exitCode(err), out)
	}
}
