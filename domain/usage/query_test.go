package usage_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/usage"
)

func TestReadQuery(t *testing.T) {
	const layout = "2006-01-02T15:04:05Z07:00"
	for _, test := range []struct {
		name, given string
		scope       usage.Scope
		from, to    string
		parameter   string
		step        usage.Step
		by          usage.By
	}{
		{name: "defaults", from: "2026-11-22T17:00:00Z", to: "2026-11-23T18:00:00Z", step: usage.Hour, by: usage.ByVersion},
		{name: "days", given: "step=day&by=status", from: "2026-11-22T00:00:00Z", to: "2026-11-24T00:00:00Z", step: usage.Day, by: usage.ByStatus},
		{name: "only from", given: "from=2026-11-23T15:00:00Z", from: "2026-11-23T15:00:00Z", to: "2026-11-23T18:00:00Z", step: usage.Hour, by: usage.ByVersion},
		{name: "only to", given: "to=2026-11-01T01:00:00%2B01:00", from: "2026-10-31T00:00:00Z", to: "2026-11-01T00:00:00Z", step: usage.Hour, by: usage.ByVersion},
		{
			name: "ahead", given: "from=2026-11-23T15:00:00.5Z&to=9999-01-01T00:00:00Z&by=key", scope: usage.OfWorkspace,
			from: "2026-11-23T15:00:00Z", to: "9999-01-01T00:00:00Z", step: usage.Hour, by: usage.ByKey,
		},
		{name: "both ahead", given: "from=2027-11-23T15:00:00Z&to=2028-01-01T00:00:00Z", from: "2027-11-23T15:00:00Z", to: "2028-01-01T00:00:00Z", step: usage.Hour, by: usage.ByVersion},
		{name: "since within from", given: "from=2026-11-23T10:00:00Z&since=2026-11-23T12:20:00Z", from: "2026-11-23T13:00:00Z", to: "2026-11-23T18:00:00Z", step: usage.Hour, by: usage.ByVersion},
		{name: "since before from", given: "from=2026-11-23T10:30:00Z&since=2026-11-22T12:20:00Z", from: "2026-11-23T10:00:00Z", to: "2026-11-23T18:00:00Z", step: usage.Hour, by: usage.ByVersion},
		{name: "since a whole hour", given: "since=2026-11-20T12:00:00Z", from: "2026-11-20T12:00:00Z", to: "2026-11-23T18:00:00Z", step: usage.Hour, by: usage.ByVersion},
		{name: "since this hour", given: "since=2026-11-23T17:20:00Z", from: "2026-11-23T18:00:00Z", to: "2026-11-23T18:00:00Z", step: usage.Hour, by: usage.ByVersion},
		{name: "since tomorrow", given: "since=2026-11-24T17:20:00Z&label=canary", from: "2026-11-23T18:00:00Z", to: "2026-11-23T18:00:00Z", step: usage.Hour, by: usage.ByVersion},
		{name: "since in days", given: "since=2026-11-20T12:00:00Z&step=day", from: "2026-11-21T00:00:00Z", to: "2026-11-24T00:00:00Z", step: usage.Day, by: usage.ByVersion},
		{name: "no since", given: "since=lately", parameter: "since"},
		{name: "no label", given: "label=latest", parameter: "label"},
		{name: "an empty label", given: "label=", parameter: "label"},
		{name: "a label of a workspace", given: "label=latest&since=lately", scope: usage.OfWorkspace, from: "2026-11-22T17:00:00Z", to: "2026-11-23T18:00:00Z", step: usage.Hour, by: usage.ByVersion},
		{name: "from ahead", given: "from=2027-11-23T15:00:00Z", parameter: "from"},
		{name: "from after to", given: "from=2026-11-23T15:00:00Z&to=2026-11-23T15:00:00Z", parameter: "from"},
		{name: "no time", given: "from=yesterday", parameter: "from"},
		{name: "a date", given: "to=2026-11-23", parameter: "to"},
		{name: "plus as a space", given: "to=2026-11-23T15:00:00+01:00", parameter: "to"},
		{name: "before 1970", given: "from=1969-12-31T23:00:00Z", parameter: "from"},
		{name: "too long", given: "from=1970-01-01T00:00:00Z", parameter: "from"},
		{name: "the end of time", given: "to=9999-12-31T23:00:01Z&from=2026-11-23T15:00:00Z", parameter: "to"},
		{name: "step", given: "step=minute", parameter: "step"},
		{name: "by", given: "by=colour", parameter: "by"},
		{name: "preset's by preset", given: "by=preset", parameter: "by"},
		{name: "preset's by key", given: "by=key", parameter: "by"},
		{name: "empty", given: "by=", parameter: "by"},
		{name: "twice", given: "step=day&step=day", parameter: "step"},
	} {
		given, err := url.ParseQuery(test.given)
		if err != nil {
			t.Fatal(err)
		}
		got, err := usage.ReadQuery(given, test.scope, now)
		if test.parameter != "" {
			var invalid *domain.Error
			if !errors.As(err, &invalid) || invalid.Kind != domain.Invalid || invalid.Issues[0].Path != test.parameter {
				t.Errorf("%s: got %v, want an invalid %s", test.name, err, test.parameter)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: got %v, want none", test.name, err)
			continue
		}
		if from, to := got.From.Format(layout), got.To.Format(layout); from != test.from || to != test.to || got.Step != test.step || got.By != test.by {
			t.Errorf("%s: got %s to %s, step=%s, by=%s; want %s to %s, %s, %s", test.name, from, to, got.Step, got.By, test.from, test.to, test.step, test.by)
		}
	}
}

// TestOfLabel asks for the requests that named a label since a time. Those of other labels and
// of no label do not count, and nothing before that time does.
func TestOfLabel(t *testing.T) {
	var l usage.Ledger
	for _, of := range []struct {
		label   string
		version int
		hours   int // before now
	}{
		{"canary", 1, 0},
		{"canary", 2, 1},
		{"canary", 2, 2}, // within the hour of the change
		{"canary", 1, 9},
		{"staging", 2, 0},
		{"", 1, 0},
	} {
		one := usage.Request{
			WorkspaceID: "w", PresetID: "id", Preset: "p", Version: of.version, Label: of.label, Status: 200,
			Start: now.Add(-time.Duration(of.hours) * time.Hour), FirstContent: -1,
		}
		l.Add(&one)
	}
	stored := make(rows)
	stored.flush(t, &l)
	for _, test := range []struct{ question, want string }{
		{"", `{"version":1} 3, {"version":2} 3`},
		{"label=canary", `{"version":1} 2, {"version":2} 2`},
		{"label=canary&since=2026-11-23T15:20:00Z", `{"version":1} 1, {"version":2} 1`},
		{"label=canary&since=2026-11-23T15:00:00Z", `{"version":1} 1, {"version":2} 2`},
		{"label=canary&since=2026-11-23T15:20:00Z&by=label", `{"label":"canary"} 2`},
		{"label=canary&since=2026-11-23T17:20:00Z", ""},
		{"label=absent", ""},
	} {
		var got []string
		for _, s := range list(t, ask(t, usage.OfPreset, test.question, stored)) {
			got = append(got, fmt.Sprintf("%s %d", s.Key, s.Total.Requests))
		}
		if joined := strings.Join(got, ", "); joined != test.want {
			t.Errorf("%s: got %s, want %s", test.question, joined, test.want)
		}
	}
}

// TestTablesAgree compares every figure of the JSON with the one of the CSV.
func TestTablesAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	var l usage.Ledger
	stored := make(rows)
	for range 500 {
		one := sample(r)
		l.Add(&one)
		for _, f := range outcomes(r, one) {
			l.AddFeedback(f)
		}
	}
	stored.flush(t, &l)
	for _, q := range questions() {
		report := ask(t, q.scope, q.text, stored)
		var want []map[string]string
		var body struct {
			Data struct {
				Series []struct {
					Key    map[string]any
					Points []map[string]any
				}
			}
		}
		numbers := json.NewDecoder(strings.NewReader(asJSON(t, report)))
		numbers.UseNumber()
		if err := numbers.Decode(&body); err != nil {
			t.Fatal(err)
		}
		for _, s := range body.Data.Series {
			for _, p := range s.Points {
				row := make(map[string]string)
				flatten(row, "", s.Key)
				flatten(row, "", p)
				want = append(want, row)
			}
		}
		lines, err := csv.NewReader(bytes.NewReader(report.CSV())).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		if len(lines)-1 != len(want) || len(want) < 6 {
			t.Fatalf("%s: got %d rows in CSV and %d points in JSON, want as many", q.text, len(lines)-1, len(want))
		}
		for i, line := range lines[1:] {
			for j, name := range lines[0] {
				expected := want[i][name]
				if expected == "" && (name == "other" || strings.HasSuffix(name, "_count")) {
					expected = map[bool]string{true: "false", false: "0"}[name == "other"]
				}
				if line[j] != expected {
					t.Errorf("%s: got %s %q in CSV, want %q as in JSON", q.text, name, line[j], expected)
				}
				delete(want[i], name)
			}
			for name, left := range want[i] {
				if left != "" {
					t.Errorf("%s: got no column %s in CSV, want %q", q.text, name, left)
				}
			}
		}
		if !slices.Contains(lines[0], "feedback_solved_mean") {
			t.Errorf("%s: got %v, want columns of feedback", q.text, lines[0])
		}
	}
}

// flatten adds the values of an object under their names in CSV.
func flatten(to map[string]string, prefix string, object map[string]any) {
	for name, value := range object {
		switch value := value.(type) {
		case map[string]any:
			flatten(to, prefix+name+"_", value)
		case string:
			to[prefix+name] = value
		case json.Number:
			to[prefix+name] = value.String()
		case bool:
			to[prefix+name] = map[bool]string{true: "true", false: "false"}[value]
		}
	}
}
