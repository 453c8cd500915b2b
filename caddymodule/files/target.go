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
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/schema"
)

// maxInline bounds a prompt of one line that stands in the YAML file, in characters.
const maxInline = 100

// target makes the nodes of a preset's file. The file has another preset already, or none.
type target struct {
	*workspaceWriter
	preset Preset
	// present and root are what the file has. root is nil for a new file.
	present Preset
	root    *yaml.Node
	writes  []prompt
}

// file returns the mapping for the file. Members that mean the same already are kept.
func (t *target) file() (*yaml.Node, error) {
	p, q := t.preset, t.present
	for _, v := range append(slices.Clip(p.Earlier), p.Version) {
		if err := schema.CheckDepth(v.Request, schema.MaxDepth); err != nil {
			return nil, fmt.Errorf("a request %w", err)
		}
	}
	policy, err := policyNode(p.Policy, t.root)
	if err != nil {
		return nil, err
	}
	var status, template *yaml.Node
	if p.Status == domain.PresetDisabled {
		status = wordNode(string(p.Status))
	}
	if p.Version.Capture.Template != nil {
		template = wordNode("true")
	}
	member := requestNames[p.Version.Capture.Dialect]
	old := child(t.root, member)
	sameRequest := t.root != nil && SameCapture(p.Version.Capture, q.Version.Capture)
	request := old
	if !sameRequest {
		request = t.request(follow(old))
	}
	file := &yaml.Node{Kind: yaml.MappingNode}
	for _, m := range []struct {
		name  string
		same  bool
		value *yaml.Node
	}{
		{"name", sameName(p, q), optional(p.Name)},
		{"description", sameText(p.Description, q.Description), optional(p.Description)},
		{"status", p.Status == q.Status, status},
		{"labels", sameLabels(p, q), t.labels()},
		{"policy", samePolicy(p.Policy, q.Policy), policy},
		{"template", (p.Version.Capture.Template == nil) == (q.Version.Capture.Template == nil), template},
		{"earlier", sameEarlier(p, q), t.earlier()},
		{member, sameRequest, request},
	} {
		if t.root != nil && m.same {
			m.value = child(t.root, m.name)
		}
		if m.value != nil {
			put(file, m.name, m.value)
		}
	}
	return file, nil
}

// optional returns the node of a text, nil for none.
func optional(text *string) *yaml.Node {
	if text == nil {
		return nil
	}
	return textNode(*text)
}

func (t *target) labels() *yaml.Node {
	if len(t.preset.Labels) == 0 {
		return nil
	}
	labels := &yaml.Node{Kind: yaml.MappingNode}
	old := follow(child(t.root, "labels"))
	for _, name := range slices.Sorted(maps.Keys(t.preset.Labels)) {
		label := t.preset.Labels[name]
		value := child(old, name)
		if before, ok := t.present.Labels[name]; !ok || value == nil || !t.preset.sameLabel(label, before) {
			value = labelNode(label)
		}
		put(labels, name, value)
	}
	return labels
}

func labelNode(label Label) *yaml.Node {
	if label.Split == nil {
		return wordNode(label.Version.String())
	}
	text, _ := json.Marshal(label) // never fails
	return jsonNode(text)
}

// policyNode returns the node of a policy. The default of violation is left out, unless the
// file has it.
func policyNode(policy *domain.Policy, root *yaml.Node) (*yaml.Node, error) {
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
	if policy.Violation == domain.OverrideViolation && child(follow(child(root, "policy")), "violation") == nil {
		set(n, "violation", nil)
	}
	return n, nil
}

