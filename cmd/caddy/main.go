// Command caddy is stock Caddy with the presets handler compiled in.
package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	_ "time/tzdata"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-presets/caddy-presets"
)

func main() {
	if command := commandOf(os.Args); slices.Contains(packageCommands, command) {
		fmt.Fprintf(os.Stderr, "Error: caddy %s replaces builds of released modules, and this one was made by go build: "+
			"build it again as described in https://github.com/caddy-presets/caddy-presets/blob/main/xcaddy.md\n", command)
		os.Exit(1)
	}
	caddycmd.Main()
}

// packageCommands ask caddyserver.com for a build with this program's modules. Caddy looks
// them up among the main module's dependencies. It panics for a module that is the main
// module (getPluginPackages in Caddy's cmd/packagesfuncs.go).
var packageCommands = []string{"upgrade", "add-package", "remove-package"}

// commandOf returns the first argument that is not a flag.
func commandOf(args []string) string {
	for _, arg := range args[1:] {
		if !strings.HasPrefix(arg, "-") {
			return arg
		}
	}
	return ""
}
