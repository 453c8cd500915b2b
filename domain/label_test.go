package domain_test

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

func TestCheckLabel(t *testing.T) {
	for label, ok := range map[string]bool{
		"a": true, "staging": true, "A.b_c~d-e": true, "v2": true, "2b": true, "1.0": true, strings.Repeat("x", 64): true, "latest1": true, "the-latest": true,
		"": false, "-a": false, ".a": false, "_": false, "a b": false, "a/b": false, "a@b": false, "é": false, "a\n": false, "a%20b": false, strings.Repeat("x", 65): false,
		"1": false, "0": false, "007": false, "12345678901234567890": false, "latest": false, "LATEST": false, "Latest": false,
	} {
		err := domain.CheckLabel(label)
		if ok && err != nil {
			t.Errorf("%q: %v", label, err)
		}
		if !ok {
			wantKind(t, err, domain.Invalid, "label: ")
			if label != "" && len(label) < 64 && strings.Contains(err.Error(), `"`) {
				t.Errorf("%v quotes the label", err)
			}
		}
	}
}

func share(version, weight int) domain.Share { return domain.Share{Version: version, Weight: weight} }

func split(shares ...domain.Share) domain.Target {
	if shares == nil {
		shares = []domain.Share{}
	}
	return domain.Target{Split: shares}
}

// labelled is a preset "p" with a number of versions.
func labelled(t *testing.T, versions int) *fixture {
	t.Helper()
	f := newFixture(t)
	for range versions {
		f.put(t, "p", "{}", nil)
	}
	return f
}

func (f *fixture) label(t *testing.T, name string, to domain.Target) domain.Outcome {
	t.Helper()
	out, err := f.PutLabel(t.Context(), ask, "", "p", name, to, nil)
	if err != nil {
		t.Fatalf("%s to %+v: %v", name, to, err)
	}
	return out
}

func TestLabelTargets(t *testing.T) {
	f := labelled(t, domain.MaxShares+1)
	many := make([]domain.Share, domain.MaxShares+1)
	for i := range many {
		many[i] = share(i+1, 1)
	}
	for _, to := range []domain.Target{
		{Version: 1},
		{Version: domain.MaxShares + 1},
		split(share(1, 1)), split(share(2, domain.MaxWeight)), split(share(2, 0), share(1, 1)), split(many[1:]...),
	} {
		f.label(t, "live", to)
		if got := f.stored(t, "default", "p").Labels["live"]; !reflect.DeepEqual(got, to) {
			t.Errorf("got %+v, want %+v", got, to)
		}
	}
	before, trail := f.stored(t, "default", "p"), f.records(t)
	for name, tc := range map[string]struct {
		to   domain.Target
		kind domain.Kind
		path string
		says string
	}{
		"nothing":          {domain.Target{}, domain.NotFound, "/version", "Preset version not found"},
		"negative version": {domain.Target{Version: -1}, domain.NotFound, "/version", "Preset version not found"},
		"no such version":  {domain.Target{Version: domain.MaxShares + 2}, domain.NotFound, "/version", "Preset version not found"},
		"empty split":      {split(), domain.Invalid, "/split", "must have 1 to 16 versions"},
		"large split":      {split(many...), domain.Invalid, "/split", "must have 1 to 16 versions"},
		"no such share":    {split(share(1, 1), share(domain.MaxShares+2, 1)), domain.NotFound, "/split/1/version", "Preset version not found"},
		"share 0":          {split(share(0, 1)), domain.NotFound, "/split/0/version", "Preset version not found"},
		"twice":            {split(share(1, 1), share(2, 1), share(1, 2)), domain.Invalid, "/split/2/version", "is in the split already"},
		"negative weight":  {split(share(1, -1), share(2, 2)), domain.Invalid, "/split/0/weight", "must be between 0 and 10000"},
		"heavy":            {split(share(2, 2), share(1, domain.MaxWeight+1)), domain.Invalid, "/split/1/weight", "must be between 0 and 10000"},
		"weightless":       {split(share(1, 0), share(2, 0)), domain.Invalid, "/split", "must have a weight above 0"},
	} {
		t.Run(name, func(t *testing.T) {
			err := errOf(f.PutLabel(t.Context(), ask, "", "p", "live", tc.to, nil))
			wantKind(t, err, tc.kind, tc.says)
			if e, ok := err.(*domain.Error); !ok || len(e.Issues) != 1 || e.Issues[0].Path != tc.path { //nolint:errorlint // returned as it is
				t.Errorf("got %+v, want an issue at %q", err, tc.path)
			}
		})
	}
	wantKind(t, errOf(f.PutLabel(t.Context(), ask, "", "p", "latest", domain.Target{Version: 1}, nil)), domain.Invalid, "is reserved")
	wantKind(t, errOf(f.PutLabel(t.Context(), ask, "", "p", "17", domain.Target{Version: 1}, nil)), domain.Invalid, "is reserved")
	if after := f.stored(t, "default", "p"); !reflect.DeepEqual(after, before) || f.records(t) != trail {
		t.Errorf("got %+v, want %+v still", after, before)
	}
}

