package files

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// maxInline bounds a prompt of one line that stands in the YAML file, in characters.
const maxInline = 100

// fileOf returns the mapping for the file of p, and the file that its prompt goes to, if it does. The file
// d that is there already, nil for none, has present. What it says in another way is kept.
func (w *workspaceWriter) fileOf(p, present Preset, d *document) (file *yaml.Node, own prompt, err error) {
	for _, v := range append(slices.Clip(p.Earlier), p.Version) {
		if err := schema.CheckDepth(v.Request, schema.MaxDepth); err != nil {
			return nil, own, fmt.Errorf("a request %w", err)
		}
	}
	policy, err := policyNode(p.Policy)
	if err != nil {
		return nil, own, err
	}
	var root, status, template *yaml.Node
	if d != nil {
		root = d.root
	}
	if p.Status == domain.PresetDisabled {
		status = wordNode(string(p.Status))
	}
	if p.Version.Capture.Template != nil {
		template = wordNode("true")
	}
	saved, err := inputsNode(p, present, child(root, "inputs"))
	if err != nil {
		return nil, own, err
	}
	earlier := child(root, "earlier")
	if len(p.Earlier) > 0 {
		earlier = earlierNode(p.Earlier)
	}
	member := requestNames[p.Version.Capture.Dialect]
	request := child(root, member)
	if request == nil || !SameCapture(p.Version.Capture, present.Version.Capture) {
		request, own = w.request(p, d, request)
	}
	file = &yaml.Node{Kind: yaml.MappingNode}
	for _, m := range []struct {
		name  string
		value *yaml.Node
	}{
		{"name", optional(p.Name)},
		{"description", optional(p.Description)},
		{"status", status},
		{"tags", tagsNode(p, child(root, "tags"))},
		{"labels", labelsNode(p, present, child(root, "labels"))},
		{"policy", policy},
		{"limits", limitsNode(p.Limits)},
		{"template", template},
		{"earlier", earlier},
		{member, request},
		{"inputs", saved},
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

// labelsNode returns the node of p's labels. Those with the same target in a file, such as latest, are
// as they are in old.
func labelsNode(p, present Preset, old *yaml.Node) *yaml.Node {
	if len(p.Labels) == 0 {
		return nil
	}
	labels := &yaml.Node{Kind: yaml.MappingNode}
	for _, name := range slices.Sorted(maps.Keys(p.Labels)) {
		label := p.Labels[name]
		value := child(old, name)
		if before, ok := present.Labels[name]; !ok || value == nil || !p.sameLabel(label, before) {
			value = labelNode(label)
		}
		put(labels, name, value)
	}
	return labels
}

// tagsNode returns the node of p's tags. old stays if p says nothing of them.
func tagsNode(p Preset, old *yaml.Node) *yaml.Node {
	switch {
	case p.Tags == nil:
		return old
	case len(p.Tags) == 0:
		return nil
	}
	text, _ := json.Marshal(p.Tags) // never fails
	n := jsonNode(text)
	n.Style = yaml.FlowStyle
	return n
}

// inputsNode returns the node of p's inputs. old stays if p says nothing of them, and if it says the same.
func inputsNode(p, present Preset, old *yaml.Node) (*yaml.Node, error) {
	switch {
	case p.Inputs == nil, old != nil && sameInputs(p, present):
		return old, nil
	case len(p.Inputs) == 0:
		return nil, nil
	}
	all := &yaml.Node{Kind: yaml.SequenceNode}
	for _, in := range p.Inputs {
		text, err := jsonv2.Marshal(in)
		if err == nil {
			err = schema.CheckDepth(text, schema.MaxDepth-2)
		}
		if err != nil {
			return nil, fmt.Errorf("the input %s: %w", in.Name, err)
		}
		n := &yaml.Node{Kind: yaml.MappingNode}
		for quoted, value := range rawjson.Pairs(text) {
			if name, _ := rawjson.Text(quoted); value.Kind() != 'n' {
				put(n, name, jsonNode(value))
			}
		}
		all.Content = append(all.Content, n)
	}
	return all, nil
}

func labelNode(label Label) *yaml.Node {
	if label.Split == nil {
		return wordNode(label.Version.String())
	}
	text, _ := json.Marshal(label) // never fails
	return jsonNode(text)
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

func limitsNode(limits *domain.PresetLimits) *yaml.Node {
	if limits == nil {
		return nil
	}
	text, _ := jsonv2.Marshal(limits) // never fails
	return jsonNode(text)
}

func earlierNode(versions []Version) *yaml.Node {
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

// request returns the mapping of the request. old is what the file d has for the dialect, nil for
// nothing. own is the file that the prompt goes to, unless it stays where it is.
func (w *workspaceWriter) request(p Preset, d *document, old *yaml.Node) (request *yaml.Node, own prompt) {
	request = jsonNode(jsontext.Value(p.Version.Request))
	leaf, oldLeaf := promptOf(p, request), promptOf(p, old)
	if leaf == nil {
		return request, own
	}
	text, name := leaf.Value, p.Slug+".md"
	isBlock := oldLeaf != nil && oldLeaf.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0
	isShort := !strings.Contains(text, "\n") && utf8.RuneCountInString(text) <= maxInline
	isInline := isBlock || isShort || w.isThere(name)
	if oldLeaf != nil && isFile(oldLeaf) {
		if d.texts[oldLeaf] == text {
			return request, own
		}
		if present, _ := includeName(oldLeaf.Value); w.named[w.real(present)] == 1 {
			name, isInline = present, false
		}
	}
	if isInline || strings.HasSuffix(text, "\r") { // which would be taken for a part of the last line break
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
