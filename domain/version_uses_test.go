package domain_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
)

// usedVersion has the members of a version that depend on its preset, and those that a
// summary lacks.
type usedVersion struct {
	Version      int
	Designated   *bool
	Labels       []string
	Config       json.RawMessage
	SystemPrompt json.RawMessage `json:"system_prompt"`
}

// usesOf returns the uses of p's versions by the definition of labels.
func usesOf(p domain.Preset, n int) (designated bool, labels []string) {
	labels = []string{}
	for label, to := range p.Labels {
		if to.Version == n || slices.ContainsFunc(to.Split, func(s domain.Share) bool { return s.Version == n }) {
			labels = append(labels, label)
		}
	}
	slices.Sort(labels)
	return p.DesignatedVersion == n, labels
}

// Versions tell how requests get them, wherever they are shown.
func TestVersionUses(t *testing.T) {
	f := newFixture(t)
	const versions = 6
	for range versions {
		f.must(f.ReleasePresetVersion(t.Context(), ask, "", "p", nothing, domain.Release{}))
	}
	random := rand.New(rand.NewPCG(1, 2))
	number := func() int { return 1 + random.IntN(versions) }
	var err error
	for range 200 {
		label := fmt.Sprintf("l%d", random.IntN(5))
		var out domain.Outcome
		switch random.IntN(4) {
		case 0:
			out, err = f.DesignateVersion(t.Context(), ask, "", "p", domain.Designation{Version: number()})
		case 1:
			out, err = f.PutLabel(t.Context(), ask, "", "p", label, domain.Target{Version: number()}, nil)
		case 2:
			first := number()
			split := []domain.Share{{Version: first, Weight: 1}, {Version: first%versions + 1}}
			out, err = f.PutLabel(t.Context(), ask, "", "p", label, domain.Target{Split: split}, nil)
		default:
			if out, err = f.DeleteLabel(t.Context(), ask, "", "p", label); domain.KindOf(err) == domain.NotFound {
				continue
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		p := out.Preset
		check := func(where string, text []byte, whole bool) {
			t.Helper()
			var v usedVersion
			if err := json.Unmarshal(text, &v); err != nil || v.Designated == nil || (v.Config != nil) != whole || (v.SystemPrompt != nil) != whole {
				t.Fatalf("%s: got %s, %v", where, text, err)
			}
			if designated, labels := usesOf(p, v.Version); *v.Designated != designated || !reflect.DeepEqual(v.Labels, labels) {
				t.Fatalf("%s: got %s of a preset with %d and %v", where, text, p.DesignatedVersion, p.Labels)
			}
		}
		for n := 1; n <= versions; n++ {
			found := f.found(f.PresetVersion(t.Context(), user, "", "p", n))
			check("version", found.JSON, true)
		}
		for whole, list := range map[bool]func() (domain.Found, error){
			true: func() (domain.Found, error) {
				return f.PresetVersions(t.Context(), user, "", "p", domain.Page{Limit: 100})
			},
			false: func() (domain.Found, error) {
				return f.PresetVersionSummaries(t.Context(), user, "", "p", domain.Page{Limit: 100})
			},
		} {
			page, err := list()
			var all []json.RawMessage
			if err != nil || json.Unmarshal(page.JSON, &all) != nil || len(all) != versions || page.Total != versions {
				t.Fatalf("got %s, %v", page.JSON, err)
			}
			for _, text := range all {
				check("list", text, whole)
			}
		}
		found, err := f.Preset(t.Context(), user, "", "p")
		var shown struct {
			Version json.RawMessage `json:"designated_version"`
		}
		if err != nil || json.Unmarshal(found.JSON, &shown) != nil {
			t.Fatalf("got %s, %v", found.JSON, err)
		}
		check("preset", shown.Version, true)
	}
}

// The tag of a version changes with its uses, and only with them.
func TestVersionTag(t *testing.T) {
	f := newFixture(t)
	tags := func() (tags [3]string) {
		for n := range tags {
			found := f.found(f.PresetVersion(t.Context(), user, "", "p", n+1))
			tags[n] = found.Tag
		}
		return tags
	}
	for range 3 {
		f.must(f.ReleasePresetVersion(t.Context(), ask, "", "p", nothing, domain.Release{}))
	}
	before := tags()
	for name, step := range map[string]struct {
		do      doing
		changed [3]bool
	}{
		"label":      {f.labelling("a", domain.Target{Version: 1}, nil), [3]bool{true, false, false}},
		"designated": {f.designating(domain.Designation{Version: 2}), [3]bool{false, true, true}},
		"patch":      {f.patching(domain.PresetPatch{Name: new("n")}), [3]bool{}},
	} {
		f.must(step.do(ask, "p"))
		after := tags()
		for n, changed := range step.changed {
			if after[n] != before[n] != changed {
				t.Errorf("%s: the tag of version %d changed: %t, want %t", name, n+1, !changed, changed)
			}
		}
		before = after
	}
}
