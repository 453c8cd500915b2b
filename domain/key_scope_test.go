package domain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

func TestScopeIsChecked(t *testing.T) {
	f := newFixture(t)
	many := make([]string, domain.MaxScopePresets+1)
	for i := range many {
		many[i] = fmt.Sprint("p", i)
	}
	const management, inference = domain.ManagementKey, domain.InferenceKey
	for _, tc := range []struct {
		kind  domain.KeyKind
		scope domain.Scope
		want  string // in the error, or empty
	}{
		{inference, domain.Scope{Presets: many[1:], PresetRequired: true, Models: []string{"a/*:free"}}, ""},
		{management, domain.Scope{OnlyWorkspace: true, Rights: []domain.Right{domain.ProtectedLabels}}, ""},
		{inference, domain.Scope{Presets: []string{"p", "a b"}}, "/presets/1: must be the slug of a preset"},
		{inference, domain.Scope{Presets: []string{"p", "p"}}, "/presets/1: is in the list already"},
		{inference, domain.Scope{Presets: []string{}}, "/presets: must have 1 to 64 elements"},
		{inference, domain.Scope{Presets: many}, "/presets: must have 1 to 64 elements"},
		{inference, domain.Scope{Models: many}, "/models: must have 1 to 64 elements"},
		{inference, domain.Scope{Models: []string{"a b"}}, "/models/0: "},
		{inference, domain.Scope{Models: []string{"*****"}}, "/models/0: must have at most 4 *"},
		{inference, domain.Scope{Models: []string{strings.Repeat("m", 257)}}, "/models/0: must have 1 to 256 printable ASCII characters and no space"},
		{inference, domain.Scope{OnlyWorkspace: true}, "/only_workspace: is for management keys only"},
		{inference, domain.Scope{Rights: []domain.Right{domain.ProtectedLabels}}, "/may: is for management keys only"},
		{management, domain.Scope{Rights: []domain.Right{"root"}}, "/may/0: must be protected-labels"},
		{management, domain.Scope{Presets: []string{"p"}}, "/presets: is for inference keys only"},
		{management, domain.Scope{PresetRequired: true}, "/preset_required: is for inference keys only"},
		{management, domain.Scope{Models: []string{"a"}}, "/models: is for inference keys only"},
	} {
		_, secret, err := f.IssueKey(t.Context(), domain.By(admin), domain.NewKey{Kind: tc.kind, Scope: tc.scope})
		if tc.want != "" {
			if domain.KindOf(err) != domain.Invalid || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%+v: got %v, want %s", tc.scope, err, tc.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", tc.scope, err)
			continue
		}
		who, err := f.Authenticate(t.Context(), domain.HashSecret(secret))
		if err != nil || fmt.Sprint(*who.Scope) != fmt.Sprint(tc.scope) {
			t.Errorf("got %+v, %v, want %+v", who.Scope, err, tc.scope)
		}
	}
}

// limited returns the principal of an issued key.
func (f *fixture) limited(t *testing.T, in domain.NewKey) domain.Principal {
	t.Helper()
	_, secret, err := f.IssueKey(t.Context(), domain.By(admin), in)
	if err != nil {
		t.Fatal(err)
	}
	who, err := f.Authenticate(t.Context(), domain.HashSecret(secret))
	if err != nil {
		t.Fatal(err)
	}
	return who
}

