package usage_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/caddy-presets/caddy-presets/domain"
	"github.com/caddy-presets/caddy-presets/domain/usage"
	"github.com/caddy-presets/caddy-presets/domain/usage/answer"
	"github.com/caddy-presets/caddy-presets/storage/storagetest/tier"
)

// now is when tests ask.
var now = time.Date(2026, 11, 23, 17, 45, 50, 0, time.UTC)

// rows are stored rows, as an engine of one node has them.
type rows map[domain.UsageID][]byte

// read is for Ledger.Take.
func (s rows) read(id domain.UsageID) ([]byte, error) { return s[id], nil }

// flush stores what a ledger has.
func (s rows) flush(t testing.TB, l *usage.Ledger) {
	t.Helper()
	taken, err := l.Take(s.read)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range taken {
		s[row.UsageID] = row.Content
	}
	l.Stored(taken)
}

// of returns the rows of a step, in no order.
func of(step usage.Step, stores ...rows) iter.Seq2[domain.UsageRow, error] {
	return func(yield func(domain.UsageRow, error) bool) {
		for _, s := range stores {
			for id, content := range s {
				if id.Day == (step == usage.Day) && !yield(domain.UsageRow{UsageID: id, Content: content}, nil) {
					return
				}
			}
		}
	}
}

// ask returns the report of a question such as "by=model&step=day".
func ask(t testing.TB, scope usage.Scope, question string, stores ...rows) usage.Report {
	t.Helper()
	given, err := url.ParseQuery(question)
	if err != nil {
		t.Fatal(err)
	}
	q, err := usage.ReadQuery(given, scope, now)
	if err != nil {
		t.Fatalf("%s: %v", question, err)
	}
	report, err := q.Collect(of(q.Step, stores...))
	if err != nil {
		t.Fatalf("%s: %v", question, err)
	}
	return report
}

// asJSON returns a report's JSON.
func asJSON(t testing.TB, r usage.Report) string {
	t.Helper()
	text := r.JSON()
	if !json.Valid(text) {
		t.Fatalf("got %s, want JSON", text)
	}
	return string(text)
}

// figures are what reports show of a period.
type figures struct {
	Time          string
	Requests      int64
	Errors        int64
	Aborted       int64
	Streamed      int64
	Unknown       int64
	InputTokens   int64 `json:"input_tokens"`
	OutputTokens  int64 `json:"output_tokens"`
	Cost          *string
	CostEstimated bool                             `json:"cost_estimated"`
	CostUnknown   int64                            `json:"cost_unknown"`
	Duration      *struct{ P50, P95, P99 float64 } `json:"duration_ms"`
	FirstContent  *struct{ P50, P95, P99 float64 } `json:"first_content_ms"`
	Feedback      map[string]struct {
		Count int64
		Mean  json.Number
	}
}

// series is a series of a report.
type series struct {
	Key    json.RawMessage
	Total  figures
	Points []figures
}

// list returns the series of a report.
func list(t testing.TB, r usage.Report) []series {
	t.Helper()
	var body struct{ Data struct{ Series []series } }
	if err := json.Unmarshal([]byte(asJSON(t, r)), &body); err != nil {
		t.Fatal(err)
	}
	return body.Data.Series
}

// sample returns some request of the last two days.
func sample(r *rand.Rand) usage.Request {
	one := usage.Request{
		WorkspaceID: "w", Dialect: domain.Chat, KeyID: fmt.Sprint("key", r.IntN(3)),
		Asked: fmt.Sprint("lab/model-", r.IntN(3)), Status: []int{200, 200, 200, 400, 502, 0}[r.IntN(6)],
		Streamed: r.IntN(2) == 0, Start: now.Add(-time.Duration(r.Int64N(int64(48 * time.Hour)))),
		Duration:     time.Duration(r.ExpFloat64() * float64(3*time.Second)),
		FirstContent: time.Duration(r.Int64N(int64(time.Second))) - 300*time.Millisecond,
		Tokens: answer.Tokens{
			Input: r.Int64N(9000), Output: r.Int64N(900), CacheRead: r.Int64N(99), CacheWrite: r.Int64N(99), Reasoning: r.Int64N(99),
		},
		HasCost: r.IntN(3) > 0, Estimated: r.IntN(2) == 0,
		Cost: decimal.New(r.Int64N(1e9), -int32(r.IntN(18))),
	}
	if preset := r.IntN(4); preset > 0 {
		one.PresetID, one.Preset, one.Version = fmt.Sprint("id", preset), fmt.Sprint("preset", preset), 1+r.IntN(3)
		one.Label = []string{"", "production", "canary"}[r.IntN(3)]
	}
	switch {
	case one.Status == 0:
		one.Aborted, one.Unknown = true, "aborted"
	case r.IntN(9) == 0:
		one.Unknown = "absent"
	case r.IntN(9) == 0:
		one.Failed = true
	}
	return one
}

