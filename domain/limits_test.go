package domain_test

import (
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/caddy-presets/caddy-presets/domain"
)

func TestWindow(t *testing.T) {
	at := func(text string) time.Time {
		if text == "" {
			return time.Time{}
		}
		parsed, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	for _, tc := range []struct {
		of             domain.Interval
		at, start, end string
	}{
		{domain.Daily, "2026-12-31T23:59:59.999Z", "2026-12-31T00:00:00Z", "2027-01-01T00:00:00Z"},
		{domain.Daily, "2027-01-01T00:00:00Z", "2027-01-01T00:00:00Z", "2027-01-02T00:00:00Z"},
		{domain.Daily, "2027-01-01T00:30:00+01:00", "2026-12-31T00:00:00Z", "2027-01-01T00:00:00Z"},
		{domain.Weekly, "2026-11-29T23:59:59Z", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"}, // a Sunday
		{domain.Weekly, "2026-11-30T00:00:00Z", "2026-11-30T00:00:00Z", "2026-12-07T00:00:00Z"},
		{domain.Monthly, "2028-02-29T12:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
		{domain.Monthly, "2026-12-31T12:00:00Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{domain.Lifetime, "2026-12-31T12:00:00Z", "", ""},
		{"", "2026-12-31T12:00:00Z", "", ""},
	} {
		if start, end := tc.of.Window(at(tc.at)); !start.Equal(at(tc.start)) || !end.Equal(at(tc.end)) {
			t.Errorf("%s at %s: got %v to %v, want %s to %s", tc.of, tc.at, start, end, tc.start, tc.end)
		}
	}
}

func TestLimitsOr(t *testing.T) {
	own, others := &domain.Limits{RequestsPerMinute: 1, Concurrent: 2}, &domain.Limits{RequestsPerMinute: 3, TokensPerMinute: 4, RequestsPerDay: 5, TokensPerDay: 6}
	want := &domain.Limits{RequestsPerMinute: 1, TokensPerMinute: 4, RequestsPerDay: 5, TokensPerDay: 6, Concurrent: 2}
	if got := own.Or(others); !reflect.DeepEqual(got, want) || own.TokensPerDay != 0 {
		t.Errorf("got %+v, want %+v and both unchanged", got, want)
	}
	var none *domain.Limits
	if none.Or(own) != own || own.Or(none) != own || none.Or(none) != nil {
		t.Error("without others, limits are not what they are")
	}
}

func TestKeyLimits(t *testing.T) {
	f := newFixture(t)
	limits := domain.KeyLimits{Limit: new(0.0), LimitReset: domain.Weekly, Limits: &domain.Limits{RequestsPerMinute: domain.MaxLimit}}
	k, secret, err := f.IssueKey(t.Context(), domain.By(admin), domain.NewKey{Kind: domain.InferenceKey, KeyLimits: limits})
	if err != nil || !reflect.DeepEqual(k.KeyLimits, limits) {
		t.Fatalf("got %+v, %v, want the limits %+v", k, err, limits)
	}
	if who, err := f.Authenticate(t.Context(), domain.HashSecret(secret)); err != nil || !reflect.DeepEqual(who.KeyLimits, &limits) {
		t.Errorf("got %+v, %v, want the limits %+v", who, err, limits)
	}
	if k, _ := f.newKey(domain.NewKey{Kind: domain.InferenceKey, KeyLimits: domain.KeyLimits{Limits: new(domain.Limits)}}); k.KeyLimits != (domain.KeyLimits{}) {
		t.Errorf("got %+v, want no limits", k.KeyLimits)
	}
	for place, limits := range map[string]domain.KeyLimits{
		"/limit: ":                      {Limit: new(-0.01)},
		"/limit: must be a":             {Limit: new(9e-10)},
		"/limit: must":                  {Limit: new(math.NaN())},
		"/limit: must be a number":      {Limit: new(1e9 + 1)},
		"/limit_reset: ":                {LimitReset: "hourly"},
		"/limit_reset: must":            {LimitReset: domain.Lifetime},
		"/limits/requests_per_minute: ": {Limits: &domain.Limits{RequestsPerMinute: -1}},
		"/limits/tokens_per_minute: ":   {Limits: &domain.Limits{TokensPerMinute: -1}},
		"/limits/requests_per_day: ":    {Limits: &domain.Limits{RequestsPerDay: domain.MaxLimit + 1}},
		"/limits/tokens_per_day: ":      {Limits: &domain.Limits{TokensPerDay: -1}},
		"/limits/concurrent: ":          {Limits: &domain.Limits{Concurrent: -1}},
	} {
		_, _, err := f.IssueKey(t.Context(), domain.By(admin), domain.NewKey{Kind: domain.InferenceKey, KeyLimits: limits})
		wantKind(t, err, domain.Invalid, place)
	}
	for place, limits := range map[string]domain.KeyLimits{
		"/limit: ": {Limit: new(1.0)}, "/limit_reset: ": {LimitReset: domain.Daily}, "/limits: ": {Limits: &domain.Limits{Concurrent: 1}},
		"/include_byok_in_limit: ": {IncludeBYOKInLimit: true},
	} {
		_, _, err := f.IssueKey(t.Context(), domain.By(admin), domain.NewKey{Kind: domain.ManagementKey, KeyLimits: limits})
		wantKind(t, err, domain.Invalid, place+"is for inference keys only")
	}
}

func TestBudgetLimits(t *testing.T) {
	set := domain.Budgets{domain.Monthly: {LimitUSD: 100.5}, domain.Daily: {LimitUSD: 10}}
	const bounds = "must be a number of US dollars from 0.000000001 to 1000000000"
	for _, tc := range []struct {
		of   domain.Interval
		usd  float64
		says string
	}{
		{domain.Daily, 5, ""},
		{domain.Daily, 100, ""},
		{domain.Monthly, 10.01, ""},
		{domain.Lifetime, 100.51, ""},
		{domain.Weekly, 50, ""},
		{domain.Daily, 100.5, "must be less than the monthly budget of $100.5"},
		{domain.Weekly, 10, "must be more than the daily budget of $10"},
		{domain.Weekly, 101, "must be less than the monthly budget of $100.5"},
		{domain.Monthly, 10, "must be more than the daily budget of $10"},
		{domain.Lifetime, 100, "must be more than the monthly budget of $100.5"},
		{domain.Daily, 0, bounds},
		{domain.Daily, 9e-10, bounds},
		{domain.Daily, -1, bounds},
		{domain.Daily, math.NaN(), bounds},
		{domain.Lifetime, math.Inf(1), bounds},
	} {
		var want []domain.Issue
		if tc.says != "" {
			want = []domain.Issue{{Path: "/limit_usd", Message: tc.says}}
		}
		if got := set.Check(tc.of, tc.usd); !reflect.DeepEqual(got, want) {
			t.Errorf("%s of %v: got %v, want %v", tc.of, tc.usd, got, want)
		}
	}
}

func TestPresetLimits(t *testing.T) {
	for place, l := range map[string]domain.PresetLimits{
		"/limits/requests_per_minute": {RequestsPerMinute: -1},
		"/limits/tokens_per_day":      {TokensPerDay: domain.MaxLimit + 1},
		"/limits/cost_per_day":        {CostPerDay: -1},
		"":                            {RequestsPerMinute: 1, TokensPerDay: domain.MaxLimit, CostPerDay: 0.01},
	} {
		if issues := l.Check("/limits"); (place == "") != (len(issues) == 0) || len(issues) > 0 && issues[0].Path != place {
			t.Errorf("got %v of %+v, want one at %q", issues, l, place)
		}
	}
}

// TestBudgetsOfAnUpdate replaces all budgets of a workspace at once. Those that stay keep their id and their times.
func TestBudgetsOfAnUpdate(t *testing.T) {
	f := newFixture(t)
	created := f.must(f.CreateWorkspace(t.Context(), domain.By(admin), patchOf(t, `{"name":"Team","slug":"team","budgets":{"daily":{"limit_usd":10},"monthly":{"limit_usd":100}}}`)))
	first := created.Workspace.Budgets
	if len(first) != 2 || first[domain.Daily].LimitUSD != 10 || first[domain.Daily].ID == first[domain.Monthly].ID || !first[domain.Monthly].CreatedAt.Equal(created.Workspace.CreatedAt) {
		t.Fatalf("got %+v", first)
	}
	for _, tc := range []struct {
		body string
		want map[domain.Interval]float64
		kept []domain.Interval // of first
	}{
		{`{"name":"Crew"}`, map[domain.Interval]float64{domain.Daily: 10, domain.Monthly: 100}, []domain.Interval{domain.Daily, domain.Monthly}},
		{`{"budgets":{"daily":{"limit_usd":10.0},"monthly":{"limit_usd":1e2,"id":"x"}}}`, map[domain.Interval]float64{domain.Daily: 10, domain.Monthly: 100}, []domain.Interval{domain.Daily, domain.Monthly}},
		{`{"budgets":{"daily":{"limit_usd":200},"monthly":{"limit_usd":1000}}}`, map[domain.Interval]float64{domain.Daily: 200, domain.Monthly: 1000}, []domain.Interval{domain.Daily, domain.Monthly}},
		{`{"budgets":{"daily":{"limit_usd":200},"lifetime":{"limit_usd":300}}}`, map[domain.Interval]float64{domain.Daily: 200, domain.Lifetime: 300}, []domain.Interval{domain.Daily}},
		{`{"budgets":{}}`, nil, nil},
		{`{"budgets":{"monthly":{"limit_usd":1}}}`, map[domain.Interval]float64{domain.Monthly: 1}, nil},
		{`{"budgets":null}`, nil, nil},
	} {
		w := f.must(f.UpdateWorkspace(t.Context(), domain.By(admin), "team", patchOf(t, tc.body), nil)).Workspace
		limits := make(map[domain.Interval]float64)
		for interval, b := range w.Budgets {
			limits[interval] = b.LimitUSD
			isKept := b.ID == first[interval].ID
			isChanged := isKept && b.LimitUSD != first[interval].LimitUSD
			if isKept != slices.Contains(tc.kept, interval) || (b.UpdatedAt != nil) != isChanged {
				t.Errorf("%s: got %+v after %+v", tc.body, b, first[interval])
			}
		}
		if !maps.Equal(limits, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.body, limits, tc.want)
		}
	}
	for _, body := range []string{`{"budgets":{"daily":{"limit_usd":10},"weekly":{"limit_usd":10}}}`, `{"name":"n","slug":"n","budgets":{"daily":{"limit_usd":10},"weekly":{"limit_usd":10}}}`} {
		const says = "/budgets/daily/limit_usd: must be less than the weekly budget of $10"
		wantKind(t, errOf(f.UpdateWorkspace(t.Context(), domain.By(admin), "team", patchOf(t, body), nil)), domain.Invalid, says)
		wantKind(t, errOf(f.CreateWorkspace(t.Context(), domain.By(admin), patchOf(t, body))), domain.Invalid, says)
	}
}

// TestWhoSetsBounds checks that a management key of one workspace reads the limits and budgets of its workspace, which it
// cannot change, and changes those of presets only with the right IssueKeys.
func TestWhoSetsBounds(t *testing.T) {
	f := newFixture(t)
	f.workspace(t, "team")
	f.must(f.ReleasePresetVersion(t.Context(), domain.By(admin), "team", "p", nothing, domain.Release{}))
	f.must(f.PutBudget(t.Context(), domain.By(admin), "team", domain.Daily, domain.BudgetPatch{LimitUSD: 5}))
	for _, rights := range [][]domain.Right{nil, {domain.ProtectedLabels}, {domain.IssueKeys}} {
		who := f.limited(t, domain.NewKey{Kind: domain.ManagementKey, Workspace: "team", Scope: domain.Scope{OnlyWorkspace: true, Rights: rights}})
		by := domain.By(who)
		if _, err := f.Budget(t.Context(), who, "team", domain.Daily); err != nil {
			t.Error(err)
		}
		limits := domain.Settable[domain.Limits]{Given: true, Value: &domain.Limits{Concurrent: 1}}
		ofPreset := domain.Settable[domain.PresetLimits]{Given: true, Value: &domain.PresetLimits{CostPerDay: 1}}
		for what, err := range map[string]error{
			"PutBudget":                  errOf(f.PutBudget(t.Context(), by, "team", domain.Weekly, domain.BudgetPatch{LimitUSD: 10})),
			"UpdateWorkspace":            errOf(f.UpdateWorkspace(t.Context(), by, "team", domain.WorkspacePatch{Limits: limits}, nil)),
			"UpdatePreset":               errOf(f.UpdatePreset(t.Context(), by, "team", "p", domain.PresetPatch{Limits: ofPreset})),
			"budgets of UpdateWorkspace": errOf(f.UpdateWorkspace(t.Context(), by, "team", patchOf(t, `{"budgets":{"daily":{"limit_usd":6}}}`), nil)),
			"DeleteBudget":               errOf(f.DeleteBudget(t.Context(), by, "team", domain.Daily)),
		} {
			if what == "UpdatePreset" && rights != nil && rights[0] == domain.IssueKeys {
				if err != nil {
					t.Errorf("%s: got %v of a key that issues keys", what, err)
				}
				continue
			}
			wantKind(t, err, domain.Forbidden, "manages one workspace only")
		}
		f.must(f.UpdateWorkspace(t.Context(), by, "team", domain.WorkspacePatch{Name: new("Renamed")}, nil))
		f.must(f.UpdatePreset(t.Context(), by, "team", "p", domain.PresetPatch{Name: new("Renamed")}))
	}
}
