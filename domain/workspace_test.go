package domain_test

import (
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
)

func TestWorkspaceDefaults(t *testing.T) {
	f := newFixture(t)
	w := f.workspace(t, "team")
	want := domain.Workspace{
		ID: w.ID, Name: "team", Slug: "team",
		DefaultGuardrailID:           uuid.NewSHA1(uuid.MustParse(w.ID), []byte("default-guardrail")).String(),
		IOLoggingSamplingRate:        1,
		IsDataDiscountLoggingEnabled: true,
		CreatedAt:                    time.Date(2026, 11, 21, 9, 0, 0, 123000000, time.UTC),
		CreatedBy:                    "ann",
	}
	if !reflect.DeepEqual(w, want) {
		t.Errorf("got  %+v\nwant %+v", w, want)
	}
	if v := uuid.MustParse(w.DefaultGuardrailID).Version(); v != 5 {
		t.Errorf("default_guardrail_id has version %d, want 5", v)
	}
	text, err := w.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), `"updated_at":null`) || !strings.Contains(string(text), `"created_at":"2026-11-21T09:00:00.123Z"`) {
		t.Errorf("got %s, want updated_at null and created_at in RFC 3339, UTC", text)
	}
}

func TestWorkspaceLookUp(t *testing.T) {
	f := newFixture(t)
	first := f.workspace(t, "first")
	for ref, want := range map[string]string{first.ID: first.ID, strings.ToUpper(first.ID): first.ID, "first": first.ID} {
		if got, err := workspace(t.Context(), f, admin, ref); got.ID != want || err != nil {
			t.Errorf("%q gives %s, %v, want %s", ref, got.ID, err, want)
		}
	}
	_, err := workspace(t.Context(), f, admin, "nowhere")
	wantKind(t, err, domain.NotFound, "Workspace not found")
	_, err = workspace(t.Context(), f, user, "first")
	wantKind(t, err, domain.Forbidden, "Only management keys can perform this operation")
	wantKind(t, errOf(f.CreateWorkspace(t.Context(), domain.By(user), domain.WorkspacePatch{Name: new("x"), Slug: new("x")})), domain.Forbidden, "Only management keys can perform this operation")
	wantKind(t, errOf(f.CreateWorkspace(t.Context(), domain.By(admin), domain.WorkspacePatch{Name: new("x"), Slug: new("first")})), domain.Invalid, "/slug: already in use")
	for _, slug := range []string{first.ID, uuid.NewString()} { // which would be taken for an id
		wantKind(t, errOf(f.CreateWorkspace(t.Context(), domain.By(admin), domain.WorkspacePatch{Name: new("x"), Slug: new(slug)})), domain.Invalid, "/slug: must not be a UUID")
		wantKind(t, errOf(f.UpdateWorkspace(t.Context(), domain.By(admin), "first", domain.WorkspacePatch{Slug: &slug}, nil)), domain.Invalid, "/slug: must not be a UUID")
	}
	huge := strings.Repeat("m", domain.MaxStoredSize)
	wantKind(t, errOf(f.CreateWorkspace(t.Context(), domain.By(admin), domain.WorkspacePatch{Name: new("x"), Slug: new("x"), DefaultTextModel: domain.Settable[string]{Given: true, Value: &huge}})), domain.Invalid, "must be at most 262144 bytes")
}

