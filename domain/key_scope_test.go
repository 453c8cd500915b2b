package domain_test

import (
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
		{inference, domain.Scope{Rights: []domain.Right{domain.ProtectedLabels}}, "/may/0: is for management keys only"},
		{management, domain.Scope{Rights: []domain.Right{"root"}}, "/may/0: must be protected-labels, issue-keys or skip-logging"},
		{management, domain.Scope{Rights: []domain.Right{domain.SkipLogging}}, "/may/0: is for inference keys only"},
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
			f.must(f.ReleasePresetVersion(t.Context(), domain.By(admin), "", slug, nothing, domain.Release{}))
		}
		f.must(f.PutLabel(t.Context(), domain.By(admin), "", slug, "live", domain.Target{Version: 1}, nil))
	}
	who := f.limited(t, domain.NewKey{Kind: domain.InferenceKey, Scope: domain.Scope{Presets: []string{"in", "later"}}})
	for name, read := range f.reads() {
		for range 2 {
			if err := read(user, "", "out"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err := read(who, "", "in"); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			missing, hidden := read(who, "", "none"), read(who, "", "out")
			if domain.KindOf(hidden) != domain.NotFound || strings.ReplaceAll(hidden.Error(), "out", "none") != missing.Error() {
				t.Errorf("%s: got %v out of reach and %v for none", name, hidden, missing)
			}
		}
	}
	wantKind(t, errOf(f.ReleasePresetVersion(t.Context(), domain.By(who), "", "out", nothing, domain.Release{})), domain.NotFound, "")
	wantKind(t, errOf(f.ReleasePresetVersion(t.Context(), domain.By(who), "", "none", nothing, domain.Release{})), domain.NotFound, "")
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
			f.must(f.ReleasePresetVersion(t.Context(), by, workspace, slug, nothing, domain.Release{}))
			name := fmt.Sprint("N", n%3)
			f.must(f.UpdatePreset(t.Context(), by, workspace, slug, domain.PresetPatch{Name: &name}))
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
		got := f.found(f.Presets(t.Context(), who, "", query, page))
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

// A key of one workspace without one of its own manages the default one, also a new one.
func TestOnlyTheDefaultWorkspace(t *testing.T) {
	f := newFixture(t)
	f.workspace(t, "own")
	who := f.limited(t, domain.NewKey{Kind: domain.ManagementKey, Scope: domain.Scope{OnlyWorkspace: true}})
	f.must(f.DeleteWorkspace(t.Context(), domain.By(admin), "default", domain.WorkspaceDeletion{ConfirmDefault: true}))
	if _, err := f.Workspace(t.Context(), who, "default"); err != nil {
		t.Error(err)
	}
	wantKind(t, errOf(f.Workspace(t.Context(), who, "own")), domain.NotFound, "")
	wantKind(t, errOf(f.PruneVersions(t.Context(), domain.By(who), domain.Pruning{Keep: 1})), domain.Forbidden, "")
}
