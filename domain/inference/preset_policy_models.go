package inference

import (
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// limitModels leaves out the models of the request that the policy does not allow. The
// preset's own are allowed.
func (e *enforcement) limitModels() error {
	if !e.policy.limitsModels && e.policy.toolsName == "" {
		return nil
	}
	kept := e.fields[:0]
	for i := range e.fields {
		f := &e.fields[i]
		name := foldName(f.Name)
		value, err := e.limitModelsOf(f, name)
		if err != nil {
			return err
		}
		if string(value) != string(f.Value) {
			if value == nil && f.Name == name {
				value = e.own(name)
			}
			if !e.replace(f, value) {
				continue
			}
		}
		kept = append(kept, *f)
	}
	e.fields = kept
	if e.at == "" {
		e.restoreModels()
	}
	return nil
}

// limitModelsOf returns a field without the models that are not allowed. It returns nil if
// nothing is left.
func (e *enforcement) limitModelsOf(f *part, name string) (jsontext.Value, error) {
	isModel, isPlugins := name == "model" && !e.isEntry, name == "plugins" && e.policy.limitsModels
	switch hasModels := e.hasModels(name, f.Value); {
	case !isModel && !isPlugins && !hasModels, !e.isSent(f):
		return f.Value, nil
	case isPlugins:
		return e.allowedPlugins(f)
	case hasModels && f.Value.Kind() == '[':
		return e.allowedModels(f.Value, f.Name), nil
	}
	return e.allowedModel(f.Value, f.Name), nil
}

// restoreModels puts the preset's list of models where the request's other list was left
// out.
func (e *enforcement) restoreModels() {
	has := func(name string) bool {
		return slices.ContainsFunc(e.fields, func(f part) bool { return f.Name == name })
	}
	for name, synonym := range synonyms[e.dialect] {
		if name != "models" && name != "fallbacks" || has(name) || has(synonym) {
			continue
		}
		if ours := e.own(name); ours != nil {
			e.fields = append(e.fields, part{Member: newMember(name, ours), from: FromPolicy})
		}
	}
}

// limitUnknownModels is limitModels for the request's list of models where the gateway
// knows no such field.
func (m *merger) limitUnknownModels() error {
	if m.models == nil {
		return nil
	}
	if err := checkModels(m.models, "/models"); err != nil {
		return err
	}
	e := &enforcement{merger: m, fields: []part{{Member: newMember("models", m.models), from: FromRequest}}}
	e.each(m.policy.lockedBy, func(f *part, t target) bool {
		if !isSameJSON(f.Value, m.settings.models) {
			e.recordViolation(t.name, lockedMessage, true, f.Name)
		}
		return false
	})
	if len(e.fields) > 0 && (m.policy.limitsModels || m.policy.toolsName != "") {
		e.fields[0].Value = e.allowedModels(m.models, "models")
	}
	if len(e.fields) == 0 || m.policy.drops("models") {
		m.models = nil
		return nil
	}
	m.models = e.fields[0].Value
	return nil
}

// allowedModels returns the list without the models that are not allowed. It returns nil if
// none is left.
func (e *enforcement) allowedModels(list jsontext.Value, field string) jsontext.Value {
	var allowed []jsontext.Value
	all := true
	for i, item := range rawjson.Items(list) {
		if e.allowedModel(item, field, strconv.Itoa(i)) == nil {
			all = false
			continue
		}
		allowed = append(allowed, item)
	}
	switch {
	case allowed == nil:
		return nil
	case all:
		return list
	}
	return rawjson.ArrayOf(allowed...)
}

// allowedModel returns a model, or an entry of a list, if it is allowed, else nil.
func (e *enforcement) allowedModel(value jsontext.Value, path ...string) jsontext.Value {
	if value.Kind() == '{' { // an entry of fallbacks
		found := false
		for m, err := range rawjson.Object(value) {
			if err != nil {
				return nil
			}
			switch name := foldName(m.Name); {
			case name == "model":
				found = true
				if e.allowedModel(m.Value, append(path, m.Name)...) == nil {
					return nil
				}
			case mayBeReplaced(name) && m.Value.Kind() == '[': // enforceParts left out the others
				found = true
			}
		}
		if found {
			return value
		}
	}
	model, ok := rawjson.Text(value)
	if !ok {
		if !e.policy.limitsModels { // what it stands for cannot be told
			return value
		}
		e.recordViolation("models", notATextMessage, true, path...)
		return nil
	}
	rule := "models"
	switch limitsModels := e.policy.limitsModels; {
	case e.mayName(model), !limitsModels && toolOfModel(model) == "":
		return value
	case !limitsModels: // the name brings a tool
		rule = e.policy.toolsName
	}
	e.recordViolation(rule, modelMessage, true, path...)
	return nil
}

// allowedPlugins returns plugins without those that name a model that is not allowed. It
// returns nil if none is left. A plugin without its model would use another.
func (e *enforcement) allowedPlugins(f *part) (jsontext.Value, error) {
	at := e.at + pointer(f.Name)
	switch {
	case isSameJSON(f.Value, e.own("plugins")):
		return f.Value, nil
	case f.Value.Kind() != '[':
		return nil, domain.InvalidAt(at, "must be an array "+whereLimitedByPolicy)
	}
	var allowed []jsontext.Value
	all := true
	for i, plugin := range rawjson.Items(f.Value) {
		place, err := findModelOfPlugin(plugin, at+"/"+strconv.Itoa(i), e.merger.mayName)
		switch {
		case err != nil:
			return nil, err
		case place == "":
			allowed = append(allowed, plugin)
		default:
			all = false
			e.recordViolation("models", modelMessage, true, slices.Collect(jsontext.Pointer(place[len(e.at):]).Tokens())...)
		}
	}
	switch {
	case allowed == nil:
		return nil, nil
	case all:
		return f.Value, nil
	}
	return rawjson.ArrayOf(allowed...), nil
}

// mayName reports whether the policy's patterns allow a model, or the preset names it.
func (m *merger) mayName(model string) bool {
	return m.isOwnModel(model) || slices.ContainsFunc(m.policy.models, func(pattern string) bool { return domain.MatchModel(pattern, model) })
}

// isOwnModel reports whether the preset names a model.
func (m *merger) isOwnModel(model string) bool {
	s := m.settings
	return isNamed(rawjson.Find(s.fields, "model"), model) || isNamed(rawjson.Find(s.fields, "models"), model) ||
		isNamed(rawjson.Find(s.fields, "fallbacks"), model) || isNamed(s.models, model)
}

// isNamed reports whether a setting is a model, or has it in its list.
func isNamed(setting jsontext.Value, model string) bool {
	if rawjson.IsText(setting, model) {
		return true
	}
	for _, item := range rawjson.Items(setting) {
		if rawjson.IsText(item, model) || rawjson.IsText(rawjson.Get(item, "model"), model) {
			return true
		}
	}
	return false
}
