package e2e

import (
	"encoding/json"
	"errors"
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/servertest"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// Our Go modules, and their folders below the root.
const (
	mainModule = "github.com/caddy-presets/caddy-presets"
	etcdModule = mainModule + "/caddymodule/etcd"
)

// xcaddy builds Caddy with some of our modules and returns the binary. It uses the
// command of xcaddy.md for a checkout.
func xcaddy(t *testing.T, modules ...string) string {
	t.Helper()
	proxy := strings.TrimSpace(run(t, root, nil, "go", "env", "GOPROXY"))
	if _, why, err := try(t, t.TempDir(), nil, "go", "list", "-m", "github.com/caddyserver/caddy/v2@latest"); err != nil {
		servertest.Lack(t, "network", "xcaddy needs a module proxy, but none answers: %s", why)
	}
	// Our modules may be unpublished. A look-up of their versions needs Git and a network.
	// With "off" only the replacements are used.
	env := []string{"GOPROXY=" + strings.ReplaceAll(proxy, ",direct", "|off")}

	binary := filepath.Join(t.TempDir(), servertest.Executable("caddy"))
	args := []string{"tool", "xcaddy", "build", "--output", binary}
	for _, module := range modules {
		args = append(args, "--with", module+"=."+strings.TrimPrefix(module, mainModule))
	}
	run(t, root, env, "go", args...)
	return binary
}

// TestXcaddy builds with one module and with both. It checks the Go module of each Caddy
// module, because "caddy upgrade" uses it.
func TestXcaddy(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		modules []string
		want    map[string]string
	}{
		{"badger", []string{mainModule}, map[string]string{
			"admin.api.presets":                    mainModule,
			"http.handlers.presets":                mainModule,
			"http.handlers.presets.storage.badger": mainModule,
		}},
		{"etcd", []string{mainModule, etcdModule}, map[string]string{
			"admin.api.presets":                    mainModule,
			"http.handlers.presets":                mainModule,
			"http.handlers.presets.storage.badger": mainModule,
			"http.handlers.presets.storage.etcd":   etcdModule,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if len(test.modules) > 1 {
				tier.Long(t)
			}
			binary := xcaddy(t, test.modules...)
			got := make(map[string]string)
			for line := range strings.Lines(run(t, t.TempDir(), nil, binary, "list-modules", "--packages", "--skip-standard")) {
				if fields := strings.Fields(line); len(fields) == 4 && fields[2] == "=>" { // MODULE PACKAGE => FOLDER
					got[fields[0]] = fields[1]
				}
			}
			if !maps.Equal(got, test.want) {
				t.Errorf("list-modules shows %v, want %v", got, test.want)
			}
			info := run(t, t.TempDir(), nil, binary, "build-info")
			for _, module := range test.modules {
				if !strings.Contains(info, "dep\t"+module+"\t") {
					t.Errorf("build-info does not show %s", module)
				}
			}
			for _, args := range [][]string{{"upgrade"}, {"add-package", "example.com/module"}} {
				said := messageOfFailed(t, binary, args...)
				if !strings.Contains(said, "cannot auto-upgrade when Go module has been replaced: "+mainModule) {
					t.Errorf("caddy %s says %s", args, said)
				}
			}
		})
	}
}

// messageOfFailed runs a command that must fail without a panic, and returns its message.
func messageOfFailed(t *testing.T, binary string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(wait.Command(t), binary, args...).CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != 1 {
		t.Errorf("caddy %s: got %v, want exit code 1:\n%s", args, err, out)
	}
	var entry struct{ Msg string }
	if json.Unmarshal(out, &entry) != nil {
		return string(out)
	}
	return entry.Msg
}
