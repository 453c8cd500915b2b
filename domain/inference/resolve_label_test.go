package inference_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/inference"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// label sets a label of a preset to a version or a split.
func (r *resolving) label(tb testing.TB, slug, label string, to domain.Target) {
	tb.Helper()
	if _, err := r.PutLabel(tb.Context(), domain.By(admin), "", slug, label, to, nil); err != nil {
		tb.Fatal(err)
	}
}

// storeSplit stores a preset whose label "split" has two versions of equal weight. Their
// models identify the versions.
func (r *resolving) storeSplit(tb testing.TB) {
	tb.Helper()
	for _, model := range []string{"one", "two"} {
		r.put(tb, r.home.ID, "p", version{dialect: domain.Responses, config: `{"model":"` + model + `"}`})
	}
	r.label(tb, "p", "split", domain.Target{Split: []domain.Share{{Version: 1, Weight: 1}, {Version: 2, Weight: 1}}})
}

func TestSessionsStickToAVersion(t *testing.T) {
	r := newResolving(t)
	r.storeSplit(t)
	resolvers := []*inference.Resolver{r.resolver(t, inference.Config{}), r.resolver(t, inference.Config{})}
	step := 0
	serve := func(keyID, body, header string) int {
		t.Helper()
		step++ // each time another server and another API
		got, err := resolvers[step%2].Resolve(t.Context(), domain.Principal{KeyID: keyID}, inference.Request{
			Dialect: allDialects[step%3], Body: []byte(`{"preset":"p@split"` + body + `}`), SessionID: header,
		})
		if err != nil {
			t.Fatal(err)
		}
		if want := `"model":"` + []string{"", "one", "two"}[got.Version] + `"`; !strings.Contains(got.Body.String(), want) {
			t.Fatalf("got version %d and %s\nwant %s in it", got.Version, got.Body, want)
		}
		return got.Version
	}
	inBody := func(id string) string { return `,"session_id":` + quoted(id) }
	longest := strings.Repeat("é", 256)

	const sessions = 60
	served := map[int]int{}
	for i := range sessions {
		id, other, key := fmt.Sprint("s", i), fmt.Sprint("other", i), fmt.Sprint("k", i)
		session, ofOther, ofKey := serve("", inBody(id), ""), serve("", inBody(other), ""), serve(key, "", "")
		ofLongest := serve("", inBody(longest + id)[:len(inBody(longest))-1]+`"`, "") // cut to the longest
		served[session]++
		for _, tc := range []struct {
			name              string
			key, body, header string
			want              int
		}{
			{"again", "", inBody(id), "", session},
			{"with a key", key, inBody(id), "", session},
			{"in the header", key, "", id, session},
			{"in the body, not the header", key, inBody(id), other, session},
			{"in the header, not the body", key, inBody(other), id, ofOther},
			{"escaped", key, fmt.Sprintf(`,"session\u005fid":"\u0073%d"`, i), other, session},
			{"a line break in the body", key, inBody("a\nb"), id, session},
			{"a NUL in the body", key, inBody("\x00"), id, session},
			{"half a character in the body", key, `,"session_id":"\ud800"`, id, session},
			{"null in the body", key, `,"session_id":null`, id, session},
			{"empty in the body", key, inBody(""), id, session},
			{"no UTF-8 in the header", key, "", "a\xff", ofKey},
			{"a control character in the header", key, "", "a\x7f", ofKey},
			{"as long as may be", key, inBody(longest), id, ofLongest},
			{"as long as may be, in the header", key, "", longest, ofLongest},
			{"only a key", key, "", "", ofKey},
		} {
			if got := serve(tc.key, tc.body, tc.header); got != tc.want {
				t.Errorf("%s: got version %d of session %d, want %d", tc.name, got, i, tc.want)
			}
		}
	}
	if served[1] < sessions/4 || served[2] < sessions/4 {
		t.Errorf("got sessions served %v, want both versions", served)
	}
	clear(served)
	for range 100 {
		served[serve("", "", "")]++
	}
	if served[1] == 0 || served[2] == 0 {
		t.Errorf("got requests of nobody served %v, want both versions", served)
	}
}

