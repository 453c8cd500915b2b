package prompts

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/dialects"
	"github.com/caddy-presets/caddy-presets/domain/inference/draft"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// variableValue is the value of a variable: a text, an object, or an object that is a text.
type variableValue struct {
	inside jsontext.Value // of a string, as this package writes it
	object *dialects.Part
}

// given reports whether the request has the value.
func (v variableValue) given() bool { return v.inside != nil || v.object != nil }

// maxUnknown bounds how many unknown variables an error names.
const maxUnknown = 20

// readValues reads the values of the template's variables.
func (t *Template) readValues(place string, object jsontext.Value) ([]variableValue, error) {
	values := make([]variableValue, len(t.Variables))
	var issues []domain.Issue
	for quoted, value := range rawjson.Pairs(object) {
		name, _ := rawjson.Head(quoted, max(dialects.MaxPointed, t.longest))
		i, known := t.index[name]
		switch {
		case len(issues) == maxUnknown:
			return nil, domain.InvalidIssues(issues...)
		case !known:
			issues = append(issues, domain.Issue{Path: place + dialects.Pointer(name), Message: "is no variable of the template"})
		case values[i].given():
			issues = append(issues, domain.Issue{Path: place + dialects.Pointer(name), Message: "duplicate name"})
		case value.Kind() == 'n': // not sent
		default:
			var issue *domain.Issue
			if values[i], issue = readValue(value); issue != nil {
				issue.Path = place + dialects.Pointer(name) + issue.Path
				return nil, domain.InvalidIssues(*issue)
			}
		}
	}
	if len(issues) > 0 {
		return nil, domain.InvalidIssues(issues...)
	}
	var missing []string
	for i, v := range values {
		if !v.given() {
			missing = append(missing, t.Variables[i])
		}
	}
	if missing != nil {
		return nil, domain.InvalidAt(place, "lacks variables of the template: "+strings.Join(missing, ", "))
	}
	return values, nil
}

// readValue reads a string, or an object that is a content part of Responses. The path of
// an issue is that within the value.
func readValue(value jsontext.Value) (v variableValue, issue *domain.Issue) {
	switch value.Kind() {
	case '"':
		inside, ok := rawjson.Inside(value)
		if !ok {
			return v, &domain.Issue{Message: "must be UTF-8"}
		}
		return variableValue{inside: inside}, nil
	case '{':
		if v.object, issue = readObjectValue(value); issue == nil {
			v.inside = v.object.Text
		}
		return v, issue
	}
	return v, &domain.Issue{Message: "must be a string, or an object of the type " + valueTypes}
}

const valueTypes = "input_text, input_image or input_file"

// objectMembers are the members that objects have as values, by type.
var objectMembers = map[string][]string{
	"input_text":  {"text"},
	"input_image": {"image_url", "file_id", "detail"},
	"input_file":  {"file_data", "file_url", "file_id", "filename"},
}

// readObjectValue reads a content part that is a variable's value.
func readObjectValue(value jsontext.Value) (*dialects.Part, *domain.Issue) {
	kind := dialects.TextOf(value, "type")
	known := objectMembers[kind]
	if known == nil {
		return nil, &domain.Issue{Path: "/type", Message: "must be " + valueTypes}
	}
	seen := map[string]bool{}
	for quoted, member := range rawjson.Pairs(value) {
		name, _ := rawjson.Head(quoted, dialects.MaxPointed)
		isKnown := name == "type" || name == "prompt_cache_breakpoint" || slices.Contains(known, name)
		switch {
		case !isKnown && member.Kind() == 'n':
			continue // there may be millions
		case seen[name]:
			return nil, &domain.Issue{Path: dialects.Pointer(name), Message: "duplicate name"}
		case name == "type", member.Kind() == 'n':
		case name == "prompt_cache_breakpoint":
			if mode := rawjson.Get(member, "mode"); !rawjson.IsText(mode, "explicit") {
				return nil, &domain.Issue{Path: dialects.Pointer(name) + "/mode", Message: "must be explicit"}
			}
		case !isKnown:
			return nil, &domain.Issue{Path: dialects.Pointer(name), Message: "is no member of such a value"}
		default:
			if !rawjson.IsUTF8(member) {
				return nil, &domain.Issue{Path: dialects.Pointer(name), Message: "must be a string, in UTF-8"}
			}
		}
		seen[name] = true
	}
	part, ok := dialects.ReadPart(domain.Responses, value)
	if !ok {
		if kind == "input_text" {
			return nil, &domain.Issue{Path: "/text", Message: "required"}
		}
		return nil, &domain.Issue{Message: "must have one of " + strings.Join(known[:len(known)-1], ", ")}
	}
	return &part, nil
}

