package files

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema"
)

// maxInline bounds a prompt of one line that stands in the YAML file, in characters.
const maxInline = 100

// fileOf returns the mapping for the file of p, and the file that its prompt goes to, if it does. d is
// the file that is there already, nil for none.
func (w *workspaceWriter) fileOf(p Preset, d *document) (file *yaml.Node, own prompt, err error) {
	for _, v := range append(slices.Clip(p.Earlier), p.Version) {
		if err := schema.CheckDepth(v.Request, schema.MaxDepth); err != nil {
			return nil, own, fmt.Errorf("a request %w", err)
		}
	}
	policy, err := policyNode(p.Policy)
	if err != nil {
		return nil, own, err
	}
	var status, template *yaml.Node
	if p.Status == domain.PresetDisabled {
		status = wordNode(string(p.Status))
	}
	if p.Version.Capture.Template != nil {
		template = wordNode("true")
	}
	request, own := w.request(p, d)
	file = &yaml.Node{Kind: yaml.MappingNode}
	for _, m := range []struct {
		name  string
		value *yaml.Node
	}{
		{"name", optional(p.Name)},
		{"description", optional(p.Description)},
		{"status", status},
		{"labels", labelsNode(p.Labels)},
		{"policy", policy},
		{"template", template},
		{"earlier", earlierNode(p.Earlier)},
		{requestNames[p.Version.Capture.Dialect], request},
	} {
		if m.value != nil {
			put(file, m.name, m.value)
		}
	}
	return file, own, nil
}

func optional(text *string) *yaml.Node {
	if text == nil {
		return nil
	}
	return textNode(*text)
}

func labelsNode(all map[string]Label) *yaml.Node {
	if len(all) == 0 {
		return nil
	}
	labels := &yaml.Node{Kind: yaml.MappingNode}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		value := wordNode(all[name].Version.String())
		if all[name].Split != nil {
			text, _ := json.Marshal(all[name]) // never fails
			value = jsonNode(text)
		}
		put(labels, name, value)
	}
	return labels
}

// policyNode returns the node of a policy, without the default of violation.
func policyNode(policy *domain.Policy) (*yaml.Node, error) {
	if policy == nil {
		return nil, nil
	}
	text, err := jsonv2.Marshal(policy, jsonv2.Deterministic(true))
	if err != nil {
		return nil, err
	}
	if err := schema.CheckDepth(text, schema.MaxDepth); err != nil {
		return nil, fmt.Errorf("the policy %w", err)
	}
	n := jsonNode(text)
	if i := keyIndex(n, "violation"); i >= 0 && policy.Violation == domain.OverrideViolation {
		n.Content = slices.Delete(n.Content, i, i+2)
	}
	return n, nil
}

func earlierNode(versions []Version) *yaml.Node {
	if len(versions) == 0 {
		return nil
	}
	all := &yaml.Node{Kind: yaml.SequenceNode}
	for _, v := range versions {
		n := &yaml.Node{Kind: yaml.MappingNode}
		if v.Message != nil {
			put(n, "message", textNode(*v.Message))
		}
		if v.Capture.Template != nil {
			put(n, "template", wordNode("true"))
		}
		put(n, requestNames[v.Capture.Dialect], jsonNode(jsontext.Value(v.Request)))
		all.Content = append(all.Content, n)
	}
	return all
}

// request returns the mapping of the request, and the file that its prompt goes to, unless that is in the
// mapping or stays where it is.
func (w *workspaceWriter) request(p Preset, d *document) (request *yaml.Node, own prompt) {
	request = jsonNode(jsontext.Value(p.Version.Request))
	leaf := promptOf(p, request)
	if leaf == nil {
		return request, own
	}
	text, name, isOwn := leaf.Value, p.Slug+".md", false
	if d != nil {
		old := promptOf(p, child(d.root, requestNames[p.Version.Capture.Dialect]))
		if old != nil && isFile(old) && d.texts[old] == text {
			*leaf = *old
			return request, own
		}
		isOwn = w.named[strings.ToLower(name)] == 1 && slices.ContainsFunc(slices.Collect(maps.Keys(d.texts)), func(n *yaml.Node) bool { return path.Clean(n.Value) == name })
	}
	isShort := !strings.Contains(text, "\n") && utf8.RuneCountInString(text) <= maxInline
	if isShort || !isOwn && w.isThere(name) || strings.HasSuffix(text, "\r") { // which would be taken for a part of the last line break
		return request, own
	}
	*leaf = yaml.Node{Kind: yaml.ScalarNode, Tag: fileTag, Style: yaml.TaggedStyle, Value: name}
	return request, prompt{name, text}
}

// promptOf returns the string in a request that is the whole system prompt of p, nil if there is none.
func promptOf(p Preset, request *yaml.Node) *yaml.Node {
	if p.Version.Capture.SystemPrompt == nil {
		return nil
	}
	n := child(request, promptFields[p.Version.Capture.Dialect])
	if p.Version.Capture.Dialect == domain.Chat {
		n = child(child(child(request, "messages"), "0"), "content")
	}
	if n == nil || n.Kind != yaml.ScalarNode {
		return nil
	}
	return n
}