func TestLabelLimit(t *testing.T) {
	f := labelled(t, 2)
	for i := range domain.MaxLabels {
		f.label(t, fmt.Sprintf("l%d", i), domain.Target{Version: 1})
	}
	wantKind(t, errOf(f.PutLabel(t.Context(), ask, "", "p", "more", domain.Target{Version: 1}, nil)), domain.Invalid, "has 64 labels already")
	f.label(t, "l0", domain.Target{Version: 2}) // no new one
	f.must(f.DeleteLabel(t.Context(), ask, "", "p", "l0"))
	f.label(t, "more", domain.Target{Version: 1})
	if got := len(f.stored(t, "default", "p").Labels); got != domain.MaxLabels {
		t.Errorf("got %d labels, want %d", got, domain.MaxLabels)
	}
}

// change is a change of a label as clients see it.
type change struct {
	Number int            `json:"number"`
	Time   time.Time      `json:"time"`
	KeyID  string         `json:"key_id"`
	UserID string         `json:"user_id"`
	From   *domain.Target `json:"from"`
	To     *domain.Target `json:"to"`
}

func TestLabelHistory(t *testing.T) {
	f := labelled(t, 3)
	start := f.now.UTC().Truncate(time.Millisecond)
	moment := func(minute int) time.Time { return start.Add(time.Duration(minute) * time.Minute) }
	one, two, both := domain.Target{Version: 1}, domain.Target{Version: 2}, split(share(1, 1), share(3, 2))
	var want []change // the latest first
	dora := domain.Write{Who: domain.Principal{KeyID: "k3", UserID: "dora", Kind: domain.ManagementKey}}
	for i, to := range []*domain.Target{&one, &one, &two, &both, &both, nil, &two, nil, &both} {
		f.now = start.Add(time.Duration(i) * time.Minute)
		w := ask
		if i == 2 {
			w = dora
		}
		var err error
		if to == nil {
			var out domain.Outcome
			out, err = f.DeleteLabel(t.Context(), w, "", "p", "live")
			if out.JSON != nil || out.WorkspaceID == "" || len(out.Preset.Labels) != 0 {
				t.Errorf("step %d: got %+v, want no JSON and no label", i, out)
			}
		} else {
			_, err = f.PutLabel(t.Context(), w, "", "p", "live", *to, nil)
		}
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		var from *domain.Target
		if len(want) > 0 {
			from = want[0].To
		}
		if !reflect.DeepEqual(from, to) {
			want = append([]change{{len(want) + 1, moment(i), w.Who.KeyID, w.Who.UserID, from, to}}, want...)
		}
		if to == nil {
			found, err := f.Label(t.Context(), user, "", "p", "live", domain.Page{Limit: 100})
			var gone struct {
				Version json.RawMessage `json:"version"`
				Split   json.RawMessage `json:"split"`
				History []change        `json:"history"`
			}
			if err == nil {
				err = json.Unmarshal(found.JSON, &gone)
			}
			if err != nil || string(gone.Version) != "null" || gone.Split != nil || !reflect.DeepEqual(gone.History, want) || found.Number != 0 {
				t.Errorf("step %d: got %s, %v, want version null and the history", i, found.JSON, err)
			}
			wantKind(t, errOf(f.DeleteLabel(t.Context(), w, "", "p", "live")), domain.NotFound, "Label not found")
		}
	}
	if len(want) != 7 {
		t.Fatalf("the test expects %d changes", len(want))
	}
	f.label(t, "other", one) // has a history of its own

	read := func(page domain.Page) (history []change) {
		t.Helper()
		found := f.found(f.Label(t.Context(), user, "", "p", "live", page))
		var label struct {
			Label   string         `json:"label"`
			Version int            `json:"version"`
			Split   []domain.Share `json:"split"`
			History []change       `json:"history"`
			Count   int            `json:"history_count"`
		}
		if err := json.Unmarshal(found.JSON, &label); err != nil {
			t.Fatal(err)
		}
		if label.Label != "live" || label.Version != 0 || !reflect.DeepEqual(label.Split, both.Split) || label.Count != 7 || found.WorkspaceID == "" {
			t.Errorf("got %s", found.JSON)
		}
		return label.History
	}
	for page, part := range map[domain.Page][]change{
		{Limit: 100}:                        want,
		{Limit: 3}:                          want[:3],
		{Offset: 3, Limit: 3}:               want[3:6],
		{Offset: 6, Limit: 3}:               want[6:],
		{Offset: 7, Limit: 3}:               {},
		{Offset: math.MaxInt, Limit: 100}:   {},
		{Offset: math.MaxInt - 7, Limit: 1}: {},
	} {
		if got := read(page); !reflect.DeepEqual(got, part) {
			t.Errorf("page %+v:\ngot  %+v\nwant %+v", page, got, part)
		}
	}
	found, err := f.Label(t.Context(), user, "", "p", "other", domain.Page{Limit: 1})
	if want := `{"label":"other","version":1,"protected":false,"history":[{"number":1,"time":"2026-11-21T09:08:00.123Z","key_id":"k1","user_id":"ann","from":null,"to":{"version":1}}],"history_count":1}`; err != nil || string(found.JSON) != want || found.Number != 1 {
		t.Errorf("got  %s, %v\nwant %s", found.JSON, err, want)
	}
}

