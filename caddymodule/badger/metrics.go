package badger

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// storeMetrics tells how the stores in folders are doing, at the moment when it is
// asked.
type storeMetrics struct{}

// storeGauge describes a metric of a store, by its folder.
func storeGauge(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName("caddy", "presets", "store_"+name), help, []string{"store"}, nil)
}

var (
	storeAvailable = storeGauge("available", "Whether the store is open.")
	storeWritable  = storeGauge("writable", "Whether the store takes writes.")
	storeFree      = storeGauge("free_bytes", "Space that is left on the store's file system.")
	storeNeeded    = storeGauge("needed_bytes", "Space that has to be left for a write.")
	storeDamage    = storeGauge("damage_total", "Reads and findings of checks that met damaged records since the store was opened.")
	storeChecked   = storeGauge("checked_timestamp_seconds", "When all that is stored was last looked at, 0 for not since the store was opened.")
)

// registerMetrics registers them for a configuration, where no other handler of
// it has done so.
func registerMetrics(registry *prometheus.Registry) error {
	err := registry.Register(storeMetrics{})
	if _, taken := errors.AsType[prometheus.AlreadyRegisteredError](err); taken {
		return nil
	}
	return err
}

// Describe implements prometheus.Collector.
func (storeMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{storeAvailable, storeWritable, storeFree, storeNeeded, storeDamage, storeChecked} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (storeMetrics) Collect(to chan<- prometheus.Metric) {
	for h := range folders.InUse() {
		h.collect(to)
	}
}

func (h *handle) collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value float64) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, h.folder.name)
	}
	store, err := h.Get()
	gauge(storeAvailable, number(err == nil))
	if err != nil {
		gauge(storeWritable, 0)
		return
	}
	status := store.Status()
	gauge(storeWritable, number(status.Writable))
	gauge(storeFree, float64(status.FreeBytes))
	gauge(storeNeeded, float64(status.NeededBytes))
	to <- prometheus.MustNewConstMetric(storeDamage, prometheus.CounterValue, float64(status.Damage), h.folder.name)
	checked := 0.0
	if !status.Checked.IsZero() {
		checked = float64(status.Checked.Unix())
	}
	gauge(storeChecked, checked)
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
