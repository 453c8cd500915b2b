package domain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// TestProtection tries every change of a preset with three keys. One has the right, one has
// not, and one is of the configuration. Each acts on a preset of its own.
func TestProtection(t *testing.T) {
	tier.NoRace(t)
	f := newFixture(t)
	issue := func(kind domain.KeyKind, rights ...domain.Right) domain.Principal {
		return f.limited(t, domain.NewKey{Kind: kind, Scope: domain.Scope{Rights: rights}})
	}
	without, with := issue(domain.ManagementKey), issue(domain.ManagementKey, domain.ProtectedLabels)
	inference := issue(domain.InferenceKey)
	const (
		free    = iota // needs no right
		preset         // needs it on a protected preset
		label          // needs it for a protected label
		guarded        // always needs it
	)
	ctx := t.Context()
	v := func(n int) domain.Target { return domain.Target{Version: n} }
	for name, tc := range map[string]struct {
		needs  int
		change doing
	}{
		"description":              {free, f.patching(describe(new("d")))},
		"name":                     {preset, f.patching(domain.PresetPatch{Name: new("n")})},
		"status":                   {preset, f.patching(domain.PresetPatch{Status: new(domain.PresetDisabled)})},
		"nothing":                  {free, f.patching(domain.PresetPatch{Status: new(domain.PresetActive)})},
		"designate":                {preset, f.designating(domain.Designation{Version: 1})},
		"designate again":          {free, f.designating(domain.Designation{Version: 2})},
		"archive":                  {preset, f.archiving},
		"restore":                  {preset, f.restoring},
		"version":                  {preset, f.releasing(domain.Release{})},
		"draft":                    {free, f.releasing(domain.Release{Draft: true})},
		"draft with another label": {free, f.releasing(domain.Release{Draft: true, Label: "other"})},
		"draft with the label":     {label, f.releasing(domain.Release{Draft: true, Label: "live"})},
		"prune": {preset, func(w domain.Write, slug string) (domain.Outcome, error) {
			if _, err := f.PruneVersions(ctx, domain.By(admin), domain.Pruning{Keep: 1}); err != nil { // of other cases
				t.Fatal(err)
			}
			for range 2 {
				f.must(f.CreatePresetVersion(ctx, domain.By(admin), "", slug, nothing))
			}
			_, err := f.PruneVersions(ctx, w, domain.Pruning{Keep: 1})
			return domain.Outcome{}, err
		}},
		"another label":                  {free, f.labelling("other", v(2), nil)},
		"delete another label":           {free, f.unlabelling("other")},
		"move":                           {label, f.labelling("live", v(2), nil)},
		"split":                          {label, f.labelling("live", split(share(1, 1), share(2, 1)), nil)},
		"same":                           {free, f.labelling("live", v(1), nil)},
		"remove":                         {label, f.unlabelling("live")},
		"protect another label":          {guarded, f.labelling("other", v(1), new(true))},
		"protect a new label":            {guarded, f.labelling("new", v(1), new(true))},
		"a new label without protection": {free, f.labelling("new", v(1), new(false))},
		"clear the label's":              {label, f.labelling("live", v(1), new(false))},
	} {
		n := 0
		for _, isProtected := range []bool{false, true} {
			for _, who := range []domain.Principal{without, with, admin, inference} {
				if who.Kind == domain.InferenceKey && !strings.HasPrefix(name, "version") && name != "draft" {
					continue // the handler refuses the rest
				}
				n++
				slug := strings.ReplaceAll(fmt.Sprint(name, "-", n), " ", "-")
				slug = strings.ReplaceAll(slug, "'", "")
				by := domain.By(admin)
				for range 2 {
					f.must(f.CreatePresetVersion(ctx, by, "", slug, nothing))
				}
				_, err1 := f.PutLabel(ctx, by, "", slug, "other", v(1))
				_, err2 := f.PutProtectedLabel(ctx, by, "", slug, "live", v(1), &isProtected)
				_, err3 := f.UpdatePreset(ctx, by, "", slug, domain.PresetPatch{Protected: &isProtected})
				if err1 != nil || err2 != nil || err3 != nil {
					t.Fatal(err1, err2, err3)
				}
				if name == "restore" {
					f.must(f.ArchivePreset(ctx, by, "", slug))
				}
				before := len(f.trail(t))
				_, err := tc.change(domain.By(who), slug)
				refused := domain.KindOf(err) == domain.Forbidden
				lacks := who.Scope != nil && len(who.Scope.Rights) == 0
				if want := lacks && (tc.needs == guarded || tc.needs != free && isProtected); refused != want || err != nil && !refused {
					t.Errorf("%s, protected %t, by %+v: got %v, want refusal: %t", name, isProtected, who.Scope, err, want)
				}
				if refused {
					if !strings.Contains(err.Error(), "needs a key with the right protected-labels") {
						t.Errorf("%s: got %v", name, err)
					}
					if after := len(f.trail(t)); after != before && name != "prune" {
						t.Errorf("%s: a refused change left %d records", name, after-before)
					}
				}
			}
		}
	}
}

