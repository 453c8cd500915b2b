package policy

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain/inference/dialects"
	"github.com/caddy-presets/caddy-presets/domain/inference/draft"
	"github.com/caddy-presets/caddy-presets/domain/modelpattern"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// limitModels leaves out the models of the request that the policy does not allow, with the tools and
// plugins that name them. The preset's own are allowed.
func (c *Check) limitModels() {
	if !c.Policy.limitsModels && !c.Policy.limitsTools {
		return
	}
	for _, name := range []string{"model", "models", "fallbacks", "moderation", "plugins", "tools"} {
		at := dialects.Place{Field: name}
		value := c.Value(name)
		if value == nil || c.sentAt(at) == nil || c.opens(name) {
			continue
		}
		if allowed := c.allowed(name, value); allowed == nil {
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
func (c *Check) allowed(field string, value jsontext.Value) jsontext.Value {
	rule := "tools"
	if c.Policy.limitsModels {
		rule = "models"
	}
	search := useSearch{Check: c, ends: c.refusesModel}
	if value.Kind() != '[' {
		if search.field(rawjson.Member{Name: field, Value: value}) == nil {
			return value
		}
		c.recordViolation(rule, modelMessage, true, field)
		return nil
	}
	own := c.Setting("tools")
	list := rawjson.Member{Name: field, Value: value}
	c.editItems(&list, func(i int, item jsontext.Value) jsontext.Value {
		if field == "tools" && hasItem(own, item) || search.element(field, item) == nil {
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

// hasItem reports whether a list has an item, with the same bytes.
func hasItem(list, item jsontext.Value) bool {
	for _, other := range rawjson.Items(list) {
		if bytes.Equal(item, other) {
			return true
		}
	}
	return false
}

// refusesModel reports whether the policy does not allow a model. A model can bring a tool by its name.
func (c *Check) refusesModel(u use) bool {
	switch {
	case u.model == "", c.isOwnModel(u):
		return false
	case !c.Policy.limitsModels:
		return !u.brought && toolOfModel(u.model) != nil
	}
	return !slices.ContainsFunc(c.Policy.models, func(pattern string) bool { return modelpattern.Match(pattern, u.model) })
}

// isOwnModel reports whether the preset uses a model in the same way, also in its plugins and tools. A
// model that one of those uses by default may be named by nobody.
func (c *Check) isOwnModel(u use) bool {
	if c.ownModels == nil {
		c.ownModels = map[string]bool{}
		own := useSearch{Check: c, ends: func(u use) bool {
			c.ownModels[u.model] = c.ownModels[u.model] || !u.brought
			return false
		}}
		for _, f := range c.Stored {
			for _, element := range rawjson.Items(f.Value) {
				own.element(f.Name, element) // what it cannot read names no model
			}
			if f.Name == "model" {
				own.field(f)
			}
		}
	}
	isNamed, isOwn := c.ownModels[u.model]
	return isNamed || isOwn && u.brought
}
