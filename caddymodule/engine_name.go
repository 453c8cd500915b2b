package caddymodule

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-presets/caddy-presets/caddymodule/engine"
	"github.com/caddy-presets/caddy-presets/caddymodule/internal/directive"
)

// checkEngine returns an error unless this build has the engine of a name. The error says
// how to get one.
func checkEngine(name string) error {
	var engines []string
	for _, m := range caddy.GetModules(engine.Namespace) {
		if m.ID.Name() == name {
			return nil
		}
		engines = append(engines, m.ID.Name())
	}
	has := "; this build has " + strings.Join(engines, " and ")
	switch {
	case name == "":
		return fmt.Errorf("storage: the name of the engine is empty%s%s", has, directive.MaybeUnset)
	case strings.ContainsAny(name, `/\`):
		return fmt.Errorf("storage wants the name of an engine before its folder: storage badger %s", name)
	case name == "etcd":
		return fmt.Errorf("storage: this build of Caddy is without the engine etcd: build one as https://github.com/caddy-presets/caddy-presets/blob/main/xcaddy.md says, --with github.com/caddy-presets/caddy-presets/caddymodule/etcd")
	}
	return fmt.Errorf("storage: there is no engine %q%s", name, has)
}

// checkEngineOf is checkEngine for a configuration in JSON. Caddy itself refuses one
// without a name.
func checkEngineOf(storage json.RawMessage) error {
	var named struct {
		Engine string `json:"engine"`
	}
	if err := json.Unmarshal(storage, &named); err != nil || named.Engine == "" {
		return nil //nolint:nilerror // as above
	}
	return checkEngine(named.Engine)
}
