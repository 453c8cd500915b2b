package domain_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/domain"
)

// release makes a version of the preset p.
func (f *fixture) release(t *testing.T, how domain.Release) domain.Outcome {
	t.Helper()
	out := f.must(f.ReleasePresetVersion(t.Context(), ask, "", "p", nothing, how))
	return out
}

func TestDrafts(t *testing.T) {
	f := newFixture(t)
	wantKind(t, errOf(f.ReleasePresetVersion(t.Context(), ask, "", "p", nothing, domain.Release{Draft: true, Label: "l"})), domain.Conflict, "must be designated")
	wantKind(t, errOf(f.Preset(t.Context(), user, "", "p")), domain.NotFound, "Preset not found")
	trail := f.records(t)

	f.release(t, domain.Release{})
	w := ask
	w.Idempotency = domain.Idempotency{Key: "draft", Request: [32]byte{1}}
	var first domain.Outcome
	for range 2 {
		out := f.must(f.ReleasePresetVersion(t.Context(), w, "", "p", nothing, domain.Release{Draft: true, Message: new("why")}))
		preset := f.found(f.Preset(t.Context(), user, "", "p"))
		version := f.found(f.PresetVersion(t.Context(), user, "", "p", 2))
		want := strings.TrimSuffix(string(preset.JSON), "}") + `,"created_version":` + string(version.JSON) + "}"
		if string(out.JSON) != want || out.Tag != preset.Tag || out.Number != 2 || preset.Number != 1 {
			t.Errorf("got  %+v\nwant %s", out, want)
		}
		if !strings.Contains(string(version.JSON), `"message":"why"`) || !strings.Contains(string(version.JSON), `"designated":false,"labels":[]`) {
			t.Errorf("got %s", version.JSON)
		}
		if first.JSON == nil {
			first = out
		} else if !out.Replayed || string(out.JSON) != string(first.JSON) {
			t.Errorf("again: got %+v", out)
		}
	}
	r := f.trail(t)[trail+1]
	if r.Before != 1 || r.After != 1 || r.Object.Draft != 2 || r.Object.Message != "why" || r.Operation != "preset.create_version" || f.records(t) != trail+2 {
		t.Errorf("got record %+v", r)
	}

	// The tag of the answer is that of the preset.
	w = ask
	w.Condition.Match = &domain.Tags{List: []string{first.Tag}}
	if _, err := f.UpdatePreset(t.Context(), w, "", "p", domain.PresetPatch{Name: new("n")}); err != nil {
		t.Error(err)
	}
	if _, err := f.DesignateVersion(t.Context(), ask, "", "p", domain.Designation{Version: 2}); err != nil {
		t.Error(err)
	}
	if p := f.stored(t, "default", "p"); p.DesignatedVersion != 2 {
		t.Errorf("got %+v", p)
	}
}

func TestReleasesWithLabel(t *testing.T) {
	f := newFixture(t)
	f.KeepVersions = 1
	f.release(t, domain.Release{Label: "live"})
	for n := 2; n <= 4; n++ { // each takes the label from the one before
		trail := f.records(t)
		out := f.release(t, domain.Release{Label: "live", Draft: n%2 == 0, Message: new(fmt.Sprint(n))})
		if p := f.stored(t, "default", "p"); p.Labels["live"].Version != n || out.Preset.Labels["live"].Version != n {
			t.Errorf("version %d: got %+v", n, p)
		}
		records := f.trail(t)[trail:]
		if len(records) != 2 || !reflect.DeepEqual(out.Records, records) || records[0].Object.Message != fmt.Sprint(n) ||
			records[1].Operation != "label.move" || records[1].Object.Label != "live" || records[1].Before != n-1 || records[1].After != n {
			t.Errorf("version %d: got records %+v", n, records)
		}
		label, err := f.Label(t.Context(), user, "", "p", "live", domain.Page{Limit: 9})
		var shown struct {
			Version int
			Changes int `json:"history_count"`
		}
		if err != nil || json.Unmarshal(label.JSON, &shown) != nil || shown.Version != n || shown.Changes != n {
			t.Errorf("version %d: got label %s, %v", n, label.JSON, err)
		}
	}
	// Version 3 is designated and 4 is the newest, so the others are gone.
	p := f.stored(t, "default", "p")
	for n := 1; n <= 4; n++ {
		if p.State().Has(n) != (n >= 3) {
			t.Errorf("has version %d: %t", n, n < 3)
		}
	}
	// A labelled draft stays, though newer versions are enough.
	f.release(t, domain.Release{})
	f.release(t, domain.Release{})
	if p := f.stored(t, "default", "p"); !p.State().Has(4) || p.State().Has(3) || p.State().Has(5) || p.DesignatedVersion != 6 {
		t.Errorf("got %+v", p)
	}
}

