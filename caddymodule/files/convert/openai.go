package convert

import (
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/caddy-presets/caddy-presets/domain"
)

// readOpenAI reads what OpenAI shows of its prompts. Responses echo their prompt. The
// dashboard's code panel has request bodies. Exports are made by hand.
func readOpenAI(c *conversion) ([]*prompt, error) {
	if c.isLive() {
		return nil, errors.New("OpenAI has no API that reads prompts: give a file with a Response or with a request's body")
	}
	roots, err := c.roots()
	if err != nil {
		return nil, err
	}
	var found prompts
	for _, root := range roots {
		if root.kind() != '[' {
			c.readOpenAIObject(&found, root)
			continue
		}
		for item := range root.items() {
			if !c.take() {
				break
			}
			c.readOpenAIObject(&found, item)
		}
	}
	for _, p := range found.all {
		unnumbered := 0
		for _, v := range p.versions {
			if v.number == 0 {
				unnumbered++
			}
		}
		if unnumbered > 1 {
			p.entries = append(p.entries, Entry{Kind: Changed, Message: "the input does not number the versions: their order in the input is taken"})
		}
	}
	return found.all, nil
}

// readOpenAIObject reads one object of any of the three shapes.
func (c *conversion) readOpenAIObject(found *prompts, root node) {
	switch {
	case root.kind() != '{':
		c.refuse(root, "must be an object")
	case root.get("versions").kind() == '[':
		c.readOpenAIExport(found, root)
	case root.textOf("object") == "response":
		c.readOpenAIResponse(found, root)
	default:
		c.readOpenAIBody(found, root)
	}
}

// readOpenAIExport reads an export that was made by hand. Langfuse proposes its shape.
func (c *conversion) readOpenAIExport(found *prompts, root node) {
	id, name := root.textOf("openai_prompt_id"), root.textOf("name")
	if id == "" {
		if id = name; id == "" {
			c.refuse(root.at("openai_prompt_id"), "must be the id of the prompt")
			return
		}
	}
	p := found.of(id)
	if name != id {
		p.title = name
	}
	production := root.get("production_version")
	if p.chosen = production.number(); production.exists() && p.chosen == 0 {
		p.leave(production, "must be the number of a version: the newest one is taken")
	}
	for name, value := range root.members() {
		if value.exists() && !slices.Contains([]string{"openai_prompt_id", "name", "production_version", "versions"}, name) {
			p.leave(value, "has no counterpart")
		}
	}
	for item := range root.get("versions").items() {
		if !c.take() {
			break
		}
		v := &version{number: item.get("version").number(), dialect: domain.Responses, syntax: plainBraces, place: item}
		v.readMessages(item.get("messages"), "id", "status")
		v.readSettings(item.get("config"))
		for name, value := range item.members() {
			if value.exists() && name != "version" && name != "messages" && name != "config" {
				v.leave(value, "has no counterpart")
			}
		}
		p.versions = append(p.versions, v)
	}
}

// readMessages adds the messages of a list without some members.
func (v *version) readMessages(list node, without ...string) {
	if list.exists() && list.kind() != '[' {
		v.refuse(list, "must be a list of messages")
	}
	for m := range list.items() {
		if m.kind() != '{' {
			v.refuse(m, "must be a message")
			continue
		}
		v.messages = append(v.messages, m.without(without...))
	}
}

// readSettings adds the members of an object as settings.
func (v *version) readSettings(config node) {
	if config.exists() && config.kind() != '{' {
		v.leave(config, "has no counterpart: it is no object of settings")
	}
	for name, value := range config.members() {
		v.set(name, value)
	}
}

// ofResponse are the members of a Response or a body that are no settings.
var ofResponse = map[string]bool{
	"id": true, "object": true, "created_at": true, "completed_at": true, "status": true, "error": true, "incomplete_details": true,
	"output": true, "output_text": true, "usage": true, "billing": true, "prompt": true, "instructions": true, "input": true,
}

// ofOneCall are the settings of one call, which do not belong to its prompt, with the values
// that say nothing.
var ofOneCall = map[string][]string{
	"background": {"false"}, "store": {"true"}, "stream": {"false"}, "stream_options": nil, "previous_response_id": nil,
	"conversation": nil, "prompt_cache_key": nil, "prompt_cache_retention": nil, "safety_identifier": nil, "user": nil, "metadata": {"{}"},
}

// openAIDefaults are the values that the API has without a setting. Models refuse some of
// them, so they are left out.
var openAIDefaults = map[string][]string{
	"temperature": {"1", "1.0"}, "top_p": {"1", "1.0"}, "frequency_penalty": {"0", "0.0"}, "presence_penalty": {"0", "0.0"},
	"top_logprobs": {"0"}, "tools": {"[]"}, "tool_choice": {`"auto"`}, "parallel_tool_calls": {"true"}, "truncation": {`"disabled"`},
	"service_tier": {`"auto"`, `"default"`}, "text": {`{"format":{"type":"text"}}`, `{"format":{"type":"text"},"verbosity":"medium"}`},
	"reasoning": {`{}`, `{"effort":null,"summary":null}`}, "include": {"[]"},
}

