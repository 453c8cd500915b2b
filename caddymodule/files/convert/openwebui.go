package convert

import (
	"errors"

	"github.com/caddy-presets/caddy-presets/domain"
)

// readOpenWebUI reads the models of Open WebUI's workspace, as its export has them.
func readOpenWebUI(c *conversion) ([]*prompt, error) {
	if c.isLive() {
		return nil, errors.New("give a file: Open WebUI writes it under Workspace, Models, Export")
	}
	roots, err := c.roots()
	if err != nil {
		return nil, err
	}
	var found prompts
	for _, root := range roots {
		if root.kind() != '[' {
			c.readOpenWebUIModel(&found, root)
		}
		for item := range root.items() {
			c.readOpenWebUIModel(&found, item)
		}
	}
	return found.all, nil
}

// openWebUIParameters are the names of a chat request for those of params. Members of either name are
// settings, and others are of Open WebUI or Ollama.
var openWebUIParameters = map[string]string{
	"temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "min_p": "min_p", "max_tokens": "max_tokens", "seed": "seed", "stop": "stop",
	"frequency_penalty": "frequency_penalty", "presence_penalty": "presence_penalty", "repeat_penalty": "repetition_penalty",
	"reasoning_effort": "reasoning_effort", "response_format": "response_format", "num_predict": "max_tokens",
}

func (c *conversion) readOpenWebUIModel(found *prompts, model node) {
	if info := model.get("info"); info.get("params").exists() { // an older export
		model = info
	}
	id := model.textOf("id")
	if id == "" {
		c.refuse(model, "must be a model with an id")
		return
	}
	p := found.of(id)
	p.oneUnnumbered = true
	v := &version{dialect: domain.Chat, syntax: openWebUIBraces, place: model}
	p.versions = append(p.versions, v)
	meta, params := model.get("meta"), model.get("params")
	p.title, p.description = model.textOf("name"), meta.textOf("description")
	if active := model.get("is_active"); active.kind() == 'f' {
		p.disabled = true
		v.change(active, "is false, so the preset is disabled")
	}
	v.leaveOthers(model, "id name base_model_id params meta is_active user_id user created_at updated_at write_access")
	v.leaveOthers(meta, "description")
	if base := model.get("base_model_id"); base.exists() {
		v.set("model", base)
	} else {
		v.set("model", model.get("id")) // settings of the model itself
	}
	for name, value := range params.members() {
		setting := openWebUIParameters[name]
		text, isText := value.text()
		switch {
		case !value.exists():
		case name == "system" && isText:
			if text != "" {
				v.messages = append(v.messages, message(value, "system", text))
			}
		case setting != "":
			v.set(setting, value)
		default:
			v.leave(value, "has no counterpart: it is for Open WebUI or for the process that runs the model")
		}
	}
}

// openWebUIBraces is the syntax of {{NAME}}, which Open WebUI fills in itself.
func openWebUIBraces(text string) ([]segment, []finding) {
	segments, found := plainBraces(text)
	for _, s := range segments {
		if s.variable != "" {
			return segments, append(found, finding{message: "has variables that Open WebUI fills in: clients send their values now"})
		}
	}
	return segments, found
}
