package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/registry"
)

// backupMetrics collects when the stores in use were last backed up. A store without a backup
// has no series: a restarted server must not hide what Prometheus has seen before.
type backupMetrics struct{}

var lastBackup = prometheus.NewDesc(prometheus.BuildFQName(namespace, subsystem, "last_backup_timestamp_seconds"),
	"When a backup of the store was last sent whole. Absent if none was since the store was opened.", []string{"store"}, nil)

// Describe implements prometheus.Collector.
func (backupMetrics) Describe(to chan<- *prometheus.Desc) { to <- lastBackup }

// Collect implements prometheus.Collector.
func (backupMetrics) Collect(to chan<- prometheus.Metric) {
	for name, store := range registry.All() {
		if at := store.LastBackup(); !at.IsZero() {
			to <- prometheus.MustNewConstMetric(lastBackup, prometheus.GaugeValue, float64(at.Unix()), name)
		}
	}
}

// Interface guard
var _ prometheus.Collector = backupMetrics{}
