package convert

import (
	"cmp"
	"strings"

	"github.com/caddy-presets/caddy-presets/domain"
)

// readPortkey reads files with prompts and partials, as Portkey's API shows them, or a live
// account.
func readPortkey(c *conversion) ([]*prompt, error) {
	r := portkey{conversion: c, partials: make(partials)}
	if c.isLive() {
		if err := r.fetch(); err != nil {
			return nil, err
		}
	} else {
		roots, err := c.roots()
		if err != nil {
			return nil, err
		}
		for _, root := range roots {
			r.collect(root)
		}
	}
	return r.found.all, nil
}

// portkey collects the prompts and the partials of Portkey.
type portkey struct {
	*conversion
	found    prompts
	partials partials // texts are read when all are known
}

// collect takes the prompts and the partials of a file: {prompts, partials}, a list, or one
// of them.
func (r *portkey) collect(root node) {
	switch {
	case root.kind() == '[':
		for item := range root.items() {
			r.collect(item)
		}
	case root.get("prompts").exists() || root.get("partials").exists():
		for item := range root.get("prompts").items() {
			r.prompt("", item)
		}
		for item := range root.get("partials").items() {
			r.partial(item)
		}
	case root.kind() != '{':
		r.refuse(root, "must be an object with prompts and partials")
	case root.get("version").exists() && !root.get("prompt_version").exists():
		r.partial(root)
	default:
		r.prompt("", root)
	}
}

// partial takes a partial. Templates name it by its slug or its id.
func (r *portkey) partial(at node) {
	text, ok := stringOf(at)
	if !ok {
		r.refuse(at, "must be a partial with a string")
		return
	}
	for _, name := range []string{at.textOf("slug"), at.textOf("id")} {
		if name != "" {
			r.partials[name] = text
		}
	}
}

// stringOf returns the template of a prompt or a partial. It may be in an object.
func stringOf(at node) (text string, ok bool) {
	value := at.get("string")
	if inner := value.get("string"); inner.exists() {
		value = inner
	}
	return value.text()
}

// portkeyMembers are the members of a prompt that are read, or that are of Portkey alone.
const portkeyMembers = `id name slug collection_id status model virtual_key object prompt_version prompt_version_id
	prompt_version_description prompt_version_status prompt_version_labels prompt_version_label_name string variable_components
	parameters functions tools tool_choice template_metadata is_raw_template created_at last_updated_at updated_at workspace_id
	organisation_id created_by updated_by`

// prompt adds a version. Its name is empty if the version has it itself.
func (r *portkey) prompt(name string, at node) {
	if name = cmp.Or(name, at.textOf("slug"), at.textOf("id")); name == "" {
		r.refuse(at, "must be a prompt with a slug")
		return
	}
	p := r.found.of(name)
	p.title = cmp.Or(at.textOf("name"), p.title)
	v := &version{number: at.get("prompt_version").number(), dialect: domain.Chat, syntax: r.partials.syntax, place: at, message: at.get("prompt_version_description")}
	p.versions = append(p.versions, v)
	if status := at.textOf("status"); status != "" && status != "active" {
		p.disabled = true
		v.change(at.get("status"), "is not active, so the preset is disabled")
	}
	for label := range at.get("prompt_version_labels").items() {
		v.readLabel(label)
	}
	if label := at.get("prompt_version_label_name"); label.exists() && len(v.labels) == 0 {
		v.readLabel(label)
	}
	// Without a label production, the published version is the one that requests get.
	v.isProduction = v.isProduction || at.textOf("prompt_version_status") == "active" && p.chosen == 0
	if key := at.get("virtual_key"); key.exists() && string(key.value) != `""` {
		v.leave(key, "names a credential that Portkey keeps: the gateway has its own")
	}
	if functions := at.get("functions"); functions.exists() && string(functions.value) != "[]" {
		v.leave(functions, "are an older form of tools, which has no counterpart")
	}
	v.leaveOthers(at, portkeyMembers)
	v.readPortkeySettings(at)
	v.readPortkeyString(at)
}

// readPortkeySettings reads the parameters, which have the model, and the tools.
func (v *version) readPortkeySettings(at node) {
	parameters := at.get("parameters")
	if model := at.get("model"); model.exists() && !parameters.get("model").exists() {
		v.set("model", model)
	}
	v.readSettings(parameters)
	for _, name := range []string{"tools", "tool_choice"} {
		if value := at.get(name); value.exists() && !parameters.get(name).exists() {
			v.set(name, value)
		}
	}
}

// readPortkeyString reads the messages of a chat template, and the text of another one as a
// message of the user.
func (v *version) readPortkeyString(at node) {
	text, ok := stringOf(at)
	place := at.at("string")
	if !ok {
		v.refuse(place, "must be the text of a template")
		return
	}
	list, err := place.parse([]byte(text))
	switch isChat := at.get("template_metadata").textOf("template_type") == "chat"; {
	case err == nil && list.kind() == '[':
		v.readMessages(list)
	case isChat:
		v.refuse(place, "is no list of messages: a section around messages has no counterpart")
	case strings.Trim(text, space) == "":
		v.refuse(place, "has no text")
	default:
		v.messages = append(v.messages, message(place, "user", text))
	}
}
