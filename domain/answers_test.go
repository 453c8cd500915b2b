package domain_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// asked has the objects that the Services are asked about.
type asked struct {
	ids   []string // of workspaces, which may not be there
	slugs []string
}

// answers returns the answers of a Service, by question.
func (a asked) answers(t *testing.T, s *domain.Service) map[string]string {
	t.Helper()
	all := map[string]string{}
	found := func(f domain.Found, err error, question ...any) {
		all[fmt.Sprintln(question...)] = fmt.Sprintf("%s of %s, %d, %s, kind %d: %v", f.JSON, f.WorkspaceID, f.Number, f.Tag, domain.KindOf(err), err)
	}
	listed := func(l domain.Found, err error, question ...any) {
		all[fmt.Sprintln(question...)] = fmt.Sprintf("%s of %d, %s, kind %d: %v", l.JSON, l.Total, l.Tag, domain.KindOf(err), err)
	}
	refs := slices.Clone(a.slugs)
	whoever := []domain.Principal{admin, user}
	for _, id := range a.ids {
		refs = append(refs, id, strings.ToUpper(id))
		whoever = append(whoever, domain.Principal{UserID: "id " + id, Kind: domain.InferenceKey, WorkspaceID: id})
	}
	for _, slug := range a.slugs {
		whoever = append(whoever, domain.Principal{UserID: "slug " + slug, Kind: domain.InferenceKey, WorkspaceSlug: slug})
	}
	pages := []domain.Page{{Limit: 100}, {Offset: 1, Limit: 1}}
	within := func(who domain.Principal, workspace string) {
		for _, slug := range []string{"p", "q"} {
			f, err := s.Preset(t.Context(), who, workspace, slug)
			found(f, err, "preset", slug, who.UserID, workspace)
			f, err = s.PresetVersion(t.Context(), who, workspace, slug, 1)
			found(f, err, "version", slug, who.UserID, workspace)
			for _, page := range pages {
				l, err := s.PresetVersions(t.Context(), who, workspace, slug, page)
				listed(l, err, "versions", slug, who.UserID, workspace, page)
			}
		}
		for _, page := range pages {
			l, err := s.Presets(t.Context(), who, workspace, domain.PresetQuery{}, page)
			listed(l, err, "presets", who.UserID, workspace, page)
		}
	}
	for _, who := range []domain.Principal{admin, user} {
		for _, ref := range refs {
			f, err := s.Workspace(t.Context(), who, ref)
			found(f, err, "workspace", who.UserID, ref)
		}
		for _, page := range pages {
			l, err := s.Workspaces(t.Context(), who, page)
			listed(l, err, "workspaces", who.UserID, page)
		}
	}
	for _, ref := range refs {
		within(admin, ref)
	}
	for _, who := range whoever {
		within(who, "")
	}
	return all
}

