package inference

import (
	"maps"
	"slices"
)

// SettingNames returns all names that a policy can have for a setting. They are those of
// the fields of settings, and of the parts of fields that the dialects name differently.
func SettingNames() []string {
	names := map[string]bool{"system": true, "instructions": true}
	for field := range settingFields {
		if !presetOnly[field] {
			names[field] = true
		}
	}
	for _, c := range counterparts {
		for _, path := range c.allPaths() {
			names[path] = true
		}
		for _, path := range c.within {
			names[path] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// ScalarPlaces returns how many places a bound of a name has.
func ScalarPlaces(name string) int { return len(scalarPlaces(name)) }
