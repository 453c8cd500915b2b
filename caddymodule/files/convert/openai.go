package convert

import (
	"cmp"
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/caddy-presets/caddy-presets/domain"
)

// readOpenAI reads what OpenAI shows of its prompts. Responses echo their prompt. The
// dashboard's code panel has request bodies.
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
		}
		for item := range root.items() {
			c.readOpenAIObject(&found, item)
		}
	}
	return found.all, nil
}

// readOpenAIObject reads one object of either shape.
func (c *conversion) readOpenAIObject(found *prompts, root node) {
	switch {
	case root.kind() != '{':
		c.refuse(root, "must be an object")
	case root.textOf("object") == "response":
		c.readOpenAIResponse(found, root)
	default:
		c.readOpenAIBody(found, root)
	}
}

// ofResponse are the members of a Response or a body that are no settings.
var ofResponse = strings.Fields(`id object created_at completed_at status error incomplete_details output output_text usage billing
	prompt instructions input`)

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
	v.readContent(root.get("instructions"), "developer")
	if len(v.messages) == 0 {
		v.refuse(root.at("instructions"), "is empty: the answer does not show the prompt")
	}
	v.readCallSettings(root)
	if model := root.get("model"); snapshot.MatchString(root.textOf("model")) {
		v.change(model, "is the snapshot that answered: the prompt may name the model without the date")
	}
	v.given = reference.get("variables")
}

func promptID(reference node) string {
	return cmp.Or(reference.textOf("id"), reference.textOf("prompt_id"))
}

// readContent reads instructions or an input: a text of a role, or a list of items.
func (v *version) readContent(content node, role string) {
	if text, ok := content.text(); ok {
		v.messages = append(v.messages, message(content, role, text))
		return
	}
	v.readMessages(content, "id", "status")
}

// readCallSettings adds the settings of a call without those that are the API's defaults.
func (v *version) readCallSettings(root node) {
	var defaults []string
	for name, value := range root.members() {
		silent, isCall := ofOneCall[name]
		switch {
		case slices.Contains(ofResponse, name) || !value.exists():
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

// readOpenAIBody reads the body of a request, as the dashboard's code panel shows it.
func (c *conversion) readOpenAIBody(found *prompts, root node) {
	reference := root.get("prompt")
	id, number := promptID(reference), reference.get("version").number()
	if !root.get("input").exists() && !root.get("instructions").exists() {
		c.refuse(root, "is neither a Response nor the body of a request with content: give a Response of a call that used the prompt")
		return
	}
	p := found.of(cmp.Or(id, strings.TrimSuffix(root.file, filepath.Ext(root.file)), noSlug))
	if reference.exists() {
		p.leave(reference, "is a reference beside the content: the content is taken")
	} else {
		p.change(root, "the body does not tell the prompt's id: its slug comes from the file's name")
	}
	v := &version{number: number, dialect: domain.Responses, syntax: plainBraces, place: root}
	p.versions = append(p.versions, v)
	v.readContent(root.get("instructions"), "developer")
	v.readContent(root.get("input"), "user")
	v.readCallSettings(root)
}