// A version that cannot be kept in memory is served as often as another.
func TestWhatIsKeptDoesNotDecide(t *testing.T) {
	tier.NoRace(t)
	r := newResolving(t)
	r.put(t, r.home.ID, "p", version{dialect: domain.Responses, config: `{"model":"one"}`})
	r.put(t, r.home.ID, "p", version{dialect: domain.Responses, config: `{"model":"two","service_tier":"` + strings.Repeat("x", 200000) + `"}`})
	r.label(t, "p", "split", domain.Target{Split: []domain.Share{{Version: 1, Weight: 1}, {Version: 2, Weight: 1}}})
	resolver := r.resolver(t, inference.Config{Memory: domain.NewMemory(100000)})
	r.warm(t, resolver, domain.Principal{}, `{"preset":"p@1"}`)
	const n = 600
	second := 0
	for range n {
		got, err := resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: domain.Responses, Body: []byte(`{"preset":"p@split"}`)})
		if err != nil {
			t.Fatal(err)
		}
		second += got.Version - 1
	}
	if math.Abs(float64(second)-n/2) > 5*math.Sqrt(n)/2 {
		t.Errorf("got version 2 for %d of %d requests, want half of them", second, n)
	}
}

func TestALabelThatChangesActsOnTheNextRequest(t *testing.T) {
	by := domain.By(admin)
	split := func(one, two int) domain.Target {
		return domain.Target{Split: []domain.Share{{Version: 1, Weight: one}, {Version: 2, Weight: two}}}
	}
	for _, tc := range []struct {
		name   string
		change func(ctx context.Context, r *resolving) error
		want   string // of the version; empty: NotFound
	}{
		{"moved", func(ctx context.Context, r *resolving) error {
			_, err := r.PutLabel(ctx, by, "", "p", "staging", domain.Target{Version: 1}, nil)
			return err
		}, "one"},
		{"made a split", func(ctx context.Context, r *resolving) error {
			_, err := r.PutLabel(ctx, by, "", "p", "staging", split(1, 0), nil)
			return err
		}, "one"},
		{"removed", func(ctx context.Context, r *resolving) error {
			_, err := r.DeleteLabel(ctx, by, "", "p", "staging")
			return err
		}, ""},
		{"another one moved", func(ctx context.Context, r *resolving) error {
			_, err := r.PutLabel(ctx, by, "", "p", "prod", domain.Target{Version: 1}, nil)
			return err
		}, "two"},
		{"another version designated", func(ctx context.Context, r *resolving) error {
			_, err := r.DesignateVersion(ctx, by, "", "p", domain.Designation{Version: 1})
			return err
		}, "two"},
		{"disabled", func(ctx context.Context, r *resolving) error {
			_, err := r.UpdatePreset(ctx, by, "", "p", domain.PresetPatch{Status: new(domain.PresetDisabled)})
			return err
		}, ""},
		{"archived", func(ctx context.Context, r *resolving) error {
			_, err := r.ArchivePreset(ctx, by, "", "p")
			return err
		}, ""},
		{"archived and restored", func(ctx context.Context, r *resolving) error {
			if _, err := r.ArchivePreset(ctx, by, "", "p"); err != nil {
				return err
			}
			_, err := r.RestorePreset(ctx, by, "", "p")
			return err
		}, "two"},
		{"removed and set again", func(ctx context.Context, r *resolving) error {
			if _, err := r.DeleteLabel(ctx, by, "", "p", "staging"); err != nil {
				return err
			}
			_, err := r.PutLabel(ctx, by, "", "p", "staging", domain.Target{Version: 1}, nil)
			return err
		}, "one"},
		{"another split", func(ctx context.Context, r *resolving) error {
			for _, to := range []domain.Target{split(1, 0), split(0, 1), split(1, 0)} {
				if _, err := r.PutLabel(ctx, by, "", "p", "staging", to, nil); err != nil {
					return err
				}
			}
			return nil
		}, "one"},
		{"the preset of a workspace that was deleted", func(ctx context.Context, r *resolving) error {
			_, err := r.DeleteWorkspace(ctx, by, "default", domain.WorkspaceDeletion{ConfirmDefault: true})
			return err
		}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newResolving(t)
			r.storeSplit(t)
			r.label(t, "p", "staging", domain.Target{Version: 2})
			resolver := r.resolver(t, inference.Config{})
			const body = `{"preset":"p@staging"}`
			wantBody(t, r.warm(t, resolver, domain.Principal{}, body), nil, `{"model":"two"}`)
			if err := tc.change(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			got, err := resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: domain.Responses, Body: []byte(body)})
			if tc.want == "" {
				wantKind(t, err, domain.NotFound, "not found: @preset/p@staging")
			} else {
				wantBody(t, got, err, `{"model":"`+tc.want+`"}`)
			}
		})
	}
}

