package inference

import (
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// maxTools bounds the tools of a request that are united with a preset's, which
// are bounded by what a version may store.
const maxTools = 4096

// toolIdentity returns what tells a tool of a dialect from others, so that a
// request's tool can take the place of the preset's. A tool that has nothing of
// the kind is itself and no other.
func toolIdentity(dialect domain.Dialect, tool jsontext.Value) string {
	text := func(object jsontext.Value, name string) string {
		value, _ := rawjson.Text(rawjson.Get(object, name))
		return value
	}
	identity := func(kind, name string) string {
		if name == "" {
			return "=" + string(tool)
		}
		return kind + "\x00" + name
	}
	switch kind := text(tool, "type"); {
	case dialect == domain.Chat && (kind == "function" || kind == "custom"):
		return identity(kind, text(rawjson.Get(tool, kind), "name")) // named inside
	case kind == "function", dialect == domain.Messages && (kind == "" || kind == "custom"):
		return identity("function", text(tool, "name"))
	case kind == "openrouter:advisor", kind == "openrouter:subagent":
		// The one without a name is the default instance.
		return kind + "\x00" + strings.TrimSpace(text(rawjson.Get(tool, "parameters"), "name"))
	case kind == "custom", kind == "namespace":
		return identity(kind, text(tool, "name"))
	case kind == "mcp":
		return identity(kind, text(tool, "server_label"))
	default:
		return identity("", kind)
	}
}

// namedTool is a tool with its identity.
type namedTool struct {
	identity string
	tool     jsontext.Value
}

// splitTools splits a tools field of at most this many. Anything else is an error.
func splitTools(dialect domain.Dialect, tools jsontext.Value, most int) ([]namedTool, error) {
	var list []namedTool
	if tools.Kind() != '[' {
		return nil, domain.InvalidAt("/tools", "must be an array")
	}
	for _, tool := range rawjson.Items(tools) {
		if len(list) == most {
			return nil, domain.InvalidAt("/tools", "must have at most "+strconv.Itoa(most)+" items")
		}
		list = append(list, namedTool{toolIdentity(dialect, tool), tool})
	}
	return list, nil
}

// mergeTools returns the preset's tools in their order, those of the same identity
// replaced by the request's, and behind them the tools that only the request
// has. Of several with one identity the first replaces the first, and so on;
// none of the preset's is left where the request has one.
func mergeTools(preset, request []namedTool) []jsontext.Value {
	rivals := make(map[string][]int, len(request)) // the request's tools of an identity that are not placed yet
	for i, t := range request {
		rivals[t.identity] = append(rivals[t.identity], i)
	}
	placed := make([]bool, len(request))
	var united []jsontext.Value
	for _, t := range preset {
		switch left, rivalled := rivals[t.identity]; {
		case !rivalled:
			united = append(united, t.tool)
		case len(left) > 0:
			united = append(united, request[left[0]].tool)
			placed[left[0]] = true
			rivals[t.identity] = left[1:]
		}
	}
	for i, t := range request {
		if !placed[i] {
			united = append(united, t.tool)
		}
	}
	return united
}