func (t *target) earlier() *yaml.Node {
	if len(t.preset.Earlier) == 0 {
		return nil
	}
	all := &yaml.Node{Kind: yaml.SequenceNode}
	for _, v := range t.preset.Earlier {
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

// prompt returns the node for a prompt. old is the node that has it now, nil if there is
// none. A prompt stays in the place where it is, or goes to a file of its own.
func (t *target) prompt(text string, old *yaml.Node) *yaml.Node {
	isBlock := old != nil && !isFile(old) && old.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0
	isShort := !strings.Contains(text, "\n") && utf8.RuneCountInString(text) <= maxInline
	var name string
	switch {
	case old != nil && isFile(old) && t.canWrite(t.preset.Slug, old.Value, text):
		name = old.Value
	case isBlock || isShort || strings.HasSuffix(text, "\r"):
		return textNode(text)
	default:
		name = t.newPrompt(t.preset.Slug, text)
	}
	t.writes = append(t.writes, prompt{name, text})
	return fileNode(name)
}

// request returns the mapping of the request. old is what the file has for the dialect, nil for
// nothing.
func (t *target) request(old *yaml.Node) *yaml.Node {
	v, q := t.preset.Version, t.present.Version
	dialect := v.Capture.Dialect
	request := jsonNode(jsontext.Value(v.Request))
	lead, tail := splitRequest(dialect, request)
	oldLead, oldTail := splitRequest(dialect, old)
	leaf, oldLeaf := promptLeaf(lead), promptLeaf(oldLead)
	switch {
	case old != nil && domain.TextOrEmpty(v.Capture.SystemPrompt) == domain.TextOrEmpty(q.Capture.SystemPrompt):
		lead = oldLead
	case leaf != nil:
		*leaf = *t.prompt(leaf.Value, oldLeaf)
		if oldLeaf != nil {
			lead = nil
			for _, part := range oldLead {
				lead = append(lead, replaced(part, oldLeaf, leaf))
			}
		}
	}
	if old == nil {
		return request
	}
	if v.Capture.Template == nil && q.Capture.Template == nil { // the conversation is not kept
		tail = oldTail
	}
	if dialect == domain.Chat {
		if lead = slices.Concat(lead, tail); len(lead) > 0 {
			set(request, "messages", &yaml.Node{Kind: yaml.SequenceNode, Content: lead})
		} else {
			set(request, "messages", nil)
		}
	} else {
		set(request, promptFields[dialect], firstOf(lead))
		set(request, inference.ConversationField(dialect), firstOf(tail))
	}
	for i := 0; i+1 < len(old.Content); i += 2 { // null means the same as nothing
		name, value := old.Content[i].Value, old.Content[i+1]
		s, problem := readScalar(follow(value))
		if follow(value).Kind == yaml.ScalarNode && problem == "" && s.kind == 'n' && child(request, name) == nil {
			put(request, name, value)
		}
	}
	return request
}

// promptFields are the fields with the system prompt, in the dialects that have one.
var promptFields = map[domain.Dialect]string{domain.Responses: "instructions", domain.Messages: "system"}

// splitRequest returns the values with the system prompt, and those of the conversation. They are
// the messages of a chat, as inference.Capture splits them, or one field each.
func splitRequest(dialect domain.Dialect, request *yaml.Node) (lead, tail []*yaml.Node) {
	conversation := child(request, inference.ConversationField(dialect))
	if dialect != domain.Chat {
		return listOf(child(request, promptFields[dialect])), listOf(conversation)
	}
	if conversation == nil {
		return nil, nil
	}
	all := follow(conversation).Content
	for i, message := range all {
		if role := follow(child(follow(message), "role")); role == nil || role.Value != "system" && role.Value != "developer" {
			return all[:i], all[i:]
		}
	}
	return all, nil
}

// listOf returns a list of a node, empty for nil.
func listOf(n *yaml.Node) []*yaml.Node {
	if n == nil {
		return nil
	}
	return []*yaml.Node{n}
}

func firstOf(list []*yaml.Node) *yaml.Node {
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

// set adds, replaces or removes a member of a mapping.
func set(mapping *yaml.Node, name string, value *yaml.Node) {
	i := 0
	for i < len(mapping.Content) && mapping.Content[i].Value != name {
		i += 2
	}
	switch {
	case value == nil:
		mapping.Content = slices.Delete(mapping.Content, i, min(i+2, len(mapping.Content)))
	case i < len(mapping.Content):
		mapping.Content[i+1] = value
	default:
		put(mapping, name, value)
	}
}

// replaced returns a copy of n in which one node is another.
func replaced(n, from, to *yaml.Node) *yaml.Node {
	if n = follow(n); n == from {
		return to
	}
	c := *n
	c.Content = make([]*yaml.Node, len(n.Content))
	for i, part := range n.Content {
		c.Content[i] = replaced(part, from, to)
	}
	return &c
}

// promptLeaf returns the string that is the whole system prompt. It is nil if there is no prompt,
// or one of several parts.
func promptLeaf(lead []*yaml.Node) *yaml.Node {
	var all []*yaml.Node
	for _, part := range lead {
		if content := child(follow(part), "content"); content != nil { // of a message
			part = content
		}
		all = append(all, textLeaves(part)...)
	}
	if len(all) != 1 {
		return nil
	}
	return all[0]
}

// textLeaves returns the strings of a content: a string, or a list of parts with text.
func textLeaves(content *yaml.Node) (all []*yaml.Node) {
	content = follow(content)
	if content.Kind == yaml.ScalarNode {
		if s, _ := readScalar(content); s.kind == '"' || isFile(content) {
			return []*yaml.Node{content}
		}
	}
	for _, part := range content.Content {
		if text := child(follow(part), "text"); text != nil {
			all = append(all, follow(text))
		}
	}
	return all
}
