package caddymodule

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-presets/caddy-presets/caddymodule/console"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/namelist"
	"github.com/caddy-presets/caddy-presets/schema"
)

const defaultConsolePath = "/console"

// Console is a page for browsers, on which people see, compare, try and change presets. It
// uses the API with the key that they type in.
type Console struct {
	// The path of the page. The handler answers all requests at it and below it. It
	// must not hide the API or a route on which presets work. Default: /console
	Path string `json:"path,omitempty"`
}

// provision sets defaults and returns the page. base is the base path, without a slash at
// its end. The page tells which settings the schemas do not know. hasKeys is whether the API has keys,
// and isAlone whether pages of the gateway need a key, which browsers do not send for them.
func (c *Console) provision(repl *caddy.Replacer, base string, hasKeys, isAlone bool) (*console.Page, error) {
	path, err := repl.ReplaceOrErr(cmp.Or(c.Path, defaultConsolePath), true, true)
	if err != nil {
		return nil, err
	}
	if err := checkConsolePath(path); err != nil {
		return nil, err
	}
	c.Path = strings.TrimSuffix(path, "/")
	if err := checkNothingHidden(c.Path, base); err != nil {
		return nil, err
	}
	schemas, err := schema.Load()
	if err != nil {
		return nil, err
	}
	settings, err := namelist.SettingNames(schemas)
	if err != nil {
		return nil, err
	}
	return console.New(c.Path, base, settings, hasKeys, isAlone)
}

// consolePath is the pattern of a console's path. The page compares it with the address in
// the browser, so it has no character that browsers encode.
var consolePath = regexp.MustCompile(`^(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+/?$`)

func checkConsolePath(path string) error {
	if !consolePath.MatchString(path) {
		return fmt.Errorf("must be a path such as %s, of A-Z a-z 0-9 . _ ~ -, got %q", defaultConsolePath, path)
	}
	return nil
}

// checkNothingHidden refuses a console's path that overlaps the API, or a route on which
// presets work or are listed.
func checkNothingHidden(path, base string) error {
	routes := []string{"presets", "workspaces", "models", "key", "keys"}
	for _, route := range inferenceRoutes {
		routes = append(routes, route.path)
	}
	for _, route := range routes {
		if owned := base + "/" + route; isAtOrBelow(owned, path) || isAtOrBelow(path, owned) {
			return fmt.Errorf("must not be %s, above it or below it, got %q", owned, path)
		}
	}
	return nil
}

// isAtOrBelow reports whether a path is another one, or below it.
func isAtOrBelow(path, other string) bool {
	return path == other || strings.HasPrefix(path, other+"/")
}