// TestProtectionStays moves a label and makes versions with the right. Both keep the
// protection. The trail tells when it was set and cleared.
func TestProtectionStays(t *testing.T) {
	f := newFixture(t)
	ctx, by := t.Context(), domain.By(admin)
	must := func(_ domain.Outcome, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(f.CreatePresetVersion(ctx, by, "", "p", nothing))
	must(f.PutProtectedLabel(ctx, by, "", "p", "live", domain.Target{Version: 1}, new(true)))
	must(f.UpdatePreset(ctx, by, "", "p", domain.PresetPatch{Protected: new(true)}))
	must(f.ReleasePresetVersion(ctx, by, "", "p", nothing, domain.Release{Label: "live"}))
	must(f.PutLabel(ctx, by, "", "p", "live", domain.Target{Version: 1}))
	must(f.UpdatePreset(ctx, by, "", "p", domain.PresetPatch{Name: new("n")}))
	found, err := f.Preset(ctx, user, "", "p")
	if err != nil || !strings.Contains(string(found.JSON), `"protected":true,"policy":null,"labels":{"live":{"version":1,"protected":true}}`) {
		t.Errorf("got %s, %v", found.JSON, err)
	}
	must(f.PutProtectedLabel(ctx, by, "", "p", "live", domain.Target{Version: 2}, new(false)))
	must(f.UpdatePreset(ctx, by, "", "p", domain.PresetPatch{Protected: new(false)}))
	label, err := f.Label(ctx, user, "", "p", "live", domain.Page{Limit: 1})
	if err != nil || !strings.Contains(string(label.JSON), `"protected":false,"history":[{"number":4,`) || !strings.Contains(string(label.JSON), `"from":{"version":1,"protected":true},"to":{"version":2}`) {
		t.Errorf("got %s, %v", label.JSON, err)
	}
	var got []string
	for _, r := range f.trail(t) {
		if r.Object.Kind == "preset" {
			got = append(got, fmt.Sprint(r.Operation, " ", r.Object.Label, " ", r.Object.Protection))
		}
	}
	want := []string{
		"preset.create_version  ", "label.set live set", "preset.protect  set", "preset.create_version  ", "label.move live ", "label.move live ",
		"preset.update  ", "label.move live cleared", "preset.protect  cleared",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	history, err := f.PresetHistory(ctx, admin, "", "p", domain.Page{Limit: 1})
	if err != nil || !strings.Contains(string(history.JSON), `"protection":"cleared"`) {
		t.Errorf("got %s, %v", history.JSON, err)
	}
}

// TestDraftsPruneNothingProtected makes drafts without the right where few versions are kept.
func TestDraftsPruneNothingProtected(t *testing.T) {
	f := newFixture(t)
	f.KeepVersions = 2
	ctx, by := t.Context(), domain.By(admin)
	for range 3 {
		f.must(f.CreatePresetVersion(ctx, by, "", "p", nothing))
	}
	f.must(f.UpdatePreset(ctx, by, "", "p", domain.PresetPatch{Protected: new(true)}))
	total := func() int {
		t.Helper()
		list := f.found(f.PresetVersions(ctx, user, "", "p", domain.Page{Limit: 1}))
		return list.Total
	}
	before := total()
	who := f.limited(t, domain.NewKey{Kind: domain.ManagementKey})
	for range 3 {
		f.must(f.ReleasePresetVersion(ctx, domain.By(who), "", "p", nothing, domain.Release{Draft: true}))
	}
	if got := total(); got != before+3 {
		t.Errorf("got %d versions, want %d", got, before+3)
	}
	f.must(f.ReleasePresetVersion(ctx, by, "", "p", nothing, domain.Release{Draft: true}))
	if got := total(); got > 3 {
		t.Errorf("got %d versions after a change with the right", got)
	}
}

// TestProtectedWorkspaces deletes workspaces with and without protected content.
func TestProtectedWorkspaces(t *testing.T) {
	f := newFixture(t)
	ctx, by := t.Context(), domain.By(admin)
	without := f.limited(t, domain.NewKey{Kind: domain.ManagementKey})
	with := f.limited(t, domain.NewKey{Kind: domain.ManagementKey, Scope: domain.Scope{Rights: []domain.Right{domain.ProtectedLabels}}})
	for _, slug := range []string{"none", "label", "preset"} {
		f.workspace(t, slug)
		f.must(f.CreatePresetVersion(ctx, by, slug, "p", nothing))
	}
	_, err1 := f.PutProtectedLabel(ctx, by, "label", "p", "live", domain.Target{Version: 1}, new(true))
	_, err2 := f.UpdatePreset(ctx, by, "preset", "p", domain.PresetPatch{Protected: new(true)})
	_, err3 := f.ArchivePreset(ctx, by, "preset", "p")
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	for slug, want := range map[string]domain.Kind{"none": 0, "label": domain.Forbidden, "preset": domain.Forbidden} {
		_, err := f.DeleteWorkspace(ctx, domain.By(without), slug, domain.WorkspaceDeletion{})
		if (err != nil) != (want != 0) || err != nil && domain.KindOf(err) != want {
			t.Errorf("%s: got %v", slug, err)
		}
		if err != nil {
			if _, err := f.DeleteWorkspace(ctx, domain.By(with), slug, domain.WorkspaceDeletion{}); err != nil {
				t.Error(err)
			}
		}
	}
}
