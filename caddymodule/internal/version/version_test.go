package version_test

import (
	"runtime/debug"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/version"
)

// TestOf reads the version from the build information of each kind of build.
func TestOf(t *testing.T) {
	other := &debug.Module{Path: "example.com/other", Version: "v9.9.9"}
	dependency := func(of debug.Module) *debug.BuildInfo {
		of.Path = version.Path
		return &debug.BuildInfo{Main: debug.Module{Path: "caddy", Version: "(devel)"}, Deps: []*debug.Module{other, &of}}
	}
	for _, tc := range []struct {
		name string
		info *debug.BuildInfo
		want string
	}{
		{"no build information", nil, "(devel)"},
		{"go build with a tag", &debug.BuildInfo{Main: debug.Module{Path: version.Path, Version: "v1.2.0"}, Deps: []*debug.Module{other}}, "v1.2.0"},
		{"go build without Git", &debug.BuildInfo{Main: debug.Module{Path: version.Path, Version: "(devel)"}}, "(devel)"},
		{"a test", &debug.BuildInfo{Main: debug.Module{Path: version.Path}}, "(devel)"},
		{"xcaddy", dependency(debug.Module{Version: "v1.2.0"}), "v1.2.0"},
		{"xcaddy with a folder", dependency(debug.Module{Version: "v1.2.0", Replace: &debug.Module{Path: "/src", Version: "(devel)"}}), "(devel)"},
		{"xcaddy with a folder, older Go", dependency(debug.Module{Version: "v1.2.0", Replace: &debug.Module{Path: "/src"}}), "(devel)"},
		{"xcaddy with a fork", dependency(debug.Module{Version: "v1.2.0", Replace: &debug.Module{Path: "example.com/fork", Version: "v1.3.0"}}), "v1.3.0"},
		{"another program", &debug.BuildInfo{Main: debug.Module{Path: "caddy", Version: "v2.0.0"}, Deps: []*debug.Module{other}}, "(devel)"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := version.Of(tc.info); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
