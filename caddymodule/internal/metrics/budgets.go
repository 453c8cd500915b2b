package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/quota"
	"github.com/caddy-presets/caddy-presets/domain"
)

// budgetMetrics collects how much of the budgets of workspaces is used.
type budgetMetrics struct{}

var budgetUsed = prometheus.NewDesc(prometheus.BuildFQName(namespace, subsystem, "budget_used_ratio"),
	"The share of a workspace's budget that is used, from 0 to 1.", []string{"store", "workspace", "interval"}, nil)

// Describe implements prometheus.Collector.
func (budgetMetrics) Describe(to chan<- *prometheus.Desc) { to <- budgetUsed }

// Collect implements prometheus.Collector.
func (budgetMetrics) Collect(to chan<- prometheus.Metric) {
	quota.Budgets(func(store, workspace string, interval domain.Interval, used float64) {
		to <- prometheus.MustNewConstMetric(budgetUsed, prometheus.GaugeValue, used, store, workspace, string(interval))
	})
}

// Interface guard
var _ prometheus.Collector = budgetMetrics{}
