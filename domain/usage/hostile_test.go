package usage_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/usage"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// TestRowsAhead reports rows of hours that have not begun. A node whose clock is ahead
// makes them. The rows come in every order.
func TestRowsAhead(t *testing.T) {
	for _, hours := range [][2]int{{2, 5}, {5, 2}, {5, 5}} {
		var l usage.Ledger
		stored := make([]rows, 3)
		for i, ahead := range []int{0, hours[0], hours[1]} {
			one := usage.Request{WorkspaceID: "w", PresetID: "id", Preset: "p", Version: 1 + i%2, Status: 200, Start: now.Add(time.Duration(ahead) * time.Hour), FirstContent: -1}
			l.Add(&one)
			one.Version, one.Start = 1, now
			l.Add(&one)
			stored[i] = make(rows)
			stored[i].flush(t, &l)
			l = usage.Ledger{}
		}
		got := list(t, ask(t, usage.OfPreset, "from=2026-11-23T15:00:00Z&to=2026-11-25T00:00:00Z", stored...))
		requests := int64(0)
		for _, s := range got {
			requests += s.Total.Requests
			if len(s.Points) != 3+max(hours[0], hours[1]) {
				t.Errorf("%v hours ahead: version %s has %d points, want one for each hour up to the last row", hours, s.Key, len(s.Points))
			}
		}
		if len(got) != 2 || requests != 6 {
			t.Errorf("%v hours ahead: got %d series of %d requests, want 2 of 6", hours, len(got), requests)
		}
	}
}

// TestReportOfManyOutcomes reports feedback with another name in each row. A table has two
// columns for each name, so their number must be bounded.
func TestReportOfManyOutcomes(t *testing.T) {
	const hours, each = 200, 16
	stored := make(rows)
	for hour := range hours {
		var l usage.Ledger
		one := usage.Request{WorkspaceID: "w", PresetID: "id", Preset: "p", Version: 1, Status: 200, Start: now.Add(-time.Duration(hour) * time.Hour), FirstContent: -1}
		l.Add(&one)
		for i := range each {
			l.AddFeedback(usage.Feedback{WorkspaceID: "w", Key: one.Key(), Start: one.Start, Name: fmt.Sprint("name", hour, "-", i), Score: 1})
		}
		stored.flush(t, &l)
	}
	report := ask(t, usage.OfPreset, "from=2026-11-13T00:00:00Z", stored)
	table := report.CSV()
	header, _, _ := strings.Cut(string(table), "\r\n")
	if columns := 1 + strings.Count(header, ","); columns > 500 {
		t.Errorf("the table has %d columns and %d bytes, want at most 500 columns", columns, len(table))
	}
	total := int64(0)
	for _, outcome := range list(t, report)[0].Total.Feedback {
		total += outcome.Count
	}
	if total != hours*each {
		t.Errorf("got %d outcomes, want %d", total, hours*each)
	}
}

// TestTakeOfManyFailures has a store that cannot be read. The error must fit a log.
func TestTakeOfManyFailures(t *testing.T) {
	var l usage.Ledger
	const presets = 5000
	for i := range presets {
		l.Add(&usage.Request{WorkspaceID: "w", PresetID: fmt.Sprint("id", i), Preset: fmt.Sprint("p", i), Start: now, FirstContent: -1})
	}
	_, err := l.Take(func(domain.UsageID) ([]byte, error) {
		return nil, fmt.Errorf("%w: etcd is away", domain.ErrUnavailable)
	})
	if !errors.Is(err, domain.ErrUnavailable) || len(err.Error()) > 1000 {
		t.Errorf("got an error of %d bytes, want the store's in at most 1000: %.100v", len(err.Error()), err)
	}
	stored := make(rows)
	stored.flush(t, &l)
	if len(stored) != 2*presets {
		t.Errorf("got %d rows later, want %d", len(stored), 2*presets)
	}
}

// TestManyModels has a client that names more models than there is room for. It takes
// neither the version nor the key from what others did, in the same and in other periods.
func TestManyModels(t *testing.T) {
	tier.NoRace(t)
	for _, models := range []int{9_000, usage.MaxSeries + 1_000} {
		var l usage.Ledger
		stored := make(rows)
		quiet := usage.Request{
			WorkspaceID: "w", PresetID: "id", Preset: "p", Version: 4, Label: "canary", KeyID: "quiet",
			Status: 200, Start: now, FirstContent: -1, Asked: "m",
		}
		l.Add(&quiet)
		stored.flush(t, &l)
		loud := quiet
		loud.Version, loud.Label, loud.KeyID, loud.Status = 3, "", "loud", 404
		for i := range models {
			loud.Asked = fmt.Sprintf("%06d", i)
			for range 6 {
				l.Add(&loud)
			}
		}
		l.Add(&quiet)
		quiet.Asked = "another"
		l.Add(&quiet)
		stored.flush(t, &l)
		for by, want := range map[string]string{
			"version": fmt.Sprintf(`{"version":3} %d, {"version":4} 3`, 6*models),
			"key":     fmt.Sprintf(`{"key":"loud"} %d, {"key":"quiet"} 3`, 6*models),
			"label":   fmt.Sprintf(`{"label":"canary"} 3, {"label":null} %d`, 6*models),
			"status":  fmt.Sprintf(`{"status":"2xx"} 3, {"status":"4xx"} %d`, 6*models),
		} {
			var got []string
			for _, s := range list(t, ask(t, usage.OfWorkspace, "step=day&by="+by, stored)) {
				key := strings.Replace(string(s.Key), `"preset":"p",`, "", 1)
				got = append(got, fmt.Sprint(key, " ", s.Total.Requests))
			}
			if got := strings.Join(got, ", "); got != want {
				t.Errorf("%d models, by %s: got %.300s, want %s", models, by, got, want)
			}
		}
		byModel := list(t, ask(t, usage.OfWorkspace, "step=day&by=model", stored))
		total := int64(0)
		for _, s := range byModel {
			total += s.Total.Requests
		}
		if last := byModel[len(byModel)-1]; string(last.Key) != `{"other":true}` || last.Total.Requests == 0 || total != int64(6*models+3) {
			t.Errorf("%d models: got %d requests, the last series %s of %d, want %d and one that is other", models, total, last.Key, last.Total.Requests, 6*models+3)
		}
		if l.Overflowed() == 0 || l.Lost() != 0 {
			t.Errorf("%d models: %d requests overflowed and %d are lost, want some and none", models, l.Overflowed(), l.Lost())
		}
		for id, content := range stored {
			if len(content) > domain.MaxUsageSize {
				t.Errorf("%d models: the row of %v has %d bytes, want at most %d", models, id.Start, len(content), domain.MaxUsageSize)
			}
		}
	}
}