// versionReads counts the versions that are read from a store.
type versionReads struct {
	domain.Store
	n int
}

func (s *versionReads) View(ctx context.Context, fn func(domain.Reader) error) error {
	return s.Store.View(ctx, func(reader domain.Reader) error { return fn(countedReader{reader, s}) })
}

type countedReader struct {
	domain.Reader
	reads *versionReads
}

func (r countedReader) PresetVersion(p domain.PresetState, n int) (domain.PresetVersion, error) {
	r.reads.n++
	return r.Reader.PresetVersion(p, n)
}

// Versions never change, so their prepared form stays valid whatever happens to the preset.
func TestVersionsAreReadOnce(t *testing.T) {
	r := newResolving(t)
	r.storeSplit(t)
	reads := &versionReads{Store: r.store}
	resolver := inference.NewResolver(reads, inference.Config{})
	resolve := func(body string) int {
		t.Helper()
		got, err := resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: domain.Responses, Body: []byte(body)})
		if err != nil {
			t.Fatal(err)
		}
		return got.Version
	}
	for _, body := range []string{`{"preset":"p@1"}`, `{"preset":"p@2"}`} {
		for before := -1; before != reads.n; { // until it is kept
			before = reads.n
			resolve(body)
		}
	}
	before := reads.n
	for i := range 20 {
		want := i%2 + 1
		r.label(t, "p", "staging", domain.Target{Version: want})
		if got := resolve(`{"preset":"p@staging"}`); got != want {
			t.Errorf("got version %d, want %d", got, want)
		}
	}
	if reads.n != before {
		t.Errorf("got %d versions read again, want none", reads.n-before)
	}
}

// TestDeletedWorkspaces changes and deletes a key's workspace. Presets never come from
// another workspace.
func TestDeletedWorkspaces(t *testing.T) {
	r := newResolving(t)
	resolver := r.resolver(t, inference.Config{})
	const body = `{"preset":"p"}`
	resolve := func(who domain.Principal) (inference.Resolution, error) {
		return resolver.Resolve(t.Context(), who, inference.Request{Dialect: domain.Responses, Body: []byte(body)})
	}
	put := func(workspace, model string) {
		t.Helper()
		in, err := capture(t, `{"model":"`+model+`"}`)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.ReleasePresetVersion(t.Context(), domain.By(admin), workspace, "p", in, domain.Release{}); err != nil {
			t.Fatal(err)
		}
	}
	r.team(t, "team", "", "")
	for round := range 3 {
		for slug, who := range map[string]domain.Principal{"default": {}, "team": {WorkspaceSlug: "team"}} {
			w, err := workspace(t.Context(), r, admin, slug)
			if err != nil {
				t.Fatal(err)
			}
			byID := domain.Principal{WorkspaceID: w.ID}
			for _, who := range []domain.Principal{who, byID} {
				_, err = resolve(who)
				wantKind(t, err, domain.NotFound, "Preset not found")
			}
			model := fmt.Sprint(slug, round)
			put(slug, model)
			for _, who := range []domain.Principal{who, byID} {
				wantBody(t, r.warm(t, resolver, who, body), nil, `{"model":"`+model+`"}`)
			}
			if _, err := r.DeleteWorkspace(t.Context(), domain.By(admin), slug, domain.WorkspaceDeletion{ConfirmDefault: true}); err != nil {
				t.Fatal(err)
			}
			_, err = resolve(byID)
			wantKind(t, err, domain.NotFound, "Workspace not found")
			_, err = resolve(who)
			if slug == "default" {
				wantKind(t, err, domain.NotFound, "Preset not found: @preset/p")
				continue
			}
			wantKind(t, err, domain.NotFound, "Workspace not found")
			r.team(t, "team", "", "")
		}
	}
}

