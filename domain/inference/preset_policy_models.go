package inference

import (
	"bytes"
	"cmp"
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
	isModel, isPlugins := slices.Contains(modelFields, name) && !e.isEntry, name == "plugins" && e.policy.limitsModels
	switch hasModels := e.hasModels(name, f.Value); {
	case !isModel && !isPlugins && !hasModels, !e.isSent(f):
		return f.Value, nil
	case isPlugins:
		return e.allowedPlugins(f)
	case hasModels && f.Value.Kind() == '[':
		return e.allowedModels(f.Value, f.Name), nil
	case hasModels:
		return e.allowedEntry(f.Value, f.Name), nil
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
	e := &enforcement{merger: m, fields: []part{{Member: newMember("models", m.models), from: FromRequest}}}
	if err := e.enforceParts(); err != nil {
		return err
	}
	e.each(m.policy.lockedBy, func(f *part, t target) bool {
		if !isSameJSON(f.Value, m.settings.models) {
			e.recordViolation(t.name, lockedMessage, true, f.Name)
		}
		return false
	})
	if len(e.fields) > 0 && (m.policy.limitsModels || m.policy.toolsName != "") {
		e.fields[0].Value = e.allowedModels(e.fields[0].Value, "models")
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
		if e.allowedEntry(item, field, strconv.Itoa(i)) == nil {
			all = false
			continue
		}
		allowed = append(allowed, item)
	}
	switch {
	case allowed == nil:
		return nil
	case all, e.reserve(len(list)) != nil:
		return list
	}
	return rawjson.ArrayOf(allowed...)
}

// allowedEntry returns an entry of a list of models if its models are allowed, else nil.
func (e *enforcement) allowedEntry(value jsontext.Value, path ...string) jsontext.Value {
	found := false
	if value.Kind() == '{' { // an entry of fallbacks
		for m, err := range usualNames.Object(value) {
			if err != nil {
				return nil
			}
			switch name := foldName(m.Name); {
			case slices.Contains(modelFields, name):
				found = true
				if e.allowedModel(m.Value, append(path, m.Name)...) == nil {
					return nil
				}
			case mayBeReplaced(name) && m.Value.Kind() == '[': // enforceParts left out the others
				found = true
			}
		}
	}
	if found {
		return value
	}
	return e.allowedModel(value, path...)
}

// copiesOfModel is how often the name of a model is in memory while it is checked.
const copiesOfModel = 3

// allowedModel returns a model if it is allowed, else nil.
func (e *enforcement) allowedModel(value jsontext.Value, path ...string) jsontext.Value {
	size := copiesOfModel * len(value)
	if e.reserve(size) != nil {
		return value
	}
	defer e.release(size)
	model, ok := "", rawjson.IsUTF8(value) // the text of another is three times as long
	if ok {
		model, ok = rawjson.Text(value)
	}
	if !ok {
		if !e.policy.limitsModels { // what it stands for cannot be told
			return value
		}
		e.recordViolation("models", notATextMessage, true, path...)
		return nil
	}
	rule := "models"
	switch limitsModels := e.policy.limitsModels; {
	case !limitsModels && toolOfModel(model) == "", e.mayName(model):
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
	case bytes.Equal(f.Value, e.own("plugins")):
		return f.Value, nil
	case f.Value.Kind() != '[':
		return nil, domain.InvalidAt(at, "must be an array "+whereLimitedByPolicy)
	}
	var allowed []jsontext.Value
	all := true
	for i, plugin := range rawjson.Items(f.Value) {
		place, err := e.checkPlugin(plugin, at+"/"+strconv.Itoa(i))
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
	if err := e.reserve(len(f.Value)); err != nil {
		return nil, err
	}
	return rawjson.ArrayOf(allowed...), nil
}

// checkPlugin returns the place in a plugin of a model that is not allowed, or "". The
// preset's own plugins are allowed. A plugin without models counts as a model, since it
// takes time and memory as well.
func (e *enforcement) checkPlugin(plugin jsontext.Value, at string) (place string, err error) {
	if e.isOwnPlugin(plugin) {
		return "", e.countModels(at, 1)
	}
	before := e.named
	var tooMany error
	place, err = findModelOfPlugin(plugin, at, func(model string) bool {
		tooMany = e.countModels(at, 1)
		return tooMany == nil && e.mayName(model)
	})
	if err == nil && e.named == before {
		tooMany = e.countModels(at, 1)
	}
	return place, cmp.Or(tooMany, err)
}

// mayName reports whether the policy's patterns allow a model, or the preset names it.
func (m *merger) mayName(model string) bool {
	return slices.ContainsFunc(m.policy.models, func(pattern string) bool { return domain.MatchModel(pattern, model) }) || m.isOwnModel(model)
}

// isOwnModel reports whether the preset names a model.
func (m *merger) isOwnModel(model string) bool {
	if m.ownModels == nil {
		m.ownModels = m.settings.namedModels()
	}
	return m.ownModels[model]
}

// namedModels returns the models that the settings name.
func (s *settings) namedModels() map[string]bool {
	names := map[string]bool{}
	add := func(value jsontext.Value) {
		if name, ok := rawjson.Text(value); ok {
			names[name] = true
		}
	}
	lists := []jsontext.Value{rawjson.Find(s.fields, "models"), rawjson.Find(s.fields, "fallbacks"), s.models}
	for _, setting := range append(lists, rawjson.Find(s.fields, "model")) {
		add(setting)
		for _, item := range rawjson.Items(setting) {
			add(item)
			add(rawjson.Get(item, "model"))
		}
	}
	return names
}

// isOwnPlugin reports whether the preset has a plugin, in any notation.
func (m *merger) isOwnPlugin(plugin jsontext.Value) bool {
	if m.ownPlugins == nil {
		m.ownPlugins = map[string]bool{}
		for _, own := range rawjson.Items(rawjson.Find(m.settings.fields, "plugins")) {
			m.ownPlugins[string(canonicalForm(own))] = true
		}
		delete(m.ownPlugins, "") // one without a canonical form
	}
	return len(m.ownPlugins) > 0 && m.ownPlugins[string(canonicalForm(plugin))]
}
