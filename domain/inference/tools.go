package inference

import (
	"crypto/sha256"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/dialects"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// maxTools bounds the tools of a request that are merged with a preset's. MaxStoredSize
// bounds those of a preset.
const maxTools = 4096

// toolIdentity returns the identity of a tool. A request's tool replaces a preset's tool of the same
// identity. That is its name, whatever its type, because providers refuse two tools of one name. An
// MCP server goes by its label, and a tool without a name by its type. A function without a name has
// its whole text as its identity. Names are cut at dialects.MaxText.
func toolIdentity(dialect domain.Dialect, tool jsontext.Value) string {
	kind, name := dialects.TextOf(tool, "type"), dialects.TextOf(tool, "name")
	space := "name"
	switch {
	case dialect == domain.Chat && (kind == "function" || kind == "custom"):
		name = dialects.TextOf(rawjson.Get(tool, kind), "name") // named inside
	case kind == "openrouter:advisor", kind == "openrouter:subagent":
		// The one without a name is the default instance.
		return kind + "\x00" + strings.TrimSpace(dialects.TextOf(rawjson.Get(tool, "parameters"), "name"))
	case kind == "namespace":
		space = kind
	case kind == "mcp":
		space, name = kind, dialects.TextOf(tool, "server_label")
	case kind == "mcp_toolset":
		space, name = kind, dialects.TextOf(tool, "mcp_server_name")
	case name == "" && strings.HasPrefix(kind, "web_search"): // with a date, or as a preview
		space, name = "type", "web_search"
	case name == "" && kind != "function" && kind != "custom", strings.HasPrefix(kind, "openrouter:"):
		space, name = "type", kind
	}
	if name == "" {
		return "=" + digest(tool)
	}
	return space + "\x00" + name
}

// digest returns a text, or the hash of a long one.
func digest(text []byte) string {
	if len(text) > dialects.MaxText {
		hash := sha256.Sum256(text)
		return string(hash[:])
	}
	return string(text)
}

// namedTool is a tool with its identity.
type namedTool struct {
	identity string
	tool     jsontext.Value
}

// splitTools splits a tools field, which must be an array. most is how many tools it may have.
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

// mergeTools returns the preset's tools in their order, then the tools that only the
// request has. A request's tool replaces a preset's tool of the same identity: the first
// the first, and so on. Other tools of the preset with that identity are left out.
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