// outcomes returns some feedback for a request.
func outcomes(r *rand.Rand, of usage.Request) (list []usage.Feedback) {
	for range r.IntN(3) {
		list = append(list, usage.Feedback{
			WorkspaceID: of.WorkspaceID, Key: of.Key(), Start: of.Start,
			Name: []string{"solved", "stars"}[r.IntN(2)], Score: r.Float64()*2 - 1,
		})
	}
	return list
}

type question struct {
	scope usage.Scope
	text  string
}

// questions are about two days, and have every step and by.
func questions() (list []question) {
	for _, step := range []string{"hour", "day"} {
		for _, by := range []string{"preset", "key", "version", "label", "model", "status"} {
			list = append(list, question{usage.OfWorkspace, "from=2026-11-21T00:00:00Z&to=2026-11-24T00:00:00Z&step=" + step + "&by=" + by})
		}
	}
	return list
}

// TestMergeOrder splits the same requests over nodes, in any order and with flushes in
// between. The reports are the same, byte for byte.
func TestMergeOrder(t *testing.T) {
	tier.NoRace(t)
	r := rand.New(rand.NewPCG(1, 2))
	var requests []usage.Request
	var feedback []usage.Feedback
	for range 3000 {
		one := sample(r)
		requests = append(requests, one)
		feedback = append(feedback, outcomes(r, one)...)
	}
	var want []string
	for nodes := 1; nodes <= 4; nodes++ {
		r.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
		r.Shuffle(len(feedback), func(i, j int) { feedback[i], feedback[j] = feedback[j], feedback[i] })
		ledgers, stores := make([]usage.Ledger, nodes), make([]rows, nodes)
		for i := range stores {
			stores[i] = make(rows)
		}
		for i := range requests {
			node := r.IntN(nodes)
			ledgers[node].Add(&requests[i])
			if r.IntN(500) == 0 {
				stores[node].flush(t, &ledgers[node])
			}
		}
		for _, f := range feedback {
			ledgers[r.IntN(nodes)].AddFeedback(f)
		}
		for i := range ledgers {
			stores[i].flush(t, &ledgers[i])
		}
		for i, q := range questions() {
			got := asJSON(t, ask(t, q.scope, q.text, stores...))
			if nodes == 1 {
				want = append(want, got)
			} else if got != want[i] {
				t.Errorf("%s: got %s of %d nodes, want as of one: %s", q.text, got, nodes, want[i])
			}
		}
	}
}

// TestHoursAndDaysAgree compares the totals of both steps.
func TestHoursAndDaysAgree(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var l usage.Ledger
	stored := make(rows)
	for range 2000 {
		one := sample(r)
		l.Add(&one)
		for _, f := range outcomes(r, one) {
			l.AddFeedback(f)
		}
		if r.IntN(300) == 0 {
			stored.flush(t, &l)
		}
	}
	stored.flush(t, &l)
	all := questions()
	for i, q := range all[:len(all)/2] {
		hours, days := list(t, ask(t, q.scope, q.text, stored)), list(t, ask(t, q.scope, all[len(all)/2+i].text, stored))
		if len(hours) != len(days) || len(hours) < 2 {
			t.Fatalf("%s: got %d series of hours and %d of days, want as many", q.text, len(hours), len(days))
		}
		for j := range hours {
			hour, day := text(t, hours[j].Total), text(t, days[j].Total)
			if string(hours[j].Key) != string(days[j].Key) || hour != day {
				t.Errorf("%s: got %s of hours, want as of days: %s", q.text, hour, day)
			}
			if len(hours[j].Points) != 2*24+18 || len(days[j].Points) != 3 {
				t.Errorf("%s: got %d hours and %d days, want 66 and 3", q.text, len(hours[j].Points), len(days[j].Points))
			}
			var requests int64
			for _, p := range hours[j].Points {
				requests += p.Requests
			}
			if requests != hours[j].Total.Requests {
				t.Errorf("%s: got %d requests in all points, want %d as in total", q.text, requests, hours[j].Total.Requests)
			}
		}
	}
}