// purged is a store whose versions are gone.
type purged struct {
	domain.Store
	views  int
	second func() // is called before the second view
}

func (s *purged) View(ctx context.Context, fn func(domain.Reader) error) error {
	if s.views++; s.views == 2 {
		s.second()
	}
	return s.Store.View(ctx, func(reader domain.Reader) error { return fn(purgedReader{reader}) })
}

type purgedReader struct{ domain.Reader }

var errPurged = errors.New("the record is missing")

func (r purgedReader) PresetVersion(domain.PresetState, int) (domain.PresetVersion, error) {
	return domain.PresetVersion{}, errPurged
}

// A version that is missing is damage, but not where the workspace was deleted
// while the request was under way.
func TestAWorkspaceDeletedMeanwhile(t *testing.T) {
	for _, deleted := range []bool{true, false} {
		r := newResolving(t)
		who := r.team(t, "team", "", "")
		r.put(t, who.WorkspaceID, "p", version{dialect: domain.Responses, config: `{"model":"m"}`})
		store := &purged{Store: r.store, second: func() {
			if !deleted {
				return
			}
			// Engines may leave the preset for a while.
			if _, err := r.DeleteWorkspace(t.Context(), domain.By(admin), "team", domain.WorkspaceDeletion{}); err != nil {
				t.Error(err)
			}
		}}
		resolver := inference.NewResolver(store, inference.Config{})
		_, err := resolver.Resolve(t.Context(), who, inference.Request{Dialect: domain.Responses, Body: []byte(`{"preset":"p"}`)})
		if deleted {
			wantKind(t, err, domain.NotFound, "not found")
		} else if !errors.Is(err, errPurged) {
			t.Errorf("got error %v, want %v", err, errPurged)
		}
	}
}

// A reference to a version that was removed is refused, though the Resolver had it
// in memory.
func TestPrunedIsNotServed(t *testing.T) {
	r := newResolving(t)
	for n := range 4 {
		r.put(t, r.home.ID, "p", version{responses, fmt.Sprintf(`{"model":"m%d"}`, n+1), ""})
	}
	r.label(t, "p", "staging", domain.Target{Version: 2})
	resolver := r.resolver(t, inference.Config{})
	resolve := func(reference string) (inference.Resolution, error) {
		return resolver.Resolve(t.Context(), domain.Principal{}, inference.Request{Dialect: domain.Responses, Body: []byte(`{"preset":"` + reference + `"}`)})
	}
	references := map[string]string{"p@1": "m1", "p@2": "m2", "p@3": "m3", "p@4": "m4", "p@staging": "m2", "p": "m4"}
	for reference, want := range references {
		for before := int64(-1); before != r.views; { // until it is kept
			before = r.views
			got, err := resolve(reference)
			wantBody(t, got, err, `{"model":"`+want+`"}`)
		}
	}
	if _, err := r.PruneVersions(t.Context(), domain.By(admin), domain.Pruning{Keep: 1}); err != nil {
		t.Fatal(err)
	}
	for reference, want := range references {
		got, err := resolve(reference)
		if reference == "p@1" || reference == "p@3" {
			wantKind(t, err, domain.NotFound, "Preset version not found: @preset/"+reference)
		} else {
			wantBody(t, got, err, `{"model":"`+want+`"}`)
		}
	}
}
