package domain_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
)

func TestPresetVersions(t *testing.T) {
	f := newFixture(t)
	prompt := "Be brief."
	first := domain.Capture{Dialect: domain.Responses, Config: json.RawMessage(`{"model":"m","temperature":0.70}`), SystemPrompt: &prompt}
	out1 := f.must(f.ReleasePresetVersion(t.Context(), domain.By(admin), "", "email", first, domain.Release{}))
	p1, v1 := out1.Preset, out1.Version
	f.now = f.now.Add(time.Hour)
	other := admin
	other.UserID = "dora"
	out2 := f.must(f.ReleasePresetVersion(t.Context(), domain.By(other), "", "email", domain.Capture{Dialect: domain.Responses, Config: json.RawMessage("{}")}, domain.Release{}))
	p2, v2 := out2.Preset, out2.Version
	wantP := p1
	wantP.DesignatedVersion, wantP.LatestVersion, wantP.DesignatedVersionID = 2, 2, v2.ID
	wantP.UpdatedAt, wantP.UpdatedBy = p1.UpdatedAt.Add(time.Hour), "dora"
	if !reflect.DeepEqual(p2, wantP) {
		t.Errorf("got  %+v\nwant %+v", p2, wantP)
	}
	if p1.Name != "email" || p1.Slug != "email" || p1.Status != domain.PresetActive || p1.CreatorUserID != "ann" || p1.DesignatedVersionID != v1.ID {
		t.Errorf("version 1 is of %+v", p1)
	}
	wantV := domain.PresetVersion{
		ID: v2.ID, PresetID: p1.ID, Version: 2, Dialect: domain.Responses, Config: json.RawMessage("{}"),
		CreatorID: "dora", CreatedAt: p2.UpdatedAt, UpdatedAt: p2.UpdatedAt,
	}
	if !reflect.DeepEqual(v2, wantV) {
		t.Errorf("got  %+v\nwant %+v", v2, wantV)
	}
	err := f.View(t.Context(), func(r domain.Reader) error {
		p, err := r.Preset(p1.WorkspaceID, "email")
		if err != nil || !reflect.DeepEqual(p, p2) {
			t.Errorf("stored: got %+v, %v, want %+v", p, err, p2)
		}
		for _, want := range []domain.PresetVersion{v1, v2} {
			if got, err := r.PresetVersion(p.State(), want.Version); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("stored: got %+v, %v, want %+v", got, err, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	want := fmt.Sprintf(`{"id":%q,"name":"email","slug":"email","description":null,"status":"active","status_updated_at":null,`+
		`"creator_user_id":"ann","workspace_id":%q,"designated_version_id":%q,"designated_version_number":1,"created_at":"2026-11-21T09:00:00.123Z","updated_at":"2026-11-21T09:00:00.123Z","updated_by":"ann",`+
		`"managed_by":null,"protected":false,"policy":null,"labels":{},"designated_version":{"id":%q,"preset_id":%q,"version":1,"dialect":"responses","message":null,"creator_id":"ann",`+
		`"created_at":"2026-11-21T09:00:00.123Z","updated_at":"2026-11-21T09:00:00.123Z","system_prompt_bytes":9,"template_bytes":0,"config_bytes":32,`+
		`"system_prompt":"Be brief.","template":null,"config":{"model":"m","temperature":0.70},"designated":true,"labels":[],"last_served_at":null}}`,
		p1.ID, p1.WorkspaceID, v1.ID, v1.ID, p1.ID)
	if string(out1.JSON) != want {
		t.Errorf("got  %s\nwant %s", out1.JSON, want)
	}
}

func TestPresetSlugs(t *testing.T) {
	for slug, ok := range map[string]bool{
		"a": true, "A": true, "0": true, "email-copywriter": true, "a.b_c~d-e": true, strings.Repeat("x", 128): true,
		"": false, "-a": false, ".a": false, "_a": false, "~a": false, "a b": false, "a/b": false, "a%2Fb": false,
		"é": false, "a\n": false, "a\x00": false, "a@1": false, strings.Repeat("x", 129): false,
	} {
		err := domain.CheckPresetSlug(slug)
		if ok && err != nil {
			t.Errorf("%q: %v", slug, err)
		}
		if !ok {
			wantKind(t, err, domain.Invalid, "slug")
		}
	}
}

func TestPresetWorkspaces(t *testing.T) {
	f := newFixture(t)
	def := f.shown("default")
	a, b := f.workspace(t, "a"), f.workspace(t, "b")
	in := func(p domain.Principal, id, slug string) domain.Principal {
		p.WorkspaceID, p.WorkspaceSlug = id, slug
		return p
	}
	for i, tc := range []struct {
		who  domain.Principal
		ref  string
		want string
		kind domain.Kind
	}{
		{who: admin, want: def.ID},
		{who: admin, ref: "a", want: a.ID},
		{who: admin, ref: b.ID, want: b.ID},
		{who: admin, ref: "nowhere", kind: domain.NotFound},
		{who: in(admin, a.ID, ""), want: a.ID},
		{who: in(admin, a.ID, ""), ref: "b", want: b.ID},
		{who: in(admin, "", "b"), want: b.ID},
		{who: user, want: def.ID},
		{who: user, ref: "default", want: def.ID},
		{who: in(user, a.ID, ""), want: a.ID},
		{who: in(user, a.ID, ""), ref: a.ID, want: a.ID},
		{who: in(user, a.ID, ""), ref: "a", want: a.ID},
		{who: in(user, a.ID, ""), ref: "b", kind: domain.Forbidden},
		{who: in(user, a.ID, ""), ref: "nowhere", kind: domain.Forbidden},
		{who: in(user, "", "gone"), kind: domain.NotFound},
		{who: in(admin, uuid.NewString(), ""), kind: domain.NotFound},
	} {
		out, err := f.ReleasePresetVersion(t.Context(), domain.By(tc.who), tc.ref, fmt.Sprintf("p%d", i), nothing, domain.Release{})
		if tc.want == "" {
			wantKind(t, err, tc.kind, "")
		} else if out.WorkspaceID != tc.want || out.Preset.WorkspaceID != tc.want || err != nil {
			t.Errorf("case %d: got workspace %s, %v, want %s", i, out.WorkspaceID, err, tc.want)
		}
	}
	// One slug in two workspaces is two presets.
	inA, errA := f.ReleasePresetVersion(t.Context(), domain.By(admin), "a", "same", nothing, domain.Release{})
	inB, errB := f.ReleasePresetVersion(t.Context(), domain.By(admin), "b", "same", nothing, domain.Release{})
	if errA != nil || errB != nil || inA.Preset.ID == inB.Preset.ID || inB.Number != 1 {
		t.Errorf("got %s and %s version %d, %v, %v, want two presets", inA.Preset.ID, inB.Preset.ID, inB.Number, errA, errB)
	}
}

// step is one change of a preset, asked for a minute after the one before.
type step struct {
	name string
	do   doing
	// kind and says are the error that it gives; where says is empty it gives
	// none.
	kind domain.Kind
	says string
	// operation is the operation in the audit trail. If it is empty, nothing may change.
	operation     string
	before, after int                 // versions in the audit trail
	label         string              // likewise
	split         string              // likewise
	status        domain.PresetStatus // likewise
	// check looks at the preset after a change.
	check func(t *testing.T, p domain.Preset)
}

// run applies steps to the preset "p" of the default workspace, which one of the steps
// creates. It checks that each step changes what it should, and nothing else.
func (f *fixture) run(t *testing.T, steps []step) {
	t.Helper()
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) {
			f.now = f.now.Add(time.Minute)
			seen := f.trail(t)
			var before domain.Preset
			if len(seen) > 1 {
				before = f.stored(t, "default", "p")
			}
			out, err := s.do(ask, "p")
			p := f.stored(t, "default", "p")
			added := f.trail(t)[len(seen):]
			if s.says != "" {
				wantKind(t, err, s.kind, s.says)
				if e, _ := errors.AsType[*domain.Error](err); s.kind == domain.Conflict && !reflect.DeepEqual(e.Issues, []domain.Issue{{Path: "slug", Message: "the preset is " + string(before.Status)}}) {
					t.Errorf("got issues %+v, want one that names the status %s", e.Issues, before.Status)
				}
				if !reflect.DeepEqual(out, domain.Outcome{}) {
					t.Errorf("an error comes with %+v", out)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if s.operation == "" {
				if !reflect.DeepEqual(p, before) || len(added) > 0 || len(out.Records) > 0 {
					t.Errorf("got  %+v\nwant %+v\nand no record, not %v", p, before, added)
				}
				return
			}
			moment := f.now.UTC().Truncate(time.Millisecond)
			if !p.UpdatedAt.Equal(moment) || len(added) != 1 {
				t.Fatalf("got %+v with records %+v, want one change at %v", p, added, moment)
			}
			want := domain.AuditRecord{
				Number: len(seen) + 1, Time: moment, KeyID: "k1", UserID: "ann", RequestID: "r1", Operation: s.operation,
				Object: domain.AuditObject{Kind: "preset", ID: p.ID, WorkspaceID: p.WorkspaceID, Slug: "p", Label: s.label, Split: s.split, Status: s.status},
				Before: s.before, After: s.after, Changes: added[0].Changes, Previous: added[0].Previous, Hash: added[0].Hash,
			}
			if !reflect.DeepEqual(added[0], want) || !reflect.DeepEqual(out.Records, added) {
				t.Errorf("got  %+v\nand  %+v\nwant %+v", added[0], out.Records, want)
			}
			if gone := s.operation == "preset.archive" || s.operation == "label.delete"; out.WorkspaceID != p.WorkspaceID || (out.JSON == nil) != gone {
				t.Errorf("got workspace %q and %q, want %q and JSON unless it is gone", out.WorkspaceID, out.JSON, p.WorkspaceID)
			}
			if p.Status != before.Status && before.ID != "" {
				if p.StatusUpdatedAt == nil || !p.StatusUpdatedAt.Equal(moment) {
					t.Errorf("got status_updated_at %v, want %v", p.StatusUpdatedAt, moment)
				}
			} else if !reflect.DeepEqual(p.StatusUpdatedAt, before.StatusUpdatedAt) {
				t.Errorf("got status_updated_at %v, want %v still", p.StatusUpdatedAt, before.StatusUpdatedAt)
			}
			if s.check != nil {
				s.check(t, p)
			}
		})
	}
}

// ask is a change that an administrator asks for in a request.
var ask = domain.Write{Who: admin, RequestID: "r1"}

func describe(text *string) domain.PresetPatch {
	return domain.PresetPatch{Description: domain.Settable[string]{Given: true, Value: text}}
}

func TestPresetLife(t *testing.T) {
	f := newFixture(t)
	create, designate, patch, archive, restore := f.releasing(domain.Release{}), f.designating, f.patching, f.archiving, f.restoring
	label := func(name string, to domain.Target) doing { return f.labelling(name, to, nil) }
	unlabel := f.unlabelling("live")
	status := func(to domain.PresetStatus) domain.PresetPatch { return domain.PresetPatch{Status: &to} }
	is := func(status domain.PresetStatus, designated, latest int) func(*testing.T, domain.Preset) {
		return func(t *testing.T, p domain.Preset) {
			t.Helper()
			if p.Status != status || p.DesignatedVersion != designated || p.LatestVersion != latest {
				t.Errorf("got %s, version %d of %d, want %s, version %d of %d", p.Status, p.DesignatedVersion, p.LatestVersion, status, designated, latest)
			}
			err := f.View(t.Context(), func(r domain.Reader) error {
				v, err := r.PresetVersion(p.State(), designated)
				if v.ID != p.DesignatedVersionID {
					t.Errorf("got version %s designated, which is not number %d", p.DesignatedVersionID, designated)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		}
	}
	const active, disabled, archived = domain.PresetActive, domain.PresetDisabled, domain.PresetArchived
	const isDisabled, isArchived = "Preset is disabled: set its status to active first", "Preset is archived: restore it first"
	split := domain.Target{Split: []domain.Share{{Version: 1, Weight: 1}, {Version: 3, Weight: 3}}}

	f.run(t, []step{
		{name: "created", do: create, operation: "preset.create_version", before: 0, after: 1, check: is(active, 1, 1)},
		{name: "restored while active", do: restore},
		{name: "version 2", do: create, operation: "preset.create_version", before: 1, after: 2, check: is(active, 2, 2)},
		{name: "version 3", do: create, operation: "preset.create_version", before: 2, after: 3, check: is(active, 3, 3)},
		{name: "rolled back", do: designate(domain.Designation{Version: 1}), operation: "preset.designate", before: 3, after: 1, check: is(active, 1, 3)},
		{name: "rolled back again", do: designate(domain.Designation{Version: 1})},
		{name: "to version 0", do: designate(domain.Designation{}), kind: domain.NotFound, says: "Preset version not found"},
		{name: "to version 4", do: designate(domain.Designation{Version: 4}), kind: domain.NotFound, says: "Preset version not found"},
		{name: "to version -1", do: designate(domain.Designation{Version: -1}), kind: domain.NotFound, says: "Preset version not found"},
		{name: "to no label", do: designate(domain.Designation{Label: "live"}), kind: domain.NotFound, says: "Label not found"},
		{name: "labelled", do: label("live", domain.Target{Version: 2}), operation: "label.set", before: 0, after: 2, label: "live", check: is(active, 1, 3)},
		{name: "to a label", do: designate(domain.Designation{Label: "live"}), operation: "preset.designate", before: 1, after: 2, check: is(active, 2, 3)},
		{name: "to a label again", do: designate(domain.Designation{Label: "live"})},
		{name: "split", do: label("live", split), operation: "label.split", before: 2, after: 0, label: "live", split: "1:1,3:3", check: is(active, 2, 3)},
		{name: "to a split", do: designate(domain.Designation{Label: "live"}), kind: domain.Invalid, says: "/label: stands for a split"},
		{name: "version 4 after a roll back", do: create, operation: "preset.create_version", before: 2, after: 4, check: is(active, 4, 4)},

		{name: "nothing patched", do: patch(domain.PresetPatch{})},
		{name: "same name", do: patch(domain.PresetPatch{Name: new("p")})},
		{name: "no description already", do: patch(describe(nil))},
		{name: "active already", do: patch(status(active))},
		{name: "named", do: patch(domain.PresetPatch{Name: new("Support")}), operation: "preset.update", before: 4, after: 4, check: func(t *testing.T, p domain.Preset) {
			if p.Name != "Support" || p.Slug != "p" || p.Description != nil {
				t.Errorf("got %+v", p)
			}
		}},
		{name: "described", do: patch(describe(new("Mails"))), operation: "preset.update", before: 4, after: 4, check: func(t *testing.T, p domain.Preset) {
			if p.Name != "Support" || *p.Description != "Mails" {
				t.Errorf("got %+v", p)
			}
		}},
		{name: "described so already", do: patch(describe(new("Mails")))},
		{name: "described as nothing", do: patch(describe(new(""))), operation: "preset.update", before: 4, after: 4, check: func(t *testing.T, p domain.Preset) {
			if p.Description == nil || *p.Description != "" {
				t.Errorf("got %+v", p)
			}
		}},
		{name: "no more described", do: patch(describe(nil)), operation: "preset.update", before: 4, after: 4, check: func(t *testing.T, p domain.Preset) {
			if p.Description != nil {
				t.Errorf("got %+v", p)
			}
		}},

		{name: "ruled", do: patch(domain.PresetPatch{Policy: domain.Settable[domain.Policy]{Given: true, Value: &domain.Policy{Lock: []string{"seed"}}}}), operation: "preset.set_policy", before: 4, after: 4, check: func(t *testing.T, p domain.Preset) {
			if p.Policy == nil || p.Policy.Violation != domain.OverrideViolation {
				t.Errorf("got policy %+v, want the default violation", p.Policy)
			}
		}},
		{name: "ruled no more", do: patch(domain.PresetPatch{Policy: domain.Settable[domain.Policy]{Given: true}}), operation: "preset.set_policy", before: 4, after: 4, check: func(t *testing.T, p domain.Preset) {
			if p.Policy != nil {
				t.Errorf("got policy %+v, want none", p.Policy)
			}
		}},
		{name: "disabled", do: patch(status(disabled)), operation: "preset.set_status", status: disabled, before: 4, after: 4, check: is(disabled, 4, 4)},
		{name: "disabled already", do: patch(status(disabled))},
		{name: "version while disabled", do: create, kind: domain.Conflict, says: isDisabled},
		{name: "archived while disabled", do: archive, kind: domain.Conflict, says: isDisabled},
		{name: "restored while disabled", do: restore, kind: domain.Conflict, says: isDisabled},
		{name: "designated while disabled", do: designate(domain.Designation{Version: 3}), operation: "preset.designate", before: 4, after: 3, check: is(disabled, 3, 4)},
		{name: "unlabelled while disabled", do: unlabel, operation: "label.delete", label: "live"},
		{name: "enabled", do: patch(status(active)), operation: "preset.set_status", status: active, before: 3, after: 3, check: is(active, 3, 4)},

		{name: "archived", do: archive, operation: "preset.archive", before: 3, after: 3, check: is(archived, 3, 4)},
		{name: "archived already", do: archive},
		{name: "version while archived", do: create, kind: domain.Conflict, says: isArchived},
		{name: "designated while archived", do: designate(domain.Designation{Version: 1}), kind: domain.NotFound, says: "Preset not found"},
		{name: "patched while archived", do: patch(status(active)), kind: domain.NotFound, says: "Preset not found"},
		{name: "labelled while archived", do: label("live", domain.Target{Version: 1}), kind: domain.NotFound, says: "Preset not found"},
		{name: "unlabelled while archived", do: unlabel, kind: domain.NotFound, says: "Preset not found"},
		{name: "restored", do: restore, operation: "preset.restore", before: 3, after: 3, check: is(active, 3, 4)},
		{name: "restored already", do: restore},
		{name: "version 5", do: create, operation: "preset.create_version", before: 3, after: 5, check: is(active, 5, 5)},
	})
}

// TestChangesShowThePreset checks that the answer to a change equals a later read.
func TestChangesShowThePreset(t *testing.T) {
	f := newFixture(t)
	f.must(f.ReleasePresetVersion(t.Context(), ask, "", "p", nothing, domain.Release{}))
	for name, do := range map[string]doing{
		"version":         f.releasing(domain.Release{}),
		"designate":       f.designating(domain.Designation{Version: 1}),
		"designate again": f.designating(domain.Designation{Version: 1}),
		"patch":           f.patching(domain.PresetPatch{Name: new("n")}),
		"patch again":     f.patching(domain.PresetPatch{}),
		"restore":         f.restoring,
		"archived between": func(w domain.Write, slug string) (domain.Outcome, error) {
			f.must(f.archiving(w, slug))
			return f.restoring(w, slug)
		},
	} {
		out, err := do(ask, "p")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		found, err := f.Preset(t.Context(), user, "", "p")
		if err != nil || string(found.JSON) != string(out.JSON) || found.WorkspaceID != out.WorkspaceID || found.Number != out.Number {
			t.Errorf("%s: got  %+v, %v\nwant %+v", name, found, err, out)
		}
		preset, err1 := out.Preset.JSON()
		shown, err2 := out.Version.JSON()
		want := strings.TrimSuffix(string(preset), "}") + `,"designated_version":` + strings.TrimSuffix(string(shown), "}") + `,"designated":true,"labels":[],"last_served_at":null}}`
		if err1 != nil || err2 != nil || string(out.JSON) != want || out.Version.Version != out.Number {
			t.Errorf("%s: got %s, want %s (%v, %v)", name, out.JSON, want, err1, err2)
		}
		version, err := f.PresetVersion(t.Context(), user, "", "p", out.Number)
		if err != nil || !strings.Contains(string(out.JSON), `"designated_version":`+string(version.JSON)) {
			t.Errorf("%s: got version %s, %v, which is not in %s", name, version.JSON, err, out.JSON)
		}
	}
}

// slugs returns a member of each object of a list.
func slugs(t *testing.T, list domain.Found, member string) (names []string) {
	t.Helper()
	var objects []map[string]any
	if err := json.Unmarshal(list.JSON, &objects); err != nil {
		t.Fatalf("%v in %s", err, list.JSON)
	}
	for _, object := range objects {
		names = append(names, fmt.Sprint(object[member]))
	}
	return names
}

// Every change moves a preset to the front of its list, and what changes nothing leaves it.
func TestPresetPages(t *testing.T) {
	f := newFixture(t)
	whole := domain.Page{Limit: domain.MaxPage}
	page := func(want ...string) {
		t.Helper()
		list, err := f.Presets(t.Context(), user, "", domain.PresetQuery{}, whole)
		if got := slugs(t, list, "slug"); err != nil || list.Total != len(want) || !slices.Equal(got, want) {
			t.Errorf("got %v of %d, %v, want %v", got, list.Total, err, want)
		}
	}
	if list, err := f.Presets(t.Context(), user, "", domain.PresetQuery{}, whole); err != nil || string(list.JSON) != "[]" || list.Total != 0 {
		t.Errorf("got %s of %d, %v, want []", list.JSON, list.Total, err)
	}
	for _, slug := range []string{"a", "b", "c", "b"} {
		f.put(t, slug, "{}", nil)
	}
	page("b", "c", "a")
	f.must(f.PutLabel(t.Context(), ask, "", "a", "live", domain.Target{Version: 1}, nil))
	f.must(f.DesignateVersion(t.Context(), ask, "", "c", domain.Designation{Version: 1})) // is so already
	page("a", "b", "c")
	f.must(f.ArchivePreset(t.Context(), ask, "", "b"))
	f.must(f.UpdatePreset(t.Context(), ask, "", "c", domain.PresetPatch{Status: new(domain.PresetDisabled)}))
	page("c", "a")
	f.must(f.RestorePreset(t.Context(), ask, "", "b"))
	page("b", "c", "a")
	f.must(f.UpdatePreset(t.Context(), ask, "", "a", describe(new("d"))))
	list, err := f.Presets(t.Context(), user, "", domain.PresetQuery{}, domain.Page{Limit: 1})
	if err != nil || strings.Contains(string(list.JSON), `"designated_version":`) || !strings.Contains(string(list.JSON), `"labels":{"live":{"version":1}}`) {
		t.Errorf("got %s, %v, want labels and no designated version", list.JSON, err)
	}
}
