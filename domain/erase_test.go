package domain_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
)

// TestChosenVersions removes versions by their numbers, and refuses those that requests get.
func TestChosenVersions(t *testing.T) {
	f := labelled(t, 6)
	f.put(t, "q", "{}", nil)
	f.label(t, "live", domain.Target{Version: 2})
	f.label(t, "canary", split(share(3, 0), share(4, 1)))
	for _, tc := range []struct {
		on   domain.Pruning
		kind domain.Kind
		says string
	}{
		{domain.Pruning{Preset: "p", Versions: []int{1, 6}}, domain.Conflict, "Version 6 of preset p is designated or has a label"},
		{domain.Pruning{Preset: "p", Versions: []int{2}}, domain.Conflict, "Version 2 of preset p"},
		{domain.Pruning{Preset: "p", Versions: []int{3}}, domain.Conflict, "Version 3 of preset p"},
		{domain.Pruning{Preset: "p", Versions: []int{7}}, domain.NotFound, "Preset p has no version 7"},
		{domain.Pruning{Preset: "absent", Versions: []int{1}}, domain.NotFound, "Preset not found"},
		{domain.Pruning{Preset: "p", Workspace: "absent", Versions: []int{1}}, domain.NotFound, "Workspace not found"},
		{domain.Pruning{Versions: []int{1}}, domain.Invalid, "preset"},
		{domain.Pruning{Erase: true}, domain.Invalid, "preset"},
		{domain.Pruning{Preset: "p"}, domain.Invalid, "keep"},
	} {
		_, err := f.PruneVersions(t.Context(), ask, tc.on)
		wantKind(t, err, tc.kind, "")
		if refused, ok := errors.AsType[*domain.Error](err); !ok || !strings.Contains(fmt.Sprint(refused.Message, refused.Issues), tc.says) {
			t.Errorf("%+v: got %v, want %q", tc.on, err, tc.says)
		}
	}
	if got := f.prune(t, domain.Pruning{Preset: "p", Versions: []int{5, 1, 5}, DryRun: true}); got["default/p"] != "1,5" || len(f.left(t, "p")) != 6 {
		t.Errorf("a dry run: got %v", got)
	}
	if got := f.prune(t, domain.Pruning{Preset: "p", Versions: []int{5, 1, 5}}); got["default/p"] != "1,5" || !slices.Equal(f.left(t, "p"), []int{2, 3, 4, 6}) {
		t.Errorf("got %v, left %v", got, f.left(t, "p"))
	}
	// The last version goes, too, and its number is not used again.
	f.must(f.DesignateVersion(t.Context(), ask, "", "p", domain.Designation{Version: 2}))
	f.prune(t, domain.Pruning{Preset: "p", Versions: []int{6}})
	f.put(t, "p", "{}", nil)
	if left := f.left(t, "p"); !slices.Equal(left, []int{2, 3, 4, 7}) {
		t.Errorf("versions %v are left", left)
	}
	// Keep counts in the one preset alone.
	f.put(t, "q", "{}", nil)
	if got := f.prune(t, domain.Pruning{Preset: "q", Keep: 1}); len(got) != 1 || got["default/q"] != "1" {
		t.Errorf("got %v, want version 1 of q", got)
	}
}

// TestErase removes presets of any status. Their slugs are free, and all others stay.
func TestErase(t *testing.T) {
	f := labelled(t, 3)
	f.put(t, "q", "{}", nil)
	f.label(t, "live", domain.Target{Version: 2})
	page := domain.Page{Limit: 50}
	before := f.stored(t, "default", "p")
	if got := f.prune(t, domain.Pruning{Preset: "p", Erase: true, DryRun: true}); got["default/p"] != "1-3" {
		t.Errorf("a dry run: got %v", got)
	}
	f.must(f.ArchivePreset(t.Context(), ask, "", "p"))
	if got := f.prune(t, domain.Pruning{Preset: "p", Erase: true}); got["default/p"] != "1-3" {
		t.Errorf("got %v", got)
	}
	_, err := f.RestorePreset(t.Context(), ask, "", "p")
	wantKind(t, err, domain.NotFound, "Preset not found")
	list, err := f.Presets(t.Context(), user, "", domain.PresetQuery{}, page)
	if err != nil || list.Total != 1 || strings.Contains(string(list.JSON), `"slug":"p"`) {
		t.Errorf("got %s, %v, want q alone", list.JSON, err)
	}
	trail := f.trail(t)
	last := trail[len(trail)-1]
	object := domain.AuditObject{Kind: "preset", ID: before.ID, WorkspaceID: before.WorkspaceID, Slug: "p", Pruned: "1-3"}
	if last.Operation != "preset.erase" || last.Object != object || last.Before != 3 || last.After != 0 {
		t.Errorf("got record %+v", last)
	}
	if _, err := domain.VerifyAudit(domain.AuditHead{}, trail); err != nil {
		t.Error(err)
	}
	f.put(t, "p", "{}", nil)
	after := f.stored(t, "default", "p")
	if after.ID == before.ID || after.LatestVersion != 1 || len(after.Labels) > 0 {
		t.Errorf("got %+v, want a new preset", after)
	}
	_, err = f.Label(t.Context(), user, "", "p", "live", page)
	wantKind(t, err, domain.NotFound, "Label not found")
	_, err = f.PruneVersions(t.Context(), domain.By(user), domain.Pruning{Preset: "p", Erase: true})
	wantKind(t, err, domain.Forbidden, "")
}
