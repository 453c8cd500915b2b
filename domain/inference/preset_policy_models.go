package inference

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// limitModels leaves out the models of the request that the policy does not allow, with the tools and
// plugins that name them. The preset's own are allowed.
func (m *merger) limitModels() {
	if !m.policy.limitsModels && !m.policy.limitsTools {
		return
	}
	for _, name := range []string{"model", "models", "fallbacks", "moderation", "plugins", "tools"} {
		at := place{field: name}
		value := m.value(name)
		if value == nil || m.sentAt(at) == nil || m.opens(name) {
			continue
		}
		if allowed := m.allowed(name, value); allowed == nil {
			m.put(at, m.presetAt(at))
			if other := synonyms[m.dialect][name]; name == "models" || name == "fallbacks" {
				if ours := m.setting(other); ours != nil && m.value(other) == nil {
					m.set(other, ours, FromPolicy)
				}
			}
		} else if len(allowed) != len(value) {
			m.put(at, allowed)
		}
	}
}

// limitUnknownModels is for the request's list of models where the gateway knows no such field, so
// that ensureModel may take a model of it.
func (m *merger) limitUnknownModels() {
	switch {
	case m.models == nil:
	case m.policy.drops("models"):
		m.models = nil
	case m.policy.isLocked("models"):
		if !isSameJSON(m.models, m.settings.models) {
			m.recordViolation("models", lockedMessage, true, "models")
		}
		m.models = nil
	case m.policy.limitsModels || m.policy.limitsTools:
		m.models = m.allowed("models", m.models)
	}
}

// allowed returns what the policy allows of a field, or nil for nothing. That is all of it, or a list
// without some of its elements.
func (m *merger) allowed(field string, value jsontext.Value) jsontext.Value {
	rule := "tools"
	if m.policy.limitsModels {
		rule = "models"
	}
	search := useSearch{merger: m, visit: m.checkModel, isSilent: true}
	if value.Kind() != '[' {
		if search.field(rawjson.Member{Name: field, Value: value}) == nil {
			return value
		}
		m.recordViolation(rule, modelMessage, true, field)
		return nil
	}
	list := rawjson.Member{Name: field, Value: value}
	m.editItems(&list, func(i int, item jsontext.Value) jsontext.Value {
		isOwn := field == "tools" && slices.ContainsFunc(m.settings.tools, func(own namedTool) bool { return bytes.Equal(own.tool, item) })
		if isOwn || search.element(field, "", item) == nil {
			return item
		}
		m.recordViolation(rule, modelMessage, true, field, strconv.Itoa(i)) // what cannot be read may name any model
		return nil
	})
	if isEmptyContainer(list.Value) {
		return nil
	}
	return list.Value
}

// checkModel returns an error for a model that the policy does not allow. A model can bring a tool by
// its name.
func (m *merger) checkModel(u use) error {
	switch {
	case u.model == "", m.isOwnModel(u.model):
	case !m.policy.limitsModels && toolOfModel(u.model) == "":
	case m.policy.limitsModels && slices.ContainsFunc(m.policy.models, func(pattern string) bool { return domain.MatchModel(pattern, u.model) }):
	default:
		return errFound
	}
	return nil
}

// isOwnModel reports whether the preset names a model, also in its plugins and tools.
func (m *merger) isOwnModel(model string) bool {
	if m.ownModels == nil {
		m.ownModels = map[string]bool{}
		own := useSearch{merger: m, isSilent: true, visit: func(u use) error {
			m.ownModels[u.model] = true
			return nil
		}}
		for _, f := range append(slices.Clip(m.settings.fields), newMember("models", m.settings.models)) {
			for _, element := range rawjson.Items(f.Value) {
				_ = own.element(f.Name, "", element) // what it cannot read names no model
			}
			if f.Name == "model" {
				_ = own.field(f)
			}
		}
	}
	return m.ownModels[model]
}
