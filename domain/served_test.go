package domain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/usage"
)

// TestLastServed looks for last_served_at wherever clients see a version. It changes no tag
// of a preset, so an If-Match still holds.
func TestLastServed(t *testing.T) {
	f := labelled(t, 3)
	at := time.Date(2026, 11, 23, 14, 59, 59, 0, time.UTC)
	preset := func() domain.Found {
		t.Helper()
		found := f.found(f.Preset(t.Context(), user, "", "p"))
		return found
	}
	before := preset()
	shows := func(when, text string, want ...string) {
		t.Helper()
		parts := strings.Split(text, `"last_served_at":`)
		if len(parts) != len(want)+1 {
			t.Fatalf("%s: got %s, want %d times", when, text, len(want))
		}
		for i, part := range parts[1:] {
			if !strings.HasPrefix(part, want[i]) {
				t.Errorf("%s: got %s, want %s", when, part, want[i])
			}
		}
	}
	shows("before", string(before.JSON), "null")
	home := before.WorkspaceID
	for _, hour := range []int{0, -5, 0} { // the latest stays
		err := usage.RecordServed(t.Context(), f.store, map[usage.ServedPreset]domain.Served{
			{WorkspaceID: home, Slug: "p"}:      {3: domain.ServedHour(at.Add(time.Duration(hour) * time.Hour)), 1: 0, 17: 5},
			{WorkspaceID: home, Slug: "absent"}: {1: 1},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	const last = `"2026-11-23T14:00:00Z"`
	after := preset()
	shows("after", string(after.JSON), last)
	if after.Tag != before.Tag {
		t.Errorf("got the tag %s, want that of before, %s", after.Tag, before.Tag)
	}
	version := func(n int) string {
		found := f.found(f.PresetVersion(t.Context(), user, "", "p", n))
		return string(found.JSON)
	}
	shows("version 3", version(3), last)
	shows("version 2", version(2), "null")
	shows("version 1", version(1), `"1970-01-01T00:00:00Z"`)
	list := f.found(f.PresetVersions(t.Context(), user, "", "p", domain.Page{Limit: 10}))
	shows("list", string(list.JSON), `"1970-01-01T00:00:00Z"`, "null", last)
	list = f.found(f.PresetVersionSummaries(t.Context(), user, "", "p", domain.Page{Limit: 10, Offset: 2}))
	shows("summaries", string(list.JSON), last)

	w := ask
	w.Condition.Match = &domain.Tags{List: []string{before.Tag}}
	out := f.must(f.UpdatePreset(t.Context(), w, "", "p", describe(new("changed"))))
	shows("changed", string(out.JSON), last)
	if found := preset(); out.Tag != found.Tag || string(out.JSON) != string(found.JSON) {
		t.Errorf("got %s %s, want %s %s", out.Tag, out.JSON, found.Tag, found.JSON)
	}
	out = f.must(f.ReleasePresetVersion(t.Context(), ask, "", "p", domain.Capture{Dialect: domain.Chat, Config: []byte(`{"a":{"last_served_at":1}}`)}, domain.Release{}))
	shows("created", string(out.JSON), "1", "null")
	if found := preset(); out.Tag != found.Tag || out.Tag == after.Tag {
		t.Errorf("got the tag %s, want a new one, %s", out.Tag, found.Tag)
	}
}

// TestServedIsBounded stores more versions than fit. Those that were served last stay.
func TestServedIsBounded(t *testing.T) {
	f := labelled(t, 1)
	found := f.found(f.Preset(t.Context(), user, "", "p"))
	p := f.stored(t, "default", "p")
	p.LatestVersion = domain.MaxServed + 5
	p.Kept = domain.Kept{}
	many := make(domain.Served)
	for n := range p.LatestVersion {
		many[n+1] = int64(n)
	}
	err := f.store.Update(t.Context(), func(tx domain.Tx) error { return tx.PutPreset(p) })
	if err != nil {
		t.Fatal(err)
	}
	if err := usage.RecordServed(t.Context(), f.store, map[usage.ServedPreset]domain.Served{{WorkspaceID: found.WorkspaceID, Slug: "p"}: many}); err != nil {
		t.Fatal(err)
	}
	var got domain.Served
	if err := f.store.View(t.Context(), func(r domain.Reader) (err error) {
		got, err = r.Served(found.WorkspaceID, "p")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	_, oldest := got[5]
	_, next := got[6]
	if len(got) != domain.MaxServed || oldest || !next {
		t.Errorf("got %s, want %d without the first 5", fmt.Sprint(len(got), oldest, next), domain.MaxServed)
	}
}
