package inference

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference/dialects"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// memberFields are merged member by member, because they have settings of their own. Codex sends a
// reasoning with every request that would else erase the preset's effort.
var memberFields = []string{"reasoning", "text", "output_config"}

// contribution returns what the preset adds to the request by its value of a field. That is less
// than ours, or nothing, where the request says the same in another field.
func (m *merger) contribution(name string, ours jsontext.Value) jsontext.Value {
	switch {
	case name == "reasoning" || name == "reasoning_effort":
		return m.contributedReasoning(name, ours)
	case m.isOverridden(name), m.rules.Dialect == domain.Images && dialects.SaysSizeAgain(name, ours, m.sentSetting):
		return nil
	}
	return ours
}

// contributedReasoning is contribution for the two fields that have the effort. The request's effort
// or budget replaces the preset's other one, too, unless the preset has both: some gateways refuse
// them together. Whether reasoning is enabled goes with them, and where the request switches it off,
// it replaces both.
func (m *merger) contributedReasoning(name string, ours jsontext.Value) jsontext.Value {
	sent, own := m.sentSetting("reasoning"), m.rules.Setting("reasoning")
	var sentEffort, ownEffort jsontext.Value
	if m.rules.Dialect == domain.Chat {
		sentEffort, ownEffort = m.sentSetting("reasoning_effort"), m.rules.Setting("reasoning_effort")
	}
	if sent != nil && sent.Kind() != '{' || sentEffort != nil && ours.Kind() != '{' {
		return nil
	}
	hasEffort, hasBudget := sentEffort != nil || rawjson.Get(sent, "effort") != nil, rawjson.Get(sent, "max_tokens") != nil
	isOff := rawjson.Get(sent, "enabled").Kind() == 'f'
	if !hasEffort && !hasBudget && !isOff {
		return ours
	}
	keepsEffort := !isOff && !hasEffort && rawjson.Get(own, "max_tokens") != nil
	keepsBudget := !isOff && !hasBudget && (ownEffort != nil || rawjson.Get(own, "effort") != nil)
	switch {
	case name == "reasoning_effort" && !keepsEffort:
		return nil
	case name == "reasoning_effort" || m.Reserve(len(ours)) != nil:
		return ours
	}
	return rawjson.Without(ours, func(member jsontext.Value) bool {
		return rawjson.IsText(member, "effort") && !keepsEffort || rawjson.IsText(member, "max_tokens") && !keepsBudget || rawjson.IsText(member, "enabled")
	})
}

// sentSetting returns the request's value of a field that the gateway knows, or nil. null, {} and []
// count as not sent.
func (m *merger) sentSetting(name string) jsontext.Value {
	if value := rawjson.Find(m.request.Fields, name); !m.unknown[name] && !rawjson.IsEmpty(value) {
		return value
	}
	return nil
}

// mergeMembers returns the request's object with the members that only the preset's has. null counts
// as missing. added is false if there are none, and merged is the request's object then.
func (m *merger) mergeMembers(request, preset jsontext.Value) (merged jsontext.Value, added bool) {
	merged = request
	for name, value := range rawjson.Pairs(preset) {
		text, _ := rawjson.Text(name)
		if value.Kind() == 'n' || rawjson.Get(request, text) != nil {
			continue
		}
		if m.Reserve(len(merged)+len(value)) != nil {
			return request, false
		}
		merged, added = rawjson.With(merged, text, value), true
	}
	return merged, added
}