// TestReachOfPresets reads presets in and out of reach, also after others read them, so
// that answers are cached.
func TestReachOfPresets(t *testing.T) {
	f := newFixture(t)
	for _, slug := range []string{"in", "out"} {
		f.now = f.now.Add(time.Second)
		for range 2 {
			if _, err := f.CreatePresetVersion(t.Context(), domain.By(admin), "", slug, nothing); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := f.PutLabel(t.Context(), domain.By(admin), "", slug, "live", domain.Target{Version: 1}); err != nil {
			t.Fatal(err)
		}
	}
	who := f.limited(t, domain.NewKey{Kind: domain.InferenceKey, Scope: domain.Scope{Presets: []string{"in", "later"}}})
	page := domain.Page{Limit: 10}
	reads := map[string]func(ctx context.Context, who domain.Principal, slug string) error{
		"preset": func(ctx context.Context, who domain.Principal, slug string) error {
			_, err := f.Preset(ctx, who, "", slug)
			return err
		},
		"version": func(ctx context.Context, who domain.Principal, slug string) error {
			_, err := f.PresetVersion(ctx, who, "", slug, 1)
			return err
		},
		"versions": func(ctx context.Context, who domain.Principal, slug string) error {
			_, err := f.PresetVersions(ctx, who, "", slug, page)
			return err
		},
		"summaries": func(ctx context.Context, who domain.Principal, slug string) error {
			_, err := f.PresetVersionSummaries(ctx, who, "", slug, page)
			return err
		},
		"diff": func(ctx context.Context, who domain.Principal, slug string) error {
			_, err := f.Diff(ctx, who, "", slug, "1", "live")
			return err
		},
		"label": func(ctx context.Context, who domain.Principal, slug string) error {
			_, err := f.Label(ctx, who, "", slug, "live", page)
			return err
		},
	}
	for name, read := range reads {
		for range 2 {
			if err := read(t.Context(), user, "out"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err := read(t.Context(), who, "in"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			missing, hidden := read(t.Context(), who, "none"), read(t.Context(), who, "out")
			if domain.KindOf(hidden) != domain.NotFound || strings.ReplaceAll(hidden.Error(), "out", "none") != missing.Error() {
				t.Errorf("%s: got %v out of reach and %v for none", name, hidden, missing)
			}
		}
	}
	if _, err := f.CreatePresetVersion(t.Context(), domain.By(who), "", "out", nothing); domain.KindOf(err) != domain.NotFound {
		t.Errorf("a version out of reach gives %v", err)
	}
	if _, err := f.CreatePresetVersion(t.Context(), domain.By(who), "", "none", nothing); domain.KindOf(err) != domain.NotFound {
		t.Errorf("a new preset out of reach gives %v", err)
	}
}

// TestListsWithinReach compares each list of a limited key with that of a workspace which has
// only the presets in reach.
func TestListsWithinReach(t *testing.T) {
	f := newFixture(t)
	f.workspace(t, "all")
	f.workspace(t, "few")
	reach := []string{"p1", "p4", "p5", "p8", "p9", "absent"}
	for n := range 10 {
		f.now = f.now.Add(time.Second)
		for _, workspace := range []string{"all", "few"} {
			slug := fmt.Sprint("p", n)
			if workspace == "few" && !strings.Contains(strings.Join(reach, " "), slug) {
				continue
			}
			by := domain.By(admin)
			if _, err := f.CreatePresetVersion(t.Context(), by, workspace, slug, nothing); err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprint("N", n%3)
			if _, err := f.UpdatePreset(t.Context(), by, workspace, slug, domain.PresetPatch{Name: &name}); err != nil {
				t.Fatal(err)
			}
			var err error
			switch n {
			case 4, 6:
				_, err = f.ArchivePreset(t.Context(), by, workspace, slug)
			case 5, 7:
				_, err = f.UpdatePreset(t.Context(), by, workspace, slug, domain.PresetPatch{Status: new(domain.PresetDisabled)})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	who := f.limited(t, domain.NewKey{Kind: domain.InferenceKey, Workspace: "all", Scope: domain.Scope{Presets: reach}})
	everyone := f.limited(t, domain.NewKey{Kind: domain.InferenceKey, Workspace: "few"})
	list := func(who domain.Principal, query domain.PresetQuery, page domain.Page) string {
		got, err := f.Presets(t.Context(), who, "", query, page)
		if err != nil {
			t.Fatal(err)
		}
		var some []struct{ Slug string }
		if err := json.Unmarshal(got.JSON, &some); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(some, got.Total)
	}
	for _, filter := range []domain.PresetFilter{domain.ListedPresets, domain.ActivePresets, domain.DisabledPresets, domain.ArchivedPresets, domain.AllPresets} {
		for _, sort := range []domain.PresetSort{domain.SortUpdated, domain.SortName, domain.SortSlug} {
			for _, ascending := range []bool{false, true} {
				for _, text := range []string{"", "n1", "p"} {
					for _, page := range []domain.Page{{Limit: 10}, {Offset: 1, Limit: 2}, {Offset: 9, Limit: 1}} {
						query := domain.PresetQuery{Filter: filter, Sort: sort, Ascending: ascending, Text: text}
						if got, want := list(who, query, page), list(everyone, query, page); got != want {
							t.Errorf("%+v %+v: got %s, want %s", query, page, got, want)
						}
					}
				}
			}
		}
	}
	if got := list(who, domain.PresetQuery{Filter: domain.AllPresets, Sort: domain.SortSlug, Ascending: true}, domain.Page{Limit: 10}); got != "[{p1} {p4} {p5} {p8} {p9}] 5" {
		t.Errorf("got %s", got)
	}
}

// TestOnlyWorkspace tries every operation on workspaces with a key that manages one.
func TestOnlyWorkspace(t *testing.T) {
	f := newFixture(t)
	own, other := f.workspace(t, "own"), f.workspace(t, "other")
	who := f.limited(t, domain.NewKey{Kind: domain.ManagementKey, Workspace: "own", Scope: domain.Scope{OnlyWorkspace: true}})
	ctx, page := t.Context(), domain.Page{Limit: 10}
	for _, slug := range []string{"own", "other"} {
		if _, err := f.CreatePresetVersion(ctx, domain.By(admin), slug, "p", nothing); err != nil {
			t.Fatal(err)
		}
	}
	name := "Name"
	calls := map[string]func(ref string) error{
		"get": func(ref string) error {
			found, err := f.Workspace(ctx, who, ref)
			if err == nil && found.WorkspaceID != own.ID {
				t.Errorf("got workspace %s", found.WorkspaceID)
			}
			return err
		},
		"patch": func(ref string) error {
			_, err := f.UpdateWorkspace(ctx, domain.By(who), ref, domain.WorkspacePatch{Name: &name}, nil)
			return err
		},
		"history": func(ref string) error { _, err := f.WorkspaceHistory(ctx, who, ref, page); return err },
		"preset":  func(ref string) error { _, err := f.Preset(ctx, who, ref, "p"); return err },
		"presets": func(ref string) error {
			_, err := f.Presets(ctx, who, ref, domain.PresetQuery{}, page)
			return err
		},
		"version": func(ref string) error {
			_, err := f.CreatePresetVersion(ctx, domain.By(who), ref, "p", nothing)
			return err
		},
		"label": func(ref string) error {
			_, err := f.PutLabel(ctx, domain.By(who), ref, "p", "l", domain.Target{Version: 1})
			return err
		},
		"history of a preset": func(ref string) error { _, err := f.PresetHistory(ctx, who, ref, "p", page); return err },
	}
	for what, call := range calls {
		for _, ref := range []string{"own", own.ID, strings.ToUpper(own.ID)} {
			if err := call(ref); err != nil {
				t.Errorf("%s of %s: %v", what, ref, err)
			}
		}
		missing := call("absent")
		for _, ref := range []string{"other", other.ID, "default"} {
			if _, err := f.Workspace(ctx, admin, ref); err != nil { // caches it
				t.Fatal(err)
			}
			if err := call(ref); domain.KindOf(err) != domain.NotFound || err.Error() != missing.Error() {
				t.Errorf("%s of %s: got %v, want %v", what, ref, err, missing)
			}
		}
	}
	slug := "other"
	for _, slug := range []string{slug, "free"} {
		if _, err := f.UpdateWorkspace(ctx, domain.By(who), "own", domain.WorkspacePatch{Slug: &slug}, nil); domain.KindOf(err) != domain.Forbidden {
			t.Errorf("slug %s: got %v", slug, err)
		}
	}
	for ref, want := range map[string]domain.Kind{"own": domain.Forbidden, "other": domain.NotFound, "absent": domain.NotFound} {
		if _, err := f.DeleteWorkspace(ctx, domain.By(who), ref, domain.WorkspaceDeletion{}); domain.KindOf(err) != want {
			t.Errorf("deleting %s gives %v", ref, err)
		}
	}
	if _, err := f.CreateWorkspace(ctx, domain.By(who), domain.NewWorkspace{Name: "n", Slug: "new"}); domain.KindOf(err) != domain.Forbidden {
		t.Errorf("a new workspace gives %v", err)
	}
	if _, err := f.PruneVersions(ctx, domain.By(who), domain.Pruning{Keep: 1}); domain.KindOf(err) != domain.Forbidden {
		t.Errorf("pruning gives %v", err)
	}
	for offset, want := range []string{`"slug":"own"`, "[]"} {
		list, err := f.Workspaces(ctx, who, domain.Page{Offset: offset, Limit: 10})
		if err != nil || list.Total != 1 || !strings.Contains(string(list.JSON), want) || strings.Contains(string(list.JSON), "other") {
			t.Errorf("got %s of %d, %v", list.JSON, list.Total, err)
		}
	}
	// Without a workspace of its own the key manages the default one, also a new one.
	who = f.limited(t, domain.NewKey{Kind: domain.ManagementKey, Scope: domain.Scope{OnlyWorkspace: true}})
	if _, err := f.DeleteWorkspace(ctx, domain.By(admin), "default", domain.WorkspaceDeletion{ConfirmDefault: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Workspace(ctx, who, "default"); err != nil {
		t.Error(err)
	}
	if _, err := f.Workspace(ctx, who, "own"); domain.KindOf(err) != domain.NotFound {
		t.Errorf("got %v", err)
	}
}