// Two Services over one store answer like one without a memory, whichever of them made a
// change.
func TestAnswersAreNeverStale(t *testing.T) {
	tier.Slow(t)
	by := domain.By(admin)
	create := func(slug string) func(*domain.Service) (domain.Outcome, error) {
		return func(s *domain.Service) (domain.Outcome, error) {
			return s.CreateWorkspace(t.Context(), by, domain.WorkspacePatch{Name: new(slug), Slug: new(slug)})
		}
	}
	update := func(ref string, patch domain.WorkspacePatch) func(*domain.Service) (domain.Outcome, error) {
		return func(s *domain.Service) (domain.Outcome, error) {
			return s.UpdateWorkspace(t.Context(), by, ref, patch, nil)
		}
	}
	remove := func(ref string) func(*domain.Service) (domain.Outcome, error) {
		return func(s *domain.Service) (domain.Outcome, error) {
			return s.DeleteWorkspace(t.Context(), by, ref, domain.WorkspaceDeletion{ConfirmDefault: true})
		}
	}
	version := func(workspace, slug, config string) func(*domain.Service) (domain.Outcome, error) {
		return func(s *domain.Service) (domain.Outcome, error) {
			return s.ReleasePresetVersion(t.Context(), by, workspace, slug, domain.Capture{Dialect: domain.Chat, Config: json.RawMessage(config)}, domain.Release{})
		}
	}
	patch := func(patch domain.PresetPatch) func(*domain.Service) (domain.Outcome, error) {
		return func(s *domain.Service) (domain.Outcome, error) {
			return s.UpdatePreset(t.Context(), by, "team", "p", patch)
		}
	}
	label := func(to domain.Target) func(*domain.Service) (domain.Outcome, error) {
		return func(s *domain.Service) (domain.Outcome, error) {
			return s.PutLabel(t.Context(), by, "team", "p", "live", to, nil)
		}
	}
	disabled, active := domain.PresetDisabled, domain.PresetActive
	steps := []struct {
		what   string
		change func(*domain.Service) (domain.Outcome, error)
	}{
		{"a preset of the default workspace", version("", "p", `{"n":1}`)},
		{"a workspace", create("team")},
		{"a preset", version("team", "p", `{"n":2}`)},
		{"another preset", version("team", "q", `{"n":3}`)},
		{"another version", version("team", "p", `{"n":4}`)},
		{"a designation", func(s *domain.Service) (domain.Outcome, error) {
			return s.DesignateVersion(t.Context(), by, "team", "p", domain.Designation{Version: 1})
		}},
		{"a label", label(domain.Target{Version: 1})},
		{"a label moved", label(domain.Target{Version: 2})},
		{"a designation by label", func(s *domain.Service) (domain.Outcome, error) {
			return s.DesignateVersion(t.Context(), by, "team", "p", domain.Designation{Label: "live"})
		}},
		{"a label deleted", func(s *domain.Service) (domain.Outcome, error) {
			return s.DeleteLabel(t.Context(), by, "team", "p", "live")
		}},
		{"versions pruned", func(s *domain.Service) (domain.Outcome, error) {
			pruned, err := s.PruneVersions(t.Context(), by, domain.Pruning{Keep: 1})
			if len(pruned) != 1 {
				t.Errorf("%+v were pruned, want one preset", pruned)
			}
			return domain.Outcome{}, err
		}},
		{"a version that others make room for", func(s *domain.Service) (domain.Outcome, error) {
			defer func(keep int) { s.KeepVersions = keep }(s.KeepVersions)
			s.KeepVersions = 1
			return version("team", "p", `{"n":8}`)(s)
		}},
		{"a preset's name", patch(domain.PresetPatch{Name: new("named")})},
		{"a preset's description", patch(domain.PresetPatch{Description: domain.Settable[string]{Given: true, Value: new("described")}})},
		{"a preset disabled", patch(domain.PresetPatch{Status: &disabled})},
		{"a preset enabled", patch(domain.PresetPatch{Status: &active})},
		{"a preset archived", func(s *domain.Service) (domain.Outcome, error) {
			return s.ArchivePreset(t.Context(), by, "team", "p")
		}},
		{"a preset restored", func(s *domain.Service) (domain.Outcome, error) {
			return s.RestorePreset(t.Context(), by, "team", "p")
		}},
		{"a field of a workspace", update("team", domain.WorkspacePatch{Name: new("named")})},
		{"a workspace renamed", update("team", domain.WorkspacePatch{Slug: new("former")})},
		{"its slug taken over", create("team")},
		{"a preset of the same slug", version("team", "p", `{"n":5}`)},
		{"a workspace deleted", remove("team")},
		{"a workspace renamed back", update("former", domain.WorkspacePatch{Slug: new("team")})},
		{"a workspace with presets deleted", remove("team")},
		{"a workspace of the same slug", create("team")},
		{"a preset of the same slug again", version("team", "p", `{"n":6}`)},
		{"a field of the default workspace", update("default", domain.WorkspacePatch{Name: new("named")})},
		{"the default workspace deleted", remove("default")},
		{"a preset of the new one", version("", "p", `{"n":7}`)},
	}
	for name, turn := range map[string]func(i int) int{
		"through one":       func(int) int { return 0 },
		"through the other": func(int) int { return 1 },
		"in turns":          func(i int) int { return i % 2 },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			home := f.shown(domain.DefaultWorkspaceSlug)
			ask := asked{ids: []string{home.ID}, slugs: []string{"default", "team", "former"}}
			now, coming := f.now, ""
			service := func() *domain.Service {
				return domain.NewServiceWith(f, func() time.Time { return now }, func() (id string) {
					if id, coming = coming, ""; id == "" {
						id = uuid.NewString()
					}
					return id
				})
			}
			services := []*domain.Service{service(), service()}
			// check returns the correct answers, which both Services must give twice.
			check := func(what string) map[string]string {
				t.Helper()
				want := ask.answers(t, service())
				for range 2 {
					for n, s := range services {
						got := ask.answers(t, s)
						for question, answer := range want {
							if got[question] != answer {
								t.Errorf("%s: %s: Service %d says\n%s, want\n%s", what, question, n, got[question], answer)
							}
						}
					}
				}
				return want
			}
			for i, step := range steps {
				id := uuid.NewString() // the id of an object that the step may create
				ask.ids = append(ask.ids, id)
				before := check("before " + step.what)
				now, coming = now.Add(time.Second), id
				if _, err := step.change(services[turn(i)]); err != nil {
					t.Fatalf("%s: %v", step.what, err)
				}
				after := check(step.what)
				same := true
				for question, answer := range after {
					same = same && before[question] == answer
				}
				if same {
					t.Errorf("%s: no answer is another", step.what)
				}
				if _, err := services[0].Workspace(t.Context(), admin, id); err != nil {
					ask.ids = slices.DeleteFunc(ask.ids, func(other string) bool { return other == id })
				}
			}
			if len(ask.ids) != 5 {
				t.Errorf("there were %d workspaces, want 5", len(ask.ids))
			}
		})
	}
}

// A repeated question is answered from memory. Otherwise the test above proves nothing.
func TestAnswersAreKept(t *testing.T) {
	f := newFixture(t)
	f.put(t, "p", "{}", nil)
	for i := range 2 {
		before := f.views
		_, err1 := f.Workspace(t.Context(), admin, "default")
		_, err2 := f.Workspaces(t.Context(), admin, domain.Page{Limit: 1})
		_, err3 := f.Preset(t.Context(), admin, "", "p")
		_, err4 := f.Presets(t.Context(), admin, "", domain.PresetQuery{}, domain.Page{Limit: 1})
		for _, err := range []error{err1, err2, err3, err4} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if i > 0 && f.views != before {
			t.Errorf("the store was read %d times", f.views-before)
		}
	}
}
