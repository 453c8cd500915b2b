package convert

import (
	"errors"
	"math"
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

// openRouterMembers are the members of a preset and of a version that are read. It also has
// those of the account alone: ids, authors and times.
const openRouterMembers = `id name slug description status status_updated_at creator_user_id workspace_id
	designated_version_id designated_version created_at updated_at preset_id version system_prompt config creator_id`

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
	slug := func(item node) string { return item.textOf("slug") }
	listed, err := a.list("/presets", openRouterQuery, slug)
	if err != nil {
		return nil, err
	}
	var found prompts
	err = a.each(listed, slug, func(_ node, slug string) error {
		path := "/presets/" + url.PathEscape(slug)
		response, err := a.get(path, nil)
		if err != nil {
			return err
		}
		p := found.of(slug)
		p.readOpenRouter(response.get("data"))
		if p.refused {
			return nil
		}
		number := func(item node) string { return strconv.Itoa(item.get("version").number()) }
		versions, err := a.list(path+"/versions", openRouterQuery, number)
		for _, item := range versions {
			if v := newOpenRouterVersion(item); v.number != p.chosen {
				p.versions = append(p.versions, v)
			}
		}
		return err
	})
	return found.all, err
}

func openRouterQuery(page int) url.Values {
	return url.Values{"offset": {strconv.Itoa(page * openRouterPage)}, "limit": {strconv.Itoa(openRouterPage)}}
}

// readOpenRouter reads a preset and its designated version.
func (p *prompt) readOpenRouter(data node) {
	p.title, p.description = data.textOf("name"), data.textOf("description")
	switch domain.PresetStatus(data.textOf("status")) {
	case "", domain.PresetActive:
	case domain.PresetDisabled:
		p.disabled = true
	default:
		p.refuse(data.at("status"), "is neither active nor disabled")
	}
	p.leaveOthers(data, openRouterMembers)
	if designated := data.get("designated_version"); designated.exists() {
		chosen := newOpenRouterVersion(designated)
		p.versions, p.chosen = append(p.versions, chosen), chosen.number
	} else {
		p.refuse(designated, "no version is designated")
	}
}

// newOpenRouterVersion returns a version as OpenRouter shows it. Its prompt is text, even
// with braces.
func newOpenRouterVersion(at node) *version {
	v := &version{number: at.get("version").number(), place: at}
	config := at.get("config")
	if config.exists() && config.kind() != '{' {
		v.refuse(config, "must be an object")
	}
	v.readSettings(config)
	v.dialect = dialectOf(v.settings)
	prompt := at.get("system_prompt")
	if text, ok := prompt.text(); ok {
		v.messages = []node{message(prompt, "system", text)}
	} else if prompt.exists() {
		v.refuse(prompt, "must be text")
	}
	v.leaveOthers(at, openRouterMembers)
	return v
}

// dialectOf returns the API that can express the most of some settings. A source does not
// tell which one made them. Of equal ones it is the first of Responses, Chat and Messages.
func dialectOf(settings []setting) domain.Dialect {
	schemas, err := schema.Load()
	if err != nil {
		return domain.Responses // assemble reports it
	}
	best, most := domain.Responses, math.MinInt
	for _, dialect := range []domain.Dialect{domain.Responses, domain.Chat, domain.Messages} {
		var kept []rawjson.Member
		for _, s := range settings {
			if inference.IsKept(dialect, s.name) && s.value.exists() {
				kept = append(kept, rawjson.Member{Name: s.name, Value: s.value.value})
			}
		}
		fit := len(kept)
		_, err := files.SchemaOf(schemas, dialect, false).Check(rawjson.ObjectOf(kept...))
		if refused, ok := errors.AsType[*schema.Error](err); ok {
			fit -= len(refused.Violations)
		}
		if fit > most {
			best, most = dialect, fit
		}
	}
	return best
}
