package caddymodule

import (
	"regexp"
	"strings"
	"testing"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
)

// ofUsage matches the metrics of usage.
var ofUsage = regexp.MustCompile(`^caddy_presets_(.*_tokens_total|cost_total|cost_unknown_total|usage_unknown_total|upstream_duration_seconds_.*|time_to_first_chunk_seconds_.*)$`)

// family matches what Prometheus adds to the name of a histogram.
var family = regexp.MustCompile(`_(bucket|sum|count)$`)

// TestOps checks that a server has the metrics that the files in ops/ name, and that the files name
// each of its metrics. The module of the engine etcd checks that engine's.
func TestOps(t *testing.T) {
	hooks := receives(t)
	s := start(t, inferring("usage")+"\nmetrics per_preset\nmetrics per_key"+hooks.directive())
	s.manage("POST", "/v1/presets/p/chat/completions", `{"model":"acme/small"}`).want(t, 200)
	s.manage("PUT", "/v1/workspaces/default/budgets/daily", `{"limit_usd":100}`).want(t, 200)
	s.manage("POST", "/v1/presets/limited/chat/completions", `{"model":"acme/small"}`).want(t, 200)
	s.manage("PATCH", "/v1/presets/limited", `{"limits":{"requests_per_minute":1}}`).want(t, 200)
	for _, status := range []int{202, 429} {
		s.do("POST", "/v1/chat/completions", `{"model":"@preset/limited","messages":[]}`, bearer(inferenceSecret)).want(t, status)
	}
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
	send(t, "GET", "http://"+s.admin+"/presets/backup", "").want(t, 200)
	scraped, unseen := map[string]bool{"up": true}, make(map[string]bool) // Prometheus makes up
	for _, metric := range regexp.MustCompile(`(?m)^caddy_\w+`).FindAllString(send(t, "GET", "http://"+s.admin+"/metrics", "").body, -1) {
		scraped[metric] = true
		if strings.HasPrefix(metric, "caddy_presets_") {
			unseen[family.ReplaceAllString(metric, "")] = true
		}
	}
	for _, q := range caddytest.Queries(t, "..") {
		if len(q.Metrics()) == 0 {
			t.Errorf("%s: got no metric, want at least one", q.Where)
		}
		for _, metric := range q.Metrics() {
			if !scraped[metric] && !strings.HasPrefix(metric, "caddy_presets_etcd_") {
				t.Errorf("%s: there is no metric %s", q.Where, metric)
			}
			delete(unseen, family.ReplaceAllString(metric, ""))
			if got := ofUsage.MatchString(metric); got != (q.Row == "Usage") && !strings.HasPrefix(q.Where, "variable ") {
				t.Errorf("%s: %s is in row %q: want metrics of usage, and no others, in the row Usage", q.Where, metric, q.Row)
			}
		}
	}
	for metric := range unseen {
		t.Errorf("neither an alert nor the dashboard has %s", metric)
	}
}
