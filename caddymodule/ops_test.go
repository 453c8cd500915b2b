package caddymodule

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/opstest"
)

// addUsage adds the metrics of usage, which the server does not have yet. Their labels
// workspace, preset and version need the option metrics per_preset.
func addUsage(t *testing.T, series opstest.Series) (names []string) {
	t.Helper()
	preset := []string{"workspace", "preset", "version"}
	for name, labels := range map[string][]string{
		"input_tokens_total":                 preset,
		"output_tokens_total":                preset,
		"cache_read_input_tokens_total":      preset,
		"cache_write_input_tokens_total":     preset,
		"reasoning_output_tokens_total":      preset,
		"cost_total":                         preset,
		"usage_unknown_total":                {"reason"},
		"upstream_duration_seconds_bucket":   append(preset, "le"),
		"time_to_first_chunk_seconds_bucket": append(preset, "le"),
	} {
		name = "caddy_presets_" + name
		if series[name] != nil {
			t.Errorf("the server has %s now: delete it here", name)
		}
		series.Add(name, labels...)
		names = append(names, name)
	}
	return names
}

// family matches what Prometheus adds to the name of a histogram.
var family = regexp.MustCompile(`_(bucket|sum|count)$`)

// TestOps checks that a server has the metrics and labels that the files in ops/ name, and
// that the files name each of its metrics. The module of the engine etcd checks that engine's.
func TestOps(t *testing.T) {
	hooks := receives(t)
	s := start(t, inferring("")+hooks.directive())
	s.manage("POST", "/v1/presets/p/chat/completions", `{"model":"acme/small"}`).want(t, 200)
	for body, status := range map[string]int{
		`{"model":"@preset/p","messages":[]}`: 202,
		`{"model":"acme/small"}`:              202,
		`{"model":"@preset/missing"}`:         404,
	} {
		s.do("POST", "/v1/chat/completions", body, bearer(inferenceSecret)).want(t, status)
	}
	s.do("GET", "/v1/presets/p", "", bearer("wrong")).want(t, 401)
	if !s.eventually(func() bool { return s.metric(`caddy_presets_webhook_requests_total{result="delivered"}`) != "" }) {
		t.Fatal("no webhook was delivered")
	}
	series, err := opstest.Scraped(send(t, "GET", "http://"+s.admin+"/metrics", "").body)
	if err != nil {
		t.Fatal(err)
	}
	unseen := make(map[string]bool)
	for metric := range series {
		if strings.HasPrefix(metric, "caddy_presets_") {
			unseen[family.ReplaceAllString(metric, "")] = true
		}
	}
	usage := addUsage(t, series)
	for _, q := range opstest.Queries(t, "..") {
		for _, problem := range series.Check(q, func(metric string) bool { return !strings.HasPrefix(metric, "caddy_presets_etcd_") }) {
			t.Errorf("%s: %s\n%s", q.Where, problem, q.Expression)
		}
		metrics, err := q.Metrics()
		if err != nil || len(metrics) == 0 {
			t.Errorf("%s: got metrics %q, %v, want at least one", q.Where, metrics, err)
		}
		for _, metric := range metrics {
			delete(unseen, family.ReplaceAllString(metric, ""))
			if got := slices.Contains(usage, metric); got != (q.Row == "Usage") && !strings.HasPrefix(q.Where, "variable ") {
				t.Errorf("%s: %s is in row %q: want metrics of usage, and no others, in the row Usage", q.Where, metric, q.Row)
			}
		}
	}
	for metric := range unseen {
		t.Errorf("neither an alert nor the dashboard has %s", metric)
	}
}
