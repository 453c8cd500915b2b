package domain_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
)

// TestOwnershipIsComplete fails for a change that TestOwnershipMatrix of caddymodule does not know.
func TestOwnershipIsComplete(t *testing.T) {
	known := []string{
		"UpdatePreset", "DesignateVersion", "ArchivePreset", "RestorePreset", "ReleasePresetVersion", "PutLabel",
		"DeleteLabel", "ChangePart", "DeleteWorkspace", "PruneVersions", // the last two have tests of their own
	}
	others := []string{"IssueKey", "UpdateKey", "RotateKey", "RevokeKey", "RemoveKey", "PruneKeys", "CreateWorkspace", "UpdateWorkspace", "PutBudget", "DeleteBudget", "AbandonImport"}
	for m := range reflect.TypeFor[*domain.Service]().Methods() {
		if m.Type.NumIn() > 2 && m.Type.In(2) == reflect.TypeFor[domain.Write]() && !slices.Contains(known, m.Name) && !slices.Contains(others, m.Name) {
			t.Errorf("%s may change a preset: it must respect the owner, and TestOwnershipMatrix must try it", m.Name)
		}
	}
}

// owned makes a preset with two versions and the label one, which an owner manages.
func (f *fixture) owned(t *testing.T, slug, owner string) {
	t.Helper()
	by := domain.Write{Who: admin, Owner: owner}
	for range 2 {
		f.must(f.ReleasePresetVersion(t.Context(), by, "", slug, nothing, domain.Release{}))
	}
	f.must(f.PutLabel(t.Context(), by, "", slug, "one", domain.Target{Version: 1}, nil))
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
		wantKind(t, errOf(f.ReleasePresetVersion(t.Context(), w, "", "mail", nothing, domain.Release{})), domain.Forbidden, "")
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
		f.must(f.ReleasePresetVersion(t.Context(), domain.Write{Who: admin, Owner: owner}, "team", "mail-"+owner+"x", nothing, domain.Release{}))
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
