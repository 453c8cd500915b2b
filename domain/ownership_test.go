package domain_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// presetChanges has the changes of a preset by the method of Service that makes them. Each
// acts on a preset with two versions, the second designated, and the label one.
func presetChanges(f *fixture) map[string][]doing {
	return map[string][]doing{
		"UpdatePreset": {
			f.patching(domain.PresetPatch{Name: new("n")}),
			f.patching(describe(new("d"))),
			f.patching(domain.PresetPatch{Status: new(domain.PresetDisabled)}),
			f.patching(domain.PresetPatch{Protected: new(true)}),
			f.patching(domain.PresetPatch{Policy: domain.Settable[domain.Policy]{Given: true, Value: &domain.Policy{Lock: []string{"seed"}}}}),
		},
		"DesignateVersion": {f.designating(domain.Designation{Version: 1})},
		"ArchivePreset":    {f.archiving},
		"RestorePreset": {func(w domain.Write, slug string) (domain.Outcome, error) {
			f.must(f.archiving(domain.Write{Who: admin, Override: "files"}, slug))
			return f.restoring(w, slug)
		}},
		"CreatePresetVersion": {f.releasing(domain.Release{})},
		"ReleasePresetVersion": {
			f.releasing(domain.Release{Draft: true}), f.releasing(domain.Release{Draft: true, Label: "new"}), f.releasing(domain.Release{Label: "one"}),
		},
		"PutLabel":          {f.labelling("one", domain.Target{Version: 2}, nil)},
		"PutProtectedLabel": {f.labelling("one", domain.Target{Version: 1}, new(true))},
		"DeleteLabel":       {f.unlabelling("one")},
	}
}

// TestOwnershipIsComplete fails for a change that TestOwnership does not know.
func TestOwnershipIsComplete(t *testing.T) {
	known := slices.Collect(maps.Keys(presetChanges(newFixture(t))))
	known = append(known, "DeleteWorkspace", "PruneVersions") // with tests of their own
	others := []string{"IssueKey", "RevokeKey", "RemoveKey", "PruneKeys", "CreateWorkspace", "UpdateWorkspace", "AbandonImport"}
	for m := range reflect.TypeFor[*domain.Service]().Methods() {
		if m.Type.NumIn() > 2 && m.Type.In(2) == reflect.TypeFor[domain.Write]() && !slices.Contains(known, m.Name) && !slices.Contains(others, m.Name) {
			t.Errorf("%s may change a preset: it must respect the owner, and TestOwnership must try it", m.Name)
		}
	}
}

// TestOwnership tries every change of a preset with and without an owner.
func TestOwnership(t *testing.T) {
	tier.NoRace(t)
	f := newFixture(t)
	for method, changes := range presetChanges(f) {
		for i, change := range changes {
			for _, tc := range []struct {
				name, managedBy, owner, override string
				want                             string // the owner afterwards, or the error
				recorded                         string // the override in the audit trail
			}{
				{"no owner", "", "", "", "", ""},
				{"adoption", "", "files", "", "files", ""},
				{"override without an owner", "", "", "files", "", ""},
				{"its owner", "files", "files", "", "files", ""},
				{"nobody", "files", "", "", "is managed by files", ""},
				{"another owner", "files", "other", "", "is managed by files", ""},
				{"override of another owner", "files", "", "other", "is managed by files", ""},
				{"override", "files", "", "files", "files", "files"},
				{"override by another owner", "files", "other", "files", "files", "files"},
			} {
				t.Run(fmt.Sprint(method, i, "/", tc.name), func(t *testing.T) {
					slug := strings.ToLower(fmt.Sprint(method, i, "-", strings.ReplaceAll(tc.name, " ", "-")))
					f.owned(t, slug, tc.managedBy)
					out, err := change(domain.Write{Who: admin, Owner: tc.owner, Override: tc.override}, slug)
					trail := f.trail(t)
					last := trail[len(trail)-1]
					if strings.HasPrefix(tc.want, "is") {
						if domain.KindOf(err) != domain.Conflict || !strings.Contains(err.Error(), tc.want+": change it there, or send X-Preset-Override: files") {
							t.Fatalf("got %v, want a conflict that names the owner", err)
						}
						return
					}
					if err != nil {
						t.Fatal(err)
					}
					got := ownerOf(f.stored(t, "default", slug))
					if got != tc.want || last.Override != tc.recorded || last.Object.ManagedBy != got || len(out.Records) == 0 {
						t.Errorf("got owner %q, record %+v, want owner %q, override %q", got, last, tc.want, tc.recorded)
					}
				})
			}
		}
	}
}

// owned makes a preset with two versions and the label one, which an owner manages.
func (f *fixture) owned(t *testing.T, slug, owner string) {
	t.Helper()
	by := domain.Write{Who: admin, Owner: owner}
	for range 2 {
		f.must(f.CreatePresetVersion(t.Context(), by, "", slug, nothing))
	}
	f.must(f.PutLabel(t.Context(), by, "", slug, "one", domain.Target{Version: 1}))
}

