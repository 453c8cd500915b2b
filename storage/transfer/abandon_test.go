package transfer

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/storage"
	"github.com/caddy-presets/caddy-presets/storage/badger"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// namesIn returns the slugs of the workspaces and presets of a store, and the ids of its keys.
func namesIn(t *testing.T, s domain.Store) (workspaces, presets, keys []string) {
	t.Helper()
	err := s.View(t.Context(), func(r domain.Reader) error {
		list, _, err := r.WorkspacePage(domain.Page{Limit: 1000})
		if err != nil {
			return err
		}
		var all []domain.Workspace
		if err := jsonv2.Unmarshal(list, &all); err != nil {
			return err
		}
		for _, w := range all {
			workspaces = append(workspaces, w.Slug)
			for p, err := range r.Presets(w.ID) {
				if err != nil {
					return err
				}
				presets = append(presets, w.Slug+"/"+p.Slug)
			}
		}
		issued, err := r.Keys()
		for _, k := range issued {
			keys = append(keys, k.ID)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return workspaces, presets, keys
}

// without returns the elements that others lack.
func without(all, others []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(others, s) })
}

// TestAbandon gives an import up after each of its batches. The imported objects stay, are
// consistent, and can be exported, imported and changed. A sample tries one batch of five.
func TestAbandon(t *testing.T) {
	tier.Slow(t)
	from := newStore(t)
	f := fill(t, from)
	f.Some()
	f.Much()
	content := exported(t, from)
	workspaces, presets, keys := namesIn(t, from)
	by := domain.By(domain.Principal{UserID: "admin", Kind: domain.ManagementKey})
	partial, trailCut := 0, 0
	for batches := 1; ; batches += tier.Sample(5) {
		to := started(t)
		service := domain.NewService(to)
		s := &interrupted{Store: to, before: nothing, after: func(n int) error {
			if n == batches {
				return errDeliberate
			}
			return nil
		}}
		if _, err := Abandon(t.Context(), to, service, by); !errors.Is(err, ErrNone) {
			t.Fatalf("before an import: got error %v", err)
		}
		_, err := importBy(t.Context(), s, bytes.NewReader(content), 32<<10)
		if unfinished, err := Unfinished(t.Context(), to); err != nil {
			t.Fatal(err)
		} else if !unfinished { // the last batch
			if _, err := Abandon(t.Context(), to, service, by); !errors.Is(err, ErrNone) {
				t.Errorf("after a finished import: got error %v", err)
			}
			if batches < 20 || partial == 0 || trailCut == 0 {
				t.Errorf("%d batches, %d within a preset and %d within the trail", batches, partial, trailCut)
			}
			t.Logf("%d batches, %d within a preset and %d within the trail", batches, partial, trailCut)
			return
		}
		if !errors.Is(err, errDeliberate) {
			t.Fatal(err)
		}
		a, err := Abandon(t.Context(), to, service, by)
		if err != nil {
			t.Fatal(err)
		}
		what := fmt.Sprintf("after line %d", a.Lines)
		got := func(count int, names []string, want []string) {
			t.Helper()
			slices.Sort(names)
			if all := slices.Sorted(slices.Values(want)); count != len(want) || len(want) <= maxNamed && !slices.Equal(names, all) || len(names) != min(len(want), maxNamed) {
				t.Errorf("%s: %d are missing, such as %q, want %d: %.500q", what, count, names, len(want), all)
			}
		}
		nowWorkspaces, nowPresets, nowKeys := namesIn(t, to)
		if a.TrailMayEnd {
			trailCut++
			if len(nowPresets) > 0 {
				t.Errorf("%s: there are presets already", what)
			}
		} else {
			missing := without(workspaces, nowWorkspaces)
			// The default workspace of the file is not the one that the server made.
			if slices.Contains(nowWorkspaces, "default") && !slices.ContainsFunc(nowPresets, func(p string) bool { return p[:8] == "default/" }) && slices.Contains(a.Missing.WorkspaceSlugs, "default") {
				missing = append(missing, "default")
			}
			got(a.Missing.Workspaces, a.Missing.WorkspaceSlugs, missing)
			got(a.Missing.Presets, a.Missing.PresetSlugs, without(presets, nowPresets))
			if want := len(without(keys, nowKeys)); a.Missing.Keys != want {
				t.Errorf("%s: %d keys are missing, want %d", what, a.Missing.Keys, want)
			}
		}
		if a.Partial != "" {
			partial++
			if !slices.Contains(nowPresets, a.Partial) {
				t.Errorf("%s: the partial preset %s is not there", what, a.Partial)
			}
		}
		if _, err := Abandon(t.Context(), to, service, by); !errors.Is(err, ErrNone) {
			t.Errorf("%s, again: got error %v", what, err)
		}
		if report, err := to.Check(t.Context()); err != nil || len(report.Problems) > 0 {
			t.Errorf("%s: got error %v and the problems %q", what, err, report.Problems)
		}
		records, head, err := service.AuditTrail(t.Context(), max(0, headOf(t, to).Count-1), 1)
		if err != nil || len(records) != 1 || records[0].Operation != "store.abandon_import" || records[0].UserID != "admin" || head.Importing {
			t.Fatalf("%s: the audit trail ends with %+v, %v", what, records, err)
		}
		if err := service.EnsureDefaultWorkspace(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := service.CreatePresetVersion(t.Context(), by, "", "new", domain.Capture{Dialect: domain.Chat, Config: []byte("{}")}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := Import(t.Context(), to, bytes.NewReader(content)); !errors.Is(err, ErrStore) {
			t.Errorf("%s: importing again: got error %v", what, err)
		}
		if batches%5 == 1 {
			rest := exported(t, to)
			if _, err := Verify(t.Context(), bytes.NewReader(rest)); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			imports(t, started(t), rest)
		}
	}
}

// TestAbandonLabels gives an import up after each line of a preset, or after a sample of them.
// The preset gets no label of a version that was pruned, and not more labels than it may have.
func TestAbandonLabels(t *testing.T) {
	tier.Slow(t)
	from := newStore(t)
	f := fill(t, from)
	f.Must(nil, f.EnsureDefaultWorkspace(t.Context()))
	for range 3 {
		f.Version("", "p", `{"model":"m"}`)
	}
	f.Label("", "p", "z-moved", domain.Target{Version: 1})
	f.Label("", "p", "z-moved", domain.Target{Split: []domain.Share{{Version: 1, Weight: 1}, {Version: 3, Weight: 1}}})
	f.Label("", "p", "z-moved", domain.Target{Version: 2})
	f.Must(f.Service.PruneVersions(t.Context(), f.By, domain.Pruning{Keep: 1}))
	f.Label("", "p", "z-removed", domain.Target{Version: 3})
	f.Must(f.DeleteLabel(t.Context(), f.By, "", "p", "z-removed"))
	for n := 1; n < domain.MaxLabels; n++ {
		f.Label("", "p", fmt.Sprint("label-", n), domain.Target{Version: 3})
	}
	content := exported(t, from)
	lines := bytes.Count(content, []byte("\n"))
	by := domain.By(domain.Principal{UserID: "admin", Kind: domain.ManagementKey})
	for batches, partial := 1, 0; ; batches += tier.Sample(3) {
		to := started(t)
		s := &interrupted{Store: to, before: nothing, after: func(n int) error {
			if n == batches {
				return errDeliberate
			}
			return nil
		}}
		_, err := importBy(t.Context(), s, bytes.NewReader(content), 1)
		if unfinished, err := Unfinished(t.Context(), to); err != nil {
			t.Fatal(err)
		} else if !unfinished { // the last batch
			if partial < domain.MaxLabels/tier.Sample(3) {
				t.Errorf("%d batches were within the preset", partial)
			}
			return
		}
		if !errors.Is(err, errDeliberate) {
			t.Fatal(err)
		}
		service := domain.NewService(to)
		a, err := Abandon(t.Context(), to, service, by)
		if err != nil {
			t.Fatalf("after %d batches: %v", batches, err)
		}
		if report, err := to.Check(t.Context()); err != nil || len(report.Problems) > 0 {
			t.Errorf("after line %d: got error %v and the problems %q", a.Lines, err, report.Problems)
		}
		if a.Partial == "" {
			continue
		}
		partial++
		var p domain.Preset
		if err := to.View(t.Context(), func(r domain.Reader) (err error) {
			workspaceID, slug, _ := strings.Cut(a.Partial, "/")
			if workspaceID, err = r.WorkspaceID(workspaceID); err == nil {
				p, err = r.Preset(workspaceID, slug)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if len(p.Labels) > domain.MaxLabels {
			t.Errorf("after line %d: the preset has %d labels", a.Lines, len(p.Labels))
		}
		for name, to := range p.Labels {
			if err := to.Check(p); err != nil {
				t.Errorf("after line %d: label %s: %v", a.Lines, name, err)
			}
		}
		rest := exported(t, to)
		if _, err := Verify(t.Context(), bytes.NewReader(rest)); err != nil {
			t.Errorf("after line %d: the export: %v", a.Lines, err)
		} else if p.Labels["z-moved"].Version == 0 && a.Lines > lines-6 {
			imports(t, started(t), rest)
		}
	}
}

func headOf(t *testing.T, s domain.Store) (head domain.AuditHead) {
	t.Helper()
	if err := s.View(t.Context(), func(r domain.Reader) (err error) {
		head, err = r.AuditHead()
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return head
}

// TestAbandonRunning gives an import up while it runs. One of the two fails, and the store is
// as the other left it.
func TestAbandonRunning(t *testing.T) {
	tier.Slow(t)
	from := newStore(t)
	f := fill(t, from)
	f.Some()
	f.Much()
	content := exported(t, from)
	to := started(t)
	service := domain.NewService(to)
	by := domain.By(domain.Principal{UserID: "admin", Kind: domain.ManagementKey})
	s := &interrupted{Store: to, after: nothing, before: func(n int) error {
		if n == 5 { // between two batches
			if _, err := Abandon(t.Context(), to, service, by); err != nil {
				t.Error(err)
			}
		}
		return nil
	}}
	_, err := importBy(t.Context(), s, bytes.NewReader(content), 32<<10)
	if !errors.Is(err, ErrStore) {
		t.Errorf("the import: got error %v", err)
	}
	if report, err := to.Check(t.Context()); err != nil || len(report.Problems) > 0 {
		t.Errorf("got error %v and the problems %q", err, report.Problems)
	}

	to = started(t)
	service = domain.NewService(to)
	s = &interrupted{Store: to, before: nothing, after: func(n int) error {
		if n == 5 {
			return errDeliberate
		}
		return nil
	}}
	if _, err := importBy(t.Context(), s, bytes.NewReader(content), 32<<10); !errors.Is(err, errDeliberate) {
		t.Fatal(err)
	}
	// Between Abandon's look and its change, the import goes on.
	again := &interrupted{Store: to, after: nothing, before: func(n int) error {
		if n == 1 {
			_, err := importBy(t.Context(), to, bytes.NewReader(content), 32<<10)
			return err
		}
		return nil
	}}
	if _, err := Abandon(t.Context(), again, domain.NewService(again), by); err == nil {
		t.Error("an import was abandoned that had ended")
	}
	imports(t, to, content) // it reports that all is there
}

// TestSalvageUnfinished salvages stores with an import that was cut, and that was given up
// then. Objects that were never imported are not lost. If the store is damaged, they may be,
// and the report says that.
func TestSalvageUnfinished(t *testing.T) {
	tier.Slow(t)
	from := newStore(t)
	f := fill(t, from)
	f.Some()
	f.Much()
	content := exported(t, from)
	by := domain.By(domain.Principal{UserID: "admin", Kind: domain.ManagementKey})
	for batches := 1; ; batches += max(3, tier.Sample(18)) {
		folder := t.TempDir()
		to, err := badger.Open(folder, badger.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := &interrupted{Store: to, before: nothing, after: func(n int) error {
			if n == batches {
				return errDeliberate
			}
			return nil
		}}
		_, _ = importBy(t.Context(), s, bytes.NewReader(content), 32<<10)
		unfinished, err := Unfinished(t.Context(), to)
		if err := errors.Join(err, to.Close()); err != nil {
			t.Fatal(err)
		}
		if !unfinished {
			if batches < 37 {
				t.Errorf("got %d batches, want more", batches)
			}
			return
		}
		lost := func() []storage.Loss {
			t.Helper()
			report, err := badger.Salvage(t.Context(), folder, filepath.Join(t.TempDir(), "new"), badger.Options{}, false)
			if err != nil {
				t.Fatalf("after %d batches: %v", batches, err)
			}
			return report.Lost
		}
		afterCut := lost()
		if to, err = badger.Open(folder, badger.Options{}); err != nil {
			t.Fatal(err)
		}
		service := domain.NewService(to)
		a, err := Abandon(t.Context(), to, service, by)
		if err == nil {
			err = service.EnsureDefaultWorkspace(t.Context())
		}
		if err == nil {
			_, err = service.CreatePresetVersion(t.Context(), by, "", "new", domain.Capture{Dialect: domain.Chat, Config: []byte("{}")})
		}
		if err := errors.Join(err, to.Close()); err != nil {
			t.Fatal(err)
		}
		// The labels of the preset that was cut may change.
		isPartial := func(l storage.Loss) bool { return l.Kind == "label" && l.Workspace+"/"+l.Preset == a.Partial }
		for state, all := range map[string][]storage.Loss{"cut": afterCut, "given up": lost()} {
			if all = slices.DeleteFunc(all, isPartial); len(all) > 0 {
				t.Errorf("after %d batches, %s: got %d lost, such as %+v, want none", batches, state, len(all), all[0])
			}
		}
		if err := os.Remove(filepath.Join(folder, "SEQUENCE")); err != nil {
			t.Fatal(err)
		}
		named := make(map[string]int)
		for _, l := range lost() {
			named[l.Kind]++
			if !isPartial(l) && !strings.HasSuffix(l.What, "an import was not finished") {
				t.Errorf("after %d batches, damaged: got %+v, want that an import was not finished", batches, l)
			}
		}
		if m := a.Missing; named["preset"] != m.Presets || named["key"] != m.Keys || named["workspace"] < m.Workspaces {
			t.Errorf("after %d batches, damaged: got %v, want %+v", batches, named, m)
		}
	}
}
