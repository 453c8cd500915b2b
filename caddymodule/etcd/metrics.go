package etcd

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/storepool"
)

// metrics collects the status of all stores in clusters.
type metrics struct{}

func describe(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName("caddy", "presets", "etcd_"+name), help, []string{"store"}, nil)
}

var (
	available = describe("available", "Whether the store in the cluster is open.")
	writable  = describe("writable", "Whether etcd accepted the last change.")
	watching  = describe("watching", "Whether the watch works and the cluster has answered within half of max_staleness.")
	staleness = describe("staleness_seconds", "How long ago the copies in memory were known to be current.")
	commits   = describe("commit_number", "The number of the last commit of any node that this node knows.")
	memory    = describe("memory_bytes", "The size of the records in memory.")
	changes   = describe("watch_changes_total", "Changed records that the watch reported.")
	restarts  = describe("watch_restarts_total", "How often the watch was interrupted.")
	resets    = describe("watch_resets_total", "How often all records were read again, since changes were compacted before they were seen, or the cluster was restored.")
	overtaken = describe("overtaken_total", "How often a commit of this node was retried because another node's came first.")
)

// Describe implements prometheus.Collector.
func (metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{available, writable, watching, staleness, commits, memory, changes, restarts, resets, overtaken} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (metrics) Collect(to chan<- prometheus.Metric) {
	seen := make(map[string]bool) // two with different options may have the same name, as during a reload
	for h := range clusters.InUse() {
		name := h.Opener.(*opener).name
		if seen[name] {
			continue
		}
		seen[name] = true
		store, err := h.Get()
		to <- prometheus.MustNewConstMetric(available, prometheus.GaugeValue, storepool.BoolValue(err == nil), name)
		if err != nil {
			continue
		}
		s := store.Status()
		for _, m := range []struct {
			desc  *prometheus.Desc
			kind  prometheus.ValueType
			value float64
		}{
			{writable, prometheus.GaugeValue, storepool.BoolValue(s.Writable)},
			{watching, prometheus.GaugeValue, storepool.BoolValue(s.Watching)},
			{staleness, prometheus.GaugeValue, s.Staleness.Seconds()},
			{commits, prometheus.GaugeValue, float64(s.Commits)},
			{memory, prometheus.GaugeValue, float64(s.Memory)},
			{changes, prometheus.CounterValue, float64(s.Changes)},
			{restarts, prometheus.CounterValue, float64(s.Restarts)},
			{resets, prometheus.CounterValue, float64(s.Resets)},
			{overtaken, prometheus.CounterValue, float64(s.Overtaken)},
		} {
			to <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value, name)
		}
	}
}
