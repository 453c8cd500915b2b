package convert

import (
	"strings"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
)

// readLiteLLMModels reads model_list of the proxy's configuration, in YAML or JSON. An alias with its
// settings becomes a preset.
func readLiteLLMModels(c *conversion) ([]*prompt, error) {
	roots, err := c.yamlRoots(".yaml", ".yml", ".json")
	if err != nil {
		return nil, err
	}
	var found prompts
	for _, root := range roots {
		list := root.get("model_list")
		if !list.exists() {
			list = root.get("data") // the answer of /model/info
		}
		if list.kind() != '[' {
			c.refuse(root, "must have model_list, as the proxy's configuration has")
			continue
		}
		c.leaveOthers(root, "model_list data")
		for entry := range list.items() {
			c.readLiteLLMModel(&found, entry)
		}
	}
	return found.all, nil
}

// readLiteLLMModel reads an entry of model_list. Entries with one alias share its load: the first is taken.
func (c *conversion) readLiteLLMModel(found *prompts, entry node) {
	alias, parameters, info := entry.textOf("model_name"), entry.get("litellm_params"), entry.get("model_info")
	switch mode := info.textOf("mode"); {
	case alias == "" || parameters.kind() != '{':
		c.refuse(entry, "must have model_name and litellm_params")
		return
	case strings.Contains(alias, "*"):
		c.leave(entry.get("model_name"), "is a pattern of names and not one model")
		return
	case mode != "" && mode != "chat" && mode != "completion" && mode != "responses":
		c.leave(entry, "is no model for chats")
		return
	}
	p := found.of(alias)
	if len(p.versions) > 0 {
		p.leave(entry, "is another deployment of the alias: a preset has one model, and the gateway spreads its load")
		return
	}
	v := &version{dialect: domain.Chat, place: entry}
	p.versions = append(p.versions, v)
	for name, value := range parameters.members() {
		text, _ := value.text()
		switch {
		case !value.exists():
		case name == "model" && strings.HasPrefix(text, "os.environ/"):
			v.refuse(value, "comes from the proxy's environment: name the model in a copy of the file")
		case strings.HasPrefix(text, "os.environ/"):
			v.leave(value, "comes from the proxy's environment, and is not taken")
		case inference.IsKept(domain.Chat, name):
			v.set(name, value)
		default:
			v.leave(value, "is a setting of the proxy, and is not taken")
		}
	}
	if info.exists() {
		v.leave(info, "has no counterpart: it describes the model to the proxy")
	}
	v.leaveOthers(entry, "model_name litellm_params model_info")
}
