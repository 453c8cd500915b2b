package files

import (
	"errors"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/domain/inputs"
	"github.com/caddy-presets/caddy-presets/schema"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// dialects are by the member that has the request.
var dialects = map[string]domain.Dialect{
	"responses": domain.Responses, "chat": domain.Chat, "messages": domain.Messages,
}

const requestChoice = "one of responses, chat and messages"

// presetFile is what a file says of a preset, beside its versions.
type presetFile struct {
	Name        *string              `json:"name"`
	Description *string              `json:"description"`
	Status      *domain.PresetStatus `json:"status"`
	Labels      map[string]Label     `json:"labels"`
	Policy      *domain.Policy       `json:"policy"`
	Tags        []string             `json:"tags"`
	Inputs      []jsontext.Value     `json:"inputs"`
	Limits      *domain.PresetLimits `json:"limits"`
	Earlier     []struct {
		Message *string `json:"message"`
	} `json:"earlier"`
}

// isRequest reports whether a path is that of a request, such as responses or earlier/0/chat.
func isRequest(path []string) bool {
	return len(path) == 1 && dialects[path[0]] != "" || len(path) == 3 && path[0] == "earlier" && dialects[path[2]] != ""
}

// preset returns the preset of a document. It is not ok if there are mistakes.
func (d *document) preset(workspace, slug string) (p Preset, ok bool) {
	p = Preset{Workspace: workspace, Slug: slug, File: d.file, Status: domain.PresetActive, Labels: map[string]Label{}}
	if d.root == nil {
		d.mistakes.add(&Error{File: d.file, Message: "is empty: a preset has a request, " + requestChoice})
		return p, false
	}
	c, ok := d.toJSON(isRequest)
	if !ok {
		return p, false
	}
	var file presetFile
	_, err := d.schemas.PresetFile.Check(c.json)
	if err == nil {
		err = schema.Decode(c.json, &file)
	}
	if err != nil {
		d.mistakesOf(d.root, nil, err)
	}
	d.checkLabels(file.Labels)
	if err := file.Policy.Check(); err != nil {
		d.mistakesOf(d.root, nil, err)
	}
	d.checkTags(file.Tags)
	p.Tags, p.Inputs = file.Tags, d.inputs(file.Inputs)
	for i, item := range rawjson.Items(rawjson.Get(c.json, "earlier")) {
		v := d.version(c, item, "earlier", strconv.Itoa(i))
		if i < len(file.Earlier) && file.Earlier[i].Message != nil {
			v.Message = file.Earlier[i].Message
			path := []string{"earlier", strconv.Itoa(i), "message"}
			d.check(locate(d.root, path), domain.CheckMessage(*v.Message), "", path...)
		}
		p.Earlier = append(p.Earlier, v)
	}
	p.Version = d.version(c, c.json)
	p.Name, p.Description, p.Policy, p.Limits = file.Name, file.Description, file.Policy, file.Limits.NilIfNone()
	if file.Status != nil {
		p.Status = *file.Status
	}
	if p.Policy != nil && p.Policy.Violation == "" {
		p.Policy.Violation = domain.OverrideViolation // as the server stores it
	}
	if file.Labels != nil {
		p.Labels = file.Labels
	}
	return p, !d.failed
}

// check adds the mistake of a domain's check of one value or name.
func (d *document) check(n *yaml.Node, err error, before string, path ...string) {
	if refused, ok := errors.AsType[*domain.Error](err); ok {
		d.mistake(n, path, before+refused.Issues[0].Message)
	}
}

func (d *document) checkTags(tags []string) {
	for i, tag := range tags {
		if slices.Contains(tags[:i], tag) {
			path := []string{"tags", strconv.Itoa(i)}
			d.mistake(locate(d.root, path), path, "is in the list already")
		}
	}
}

// inputs returns the inputs of a file, nil if it has no list of them.
func (d *document) inputs(list []jsontext.Value) (all []inputs.Content) {
	if list == nil {
		return nil
	}
	all = make([]inputs.Content, 0, len(list))
	for i, text := range list {
		path := []string{"inputs", strconv.Itoa(i)}
		in, err := inputs.ReadContent(text)
		if err == nil {
			err = in.Check()
		}
		if err == nil && slices.ContainsFunc(all, func(other inputs.Content) bool { return other.Name == in.Name }) {
			err = domain.InvalidAt("/name", "is that of another input")
		}
		if err == nil && len(text) > inputs.MaxSize-inputs.Overhead {
			err = domain.InvalidAt("", "is too large: an input may have "+strconv.Itoa(inputs.MaxSize-inputs.Overhead)+" bytes")
		}
		if err != nil {
			d.mistakesOf(locate(d.root, path), path, err)
		}
		all = append(all, in)
	}
	return all
}

// checkLabels checks what the schema of the file does not say of labels.
func (d *document) checkLabels(labels map[string]Label) {
	for name, label := range labels {
		key := keyOf(locate(d.root, []string{"labels"}), name)
		d.check(key, domain.CheckLabel(name), "the name of a label ", "labels", name)
		total := 0
		for i, share := range label.Split {
			if slices.ContainsFunc(label.Split[:i], func(other Share) bool { return other.Version == share.Version }) {
				path := []string{"labels", name, "split", strconv.Itoa(i), "version"}
				d.mistake(locate(d.root, path), path, "is in the split already")
			}
			total += share.Weight
		}
		if label.Split != nil && total == 0 {
			path := []string{"labels", name, "split"}
			d.mistake(locate(d.root, path), path, "must have a weight above 0")
		}
	}
}

// version reads the version at a path: the member template, and exactly one request.
func (d *document) version(c *converter, members jsontext.Value, path ...string) (v Version) {
	n := locate(d.root, path)
	var names []string
	for quoted := range rawjson.Pairs(members) {
		if name, _ := rawjson.Text(quoted); dialects[name] != "" {
			names = append(names, name)
		}
	}
	switch {
	case members.Kind() != '{': // a mistake already
		return v
	case len(names) == 0:
		d.mistake(n, path, "has no request: a version has exactly "+requestChoice)
		return v
	case len(names) > 1:
		d.mistake(keyOf(n, names[1]), append(slices.Clip(path), names[1]), "there is a request already: a version has exactly "+requestChoice)
	}
	path = append(slices.Clip(path), names[0])
	return d.request(dialects[names[0]], c.requests[pointer(path)], path, rawjson.Get(members, "template").Kind() == 't')
}

func (d *document) request(dialect domain.Dialect, body []byte, path []string, template bool) (v Version) {
	n, failed := locate(d.root, path), d.failed
	d.failed = false
	rules := SchemaOf(d.schemas, dialect, template)
	members, err := rules.Check(body)
	if err != nil {
		d.mistakesOf(n, path, err)
		members, _ = rawjson.Members(body)
	}
	for _, m := range members {
		if inference.IsKept(dialect, m.Name) || m.Name == inference.ConversationField(dialect) {
			continue
		}
		message := "is not kept by a preset: leave it out"
		if !rules.Names(m.Name) {
			message = "is unknown, so a preset does not keep it: leave it out"
		}
		d.mistake(keyOf(n, m.Name), append(slices.Clip(path), m.Name), message)
	}
	if d.failed {
		return v
	}
	d.failed = failed
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
