package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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
// command of xcaddy.md for a checkout. A module of others has its version: module@version.
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
		if !strings.Contains(module, "@") {
			module += "=." + strings.TrimPrefix(module, mainModule)
		}
		args = append(args, "--with", module)
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

// TestRateLimit builds Caddy with the module that docs/guard.md names, and serves its directive beside
// presets and in a route. An address beyond its limit gets 429 before its key is looked at.
func TestRateLimit(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs", "guard.md"))
	if err != nil {
		t.Fatal(err)
	}
	module := regexp.MustCompile(`github\.com/mholt/caddy-ratelimit@v[0-9.]+[0-9]`).Find(page)
	block := regexp.MustCompile(`(?ms)^rate_limit \{\n.*?^\}\n`).Find(page)
	limit := regexp.MustCompile(`(?m)events \d+$`).ReplaceAllString(string(block), "events 3")
	if module == nil || limit == string(block) {
		t.Fatalf("docs/guard.md has the module %q and the directive %q", module, block)
	}
	const right = "management-key-of-this-test"
	home, beside, route := t.TempDir(), freeAddress(t), freeAddress(t)
	presets := "presets {\nstorage badger " + filepath.ToSlash(filepath.Join(home, "store")) + "\nmanagement_key " + right + " ann\ninference\n}\n"
	s := &server{binary: xcaddy(t, mainModule, string(module)), admin: freeAddress(t), site: "http://" + beside, env: homeOf(home)}
	s.serve(t, home, "{\nadmin "+s.admin+"\npersist_config off\nauto_https off\nservers {\ntrusted_proxies static 127.0.0.1/32\n}\n}\n"+
		"http://"+beside+" {\nbind 127.0.0.1\n"+presets+limit+"}\n"+
		"http://"+route+" {\nbind 127.0.0.1\nroute {\n"+limit+presets+"}\n}\n")
	for i, site := range []string{beside, route} {
		ask := func(client int, key string, want int) {
			t.Helper()
			address := fmt.Sprintf("192.0.2.%d", 10*i+client)
			response := sendTo(t, http.MethodGet, "http://"+site+"/v1/presets", key, "", "X-Forwarded-For", address)
			defer response.Body.Close()
			if limited := response.Header.Get("Retry-After") != ""; response.StatusCode != want || limited != (want == http.StatusTooManyRequests) {
				t.Errorf("%s from %s: got %s, Retry-After %t, want %d", site, address, response.Status, limited, want)
			}
		}
		for range 3 {
			ask(1, "a-wrong-key-of-this-test", http.StatusUnauthorized)
		}
		ask(1, "a-wrong-key-of-this-test", http.StatusTooManyRequests)
		ask(1, right, http.StatusTooManyRequests)
		ask(2, right, http.StatusOK)
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