// snapshot matches the date at the end of a model's name.
var snapshot = regexp.MustCompile(`-20\d\d-\d\d-\d\d$`)

// readOpenAIResponse reads the Response of a call that used a prompt.
func (c *conversion) readOpenAIResponse(found *prompts, root node) {
	reference := root.get("prompt")
	id := promptID(reference)
	if id == "" {
		c.refuse(root.at("prompt"), "must name the prompt: this answer is of a call without one")
		return
	}
	p := found.of(id)
	v := &version{number: reference.get("version").number(), dialect: domain.Responses, syntax: plainBraces, place: root}
	p.versions = append(p.versions, v)
	v.readInstructions(root.get("instructions"))
	if len(v.messages) == 0 {
		v.refuse(root.at("instructions"), "is empty: the answer does not show the prompt")
	}
	v.readCallSettings(root)
	if model := root.get("model"); snapshot.MatchString(root.textOf("model")) {
		v.change(model, "is the snapshot that answered: the prompt may name the model without the date")
	}
	v.reportSubstituted(reference.get("variables"))
}

func promptID(reference node) string {
	if id := reference.textOf("id"); id != "" {
		return id
	}
	return reference.textOf("prompt_id")
}

// readInstructions reads instructions, which are text or a list of items.
func (v *version) readInstructions(instructions node) {
	if text, ok := instructions.text(); ok {
		v.messages = append(v.messages, message(instructions, "developer", text))
		return
	}
	v.readMessages(instructions, "id", "status")
}

// readCallSettings adds the settings of a call without those that are the API's defaults.
func (v *version) readCallSettings(root node) {
	var defaults []string
	for name, value := range root.members() {
		silent, isCall := ofOneCall[name]
		switch {
		case ofResponse[name] || !value.exists():
		case isCall:
			if !isOneOf(value, silent) {
				v.leave(value, "has no counterpart: it belongs to one call")
			}
		case isOneOf(value, openAIDefaults[name]):
			defaults = append(defaults, name)
		default:
			v.set(name, value)
		}
	}
	if len(defaults) > 0 {
		v.leave(root, "values that are the API's defaults: "+strings.Join(defaults, ", "))
	}
}

func isOneOf(value node, texts []string) bool {
	compact := value.value.Clone()
	return compact.Compact() == nil && slices.Contains(texts, string(compact))
}

// reportSubstituted reports variables that the text does not have. The source then shows the
// text with their values.
func (v *version) reportSubstituted(variables node) {
	names := make(map[string]bool)
	for _, m := range v.messages {
		eachText(m, func(_ node, text string) string {
			segments, _ := v.syntax(text)
			for _, s := range segments {
				names[s.variable] = true
			}
			return text
		})
	}
	for name, value := range variables.members() {
		if !names[name] {
			v.change(value, "the text does not have this variable, so it has the value of one call: put {{name}} back")
		}
	}
}

// readOpenAIBody reads the body of a request, as the dashboard's code panel shows it.
func (c *conversion) readOpenAIBody(found *prompts, root node) {
	reference := root.get("prompt")
	id, number := promptID(reference), reference.get("version").number()
	hasContent := root.get("input").exists() || root.get("instructions").exists()
	if !reference.exists() && !hasContent && strings.HasPrefix(promptID(root), "pmpt_") {
		id = promptID(root)
	}
	if id == "" && hasContent {
		id = strings.TrimSuffix(root.file, filepath.Ext(root.file))
	}
	switch {
	case !hasContent && id != "":
		found.of(id).refuse(root, "is a reference alone, which has no content: give a Response of a call that used it")
		return
	case !hasContent:
		c.refuse(root, "is neither a Response nor the body of a request")
		return
	}
	p := found.of(id)
	if id == "" {
		p.name = noSlug
	}
	if reference.exists() {
		p.leave(reference, "is a reference beside the content: the content is taken")
	} else {
		p.entries = append(p.entries, Entry{Kind: Changed, File: root.file, Path: root.path, Message: "the body does not tell the prompt's id: its slug comes from the file's name"})
	}
	v := &version{number: number, dialect: domain.Responses, syntax: plainBraces, place: root}
	p.versions = append(p.versions, v)
	v.readInstructions(root.get("instructions"))
	if input := root.get("input"); input.kind() == '"' {
		text, _ := input.text()
		v.messages = append(v.messages, message(input, "user", text))
	} else {
		v.readMessages(input, "id", "status")
	}
	v.readCallSettings(root)
}
