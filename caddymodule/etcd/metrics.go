package etcd

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics tells how the stores in clusters are doing, at the moment when it is asked.
type metrics struct{}

func describe(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName("caddy", "presets", "etcd_"+name), help, []string{"store"}, nil)
}

var (
	available = describe("available", "Whether the store in the cluster could be opened since this process joined it.")
	writable  = describe("writable", "Whether etcd took the last change that it was asked for.")
	watching  = describe("watching", "Whether a member of the cluster tells this node what others commit, and the cluster has answered within half of max_staleness.")
	staleness = describe("staleness_seconds", "How long ago what is in memory was known to be current.")
	commits   = describe("commit_number", "The number of the last commit that this node knows, of whichever node.")
	memory    = describe("memory_bytes", "What records in memory take.")
	changes   = describe("watch_changes_total", "Records of which the watch said that they changed.")
	restarts  = describe("watch_restarts_total", "How often the watch was interrupted.")
	resets    = describe("watch_resets_total", "How often all was read again, as changes were compacted before they were seen, or the cluster was restored.")
	overtaken = describe("overtaken_total", "How often another node's commit came before one of this node's, which was then tried again.")
)

// registerMetrics registers them for a configuration, where no other handler of it has
// done so.
func registerMetrics(registry *prometheus.Registry) error {
	err := registry.Register(metrics{})
	if _, taken := errors.AsType[prometheus.AlreadyRegisteredError](err); taken {
		return nil
	}
	return err
}

// Describe implements prometheus.Collector.
func (metrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{available, writable, watching, staleness, commits, memory, changes, restarts, resets, overtaken} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (metrics) Collect(to chan<- prometheus.Metric) {
	told := make(map[string]bool) // one with other options may have the same name, as during a reload
	for h := range clusters.InUse() {
		if told[h.name] {
			continue
		}
		told[h.name] = true
		store := h.store.Load()
		to <- prometheus.MustNewConstMetric(available, prometheus.GaugeValue, number(store != nil), h.name)
		if store == nil {
			continue
		}
		s := store.Status()
		for _, m := range []struct {
			desc  *prometheus.Desc
			kind  prometheus.ValueType
			value float64
		}{
			{writable, prometheus.GaugeValue, number(s.Writable)},
			{watching, prometheus.GaugeValue, number(s.Watching)},
			{staleness, prometheus.GaugeValue, s.Staleness.Seconds()},
			{commits, prometheus.GaugeValue, float64(s.Commits)},
			{memory, prometheus.GaugeValue, float64(s.Memory)},
			{changes, prometheus.CounterValue, float64(s.Changes)},
			{restarts, prometheus.CounterValue, float64(s.Restarts)},
			{resets, prometheus.CounterValue, float64(s.Resets)},
			{overtaken, prometheus.CounterValue, float64(s.Overtaken)},
		} {
			to <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value, h.name)
		}
	}
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
