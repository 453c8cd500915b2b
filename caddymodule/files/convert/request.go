package convert

import (
	"errors"

	"github.com/caddy-presets/caddy-presets/caddymodule/files"
	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/schema"
	"github.com/caddy-presets/caddy-presets/schema/rawjson"
)

// build makes a version of a file. It is not ok if the version is refused. The entries of v
// then have the reason.
func (v *version) build(schemas *schema.Schemas) (built files.Version, ok bool) {
	variables := v.texts()
	for name, value := range v.given.members() {
		if !variables[name] {
			v.change(value, "the text does not have this variable, so it has the value of one call: put {{name}} back")
		}
	}
	if v.refused {
		return built, false
	}
	isTemplate := len(variables) > 0 || leading(v.messages) < len(v.messages)
	messages := v.rewrite(isTemplate)
	v.reportSettings()
	if v.refused {
		return built, false
	}
	prompt := place(v.dialect, messages)
	v.reportJoined(messages)

	capture, ok := v.capture(schemas, prompt, isTemplate)
	if !ok {
		return built, false
	}
	v.reportIgnored(capture)
	return files.NewVersion(capture.Dialect, capture.Config, capture.SystemPrompt, capture.Template), true
}

// capture checks the request as a server does, and returns what it stores. Settings that
// the check refuses are left out, or the items of a list that it refuses.
func (v *version) capture(schemas *schema.Schemas, prompt []rawjson.Member, isTemplate bool) (domain.Capture, bool) {
	check := files.SchemaOf(schemas, v.dialect, isTemplate)
	for {
		members := make([]rawjson.Member, 0, len(v.settings)+len(prompt))
		for _, s := range v.settings {
			members = append(members, rawjson.Member{Name: s.name, Value: s.value.value})
		}
		members, err := check.Check(rawjson.ObjectOf(append(members, prompt...)...))
		if err == nil {
			captureFrom := inference.Capture
			if isTemplate {
				captureFrom = inference.CaptureTemplate
			}
			capture, err := captureFrom(v.dialect, members)
			if err != nil {
				v.refuse(v.place, withoutPlace(err))
				return domain.Capture{}, false
			}
			return capture, true
		}
		refused, ok := errors.AsType[*schema.Error](err)
		if !ok || !v.drop(refused) {
			v.refuse(v.place, "is no request of a preset: "+err.Error())
			return domain.Capture{}, false
		}
	}
}

// withoutPlace returns the message of a refusal.
func withoutPlace(err error) string {
	if refused, ok := errors.AsType[*domain.Error](err); ok {
		return refused.Message
	}
	return err.Error()
}

// reportSettings removes settings that repeat or are null, and reports those with variables.
func (v *version) reportSettings() {
	seen := make(map[string]bool)
	var settings []setting
	for _, s := range v.settings {
		switch {
		case !s.value.exists():
			continue
		case seen[s.name]:
			v.leave(s.value, s.name+" is there already")
			continue
		case v.syntax != nil && otherVariable.Match(s.value.value):
			v.change(s.value, "has {{…}}, which is text here: settings have no variables")
		}
		seen[s.name] = true
		settings = append(settings, s)
	}
	v.settings = settings
}

// reportIgnored reports the settings that a server does not store.
func (v *version) reportIgnored(capture domain.Capture) {
	stored, _ := rawjson.Members(capture.Config) // the capture made it
	for _, s := range v.settings {
		if rawjson.Find(stored, s.name) == nil {
			v.leave(s.value, "has no counterpart: a preset does not keep it")
		}
	}
}

// reportJoined reports messages that become one system prompt.
func (v *version) reportJoined(messages []node) {
	if first := leading(messages); first > 1 {
		v.change(messages[first-1], "is joined with the system message before it, by an empty line")
	}
}
