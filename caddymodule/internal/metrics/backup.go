package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/registry"
)

// backupMetrics collects when the stores in use were last backed up and copied. A store without a backup
// has no series: a restarted server must not hide what Prometheus has seen before.
type backupMetrics struct{}

var (
	lastBackup = prometheus.NewDesc(prometheus.BuildFQName(namespace, subsystem, "last_backup_timestamp_seconds"),
		"When a backup of the store was last sent whole. Absent if none was since the store was opened.", []string{"store"}, nil)
	lastCopy = prometheus.NewDesc(prometheus.BuildFQName(namespace, subsystem, "last_copy_timestamp_seconds"),
		"The time of the store that the last copy in a bucket shows. Absent if none was made since the store was opened.", []string{"store"}, nil)
)

// Describe implements prometheus.Collector.
func (backupMetrics) Describe(to chan<- *prometheus.Desc) {
	to <- lastBackup
	to <- lastCopy
}

// Collect implements prometheus.Collector.
func (backupMetrics) Collect(to chan<- prometheus.Metric) {
	for name, store := range registry.All() {
		for desc, at := range map[*prometheus.Desc]time.Time{lastBackup: store.LastBackup(), lastCopy: store.LastCopy()} {
			if !at.IsZero() {
				to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(at.Unix()), name)
			}
		}
	}
}

// Interface guard
var _ prometheus.Collector = backupMetrics{}
