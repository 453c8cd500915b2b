package e2e

import (
	"regexp"
	"strings"
	"testing"
)

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
