package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"

	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/wait"
)

// withoutCaddy are the systems for which the standard modules of Caddy do not compile, or not
// without a C compiler.
var withoutCaddy = []string{"aix", "android", "ios", "js", "plan9", "wasip1"}

// TestPlatforms checks the types of both modules, and of all that they import, for each
// platform of Caddy's. It takes 10 s for each of them. A compiler would take minutes.
func TestPlatforms(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	for platform := range strings.FieldsSeq(run(t, root, nil, "go", "tool", "dist", "list")) {
		system, architecture, _ := strings.Cut(platform, "/")
		if slices.Contains(withoutCaddy, system) {
			continue
		}
		t.Run(platform, func(t *testing.T) {
			checkTypes(t, "GOOS="+system, "GOARCH="+architecture, "CGO_ENABLED=0")
		})
	}
}

func checkTypes(t *testing.T, env ...string) {
	loaded, err := packages.Load(&packages.Config{
		Context: wait.Command(t), Mode: packages.LoadAllSyntax, Dir: filepath.Join(root, "caddymodule", "etcd"), Env: append(os.Environ(), env...),
	}, "./...", "github.com/caddy-presets/caddy-presets/...")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	packages.Visit(loaded, nil, func(p *packages.Package) {
		found[p.PkgPath] = true
		for _, err := range p.Errors {
			t.Errorf("%s: %v", p.PkgPath, err)
		}
	})
	for _, module := range []string{"github.com/caddy-presets/caddy-presets", "github.com/caddy-presets/caddy-presets/caddymodule/etcd"} {
		if !found[module] {
			t.Errorf("%s was not checked", module)
		}
	}
}