func text(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestReport shows the JSON and the CSV of some requests in full.
func TestReport(t *testing.T) {
	at := time.Date(2026, 11, 23, 16, 30, 0, 0, time.FixedZone("", 3600)) // 15:30 in UTC
	var l usage.Ledger
	add := func(r usage.Request) {
		r.WorkspaceID, r.PresetID, r.Preset, r.Asked = "w", "id", "greet", "lab/model"
		if r.Start.IsZero() {
			r.Start = at
		}
		l.Add(&r)
	}
	three := usage.Request{
		Version: 3, Status: 200, Start: at, Duration: 1500 * time.Millisecond, FirstContent: 200 * time.Millisecond, Streamed: true,
		Tokens:  answer.Tokens{Input: 100, Output: 20, CacheRead: 60, CacheWrite: 10, Reasoning: 5},
		HasCost: true, Cost: decimal.RequireFromString("0.00012"),
	}
	add(three)
	three.Duration, three.Estimated, three.Cost = 3*time.Second, true, decimal.RequireFromString("1.00000000000000000000")
	add(three)
	// The client left: its usage is unknown, and it is no error.
	add(usage.Request{Version: 3, Aborted: true, Unknown: "aborted", Duration: time.Second, FirstContent: -1, HasCost: true, Cost: decimal.New(-1, 0)})
	// An error's usage is not unknown.
	add(usage.Request{Version: 4, Status: 429, Unknown: "absent", Duration: time.Microsecond, FirstContent: -1})
	add(usage.Request{Version: 4, Status: 200, Failed: true, Unknown: "absent", Start: at.Add(time.Hour), FirstContent: -1})
	key := usage.Key{PresetID: "id", Preset: "greet", Version: 3, Model: "lab/model", StatusClass: 2}
	for _, score := range []float64{1, 1, 0} {
		l.AddFeedback(usage.Feedback{WorkspaceID: "w", Key: key, Start: at, Name: "solved", Score: score})
	}
	l.AddFeedback(usage.Feedback{WorkspaceID: "w", Key: key, Start: at, Name: `"a"`, Score: -7})
	stored := make(rows)
	stored.flush(t, &l)
	report := ask(t, usage.OfPreset, "from=2026-11-23T15:59:00Z&to=2026-11-23T17:00:00%2b01:00", stored)
	const want = `{"data":{"from":"2026-11-23T15:00:00Z","to":"2026-11-23T16:00:00Z","step":"hour","by":"version","series":[` +
		`{"key":{"version":3},"total":{"requests":3,"errors":0,"aborted":1,"streamed":2,"unknown":1,"refused":0,` +
		`"input_tokens":200,"output_tokens":40,"cache_read_input_tokens":120,"cache_write_input_tokens":20,"reasoning_output_tokens":10,` +
		`"cost":"1.00012","cost_estimated":true,"cost_unknown":1,"duration_ms":{"p50":P50,"p95":P95,"p99":P95},"first_content_ms":{"p50":FIRST,"p95":FIRST,"p99":FIRST},` +
		`"feedback":{"\"a\"":{"count":1,"mean":-1},"solved":{"count":3,"mean":0.666667}}},` +
		`"points":[{"time":"2026-11-23T15:00:00Z",`
	got := asJSON(t, report)
	all := list(t, report)
	if len(all) != 2 || all[0].Total.Duration == nil || all[0].Total.FirstContent == nil {
		t.Fatalf("got %s, want versions 3 and 4, and durations of 3", got)
	}
	near := func(got, want float64) {
		t.Helper()
		if got < want*(1-usage.RelativeError) || got > want*(1+usage.RelativeError) {
			t.Errorf("got %v ms, want %v", got, want)
		}
	}
	three1 := all[0].Total
	near(three1.Duration.P50, 1500)
	near(three1.Duration.P95, 3000)
	near(three1.FirstContent.P99, 200)
	replaced := strings.NewReplacer("P50", fmt.Sprint(three1.Duration.P50), "P95", fmt.Sprint(three1.Duration.P95), "FIRST", fmt.Sprint(three1.FirstContent.P50)).Replace(want)
	if !strings.HasPrefix(got, replaced) {
		t.Errorf("got  %s\nwant %s…", got, replaced)
	}
	four := all[1]
	if string(four.Key) != `{"version":4}` || four.Total.Requests != 1 || four.Total.Errors != 1 || four.Total.Unknown != 0 || four.Total.Cost != nil ||
		four.Total.FirstContent != nil || len(four.Points) != 1 {
		t.Errorf("got %+v, want one error of version 4 without cost and first content", four)
	}
	csv := report.CSV()
	const header = `version,other,time,requests,errors,aborted,streamed,unknown,refused,input_tokens,output_tokens,cache_read_input_tokens,` +
		`cache_write_input_tokens,reasoning_output_tokens,cost,cost_estimated,cost_unknown,duration_ms_p50,duration_ms_p95,duration_ms_p99,` +
		`first_content_ms_p50,first_content_ms_p95,first_content_ms_p99,"feedback_""a""_count","feedback_""a""_mean",feedback_solved_count,feedback_solved_mean` + "\r\n"
	if !strings.HasPrefix(string(csv), header) {
		t.Errorf("got %s, want the header %s", csv, header)
	}
	if want := "\r\n3,false,2026-11-23T15:00:00Z,3,0,1,2,1,0,200,40,120,20,10,1.00012,true,1,"; !strings.Contains(string(csv), want) {
		t.Errorf("got %s, want %q in it", csv, want)
	}
}

// TestCostUnknown counts answers that may have cost something that nobody told.
func TestCostUnknown(t *testing.T) {
	some := answer.Tokens{Input: 1, Output: 1}
	for name, tc := range map[string]struct {
		usage.Request
		want int64
	}{
		"told":                     {usage.Request{Status: 200, Tokens: some, HasCost: true}, 0},
		"not told":                 {usage.Request{Status: 200, Tokens: some}, 1},
		"no tokens":                {usage.Request{Status: 200}, 1},
		"tokens that are unknown":  {usage.Request{Status: 200, Unknown: "absent"}, 1},
		"told without tokens":      {usage.Request{Status: 200, Unknown: "absent", HasCost: true}, 0},
		"negative":                 {usage.Request{Status: 200, HasCost: true, Cost: decimal.New(-1, 0)}, 1},
		"the client left":          {usage.Request{Aborted: true, Unknown: "aborted"}, 1},
		"an error":                 {usage.Request{Status: 429, Unknown: "absent"}, 0},
		"an event of an error":     {usage.Request{Status: 200, Failed: true}, 0},
		"an error that used some":  {usage.Request{Status: 200, Failed: true, Tokens: some}, 1},
		"an error that says so":    {usage.Request{Status: 200, Failed: true, Tokens: some, HasCost: true}, 0},
		"an error without figures": {usage.Request{Status: 200, Failed: true, Tokens: some, Unknown: "malformed"}, 0},
	} {
		var l usage.Ledger
		tc.PresetID, tc.Preset, tc.Version, tc.Start = "id", "greet", 1, now
		l.Add(&tc.Request)
		stored := make(rows)
		stored.flush(t, &l)
		l.Add(&usage.Request{PresetID: "id", Preset: "greet", Version: 1, Start: now, Status: 200, HasCost: true, Cost: decimal.New(24, -5)})
		l.Add(&usage.Request{PresetID: "id", Preset: "greet", Version: 2, Start: now, Status: 200})
		stored.flush(t, &l)
		for _, step := range []string{"hour", "day"} {
			all := list(t, ask(t, usage.OfPreset, "step="+step, stored))
			if got := all[0].Total.CostUnknown; got != tc.want || all[0].Total.Cost == nil {
				t.Errorf("%s, by %s: got %d of %v, want %d", name, step, got, all[0].Total.Cost, tc.want)
			}
			if all[1].Total.CostUnknown != 1 || all[1].Total.Cost != nil {
				t.Errorf("%s, by %s: got %+v of a version without any cost", name, step, all[1].Total)
			}
		}
	}
}

// TestKeys shows the keys of every by.
func TestKeys(t *testing.T) {
	var l usage.Ledger
	for _, r := range []usage.Request{
		{PresetID: "1", Preset: "b", Version: 3, Label: "production", Asked: "asked", Model: "answered", KeyID: "k", Status: 200},
		{PresetID: "2", Preset: "a", Version: 12, Asked: "asked", KeyID: "k", Status: 503},
		{Asked: "asked", KeyID: "k", Aborted: true},
	} {
		r.WorkspaceID, r.Start = "w", now
		l.Add(&r)
	}
	l.AddFeedback(usage.Feedback{WorkspaceID: "w", Key: usage.Key{PresetID: "1", Preset: "b", Other: true}, Start: now, Name: "n"})
	stored := make(rows)
	stored.flush(t, &l)
	for by, want := range map[string]string{
		"preset":  `{"preset":"a"} {"preset":"b"} {"preset":null}`,
		"version": `{"preset":"a","version":12} {"preset":"b","version":3} {"preset":null,"version":null} {"other":true}`,
		"label":   `{"label":"production"} {"label":null} {"other":true}`,
		"model":   `{"model":"answered"} {"model":"asked"} {"other":true}`,
		"key":     `{"key":"k"} {"other":true}`,
		"status":  `{"status":"2xx"} {"status":"5xx"} {"status":null} {"other":true}`,
	} {
		var keys []string
		for _, s := range list(t, ask(t, usage.OfWorkspace, "by="+by, stored)) {
			keys = append(keys, string(s.Key))
		}
		if got := strings.Join(keys, " "); got != want {
			t.Errorf("by=%s: got %s, want %s", by, got, want)
		}
	}
	if got := list(t, ask(t, usage.OfPreset, "", stored))[0]; len(got.Points) != 25 || string(got.Key) != `{"version":3}` {
		t.Errorf("got %d points of %s by default, want those of 25 hours that have begun, of version 3", len(got.Points), got.Key)
	}
	if got, want := asJSON(t, ask(t, usage.OfPreset, "from=2026-01-01T00:00:00Z&to=2026-01-02T00:00:00Z", stored)), `"series":[]`; !strings.Contains(got, want) {
		t.Errorf("got %s of a day without requests, want %s", got, want)
	}
}

// TestCollectErrors has rows that cannot be read, and too many points.
func TestCollectErrors(t *testing.T) {
	q, err := usage.ReadQuery(url.Values{}, usage.OfWorkspace, now)
	if err != nil {
		t.Fatal(err)
	}
	failed := errors.New("no disk")
	if _, err := q.Collect(func(yield func(domain.UsageRow, error) bool) { yield(domain.UsageRow{}, failed) }); !errors.Is(err, failed) {
		t.Errorf("got %v of rows that fail, want their error", err)
	}
	damaged := domain.UsageRow{UsageID: domain.UsageID{Start: now.Truncate(time.Hour)}, Content: []byte("\x01damaged")}
	if _, err := q.Collect(func(yield func(domain.UsageRow, error) bool) { yield(damaged, nil) }); err == nil {
		t.Error("got no error of a damaged row, want one")
	}
	var l usage.Ledger
	for i := range usage.MaxPoints/25 + 1 {
		l.Add(&usage.Request{WorkspaceID: "w", Asked: fmt.Sprint(i), Start: now, FirstContent: -1})
	}
	stored := make(rows)
	stored.flush(t, &l)
	q.By = usage.ByModel
	_, err = q.Collect(of(usage.Hour, stored))
	if domain.KindOf(err) != domain.Invalid || !strings.Contains(err.Error(), "from: ") {
		t.Errorf("got %v of too many points, want an invalid from", err)
	}
	if got := len(list(t, ask(t, usage.OfWorkspace, "by=model&step=day", stored))); got != usage.MaxPoints/25+1 {
		t.Errorf("got %d models by day, want %d", got, usage.MaxPoints/25+1)
	}
}
