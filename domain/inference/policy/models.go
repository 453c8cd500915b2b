package policy

import (
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain/inference/dialects"
	"github.com/caddy-presets/caddy-presets/domain/inference/draft"
	"github.com/caddy-presets/caddy-presets/domain/inference/servertools"
	"github.com/caddy-presets/caddy-presets/domain/modelpattern"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// limitModels leaves out the models of the request that the policy does not allow, with the tools and
// plugins that name them. The preset's own are allowed.
func (c *Check) limitModels() {
	rule, names := "models", []string{"model", "models", "fallbacks", "moderation", "svg", "plugins", "tools"}
	switch {
	case c.Policy.limitsModels:
	case c.Policy.limitsTools:
		rule, names = "tools", names[:3]
	default:
		return
	}
	for _, name := range names {
		at := dialects.Place{Field: name}
		value := c.Value(name)
		if value == nil || c.sentAt(at) == nil || c.opens(name) {
			continue
		}
		if allowed := c.allowed(rule, name, value); allowed == nil {
			c.put(at, c.presetAt(at))
			if other := dialects.Synonyms[c.Dialect][name]; name == "models" || name == "fallbacks" {
				if ours := c.Setting(other); ours != nil && c.Value(other) == nil {
					c.Set(other, ours, draft.FromPolicy)
				}
			}
		} else if len(allowed) != len(value) {
			c.put(at, allowed)
		}
	}
}

// allowed returns what the policy allows of a field, or nil for nothing. That is all of it, or a list
// without some of its elements.
func (c *Check) allowed(rule, field string, value jsontext.Value) jsontext.Value {
	search := useSearch{Check: c, ends: c.refusesModel}
	if value.Kind() != '[' {
		if search.field(rawjson.Member{Name: field, Value: value}) == nil {
			return value
		}
		c.recordViolation(rule, modelMessage, true, field)
		return nil
	}
	own := c.ownItems(field)
	list := rawjson.Member{Name: field, Value: value}
	c.editItems(&list, func(i int, item jsontext.Value) jsontext.Value {
		if own[string(item)] || search.element(field, item) == nil {
			return item
		}
		c.recordViolation(rule, modelMessage, true, field, strconv.Itoa(i)) // what cannot be read may name any model
		return nil
	})
	if rawjson.IsEmpty(list.Value) {
		return nil
	}
	return list.Value
}

// ownItems returns the items that the preset's value of a field has.
func (c *Check) ownItems(field string) map[string]bool {
	own := map[string]bool{}
	for _, item := range rawjson.Items(c.Setting(field)) {
		own[string(item)] = true
	}
	return own
}

// refusesModel reports whether the policy does not allow a model. A model can bring a tool by its name.
func (c *Check) refusesModel(u use) bool {
	switch {
	case u.model == "":
		return false
	case c.Policy.limitsModels && slices.ContainsFunc(c.Policy.models, func(pattern string) bool { return modelpattern.Match(pattern, u.model) }):
		return false
	}
	return (c.Policy.limitsModels || servertools.OfModel(u.model) != nil) && !c.isOwnModel(u.model)
}

// isOwnModel reports whether a model is the preset's, or one of its list.
func (c *Check) isOwnModel(model string) bool {
	for _, name := range []string{"models", "fallbacks"} {
		for _, own := range rawjson.Items(c.Setting(name)) {
			if rawjson.IsText(own, model) || rawjson.IsText(rawjson.Get(own, "model"), model) {
				return true
			}
		}
	}
	return rawjson.IsText(c.Setting("model"), model)
}
