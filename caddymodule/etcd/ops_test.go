package etcd

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/caddytest"
)

// TestOps checks that this engine has its metrics and labels that the files in ops/ name.
// Each metric is in the dashboard.
func TestOps(t *testing.T) {
	described := make(chan *prometheus.Desc, 100)
	(metrics{}).Describe(described)
	close(described)
	unseen := make(map[string]bool)
	name := regexp.MustCompile(`fqName: "(\w+)".*variableLabels: \{store\}`)
	for desc := range described {
		found := name.FindStringSubmatch(desc.String())
		if found == nil {
			t.Fatalf("got %s, want a metric with the label store", desc)
		}
		unseen[found[1]] = true
	}
	known := maps.Clone(unseen)
	for _, q := range caddytest.Queries(t, "../..") {
		metrics := q.Metrics()
		isOthers := func(metric string) bool { return !strings.HasPrefix(metric, "caddy_presets_etcd_") }
		for _, metric := range metrics {
			if !isOthers(metric) && !known[metric] {
				t.Errorf("%s: there is no metric %s", q.Where, metric)
			}
			delete(unseen, metric)
		}
		for _, label := range q.Labels() {
			if !slices.ContainsFunc(metrics, isOthers) && !slices.Contains([]string{"store", "instance", "job", "__name__"}, label) {
				t.Errorf("%s: the metrics of etcd have no label %s\n%s", q.Where, label, q.Expression)
			}
		}
	}
	for metric := range unseen {
		t.Errorf("neither an alert nor the dashboard has %s", metric)
	}
}
