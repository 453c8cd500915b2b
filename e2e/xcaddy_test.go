package e2e

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// xcaddy builds with the command that xcaddy.md gives for a checkout, and more modules,
// and returns the binary.
func xcaddy(t *testing.T, with ...string) string {
	t.Helper()
	proxy := strings.TrimSpace(run(t, root, nil, "go", "env", "GOPROXY"))
	if _, why, err := try(t, t.TempDir(), nil, "go", "list", "-m", "github.com/caddyserver/caddy/v2@latest"); err != nil {
		unavailable(t, "xcaddy needs a module proxy, and none answers: %s", why)
	}
	// Our own module may not be published yet. Asking its repository for
	// versions then takes Git and a network; "off" says at once that there
	// are none but the replacement.
	env := []string{"GOPROXY=" + strings.ReplaceAll(proxy, ",direct", "|off")}

	binary := filepath.Join(t.TempDir(), executable("caddy"))
	args := []string{"tool", "xcaddy", "build", "--with", "github.com/caddy-presets/caddy-presets=.", "--output", binary}
	for _, module := range with {
		args = append(args, "--with", module)
	}
	run(t, root, env, "go", args...)
	return binary
}

// TestXcaddy builds and looks for our modules in the binary.
func TestXcaddy(t *testing.T) {
	binary := xcaddy(t)
	modules := strings.Fields(run(t, t.TempDir(), nil, binary, "list-modules"))
	for _, want := range []string{
		"http.handlers.presets",
		"http.handlers.presets.storage.badger",
		"admin.api.presets",
	} {
		if !slices.Contains(modules, want) {
			t.Errorf("list-modules does not show %s", want)
		}
	}
	if slices.Contains(modules, "http.handlers.presets.storage.etcd") {
		t.Error("list-modules shows the engine etcd, which nobody asked for")
	}
	t.Logf("version: %s", run(t, t.TempDir(), nil, binary, "version"))
}