// TestChangesShowTheLabel checks that the answer to a label's change equals a read of the
// label. The preset shows its labels.
func TestChangesShowTheLabel(t *testing.T) {
	f := labelled(t, 2)
	latest := domain.Page{Limit: domain.DefaultPage}
	for i, to := range []domain.Target{{Version: 2}, {Version: 2}, split(share(1, 1), share(2, 3))} {
		out := f.label(t, "live", to)
		found, err := f.Label(t.Context(), user, "", "p", "live", latest)
		if err != nil || string(found.JSON) != string(out.JSON) || found.Number != to.Version || out.Number != to.Version {
			t.Errorf("got  %+v, %v\nwant %+v", found, err, out)
		}
		if nothing := i == 1; (len(out.Records) == 0) != nothing {
			t.Errorf("change %d: got record %v", i, out.Records)
		}
	}
	f.label(t, "early", domain.Target{Version: 1})
	found, err := f.Preset(t.Context(), user, "", "p")
	want := `"labels":{"early":{"version":1},"live":{"split":[{"version":1,"weight":1},{"version":2,"weight":3}]}},"designated_version":`
	if err != nil || !strings.Contains(string(found.JSON), want) {
		t.Errorf("got %s, %v, want it with %s", found.JSON, err, want)
	}
}

// A label that was deleted is a state that clients see, so a change can ask for it. For
// * it does not exist.
func TestConditionOnDeletedLabel(t *testing.T) {
	f := labelled(t, 2)
	tag := func() string {
		t.Helper()
		found := f.found(f.Label(t.Context(), user, "", "p", "live", domain.Page{Limit: domain.DefaultPage}))
		return found.Tag
	}
	remove := func() {
		t.Helper()
		f.label(t, "live", domain.Target{Version: 1})
		f.must(f.DeleteLabel(t.Context(), ask, "", "p", "live"))
	}
	put := func(c domain.Condition) error {
		w := ask
		w.Condition = c
		return errOf(f.PutLabel(t.Context(), w, "", "p", "live", domain.Target{Version: 2}, nil))
	}
	remove()
	deleted := tag()
	if err := put(domain.Condition{Match: &domain.Tags{List: []string{deleted}}}); err != nil {
		t.Errorf("got %v, want the deleted label to be set again", err)
	}
	remove()
	if tag() == deleted {
		t.Error("two histories have one tag")
	}
	for _, c := range []domain.Condition{
		{Match: &domain.Tags{List: []string{deleted}}}, // it was set since
		{Match: &domain.Tags{Any: true}},
	} {
		wantKind(t, put(c), domain.PreconditionFailed, "Precondition failed")
	}
	if err := put(domain.Condition{NoneMatch: &domain.Tags{Any: true}}); err != nil {
		t.Errorf("got %v, want a label that is not set to be made", err)
	}
	wantKind(t, errOf(f.Label(t.Context(), user, "", "p", "never", domain.Page{Limit: 1})), domain.NotFound, "Label not found")
}
