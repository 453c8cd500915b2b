package files

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
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
	preset Preset
	// present and root are what the file has. root is nil for a new file.
	present Preset
	root    *yaml.Node
	// canWrite reports whether a file that !file names may get another text.
	canWrite func(name, text string) bool
	// newPrompt returns the name for the own file of a prompt.
	newPrompt func(text string) string
	writes    []prompt
}

// file returns the mapping for the file. Members that mean the same already are kept.
func (t *target) file() (*yaml.Node, error) {
	p, q := t.preset, t.present
	for _, v := range append(slices.Clip(p.Earlier), p.Version) {
		if err := schema.CheckDepth(v.Request, schema.MaxDepth); err != nil {
			return nil, fmt.Errorf("a request %w", err)
		}
	}
	file := &yaml.Node{Kind: yaml.MappingNode}
	policy, err := policyNode(p.Policy, t.root)
	if err != nil {
		return nil, err
	}
	isNew := t.root == nil
	add := func(name string, same bool, value func() *yaml.Node) {
		switch {
		case isNew && value != nil:
			put(file, name, value())
		case isNew:
		case same && child(t.root, name) != nil:
			put(file, name, kept)
		case !same && value != nil:
			put(file, name, value())
		}
	}
	text := func(s *string) func() *yaml.Node {
		if s == nil {
			return nil
		}
		return func() *yaml.Node { return textNode(*s) }
	}
	add("name", sameName(p, q), text(p.Name))
	add("description", sameText(p.Description, q.Description), text(p.Description))
	var status, labels, rules, template, earlier func() *yaml.Node
	if p.Status == domain.PresetDisabled {
		status = func() *yaml.Node { return wordNode(string(p.Status)) }
	}
	if len(p.Labels) > 0 {
		labels = t.labels
	}
	if p.Policy != nil {
		rules = func() *yaml.Node { return policy }
	}
	if p.Version.Capture.Template != nil {
		template = func() *yaml.Node { return wordNode("true") }
	}
	if len(p.Earlier) > 0 {
		earlier = t.earlier
	}
	add("status", p.Status == q.Status, status)
	add("labels", sameLabels(p, q), labels)
	add("policy", samePolicy(p.Policy, q.Policy), rules)
	add("template", (p.Version.Capture.Template == nil) == (q.Version.Capture.Template == nil), template)
	add("earlier", sameEarlier(p, q), earlier)
	dialect := p.Version.Capture.Dialect
	add(requestNames[dialect], SameCapture(p.Version.Capture, q.Version.Capture), func() *yaml.Node {
		var old *yaml.Node
		if q.Version.Capture.Dialect == dialect && !isNew {
			old = follow(child(t.root, requestNames[dialect]))
		}
		return t.request(old)
	})
	return file, nil
}

func (t *target) labels() *yaml.Node {
	labels := &yaml.Node{Kind: yaml.MappingNode}
	var old *yaml.Node
	if t.root != nil {
		old = child(t.root, "labels")
	}
	for _, name := range slices.Sorted(maps.Keys(t.preset.Labels)) {
		label := t.preset.Labels[name]
		if before, ok := t.present.Labels[name]; ok && t.preset.sameLabel(label, before) {
			if value := child(follow(old), name); value != nil {
				put(labels, name, value)
				continue
			}
		}
		put(labels, name, labelNode(label))
	}
	return labels
}

func labelNode(label Label) *yaml.Node {
	if label.Split == nil {
		return wordNode(label.Version.String())
	}
	split := &yaml.Node{Kind: yaml.SequenceNode}
	for _, share := range label.Split {
		one := &yaml.Node{Kind: yaml.MappingNode}
		put(one, "version", wordNode(share.Version.String()))
		put(one, "weight", wordNode(strconv.Itoa(share.Weight)))
		split.Content = append(split.Content, one)
	}
	n := &yaml.Node{Kind: yaml.MappingNode}
	put(n, "split", split)
	return n
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
	stated := root != nil && child(root, "policy") != nil && child(follow(child(root, "policy")), "violation") != nil
	if policy.Violation == domain.OverrideViolation && !stated {
		i := slices.IndexFunc(n.Content, func(key *yaml.Node) bool { return key.Value == "violation" })
		n.Content = slices.Delete(n.Content, i, i+2)
	}
	return n, nil
}

func (t *target) earlier() *yaml.Node {
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
	inlined := strings.HasSuffix(text, "\r") || !strings.Contains(text, "\n") && utf8.RuneCountInString(text) <= maxInline
	if old = follow(old); old != nil {
		switch {
		case isFile(old) && t.canWrite(old.Value, text):
			t.writes = append(t.writes, prompt{old.Value, text})
			return fileNode(old.Value)
		case !isFile(old) && old.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
			return textNode(text)
		}
	}
	if inlined {
		return textNode(text)
	}
	name := t.newPrompt(text)
	t.writes = append(t.writes, prompt{name, text})
	return fileNode(name)
}

