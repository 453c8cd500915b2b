package storepool

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// RegisterMetrics registers the metrics of an engine's stores, unless another handler of the
// configuration did.
func RegisterMetrics(registry *prometheus.Registry, metrics prometheus.Collector) error {
	err := registry.Register(metrics)
	if _, taken := errors.AsType[prometheus.AlreadyRegisteredError](err); taken {
		return nil
	}
	return err
}

// BoolValue is 1 for true.
func BoolValue(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
