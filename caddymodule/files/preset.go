package files

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"
	"go.yaml.in/yaml/v3"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/schema"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// The members of a preset's file, in the order in which Write writes them.
var presetMembers = []string{
	"name", "description", "status", "labels", "policy", "template", "earlier", "responses", "chat", "messages",
}

// dialects are by the member that has the request.
var dialects = map[string]domain.Dialect{
	"responses": domain.Responses, "chat": domain.Chat, "messages": domain.Messages,
}

const requestChoice = "one of responses, chat and messages"

// preset returns the preset of a document. It is not ok if there are mistakes.
func (d *document) preset(workspace, slug string) (p Preset, ok bool) {
	p = Preset{Workspace: workspace, Slug: slug, File: d.file, Status: domain.PresetActive, Labels: map[string]Label{}}
	if d.root == nil {
		d.mistakes.add(&Error{File: d.file, Message: "is empty: a preset has a request, " + requestChoice})
		return p, false
	}
	settings := &yaml.Node{Kind: yaml.MappingNode, Line: d.root.Line, Column: d.root.Column}
	var version []entry
	for _, e := range d.entries(d.root, nil) {
		at := []string{e.name}
		switch e.name {
		case "name", "description", "status", "policy":
			settings.Content = append(settings.Content, e.key, e.value)
		case "labels":
			p.Labels = d.labels(e.value, at)
		case "earlier":
			p.Earlier = d.earlier(e.value, at)
		case "template", "responses", "chat", "messages":
			version = append(version, e)
		default:
			d.mistake(e.key, at, "is unknown: a preset's file has "+strings.Join(presetMembers, ", "))
		}
	}
	d.settings(&p, settings)
	p.Version = d.version(d.root, nil, version)
	return p, !d.failed
}

// settings reads the members that PATCH /presets/{slug} takes.
func (d *document) settings(p *Preset, n *yaml.Node) {
	text, ok := d.toJSON(n, nil, false)
	if !ok {
		return
	}
	if _, err := d.schemas.UpdatePreset.Check(text); err != nil {
		d.mistakesOf(n, nil, err)
		return
	}
	var given struct {
		Name        *string              `json:"name"`
		Description *string              `json:"description"`
		Status      *domain.PresetStatus `json:"status"`
		Policy      *domain.Policy       `json:"policy"`
	}
	if err := jsonv2.Unmarshal(text, &given); err != nil {
		d.mistakesOf(n, nil, err)
		return
	}
	p.Name, p.Description, p.Policy = given.Name, given.Description, given.Policy
	if given.Status != nil {
		p.Status = *given.Status
	}
	if err := p.Policy.Check(); err != nil {
		d.mistakesOf(n, nil, err)
	}
	if p.Policy != nil && p.Policy.Violation == "" {
		p.Policy.Violation = domain.OverrideViolation // as the server stores it
	}
}

// earlier reads versions that a new preset gets first.
func (d *document) earlier(n *yaml.Node, path []string) (all []Version) {
	list := follow(n)
	if list.Kind != yaml.SequenceNode {
		d.mistake(n, path, "must be a list of versions")
		return nil
	}
	for i, item := range list.Content {
		at := append(slices.Clone(path), strconv.Itoa(i))
		var message *string
		var version []entry
		for _, e := range d.entries(item, at) {
			place := append(slices.Clone(at), e.name)
			switch e.name {
			case "message":
				message = d.message(e.value, place)
			case "template", "responses", "chat", "messages":
				version = append(version, e)
			default:
				d.mistake(e.key, place, "is unknown: an earlier version has message, template, responses, chat, messages")
			}
		}
		v := d.version(item, at, version)
		v.Message = message
		all = append(all, v)
	}
	return all
}

func (d *document) message(n *yaml.Node, path []string) *string {
	text, ok := d.stringOf(n)
	if !ok {
		d.mistake(n, path, "must be a string")
		return nil
	}
	if err := domain.CheckMessage(text); err != nil {
		refused, _ := err.(*domain.Error) //nolint:errorlint // CheckMessage returns this type unwrapped
		d.mistake(n, path, refused.Issues[0].Message)
		return nil
	}
	return &text
}

// stringOf returns the text of a scalar that is a string.
func (d *document) stringOf(n *yaml.Node) (string, bool) {
	n = follow(n)
	if n.Kind != yaml.ScalarNode {
		return "", false
	}
	s, problem := readScalar(n)
	return s.text, problem == "" && s.kind == '"'
}

// version reads a version: the member template, and exactly one request. n has them.
func (d *document) version(n *yaml.Node, path []string, members []entry) (v Version) {
	template := false
	var request *entry
	for _, e := range members {
		at := append(slices.Clone(path), e.name)
		switch {
		case e.name == "template":
			value := follow(e.value)
			s, problem := readScalar(value)
			if value.Kind != yaml.ScalarNode || problem != "" || s.kind != 't' && s.kind != 'f' {
				d.mistake(e.value, at, "must be a boolean")
			}
			template = s.kind == 't'
		case request != nil:
			d.mistake(e.key, at, "there is a request already: a version has exactly "+requestChoice)
		default:
			request = &e
		}
	}
	if request == nil {
		if follow(n).Kind != yaml.MappingNode { // a mistake already
			return v
		}
		d.mistake(n, path, "has no request: a version has exactly "+requestChoice)
		return v
	}
	path = append(slices.Clone(path), request.name)
	return d.request(dialects[request.name], request.value, path, template)
}

// request reads a request.
func (d *document) request(dialect domain.Dialect, n *yaml.Node, path []string, template bool) (v Version) {
	before := len(d.broken)
	text, ok := d.toJSON(n, path, true)
	if !ok {
		return v
	}
	rules := SchemaOf(d.schemas, dialect, template)
	body := bytes.Clone(text)
	members, err := rules.Check(body)
	if err != nil {
		d.mistakesOf(n, path, err)
		members, _ = rawjson.Members(body)
	}
	keys := keysOf(follow(n))
	for _, m := range members {
		if inference.IsKept(dialect, m.Name) || m.Name == inference.ConversationField(dialect) {
			continue
		}
		message := "is not kept by a preset: leave it out"
		if !rules.Names(m.Name) {
			message = "is unknown, so a preset does not keep it: leave it out"
		}
		d.mistake(keys[m.Name], append(slices.Clip(path), m.Name), message)
	}
	if len(d.broken) > before {
		return v
	}
	capture := inference.Capture
	if template {
		capture = inference.CaptureTemplate
	}
	v.Request = body
	if v.Capture, err = capture(dialect, members); err != nil {
		d.mistakesOf(n, path, err)
	}
	return v
}

// keysOf returns the keys of a mapping by their texts. Of equal ones it is the first.
func keysOf(n *yaml.Node) map[string]*yaml.Node {
	keys := make(map[string]*yaml.Node, len(n.Content)/2)
	for i := len(n.Content) - 2; i >= 0; i -= 2 {
		keys[n.Content[i].Value] = n.Content[i]
	}
	return keys
}

// SchemaOf returns the schema of the requests of a dialect that versions are made of. That of
// templates checks messages whole.
func SchemaOf(schemas *schema.Schemas, dialect domain.Dialect, isTemplate bool) *schema.Schema {
	request, template := schemas.ResponsesRequest, schemas.ResponsesTemplate
	switch dialect {
	case domain.Chat:
		request, template = schemas.ChatRequest, schemas.ChatTemplate
	case domain.Messages:
		request, template = schemas.MessagesRequest, schemas.MessagesTemplate
	}
	if isTemplate {
		return template
	}
	return request
}