// request returns the mapping of the request. old is what the file has for the dialect.
func (t *target) request(old *yaml.Node) *yaml.Node {
	v, q := t.preset.Version, t.present.Version
	dialect := v.Capture.Dialect
	request := jsonNode(jsontext.Value(v.Request))
	leaf := promptLeaf(dialect, request)
	var oldLeaf *yaml.Node
	if old != nil {
		oldLeaf = promptLeaf(dialect, old)
	}
	samePrompt := old != nil && domain.TextOrEmpty(v.Capture.SystemPrompt) == domain.TextOrEmpty(q.Capture.SystemPrompt)
	if leaf != nil && !samePrompt {
		*leaf = *t.prompt(leaf.Value, oldLeaf)
	}
	if old == nil {
		return request
	}
	conversation := inference.ConversationField(dialect)
	plain := v.Capture.Template == nil && q.Capture.Template == nil
	if dialect == domain.Chat {
		t.messages(request, old, samePrompt, plain)
	} else {
		field := promptFields[dialect]
		switch before := child(old, field); {
		case before == nil && samePrompt: // an empty prompt
			request.Content = without(request.Content, field)
		case before == nil:
		case samePrompt:
			set(request, field, before)
		case leaf != nil && oldLeaf != nil:
			set(request, field, replaced(before, oldLeaf, leaf))
		}
		if before := child(old, conversation); before != nil && plain {
			set(request, conversation, before)
		}
	}
	for i := 0; i+1 < len(old.Content); i += 2 { // null means the same as nothing
		name, value := old.Content[i].Value, follow(old.Content[i+1])
		if s, problem := readScalar(value); value.Kind == yaml.ScalarNode && problem == "" && s.kind == 'n' && child(request, name) == nil {
			put(request, name, value)
		}
	}
	return request
}

// promptFields are the fields with the system prompt, in the dialects that have one.
var promptFields = map[domain.Dialect]string{domain.Responses: "instructions", domain.Messages: "system"}

// messages sets the messages of a chat: those with the system prompt, and the others. The
// file's own stay where they mean the same.
func (t *target) messages(request, old *yaml.Node, samePrompt, plain bool) {
	before := child(old, "messages")
	if before == nil {
		return
	}
	oldLead, oldTail := splitMessages(follow(before))
	var lead, tail []*yaml.Node
	if after := child(request, "messages"); after != nil {
		lead, tail = splitMessages(after)
	}
	oldLeaf, leaf := promptLeaf(domain.Chat, old), promptLeaf(domain.Chat, request)
	switch {
	case samePrompt:
		lead = oldLead
	case leaf != nil && oldLeaf != nil:
		lead = make([]*yaml.Node, len(oldLead))
		for i, message := range oldLead {
			lead[i] = replaced(message, oldLeaf, leaf)
		}
	}
	if plain {
		tail = oldTail
	}
	if all := slices.Concat(lead, tail); len(all) > 0 {
		set(request, "messages", &yaml.Node{Kind: yaml.SequenceNode, Content: all})
	} else {
		request.Content = without(request.Content, "messages")
	}
}

// without returns the members of a mapping but one.
func without(members []*yaml.Node, name string) []*yaml.Node {
	for i := 0; i+1 < len(members); i += 2 {
		if members[i].Value == name {
			return slices.Delete(members, i, i+2)
		}
	}
	return members
}

// set adds or replaces a member of a mapping.
func set(mapping *yaml.Node, name string, value *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			mapping.Content[i+1] = value
			return
		}
	}
	put(mapping, name, value)
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

// splitMessages splits the messages of a chat as inference.Capture does: into those with
// the system prompt, and the others.
func splitMessages(list *yaml.Node) (lead, tail []*yaml.Node) {
	for i, message := range list.Content {
		role := child(follow(message), "role")
		if role == nil || follow(role).Value != "system" && follow(role).Value != "developer" {
			return list.Content[:i], list.Content[i:]
		}
	}
	return list.Content, nil
}

// promptLeaf returns the string that is the whole system prompt of a request. It is nil if
// there is no prompt, or one of several parts.
func promptLeaf(dialect domain.Dialect, request *yaml.Node) (leaf *yaml.Node) {
	var all []*yaml.Node
	if dialect == domain.Chat {
		if list := child(request, "messages"); list != nil {
			lead, _ := splitMessages(follow(list))
			for _, message := range lead {
				if content := child(follow(message), "content"); content != nil {
					all = append(all, textLeaves(content)...)
				}
			}
		}
	} else if field := child(request, promptFields[dialect]); field != nil {
		all = textLeaves(field)
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

// defaultsNode returns the mapping of a workspace's file.
func defaultsNode(defaults json.RawMessage) *yaml.Node { return jsonNode(jsontext.Value(defaults)) }
