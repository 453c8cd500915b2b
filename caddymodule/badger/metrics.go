package badger

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-presets/caddy-presets/caddymodule/internal/storepool"
	badgerstore "github.com/caddy-presets/caddy-presets/storage/badger"
)

// storeMetrics collects the status of all stores in folders.
type storeMetrics struct{}

// describeStore describes a metric of a store, by its folder.
func describeStore(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName("caddy", "presets", "store_"+name), help, []string{"store"}, nil)
}

var (
	storeAvailable = describeStore("available", "Whether the store is open.")
	storeWritable  = describeStore("writable", "Whether the store takes writes.")
	storeFree      = describeStore("free_bytes", "Space that is left on the store's file system.")
	storeNeeded    = describeStore("needed_bytes", "Space that has to be left for a write.")
	storeSlowed    = describeStore("slowed_seconds_total", "Time for which the store held writes back since it was opened, because compactions did not keep up.")
	storeDamage    = describeStore("damage_total", "Damaged records that reads and checks found since the store was opened.")
	storeChecked   = describeStore("checked_timestamp_seconds", "When the whole store was last checked, or 0 if not since it was opened.")
)

// Describe implements prometheus.Collector.
func (storeMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{storeAvailable, storeWritable, storeFree, storeNeeded, storeSlowed, storeDamage, storeChecked} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (storeMetrics) Collect(to chan<- prometheus.Metric) {
	for h := range folders.InUse() {
		store, err := h.Get()
		collect(to, h.Opener.(*folder).name, store, err)
	}
}

// collect collects the status of a store, or that of one that err keeps closed.
func collect(to chan<- prometheus.Metric, folder string, store *badgerstore.Store, err error) {
	gauge := func(d *prometheus.Desc, value float64) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, folder)
	}
	gauge(storeAvailable, storepool.BoolValue(err == nil))
	if err != nil {
		gauge(storeWritable, 0)
		return
	}
	status := store.Status()
	gauge(storeWritable, storepool.BoolValue(status.Writable))
	gauge(storeFree, float64(status.FreeBytes))
	gauge(storeNeeded, float64(status.NeededBytes))
	to <- prometheus.MustNewConstMetric(storeSlowed, prometheus.CounterValue, status.Slowed.Seconds(), folder)
	to <- prometheus.MustNewConstMetric(storeDamage, prometheus.CounterValue, float64(status.Damage), folder)
	checked := 0.0
	if !status.Checked.IsZero() {
		checked = float64(status.Checked.Unix())
	}
	gauge(storeChecked, checked)
}
