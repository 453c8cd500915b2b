package convert

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/caddy-presets/caddy-presets/schema"
)

// drop leaves out the settings that a check refused. It returns false if the check refused something
// else, which cannot be left out.
func (v *version) drop(refused *schema.Error) bool {
	reasons := make(map[string][]string) // by the setting
	for _, found := range refused.Violations {
		segment, _, _ := strings.Cut(strings.TrimPrefix(found.Path, "/"), "/")
		name := jsontext.Pointer(segment).LastToken()
		if !slices.ContainsFunc(v.settings, func(s setting) bool { return s.name == name }) {
			return false
		}
		reasons[name] = append(reasons[name], strings.TrimPrefix(found.Path, "/")+" "+found.Message)
	}
	v.settings = slices.DeleteFunc(v.settings, func(s setting) bool {
		if reasons[s.name] != nil {
			v.leave(s.value, "does not fit: "+strings.Join(reasons[s.name], "; "))
		}
		return reasons[s.name] != nil
	})
	return len(reasons) > 0
}