// An unlabelled draft is kept for as long as it is among the newest versions.
func TestDraftsArePruned(t *testing.T) {
	f := newFixture(t)
	f.KeepVersions = 2
	f.release(t, domain.Release{})
	f.release(t, domain.Release{Draft: true})
	f.release(t, domain.Release{Draft: true})
	f.release(t, domain.Release{Draft: true})
	p := f.stored(t, "default", "p")
	for n, want := range []bool{true, false, true, true} {
		if p.State().Has(n+1) != want {
			t.Errorf("has version %d: %t", n+1, !want)
		}
	}
}

func TestReleasesRefused(t *testing.T) {
	f := newFixture(t)
	f.release(t, domain.Release{})
	for n := range domain.MaxLabels {
		f.must(f.PutLabel(t.Context(), ask, "", "p", fmt.Sprintf("l%d", n), domain.Target{Version: 1}, nil))
	}
	before, trail := f.stored(t, "default", "p"), f.records(t)
	long := strings.Repeat("é", domain.MaxMessage)
	for _, tc := range []struct {
		who  domain.Principal
		how  domain.Release
		kind domain.Kind
		says string
	}{
		{admin, domain.Release{Label: "one-more"}, domain.Invalid, "label: the preset has 64 labels already"},
		{admin, domain.Release{Label: "latest"}, domain.Invalid, "label: is reserved"},
		{admin, domain.Release{Label: "a/b"}, domain.Invalid, "label: must be 1 to 64 characters"},
		{user, domain.Release{Label: "l1"}, domain.Forbidden, "Only management keys"},
		{admin, domain.Release{Message: new("")}, domain.Invalid, "message: must be 1 to 500 characters"},
		{admin, domain.Release{Message: new(long + "x")}, domain.Invalid, "message: must be 1 to 500 characters"},
		{admin, domain.Release{Message: new("a\nb")}, domain.Invalid, "message: must not have control characters"},
		{admin, domain.Release{Message: new("a\tb")}, domain.Invalid, "message: must not have control characters"},
		{admin, domain.Release{Message: new("\u0085")}, domain.Invalid, "message: must not have control characters"},
		{admin, domain.Release{Message: new("\u007f")}, domain.Invalid, "message: must not have control characters"},
		{admin, domain.Release{Message: new("\xff")}, domain.Invalid, "message: must be UTF-8"},
	} {
		wantKind(t, errOf(f.ReleasePresetVersion(t.Context(), domain.By(tc.who), "", "p", nothing, tc.how)), tc.kind, tc.says)
	}
	if after := f.stored(t, "default", "p"); after.LatestVersion != before.LatestVersion || f.records(t) != trail {
		t.Errorf("got %+v, want %+v", after, before)
	}
	for _, message := range []string{long, "a", " ", "<b>☃\u202e\"\\"} {
		out := f.release(t, domain.Release{Label: "l1", Message: &message})
		if got := *out.Version.Message; got != message {
			t.Errorf("got message %q, want %q", got, message)
		}
	}
}
