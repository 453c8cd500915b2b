package convert

import (
	"errors"
	"net/url"
	"strconv"

	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/schema"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// openRouterPage is how many presets or versions a page has: the most that OpenRouter gives.
const openRouterPage = 100

// readOpenRouter reads the presets of a live account of OpenRouter, or of any server with
// the same API.
func readOpenRouter(c *conversion) ([]*prompt, error) {
	if !c.isLive() || c.options.Key == "" {
		return nil, errors.New("openrouter wants the URL of the API, such as https://openrouter.ai/api/v1, and its key in --key-file")
	}
	a, err := c.account("Authorization", "Bearer "+c.options.Key)
	if err != nil {
		return nil, err
	}
	query := func(page int) url.Values {
		return url.Values{"offset": {strconv.Itoa(page * openRouterPage)}, "limit": {strconv.Itoa(openRouterPage)}}
	}
	var found prompts
	err = a.pages(c.ctx, "/presets", "data", query, openRouterTotal, func(item node) bool {
		slug, before := item.textOf("slug"), len(found.all)
		if slug == "" {
			c.refuse(item, "has no slug")
			return false
		}
		found.of(slug)
		return len(found.all) > before
	})
	if err != nil {
		return nil, err
	}
	for _, p := range found.all {
		if err := c.readOpenRouterPreset(a, p, query); err != nil {
			if !isAboutOne(err) {
				return nil, err
			}
			p.refuse(node{}, err.Error())
		}
	}
	return found.all, nil
}

// openRouterMembers are the members of a preset and of a version that are read. It also has
// those of the account alone: ids, authors and times.
var openRouterMembers = map[string]bool{
	"id": true, "name": true, "slug": true, "description": true, "status": true, "status_updated_at": true, "creator_user_id": true,
	"workspace_id": true, "designated_version_id": true, "designated_version": true, "created_at": true, "updated_at": true,
	"preset_id": true, "version": true, "system_prompt": true, "config": true, "creator_id": true,
}

func (c *conversion) readOpenRouterPreset(a *account, p *prompt, query func(page int) url.Values) error {
	path := "/presets/" + url.PathEscape(p.name)
	response, err := a.get(c.ctx, path, nil)
	if err != nil {
		return err
	}
	data := response.get("data")
	p.title, p.description = data.textOf("name"), data.textOf("description")
	switch status := data.textOf("status"); status {
	case "", string(domain.PresetActive):
	case string(domain.PresetDisabled):
		p.disabled = true
	default:
		p.refuse(data.at("status"), "is neither active nor disabled")
		return nil
	}
	for name, value := range data.members() {
		if !openRouterMembers[name] && value.exists() {
			p.leave(value, "has no counterpart")
		}
	}
	designated := data.get("designated_version")
	if !designated.exists() {
		p.refuse(data.at("designated_version"), "no version is designated")
		return nil
	}
	chosen := newOpenRouterVersion(designated)
	p.versions, p.chosen = append(p.versions, chosen), chosen.number
	listed := make(map[int]bool)
	return a.pages(c.ctx, path+"/versions", "data", query, openRouterTotal, func(item node) bool {
		v := newOpenRouterVersion(item)
		if listed[v.number] {
			return false
		}
		listed[v.number] = true
		if v.number != chosen.number {
			p.versions = append(p.versions, v)
		}
		return true
	})
}

func openRouterTotal(page node) node { return page.get("total_count") }

// newOpenRouterVersion returns a version as OpenRouter shows it. Its prompt is text, even
// with braces.
func newOpenRouterVersion(at node) *version {
	v := &version{number: at.get("version").number(), place: at}
	config := at.get("config")
	for name, value := range config.members() {
		v.set(name, value)
	}
	if config.exists() && config.kind() != '{' {
		v.refuse(config, "must be an object")
	}
	v.dialect = dialectOf(v.settings)
	if prompt, ok := at.get("system_prompt").text(); ok {
		v.messages = []node{message(at.get("system_prompt"), "system", prompt)}
	} else if at.get("system_prompt").exists() {
		v.refuse(at.get("system_prompt"), "must be text")
	}
	for name, value := range at.members() {
		if !openRouterMembers[name] && value.exists() {
			v.leave(value, "has no counterpart")
		}
	}
	return v
}

// dialectOf returns the API that can express the most of some settings. A source does not
// tell which one made them. Of equal ones it is the first of Responses, Chat and Messages.
func dialectOf(settings []setting) domain.Dialect {
	members := make([]rawjson.Member, 0, len(settings))
	for _, s := range settings {
		members = append(members, rawjson.Member{Name: s.name, Value: s.value.value})
	}
	best, most := domain.Responses, -1
	for _, dialect := range []domain.Dialect{domain.Responses, domain.Chat, domain.Messages} {
		capture, err := inference.Capture(dialect, members)
		if err != nil {
			continue
		}
		stored, _ := rawjson.Members(capture.Config) // the capture made it
		if fit := len(stored) - misfits(dialect, capture.Config); fit > most {
			best, most = dialect, fit
		}
	}
	return best
}

// misfits returns how many violations of a dialect's schema some settings have.
func misfits(dialect domain.Dialect, settings []byte) int {
	schemas, err := schema.Load()
	if err != nil {
		return 0 // assemble reports it
	}
	_, err = files.SchemaOf(schemas, dialect, false).Check(settings)
	if refused, ok := errors.AsType[*schema.Error](err); ok {
		return len(refused.Violations)
	}
	return 0
}
