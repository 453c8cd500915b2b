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

// entry is an entry of a history as clients see it.
type entry struct {
	Number    int
	Operation string
	UserID    string  `json:"user_id"`
	KeyID     *string `json:"key_id"`
	KeyName   *string `json:"key_name"`
	Slug      *string
	Before    *int `json:"version_before"`
	Version   *int
	Draft     bool
	Label     *string
	Message   *string
	Split     *string
	Status    *domain.PresetStatus
	RequestID *string `json:"request_id"`
}

func given[T comparable](value T) *T {
	if value == *new(T) {
		return nil
	}
	return &value
}

// changeOf returns the entry of a record by the definition.
func changeOf(r domain.AuditRecord, names map[string]string) entry {
	c := entry{
		r.Number, r.Operation, r.UserID, given(r.KeyID), given(names[r.KeyID]), given(r.Object.Slug), given(r.Before), given(r.After),
		r.Object.Draft != 0, given(r.Object.Label), given(r.Object.Message), given(r.Object.Split), given(r.Object.Status), given(r.RequestID),
	}
	if c.Draft {
		c.Before, c.Version = nil, given(r.Object.Draft)
	}
	return c
}

// Histories are those records of the audit trail that are about the object.
func TestHistories(t *testing.T) {
	f := newFixture(t)
	f.KeepVersions = 3
	team := f.workspace(t, "team")
	k, _ := f.newKey(domain.NewKey{Kind: domain.ManagementKey, Name: "Ann's laptop", Workspace: "team"})
	nameless, _ := f.newKey(domain.NewKey{Kind: domain.ManagementKey})
	names := map[string]string{k.ID: "Ann's laptop"}
	random := rand.New(rand.NewPCG(5, 6))
	writes := []domain.Write{ask, ask, ask}
	writes[1].Who.KeyID, writes[1].RequestID = k.ID, "r1"
	writes[2].Who.KeyID, writes[2].Who.UserID = nameless.ID, "dora"
	for n := range 600 {
		w := writes[n%3]
		workspace, slug := []string{"", "team"}[random.IntN(2)], fmt.Sprintf("p%d", random.IntN(3))
		how := domain.Release{Draft: random.IntN(3) == 0}
		if random.IntN(3) == 0 {
			how.Label = "live"
		}
		if random.IntN(2) == 0 {
			how.Message = new(fmt.Sprint("why ", n))
		}
		switch random.IntN(9) { // some fail, and are in no history
		case 0, 1:
			_, _ = f.ReleasePresetVersion(t.Context(), w, workspace, slug, nothing, how)
		case 2:
			_, _ = f.DesignateVersion(t.Context(), w, workspace, slug, domain.Designation{Version: 1 + random.IntN(4)})
		case 3:
			_, _ = f.DeleteLabel(t.Context(), w, workspace, slug, "live")
		case 4:
			_, _ = f.ArchivePreset(t.Context(), w, workspace, slug)
		case 5:
			_, _ = f.RestorePreset(t.Context(), w, workspace, slug)
		case 6:
			_, _ = f.PutLabel(t.Context(), w, workspace, slug, "live", domain.Target{Split: []domain.Share{{Version: 1 + random.IntN(4), Weight: 1}}}, nil)
		case 7:
			_, _ = f.UpdatePreset(t.Context(), w, workspace, slug, domain.PresetPatch{Status: new([]domain.PresetStatus{domain.PresetActive, domain.PresetDisabled}[random.IntN(2)])})
		default:
			_, _ = f.UpdateWorkspace(t.Context(), w, "team", domain.WorkspacePatch{Name: new(fmt.Sprint(n))}, nil)
		}
	}
	trail := f.trail(t)
	check := func(what string, read func(page domain.Page) (domain.Found, error), is func(o domain.AuditObject) bool) {
		t.Helper()
		want := []entry{}
		for _, r := range slices.Backward(trail) {
			if is(r.Object) {
				want = append(want, changeOf(r, names))
			}
		}
		if len(want) < 10 {
			t.Fatalf("%s has only %d records", what, len(want))
		}
		for offset := 0; offset < len(want)+7; offset += 7 {
			list, err := read(domain.Page{Offset: offset, Limit: 7})
			var got []entry
			if err != nil || json.Unmarshal(list.JSON, &got) != nil {
				t.Fatalf("%s: got %s, %v", what, list.JSON, err)
			}
			part := want[min(offset, len(want)):min(offset+7, len(want))]
			if !reflect.DeepEqual(got, part) || list.Total != len(want) || list.Tag == "" {
				t.Errorf("%s from %d: got %s of %d, want %d of %d", what, offset, list.JSON, list.Total, len(part), len(want))
			}
		}
	}
	for _, slug := range []string{"p0", "p1", "p2"} {
		if p := f.stored(t, "team", slug); p.Status != domain.PresetArchived && slug == "p0" {
			if p.Status == domain.PresetDisabled {
				f.must(f.UpdatePreset(t.Context(), ask, "team", slug, domain.PresetPatch{Status: new(domain.PresetActive)}))
			}
			f.must(f.ArchivePreset(t.Context(), ask, "team", slug)) // has a history all the same
			trail = f.trail(t)
		}
		check(slug, func(page domain.Page) (domain.Found, error) {
			return f.PresetHistory(t.Context(), admin, "team", slug, page)
		}, func(o domain.AuditObject) bool {
			return o.Kind == "preset" && o.WorkspaceID == team.ID && o.Slug == slug
		})
	}
	for _, ref := range []string{team.ID, "team"} {
		check(ref, func(page domain.Page) (domain.Found, error) {
			return f.WorkspaceHistory(t.Context(), admin, ref, page)
		}, func(o domain.AuditObject) bool { return o.WorkspaceID == team.ID })
	}

	wantKind(t, errOf(f.PresetHistory(t.Context(), admin, "", "absent", domain.Page{Limit: 1})), domain.NotFound, "Preset not found")
	wantKind(t, errOf(f.WorkspaceHistory(t.Context(), admin, "absent", domain.Page{Limit: 1})), domain.NotFound, "Workspace not found")
	wantKind(t, errOf(f.PresetHistory(t.Context(), user, "", "p1", domain.Page{Limit: 1})), domain.Forbidden, "Only management keys")
	wantKind(t, errOf(f.WorkspaceHistory(t.Context(), user, "default", domain.Page{Limit: 1})), domain.Forbidden, "Only management keys")

	// The history of a deleted workspace goes with it, and a new one of its slug has its own.
	if _, err := f.RevokeKey(t.Context(), ask, k.ID); err != nil {
		t.Fatal(err)
	}
	f.must(f.DeleteWorkspace(t.Context(), ask, "team", domain.WorkspaceDeletion{}))
	for _, ref := range []string{"team", team.ID} {
		wantKind(t, errOf(f.WorkspaceHistory(t.Context(), admin, ref, domain.Page{Limit: 1})), domain.NotFound, "Workspace not found")
		wantKind(t, errOf(f.PresetHistory(t.Context(), admin, ref, "p1", domain.Page{Limit: 1})), domain.NotFound, "Workspace not found")
	}
	f.workspace(t, "team")
	if list, err := f.WorkspaceHistory(t.Context(), admin, "team", domain.Page{Limit: 9}); err != nil || list.Total != 1 {
		t.Errorf("got %+v, %v, want only its creation", list, err)
	}
}
