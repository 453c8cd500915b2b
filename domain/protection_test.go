package domain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
)

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
	must(f.ReleasePresetVersion(ctx, by, "", "p", nothing, domain.Release{}))
	must(f.PutLabel(ctx, by, "", "p", "live", domain.Target{Version: 1}, new(true)))
	must(f.UpdatePreset(ctx, by, "", "p", domain.PresetPatch{Protected: new(true)}))
	must(f.ReleasePresetVersion(ctx, by, "", "p", nothing, domain.Release{Label: "live"}))
	must(f.PutLabel(ctx, by, "", "p", "live", domain.Target{Version: 1}, nil))
	must(f.UpdatePreset(ctx, by, "", "p", domain.PresetPatch{Name: new("n")}))
	found, err := f.Preset(ctx, user, "", "p")
	if err != nil || !strings.Contains(string(found.JSON), `"protected":true,"policy":null,"labels":{"live":{"version":1,"protected":true}}`) {
		t.Errorf("got %s, %v", found.JSON, err)
	}
	must(f.PutLabel(ctx, by, "", "p", "live", domain.Target{Version: 2}, new(false)))
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
		f.must(f.ReleasePresetVersion(ctx, by, "", "p", nothing, domain.Release{}))
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
	wantKind(t, errOf(f.PruneVersions(ctx, domain.By(who), domain.Pruning{Keep: 1})), domain.Forbidden, "Preset is protected: this needs a key with the right protected-labels")
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
		f.must(f.ReleasePresetVersion(ctx, by, slug, "p", nothing, domain.Release{}))
	}
	_, err1 := f.PutLabel(ctx, by, "label", "p", "live", domain.Target{Version: 1}, new(true))
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
