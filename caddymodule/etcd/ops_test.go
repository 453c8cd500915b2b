package etcd

import (
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/opstest"
)

// TestOps checks that this engine has its metrics and labels that the files in ops/ name.
// Each metric is in the dashboard.
func TestOps(t *testing.T) {
	described := make(chan *prometheus.Desc, 100)
	(metrics{}).Describe(described)
	close(described)
	series, shown := make(opstest.Series), make(map[string]bool)
	name := regexp.MustCompile(`fqName: "(\w+)".*variableLabels: \{store\}`)
	for desc := range described {
		found := name.FindStringSubmatch(desc.String())
		if found == nil {
			t.Fatalf("got %s, want a metric with the label store", desc)
		}
		series.Add(found[1], "store")
	}
	isOurs := func(metric string) bool { return strings.HasPrefix(metric, "caddy_presets_etcd_") }
	for _, q := range opstest.Queries(t, "../..") {
		for _, problem := range series.Check(q, isOurs) {
			t.Errorf("%s: %s\n%s", q.Where, problem, q.Expression)
		}
		for _, metric := range q.Metrics() {
			shown[metric] = true
		}
	}
	for metric := range series {
		if !shown[metric] {
			t.Errorf("neither an alert nor the dashboard has %s", metric)
		}
	}
}
