package convert

import (
	"cmp"
	"net/url"
	"slices"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// readBifrost reads answers of Bifrost's prompt repository, or a live one.
func readBifrost(c *conversion) ([]*prompt, error) {
	r := bifrost{conversion: c}
	if c.isLive() {
		err := r.fetch()
		return r.found.all, err
	}
	roots, err := c.roots()
	if err != nil {
		return nil, err
	}
	for _, root := range roots {
		switch {
		case root.get("prompts").kind() == '[':
			for item := range root.get("prompts").items() {
				r.prompt(item, nil)
			}
		case root.get("prompt").exists():
			r.prompt(root.get("prompt"), nil)
		default:
			c.refuse(root, "must have prompts or a prompt, as an answer of /api/prompt-repo/prompts has")
		}
	}
	return r.found.all, nil
}

// bifrost collects the prompts of Bifrost.
type bifrost struct {
	*conversion
	found prompts
}

// prompt reads a prompt with its versions, which are its own without others. The folder is a part of its
// name, because names repeat in other folders.
func (r *bifrost) prompt(at node, versions []node) {
	id, name := at.textOf("id"), at.textOf("name")
	if name == "" {
		r.refuse(at, "must be a prompt with a name")
		return
	}
	p := r.found.of(cmp.Or(id, name))
	p.name, p.title = name, name
	if folder := at.get("folder").textOf("name"); folder != "" {
		p.name = folder + "/" + name
	}
	if sessions := at.get("sessions"); sessions.exists() {
		p.leave(sessions, "are trials of the playground and no versions")
	}
	if versions == nil {
		versions = slices.Collect(at.get("versions").items())
	}
	if latest := at.get("latest_version"); len(versions) == 0 && latest.exists() {
		versions = []node{latest}
	}
	for _, at := range versions {
		v := &version{
			number: at.get("version_number").number(), isProduction: at.get("is_latest").kind() == 't', message: at.get("commit_message"),
			dialect: domain.Chat, syntax: plainBraces, place: at,
		}
		p.versions = append(p.versions, v)
		v.readBifrost(at)
	}
}

// readBifrost reads the settings and the messages of a version. Those have envelopes, in which the answer
// of a model is the message of its first choice.
func (v *version) readBifrost(at node) {
	model := at.get("model")
	if provider := at.textOf("provider"); provider != "" && model.exists() {
		model.value = rawjson.Quote(provider + "/" + at.textOf("model"))
	}
	v.set("model", model)
	v.readSettings(at.get("model_params"))
	v.leaveOthers(at, "id prompt_id prompt version_number commit_message model_params provider model variables is_latest created_at messages")
	rows := slices.Collect(at.get("messages").items())
	slices.SortStableFunc(rows, func(a, b node) int { return cmp.Compare(a.get("order_index").number(), b.get("order_index").number()) })
	for _, row := range rows {
		m := row
		for _, name := range []string{"message", "payload"} {
			if inner := m.get(name); inner.kind() == '{' {
				m = inner
			}
		}
		for choice := range m.get("choices").items() {
			m = choice.get("message")
			break
		}
		if !m.get("role").exists() {
			v.refuse(row, "must be a message with a role")
			continue
		}
		v.messages = append(v.messages, m.without("id", "isError"))
	}
	if len(rows) == 0 {
		v.refuse(at.at("messages"), "is empty: give the answer of /api/prompt-repo/prompts/{id}, or the address of Bifrost")
	}
}

// fetch reads the repository of a live Bifrost.
func (r *bifrost) fetch() error {
	a, err := r.account("Authorization", "Bearer "+r.options.Key)
	if err != nil {
		return err
	}
	const path = "/api/prompt-repo/prompts"
	list, err := a.get(path, nil)
	if err != nil {
		return err
	}
	name := func(item node) string { return cmp.Or(item.textOf("name"), item.textOf("id")) }
	return a.each(slices.Collect(list.get("prompts").items()), name, func(item node, _ string) error {
		root, err := a.get(path+"/"+url.PathEscape(item.textOf("id"))+"/versions", nil)
		if err == nil {
			r.prompt(item, slices.Collect(root.get("versions").items()))
		}
		return err
	})
}
