package dialects

import (
	"maps"
	"slices"
	"strings"
)

// Place is a field of a request, or a member of a field.
type Place struct{ Field, Member string }

// PlaceOf returns the place of a path, "field" or "field.member".
func PlaceOf(path string) Place {
	field, member, _ := strings.Cut(path, ".")
	return Place{field, member}
}

// allPaths returns the setting's names in all dialects.
func (c counterpart) allPaths() []string {
	return slices.Concat(slices.Collect(maps.Values(c.paths))...)
}

// settingPaths returns the paths of a setting in all dialects, nil if there is no setting
// of this name. The name of a field that is no setting itself stands for all settings in it.
func settingPaths(name string) []string {
	paths := map[string]bool{}
	if isSetting(name) {
		paths[name] = true
	}
	isPath := slices.ContainsFunc(counterparts, func(c counterpart) bool { return slices.Contains(c.allPaths(), name) })
	for _, c := range counterparts {
		for _, path := range c.allPaths() {
			if path == name || c.within[path] == name || !isPath && strings.HasPrefix(path, name+".") {
				paths[path] = true
			}
		}
	}
	// A counterpart of a counterpart is the same setting: models and fallbacks.
	for known := 0; known < len(paths); {
		known = len(paths)
		for _, c := range counterparts {
			if own := c.allPaths(); slices.ContainsFunc(own, func(path string) bool { return paths[path] }) {
				for _, path := range own {
					paths[path] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(paths))
}

// SettingPlaces returns the places of a setting in all dialects. It leaves out members of
// fields that are places themselves.
func SettingPlaces(name string) (places []Place) {
	paths := settingPaths(name)
	for _, path := range paths {
		if field := fieldOf(path); field == path || !slices.Contains(paths, field) {
			places = append(places, PlaceOf(path))
		}
	}
	return places
}

// ScalarPlaces returns the places of a setting that is a number, a string or a boolean.
func ScalarPlaces(name string) (places []Place) {
	for _, path := range settingPaths(name) {
		for _, c := range counterparts {
			if within := c.within[path]; within != "" {
				path = within
			}
		}
		places = append(places, PlaceOf(path))
	}
	return places
}

// SerialPlace is where Messages has the opposite of parallel_tool_calls.
var SerialPlace = PlaceOf(serialPath)

// fieldOf returns the field that path is in.
func fieldOf(path string) string {
	field, _, _ := strings.Cut(path, ".")
	return field
}

// Path returns the names that lead to the place.
func (at Place) Path() []string {
	if at.Member == "" {
		return []string{at.Field}
	}
	return []string{at.Field, at.Member}
}
