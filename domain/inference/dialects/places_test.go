package dialects

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPolicyNames checks that the schema of policies has the names of the tables.
func TestPolicyNames(t *testing.T) {
	text, err := os.ReadFile("../../../schema/policy.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Properties struct {
			Lock   struct{ Items struct{ Enum []string } }
			Bounds struct{ PropertyNames struct{ Enum []string } }
			Drop   struct{ Items struct{ Pattern string } }
		}
	}
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{"system": true, "instructions": true}
	for field := range Fields {
		if isSetting(field) {
			names[field] = true
		}
	}
	for _, c := range counterparts {
		for _, path := range append(c.allPaths(), slices.Collect(maps.Values(c.within))...) {
			names[path] = true
		}
	}
	maps.DeleteFunc(names, func(_ string, isName bool) bool { return !isName })
	want := slices.Sorted(maps.Keys(names))
	if got := file.Properties.Lock.Items.Enum; !slices.Equal(got, want) {
		t.Errorf("lock: got %q, want %q", got, want)
	}
	want = slices.DeleteFunc(want, func(name string) bool { return name == "system" || name == "instructions" || name == "model" })
	dropped := regexp.MustCompile(file.Properties.Drop.Items.Pattern)
	for _, name := range want {
		if !dropped.MatchString(name) {
			t.Errorf("drop: %s is no name", name)
		}
	}
	for _, name := range file.Properties.Bounds.PropertyNames.Enum {
		parts := slices.ContainsFunc(want, func(other string) bool { return strings.HasPrefix(other, name+".") && name != "thinking" })
		if !slices.Contains(want, name) || parts || len(ScalarPlaces(name)) == 0 {
			t.Errorf("bounds: %s is not the name of one setting", name)
		}
	}
}