// TestSetOwner changes the owner by patches.
func TestSetOwner(t *testing.T) {
	f := newFixture(t)
	f.owned(t, "mail", "")
	set := func(w domain.Write, owner *string) error {
		w.Who = admin
		return errOf(f.UpdatePreset(t.Context(), w, "", "mail", domain.PresetPatch{ManagedBy: domain.Settable[string]{Given: true, Value: owner}}))
	}
	want := func(owner, override string, records int) {
		t.Helper()
		trail := f.trail(t)
		last := trail[len(trail)-1]
		if p := f.stored(t, "default", "mail"); ownerOf(p) != owner || last.Operation != "preset.set_owner" || last.Object.ManagedBy != owner || last.Override != override || len(trail) != records {
			t.Fatalf("got owner %q, %d records, the last %+v, want owner %q, override %q, %d records", ownerOf(p), len(trail), last, owner, override, records)
		}
	}
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	conflict := func(err error) {
		t.Helper()
		if domain.KindOf(err) != domain.Conflict {
			t.Fatalf("got %v, want a conflict", err)
		}
	}
	n := len(f.trail(t))
	ok(set(domain.Write{}, new("files")))
	want("files", "", n+1)
	ok(set(domain.Write{}, new("files"))) // changes nothing
	ok(set(domain.Write{Owner: "files"}, new("files")))
	want("files", "", n+1)
	conflict(set(domain.Write{}, nil))
	conflict(set(domain.Write{}, new("other")))
	conflict(set(domain.Write{Owner: "other"}, new("other")))
	ok(set(domain.Write{Owner: "files"}, nil)) // the header does not adopt it again
	want("", "", n+2)
	ok(set(domain.Write{Owner: "files"}, new("files")))
	want("files", "", n+3)
	ok(set(domain.Write{Override: "files", Owner: "other"}, new("other")))
	want("other", "files", n+4)
	ok(set(domain.Write{Override: "other"}, nil))
	want("", "other", n+5)
	for _, wrong := range []string{"", "Files", "-a", "a-", "a b", "ä", strings.Repeat("a", domain.MaxOwner+1), "a\n"} {
		if err := set(domain.Write{}, &wrong); domain.KindOf(err) != domain.Invalid || !strings.Contains(err.Error(), "/managed_by") {
			t.Errorf("%q: got %v, want an Invalid /managed_by", wrong, err)
		}
		if wrong == "" {
			continue
		}
		for _, w := range []domain.Write{{Owner: wrong}, {Override: wrong}} {
			if err := set(w, nil); domain.KindOf(err) != domain.Invalid || !strings.Contains(err.Error(), "x-preset-o") {
				t.Errorf("%q: got %v, want an Invalid header", wrong, err)
			}
		}
	}
	for _, w := range []domain.Write{{Who: user, Owner: "files"}, {Who: user, Override: "files"}} {
		wantKind(t, errOf(f.CreatePresetVersion(t.Context(), w, "", "mail", nothing)), domain.Forbidden, "")
	}
}

func ownerOf(p domain.Preset) string {
	if p.ManagedBy == nil {
		return ""
	}
	return *p.ManagedBy
}

// TestOwnershipOfWorkspaces deletes a workspace whose presets have owners.
func TestOwnershipOfWorkspaces(t *testing.T) {
	f := newFixture(t)
	f.workspace(t, "team")
	for _, owner := range []string{"", "files", "other"} {
		f.must(f.CreatePresetVersion(t.Context(), domain.Write{Who: admin, Owner: owner}, "team", "mail-"+owner+"x", nothing))
	}
	for _, w := range []domain.Write{{}, {Override: "files"}, {Owner: "files"}, {Owner: "files", Override: "third"}} {
		w.Who = admin
		wantKind(t, errOf(f.DeleteWorkspace(t.Context(), w, "team", domain.WorkspaceDeletion{})), domain.Conflict, "")
	}
	f.must(f.DeleteWorkspace(t.Context(), domain.Write{Who: admin, Owner: "files", Override: "other"}, "team", domain.WorkspaceDeletion{}))
	if trail := f.trail(t); trail[len(trail)-1].Override != "other" {
		t.Errorf("got %+v, want the override recorded", trail[len(trail)-1])
	}
}

// TestPruningOwned removes old versions of a preset that has an owner.
func TestPruningOwned(t *testing.T) {
	f := newFixture(t)
	f.owned(t, "mail", "files")
	f.must(f.DeleteLabel(t.Context(), domain.Write{Who: admin, Owner: "files"}, "", "mail", "one"))
	pruned, err := f.PruneVersions(t.Context(), domain.By(admin), domain.Pruning{Keep: 1})
	if err != nil || len(pruned) != 1 || pruned[0].Versions != "1" {
		t.Errorf("got %+v, %v, want version 1 removed", pruned, err)
	}
}