func TestTheDefaultWorkspaceIsMadeOnce(t *testing.T) {
	f := newFixture(t)
	before := f.shown("default")
	if err := f.EnsureDefaultWorkspace(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after, err := workspace(t.Context(), f, admin, "default"); err != nil || after.ID != before.ID {
		t.Errorf("got %s, %v, want %s still", after.ID, err, before.ID)
	}
}

// patchOf reads the body of a workspace's update.
func patchOf(t *testing.T, body string) (patch domain.WorkspacePatch) {
	t.Helper()
	if err := jsonv2.Unmarshal([]byte(body), &patch); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return patch
}

func TestWorkspaceUpdates(t *testing.T) {
	f := newFixture(t)
	out, err := f.CreateWorkspace(t.Context(), ask, domain.WorkspacePatch{
		Name: new("Team"), Slug: new("team"), Description: domain.Settable[string]{Given: true, Value: new("d")}, DefaultTextModel: domain.Settable[string]{Given: true, Value: new("m")}, DefaultImageModel: domain.Settable[string]{Given: true, Value: new("i")}, DefaultProviderSort: domain.Settable[string]{Given: true, Value: new("price")},
		IOLoggingAPIKeyIDs: json.RawMessage(`["k", 12345678901234567890]`), IOLoggingSamplingRate: new(0.5),
		DisabledServerTools: domain.Settable[[]string]{Given: true, Value: &[]string{"openrouter:bash"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	f.workspace(t, "taken")
	id := out.WorkspaceID
	// member returns a member of the workspace as clients see it.
	member := func(name string) string {
		t.Helper()
		w := f.shown(id)
		text, err := w.JSON()
		if err != nil {
			t.Fatal(err)
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(text, &members); err != nil {
			t.Fatal(err)
		}
		return string(members[name])
	}
	for _, tc := range []struct{ body, field, want string }{ // want is empty where nothing changes
		{`{}`, "name", ""},
		{`{"name":"Team","nonsense":1}`, "name", ""},
		{`{"name":"Crew"}`, "name", `"Crew"`},
		{`{"slug":"team"}`, "slug", ""},
		{`{"slug":"crew"}`, "slug", `"crew"`},
		{`{"description":"d"}`, "description", ""},
		{`{"description":""}`, "description", `""`},
		{`{"description":null}`, "description", "null"},
		{`{"description":null}`, "description", ""},
		{`{"description":"again"}`, "description", `"again"`},
		{`{"default_text_model":"m"}`, "default_text_model", ""},
		{`{"default_text_model":"n"}`, "default_text_model", `"n"`},
		{`{"default_text_model":null}`, "default_text_model", "null"},
		{`{"default_text_model":null}`, "default_text_model", ""},
		{`{"default_image_model":"j"}`, "default_image_model", `"j"`},
		{`{"default_image_model":null}`, "default_image_model", "null"},
		{`{"default_provider_sort":"latency"}`, "default_provider_sort", `"latency"`},
		{`{"default_provider_sort":null}`, "default_provider_sort", "null"},
		{`{"io_logging_api_key_ids":["k",12345678901234567890]}`, "io_logging_api_key_ids", ""},
		{`{"io_logging_api_key_ids":["k",12345678901234567891]}`, "io_logging_api_key_ids", `["k",12345678901234567891]`},
		{`{"io_logging_api_key_ids":[]}`, "io_logging_api_key_ids", `[]`},
		{`{"io_logging_api_key_ids":null}`, "io_logging_api_key_ids", "null"},
		{`{"io_logging_api_key_ids":null}`, "io_logging_api_key_ids", ""},
		{`{"io_logging_sampling_rate":0.5}`, "io_logging_sampling_rate", ""},
		{`{"io_logging_sampling_rate":0.25}`, "io_logging_sampling_rate", "0.25"},
		{`{"is_data_discount_logging_enabled":true}`, "is_data_discount_logging_enabled", ""},
		{`{"is_data_discount_logging_enabled":false}`, "is_data_discount_logging_enabled", "false"},
		{`{"is_observability_broadcast_enabled":true}`, "is_observability_broadcast_enabled", "true"},
		{`{"is_observability_io_logging_enabled":true}`, "is_observability_io_logging_enabled", "true"},
		{`{"disabled_server_tools":["openrouter:bash"]}`, "disabled_server_tools", ""},
		{`{"disabled_server_tools":["openrouter:web_search","openrouter:bash"]}`, "disabled_server_tools", `["openrouter:web_search","openrouter:bash"]`},
		{`{"disabled_server_tools":[]}`, "disabled_server_tools", "null"},
		{`{"disabled_server_tools":null}`, "disabled_server_tools", ""},
		{`{"disabled_server_tools":["openrouter:bash"]}`, "disabled_server_tools", `["openrouter:bash"]`},
		{`{"disabled_server_tools":null}`, "disabled_server_tools", "null"},
		{`{"disabled_server_tools":[]}`, "disabled_server_tools", ""},
		{`{"name":"Both","description":null,"slug":"both"}`, "slug", `"both"`},
	} {
		f.now = f.now.Add(time.Minute)
		before, trail := member("updated_at"), f.trail(t)
		was := f.shown(id)
		out, err := f.UpdateWorkspace(t.Context(), ask, was.Slug, patchOf(t, tc.body), nil)
		if err != nil {
			t.Fatalf("%s: %v", tc.body, err)
		}
		now := f.shown(id)
		text, err := now.JSON()
		if err != nil || string(out.JSON) != string(text) || out.WorkspaceID != id || out.Workspace.Slug != now.Slug {
			t.Errorf("%s: got  %s\nwant %s, %v", tc.body, out.JSON, text, err)
		}
		added := f.trail(t)[len(trail):]
		if tc.want == "" {
			if !reflect.DeepEqual(now, was) || len(added) > 0 || len(out.Records) > 0 {
				t.Errorf("%s: got  %+v, %v\nwant %+v still", tc.body, now, added, was)
			}
			continue
		}
		want := domain.AuditObject{Kind: "workspace", ID: id, WorkspaceID: id, Slug: now.Slug}
		if len(added) != 1 || added[0].Operation != "workspace.update" || added[0].Object != want || added[0].UserID != "ann" || !reflect.DeepEqual(out.Records, added) {
			t.Errorf("%s: got %d records and %+v, want one of %+v", tc.body, len(added), out.Records, want)
		}
		if got := member(tc.field); got != tc.want {
			t.Errorf("%s: got %s, want %s", tc.body, got, tc.want)
		}
		if got := member("updated_at"); got == before || !now.UpdatedAt.Equal(f.now.UTC().Truncate(time.Millisecond)) {
			t.Errorf("%s: got updated_at %s after %s", tc.body, got, before)
		}
		if now.CreatedAt != was.CreatedAt || now.CreatedBy != was.CreatedBy || now.DefaultGuardrailID != was.DefaultGuardrailID {
			t.Errorf("%s: got %+v, want the rest as in %+v", tc.body, now, was)
		}
	}
	// The slugs that it had are free again.
	for _, slug := range []string{"team", "crew"} {
		_, err := workspace(t.Context(), f, admin, slug)
		wantKind(t, err, domain.NotFound, "Workspace not found")
		f.workspace(t, slug)
	}

	trail := f.records(t)
	huge := `{"description":"` + strings.Repeat("d", domain.MaxStoredSize) + `"}`
	for name, tc := range map[string]struct {
		who  domain.Principal
		ref  string
		body string
		kind domain.Kind
		says string
	}{
		"taken slug":       {admin, id, `{"slug":"taken","name":"lost"}`, domain.Invalid, "/slug: already in use"},
		"slug of default":  {admin, "default", `{"slug":"other"}`, domain.Invalid, "/slug: the default workspace keeps its slug"},
		"becoming default": {admin, id, `{"slug":"default"}`, domain.Invalid, "/slug: already in use"},
		"too large":        {admin, id, huge, domain.Invalid, "must be at most 262144 bytes"},
		"nowhere":          {admin, "nowhere", `{}`, domain.NotFound, "Workspace not found"},
		"no management":    {user, id, `{}`, domain.Forbidden, "Only management keys"},
	} {
		was, _ := workspace(t.Context(), f, admin, id)
		wantKind(t, errOf(f.UpdateWorkspace(t.Context(), domain.By(tc.who), tc.ref, patchOf(t, tc.body), nil)), tc.kind, tc.says)
		if now, err := workspace(t.Context(), f, admin, id); err != nil || !reflect.DeepEqual(now, was) {
			t.Errorf("%s: got %+v, %v, want %+v still", name, now, err, was)
		}
	}
	// Keys of the configuration would be left in no workspace, unless it is
	// whichever is the default one.
	configured := []domain.Principal{{KeyID: "c1", Kind: domain.InferenceKey, WorkspaceSlug: "both"}, {KeyID: "c2", WorkspaceSlug: "default"}, {KeyID: "c3"}}
	wantKind(t, errOf(f.UpdateWorkspace(t.Context(), ask, id, patchOf(t, `{"slug":"other"}`), configured)), domain.Invalid, "/slug: keys of the configuration name the workspace")
	if now := f.records(t); now != trail {
		t.Errorf("got %d records, want %d still", now, trail)
	}
	for _, body := range []string{`{"slug":"both","name":"Other"}`, `{"description":"its slug stays"}`} {
		if _, err := f.UpdateWorkspace(t.Context(), ask, id, patchOf(t, body), configured); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
	if _, err := f.UpdateWorkspace(t.Context(), ask, "taken", patchOf(t, `{"slug":"free"}`), configured); err != nil {
		t.Error(err)
	}
	if out, err := f.UpdateWorkspace(t.Context(), ask, "default", patchOf(t, `{"slug":"default","name":"Main"}`), nil); err != nil || out.Workspace.Name != "Main" {
		t.Errorf("got %+v, %v, want the default workspace under another name", out, err)
	}
}

func TestWorkspaceDeletion(t *testing.T) {
	f := newFixture(t)
	team := f.workspace(t, "team")
	other := f.workspace(t, "other")
	f.must(f.ReleasePresetVersion(t.Context(), ask, "team", "p", nothing, domain.Release{}))
	issue := func(workspace string, lifetime time.Duration) domain.Key {
		t.Helper()
		k, _ := f.newKey(domain.NewKey{Kind: domain.InferenceKey, Workspace: workspace, Lifetime: lifetime})
		return k
	}
	live, mortal := issue("team", 0), issue("team", time.Hour)
	issue("other", 0)
	issue("", 0)
	remove := func(who domain.Principal, ref string, on domain.WorkspaceDeletion) error {
		t.Helper()
		out, err := f.DeleteWorkspace(t.Context(), domain.Write{Who: who, RequestID: "r1"}, ref, on)
		if err == nil && (out.JSON != nil || len(out.Records) != 1 || out.Records[0].Operation != "workspace.delete") {
			t.Errorf("got %+v, want no JSON and a record", out)
		}
		return err
	}
	configured := func(slug string) domain.WorkspaceDeletion {
		return domain.WorkspaceDeletion{Configured: []domain.Principal{
			{KeyID: "c1", Kind: domain.ManagementKey}, {KeyID: "c2", Kind: domain.InferenceKey, WorkspaceSlug: slug},
		}}
	}
	trail := f.trail(t)
	wantKind(t, remove(user, "team", domain.WorkspaceDeletion{}), domain.Forbidden, "Only management keys")
	wantKind(t, remove(admin, "nowhere", domain.WorkspaceDeletion{}), domain.NotFound, "Workspace not found")
	wantKind(t, remove(admin, "team", domain.WorkspaceDeletion{}), domain.Invalid, "live keys")
	if _, err := f.RevokeKey(t.Context(), ask, live.ID); err != nil {
		t.Fatal(err)
	}
	wantKind(t, remove(admin, team.ID, domain.WorkspaceDeletion{}), domain.Invalid, "live keys")
	f.now = *mortal.ExpiresAt
	wantKind(t, remove(admin, "team", configured("team")), domain.Invalid, "live keys")
	if w, err := workspace(t.Context(), f, admin, "team"); err != nil || w.ID != team.ID || w.UpdatedAt != nil || f.records(t) != len(trail)+1 {
		t.Errorf("got %+v, %v, want %+v still", w, err, team)
	}
	if err := remove(admin, "team", configured("other")); err != nil {
		t.Fatal(err)
	}
	trail = f.trail(t)
	if last := trail[len(trail)-1]; last.Object != (domain.AuditObject{Kind: "workspace", ID: team.ID, WorkspaceID: team.ID, Slug: "team"}) || last.KeyID != "k1" {
		t.Errorf("got record %+v", last)
	}
	for _, ref := range []string{"team", team.ID} {
		_, err := workspace(t.Context(), f, admin, ref)
		wantKind(t, err, domain.NotFound, "Workspace not found")
		wantKind(t, errOf(f.Preset(t.Context(), admin, ref, "p")), domain.NotFound, "Workspace not found")
		wantKind(t, remove(admin, ref, domain.WorkspaceDeletion{}), domain.NotFound, "Workspace not found")
	}
	// Another one under the same slug has nothing of it.
	again := f.workspace(t, "team")
	wantKind(t, errOf(f.Preset(t.Context(), admin, "team", "p")), domain.NotFound, "Preset not found")
	out, err := f.ReleasePresetVersion(t.Context(), ask, "team", "p", nothing, domain.Release{})
	if err != nil || out.Number != 1 || again.ID == team.ID || out.Preset.WorkspaceID != again.ID {
		t.Errorf("got %+v, %v, want version 1 in the new workspace", out, err)
	}
	wantKind(t, remove(admin, "other", domain.WorkspaceDeletion{}), domain.Invalid, "live keys")
	if _, err := workspace(t.Context(), f, admin, other.ID); err != nil {
		t.Error(err)
	}
}

func TestDeletionOfTheDefaultWorkspace(t *testing.T) {
	f := newFixture(t)
	old := f.shown("default")
	f.put(t, "p", "{}", nil)
	f.must(f.UpdateWorkspace(t.Context(), ask, "default", patchOf(t, `{"name":"Main"}`), nil))
	if _, _, err := f.IssueKey(t.Context(), ask, domain.NewKey{Kind: domain.InferenceKey}); err != nil {
		t.Fatal(err)
	}
	ofDefault, _ := f.newKey(domain.NewKey{Kind: domain.InferenceKey, Workspace: "default"})
	f.now = f.now.Add(time.Minute)
	on := domain.WorkspaceDeletion{Configured: []domain.Principal{{KeyID: "c1"}, {KeyID: "c2", WorkspaceSlug: "default"}}}
	wantKind(t, errOf(f.DeleteWorkspace(t.Context(), ask, "default", on)), domain.Invalid, "confirm_default_workspace_deletion: must be true")
	on.ConfirmDefault = true
	_, err := f.DeleteWorkspace(t.Context(), ask, old.ID, on)
	wantKind(t, err, domain.Invalid, "live keys") // one is tied to it by its id
	if _, err := f.RevokeKey(t.Context(), ask, ofDefault.ID); err != nil {
		t.Fatal(err)
	}
	trail := f.trail(t)
	out := f.must(f.DeleteWorkspace(t.Context(), ask, "default", on))
	if out.JSON != nil || out.WorkspaceID != old.ID || out.Workspace.Name != "Main" || len(out.Records) != 2 || out.Records[0].Object.ID != old.ID {
		t.Errorf("got %+v, want the old workspace and no JSON", out)
	}
	now, err := workspace(t.Context(), f, admin, "default")
	if err != nil || now.ID == old.ID || now.Name != "Default" || now.CreatedBy != "system" || now.UpdatedAt != nil || !now.CreatedAt.Equal(f.now.UTC().Truncate(time.Millisecond)) {
		t.Errorf("got %+v, %v, want a new default workspace", now, err)
	}
	added := f.trail(t)[len(trail):]
	if len(added) != 2 || added[1].Operation != "workspace.create" || added[1].Object.ID != now.ID || added[1].UserID != "ann" || !reflect.DeepEqual(out.Records, added) {
		t.Errorf("got records %+v, want the deletion and the creation", added)
	}
	_, err = workspace(t.Context(), f, admin, old.ID)
	wantKind(t, err, domain.NotFound, "Workspace not found")
	wantKind(t, errOf(f.Preset(t.Context(), user, "", "p")), domain.NotFound, "Preset not found")
	if list, err := f.Presets(t.Context(), user, "", domain.PresetQuery{}, domain.Page{Limit: 10}); err != nil || list.Total != 0 {
		t.Errorf("got %+v, %v, want no presets", list, err)
	}
	if f.put(t, "p", "{}", nil) != 1 {
		t.Error("the new default workspace has an old preset")
	}
}

func TestWorkspacePages(t *testing.T) {
	f := newFixture(t)
	for _, slug := range []string{"c", "a", "b"} {
		f.now = f.now.Add(time.Second)
		f.workspace(t, slug)
	}
	f.must(f.UpdateWorkspace(t.Context(), ask, "a", patchOf(t, `{"slug":"z"}`), nil)) // keeps its place
	page := func(page domain.Page, total int, want ...string) {
		t.Helper()
		list, err := f.Workspaces(t.Context(), admin, page)
		if got := slugs(t, list, "slug"); err != nil || list.Total != total || !reflect.DeepEqual(got, want) {
			t.Errorf("page %+v: got %v of %d, %v, want %v of %d", page, got, list.Total, err, want, total)
		}
	}
	page(domain.Page{Limit: 100}, 4, "default", "c", "z", "b")
	f.must(f.DeleteWorkspace(t.Context(), ask, "c", domain.WorkspaceDeletion{}))
	page(domain.Page{Limit: 100}, 3, "default", "z", "b")
	page(domain.Page{Limit: 2}, 3, "default", "z")
	page(domain.Page{Offset: 1, Limit: 1}, 3, "z")
	page(domain.Page{Offset: 3, Limit: 1}, 3)
	page(domain.Page{Offset: math.MaxInt, Limit: 100}, 3)
	list, err := f.Workspaces(t.Context(), user, domain.Page{Limit: 1})
	wantKind(t, err, domain.Forbidden, "Only management keys")
	if list.JSON != nil || list.Total != 0 {
		t.Errorf("a refusal comes with %+v", list)
	}
}