// renderMessages returns the JSON of the messages with values in the place of variables. place is that
// of the values, for errors.
func (t *Template) renderMessages(values []variableValue, place string) ([]jsontext.Value, error) {
	rendered := make([]jsontext.Value, 0, 2*len(t.messages)+4)
	for _, p := range t.messages {
		if p.variable == noVariable {
			rendered = append(rendered, p.json)
			continue
		}
		value := values[p.variable]
		switch {
		case p.whole == nil && value.inside == nil:
			return nil, t.errInText(p, place)
		case p.whole == nil:
			rendered = append(rendered, value.inside)
		case value.object == nil:
			rendered = append(rendered, p.whole.beforeText, value.inside, p.whole.afterText)
		default:
			object, ok := value.object.Write(t.dialect, p.whole.byAssistant)
			if !ok {
				return nil, domain.InvalidAt(place+dialects.Pointer(t.Variables[p.variable]), "has a form that this API does not know")
			}
			rendered = append(rendered, p.whole.beforeObject)
			rendered = append(rendered, object...)
			rendered = append(rendered, p.whole.afterObject)
		}
	}
	return rendered, nil
}

// renderPrompt returns the system prompt with values in the place of variables.
func (t *Template) renderPrompt(values []variableValue, place string) (System, error) {
	prompt := System{From: draft.FromPreset, pieces: make([]jsontext.Value, 0, len(t.prompt))}
	for _, p := range t.prompt {
		if p.variable == noVariable {
			prompt.add(p.json)
			continue
		}
		value := values[p.variable]
		if value.inside == nil {
			return System{}, t.errInText(p, place)
		}
		prompt.From = draft.FromVariable
		prompt.add(value.inside)
	}
	return prompt, nil
}

func (t *Template) errInText(p piece, place string) error {
	return domain.InvalidAt(place+dialects.Pointer(t.Variables[p.variable]), "must be a string or input_text: the template has the variable inside a text")
}

// Render returns the system prompt and the messages with the values of an object in the place of
// variables, and where the messages are from. Messages have commas between. place is the JSON Pointer
// of the object, which may be nil. reserve grants the memory for copies of values. Errors are Invalid
// and name variables, but never have a value.
func (t *Template) Render(place string, object jsontext.Value, reserve func(size int) error) (prompt System, messages []jsontext.Value, from draft.Source, err error) {
	if bytes.IndexByte(object, '\\') >= 0 { // values with escapes are copied
		if err := reserve(len(object)); err != nil {
			return prompt, nil, "", err
		}
	}
	values, err := t.readValues(place, object)
	if err != nil {
		return prompt, nil, "", err
	}
	if prompt, err = t.renderPrompt(values, place); err != nil {
		return prompt, nil, "", err
	}
	if from = draft.FromPreset; hasVariables(t.messages) {
		from = draft.FromVariable
	}
	messages, err = t.renderMessages(values, place)
	return prompt, messages, from, err
}

// Skeleton returns the list of messages with nothing in the place of variables.
func (t *Template) Skeleton() jsontext.Value {
	values := slices.Repeat([]variableValue{{inside: jsontext.Value{}}}, len(t.Variables))
	messages, _ := t.renderMessages(values, "")
	return rawjson.ArrayOf(slices.Concat(messages...))
}
